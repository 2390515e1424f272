//! Reads the dialogue of an agent from its screen (pure): its text, and its choices with their keys.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::super::decoration::is_frame;
use super::super::one_line;
use super::screen::{EDGES, RuleScreen};
use crate::event::{Dialogue, DialogueChoice};
use crate::text::{first_bytes, first_chars, last_bytes, letters};
use regex::{Captures, Regex};

/// The maximum size of the text in bytes. It fits in an event; longer ones lose rows in the middle.
const TEXT_BYTES_MAX: usize = 4 << 10;
/// The maximum number of choices. Menus of agents have up to nine.
const CHOICES_MAX: usize = 20;
/// The maximum number of characters of a choice's label.
const LABEL_CHARS_MAX: usize = 300;
/// The number of rows above the choices that count as the dialogue's if its first row is not shown.
const ROWS_WITHOUT_FIRST: usize = 6;

/// Returns true if two dialogues ask the same, whatever the width of the pane and the selected choice.
pub(crate) fn is_same_dialogue(a: &Dialogue, b: &Dialogue) -> bool {
    fn of(dialogue: &Dialogue) -> impl Iterator<Item = char> {
        let labels = dialogue.choices.iter().map(|choice| choice.label.as_str());
        std::iter::once(dialogue.text.as_str())
            .chain(labels)
            .flat_map(letters)
    }
    of(a).eq(of(b))
}

/// Returns true if a dialogue is still the one before: whatever the width and height of the pane, the ticks, the
/// selected choice, and what the user types, which stands in the selected choice.
pub(crate) fn asks_the_same(before: &Dialogue, now: &Dialogue) -> bool {
    let text = |dialogue: &Dialogue| letters(&dialogue.text).collect::<String>();
    let is_cut = |dialogue: &Dialogue| dialogue.text.starts_with('…');
    let (before_text, now_text) = (text(before), text(now));
    let is_same_text = before_text == now_text
        || is_cut(now) && before_text.ends_with(&now_text)
        || is_cut(before) && now_text.ends_with(&before_text);
    let choices = before.choices.iter().zip(&now.choices);
    let mut fixed = choices.filter(|(before, now)| !before.selected && !now.selected);
    is_same_text
        && before.choices.len() == now.choices.len()
        && fixed.all(|(before, now)| letters(&before.label).eq(letters(&now.label)))
}

/// How an agent draws its dialogues.
#[derive(Clone, Debug)]
pub(super) struct DialogueRules {
    /// Matches the first row; the lowest one above the choices counts.
    pub first: Regex,
    /// Matches the row of a choice, with the groups `key`, `label` and, if it is selected, `mark`.
    pub choice: Option<Regex>,
    /// Describes choices in the way in which most programs draw them.
    pub list: Option<ListRules>,
    /// Matches a row that holds all choices, without keys.
    pub buttons: Option<Regex>,
    /// Matches a choice within a line, with the groups `key` and `label`.
    pub inline: Option<Regex>,
    /// Matches rows that do not belong to the text.
    pub omit: Option<Regex>,
    /// Matches the label of a choice in which the user types a text, and a row below the choices that says so of all.
    pub entry: Option<Regex>,
    /// The keys of choices that show none, by their labels, and of those that show another name of it, by that name.
    pub keys: BTreeMap<String, String>,
}

/// Choices of which the selected one has a mark, and whose labels are below each other; or buttons in one row, each with
/// its key.
#[derive(Clone, Debug)]
pub(super) struct ListRules {
    /// Matches the row of the selected choice up to its label.
    pub selected: Regex,
    /// Matches a button, with the groups `key` and `label`.
    pub button: Option<Regex>,
    /// Matches each row below the choices.
    pub foot: Regex,
    /// The maximum number of other rows there if the program fills the screen or is an agent.
    pub below: usize,
}

/// The choices on a screen, and where they begin and end.
struct Choices {
    start: usize,
    /// The row below them.
    end: usize,
    list: Vec<DialogueChoice>,
}

/// A dialogue, and where a screen shows it.
#[derive(Clone, Debug)]
pub(super) struct ReadDialogue {
    /// Its first row.
    pub from: usize,
    /// The number of rows with text below its choices.
    pub below: usize,
    /// A row below its choices says that a typed text is an answer, too.
    pub takes_text: bool,
    pub dialogue: Dialogue,
}

/// The number of last rows that are searched for the choices of a list, and the number of rows above them that are
/// searched for the first row of their dialogue: a pane of 24 rows, and its dialogue.
const LIST_ROWS_MAX: usize = 24;

impl DialogueRules {
    /// Returns true if a dialogue takes a typed text: no choice has a key, or the selected one is such a text.
    pub fn takes_text(&self, dialogue: &Dialogue) -> bool {
        let is_entry = |choice: &DialogueChoice| {
            let entry = self.entry.as_ref();
            choice.selected && entry.is_some_and(|entry| entry.is_match(&choice.label))
        };
        dialogue.choices.iter().all(|choice| choice.key.is_empty())
            || self.inline.is_some()
            || dialogue.choices.iter().any(is_entry)
    }

    /// Returns the dialogue at the foot of a screen that shows one.
    /// `is_at_ease`: the program fills the screen or is an agent.
    pub fn read(&self, screen: &RuleScreen<'_>, is_at_ease: bool) -> Option<ReadDialogue> {
        let found = self.listed(screen);
        let found = found.or_else(|| self.in_one_row(screen));
        let found = found.or_else(|| self.list.as_ref()?.read(self, screen, is_at_ease));
        let Choices { start, end, list } = found?;
        let highest = self
            .list
            .as_ref()
            .map_or(0, |_| start.saturating_sub(LIST_ROWS_MAX));
        let first = (highest..start)
            .rev()
            .find(|row| self.first.is_match(screen.row(*row)));
        let from = first.unwrap_or_else(|| screen.last_of(0..start, ROWS_WITHOUT_FIRST).start);
        let rows = match self.inline {
            Some(_) => screen.lines(from..start),
            None => (from..start).map(|row| screen.row(row).into()).collect(),
        };
        let text = self.text(rows.iter().map(Cow::as_ref), first.is_some());
        let choices = list.into_iter().take(CHOICES_MAX).collect();
        let dialogue = Dialogue {
            text,
            choices,
            again: false,
        };
        let below = (end..screen.all().end).map(|row| inner(screen.row(row)));
        let is_entry = |row: &str| self.entry.as_ref().is_some_and(|entry| entry.is_match(row));
        Some(ReadDialogue {
            from,
            below: below.clone().filter(|row| !row.is_empty()).count(),
            takes_text: below.clone().any(is_entry),
            dialogue,
        })
    }

    /// Returns the lowest list of choices with ascending numbers, or of adjacent choices with other keys.
    fn listed(&self, screen: &RuleScreen<'_>) -> Option<Choices> {
        let pattern = self.choice.as_ref()?;
        let mut found: Vec<(usize, Captures<'_>)> = Vec::new();
        let mut expected: Option<u32> = None;
        for row in screen.all().rev() {
            let Some(captures) = pattern.captures(screen.row(row)) else {
                continue;
            };
            let Some(number) = group(&captures, "key").parse::<u32>().ok() else {
                if found.last().is_some_and(|(below, _)| *below != row + 1) {
                    break;
                }
                found.push((row, captures));
                continue;
            };
            // Rows that only look like choices, such as those of a plan above them, are passed over.
            if expected.is_none_or(|expected| expected == number) {
                expected = Some(number.saturating_sub(1));
                found.push((row, captures));
            }
            if expected == Some(0) {
                break;
            }
        }
        found.reverse();
        let start = found.first()?.0;
        let width = screen.all().map(|row| columns(screen.row(row))).max()?;
        let ends = found.iter().skip(1).map(|(row, _)| *row);
        let ends: Vec<usize> = ends.chain([screen.all().end]).collect();
        let mut last = start;
        let list = found.iter().zip(ends).map(|((row, captures), end)| {
            let label = captures.name("label").map_or(0, |label| label.start());
            let column = screen.row(*row).get(..label).map_or(0, columns);
            let below = (row + 1..end).map(|row| screen.row(row));
            let below = below.take_while(|row| indent(row) >= column && !inner(row).is_empty());
            let below: Vec<&str> = below.collect();
            last = row + below.len();
            let key = group(captures, "key");
            DialogueChoice {
                key: self.keys.get(key).map_or(key, String::as_str).to_owned(),
                label: label_of(screen.row(*row), group(captures, "label"), below, width),
                selected: captures.name("mark").is_some(),
            }
        });
        let list = list.collect();
        let end = last + 1;
        Some(Choices { start, end, list })
    }

    /// Returns choices that stand beside each other.
    fn in_one_row(&self, screen: &RuleScreen<'_>) -> Option<Choices> {
        if let Some(pattern) = &self.buttons {
            let row = screen
                .all()
                .rev()
                .find(|row| pattern.is_match(screen.row(*row)))?;
            let labels = inner(screen.row(row)).split("     ").next()?;
            let labels = labels.split("  ").map(str::trim);
            let list = labels.filter(|label| !label.is_empty()).map(|label| {
                let key = self.keys.get(label).map_or("", String::as_str);
                DialogueChoice {
                    key: key.to_owned(),
                    label: label.to_owned(),
                    selected: key == "Enter",
                }
            });
            let list = list.collect();
            let end = row + 1;
            return Some(Choices {
                start: row,
                end,
                list,
            });
        }
        let pattern = self.inline.as_ref()?;
        let end = screen.last(screen.all())?;
        // A narrow pane wraps the line.
        let start = (0..=end)
            .rev()
            .take_while(|row| screen.is_shown(*row))
            .last()?;
        let line = screen.lines(start..end + 1).join(" ");
        let mut list: Vec<DialogueChoice> = pattern
            .captures_iter(&line)
            .map(|captures| {
                let key = group(&captures, "key");
                DialogueChoice {
                    key: key.to_lowercase(),
                    label: one_line(&format!("{key}{}", group(&captures, "label"))),
                    selected: false,
                }
            })
            .collect();
        // After a wrong answer, the line is asked again below.
        let first = &list.first()?.key;
        let last = list.iter().rposition(|choice| choice.key == *first)?;
        Some(Choices {
            start: end + 1,
            end: end + 1,
            list: list.split_off(last),
        })
    }

    /// Returns true if a row does not belong to the dialogue.
    fn omits(&self, row: &str) -> bool {
        self.omit.as_ref().is_some_and(|omit| omit.is_match(row))
    }

    /// Returns the text of the rows above the choices, without frames. `is_whole`: the first row is shown.
    fn text<'r>(&self, rows: impl Iterator<Item = &'r str>, is_whole: bool) -> String {
        let rows = rows.filter(|row| !self.omits(row));
        let rows: Vec<&str> = rows.map(beside_edges).collect();
        let shown = rows.iter().filter(|row| !row.is_empty());
        let margin = shown.map(|row| indent(row)).min().unwrap_or(0);
        let mut text: Vec<Cow<'_, str>> = Vec::new();
        if !is_whole {
            text.push(Cow::Borrowed("…"));
        }
        for row in rows {
            let start = row.char_indices().nth(margin);
            let row = start.map_or("", |(start, _)| row.get(start..).unwrap_or_default());
            let was_blank = text.last().is_none_or(|last| last.is_empty());
            if !(row.is_empty() && was_blank) {
                text.push(Cow::Borrowed(row));
            }
        }
        text.pop_if(|last| last.is_empty());
        bounded(&text)
    }
}

impl ListRules {
    /// Returns the choices at the foot of a screen.
    fn read(
        &self,
        rules: &DialogueRules,
        screen: &RuleScreen<'_>,
        is_at_ease: bool,
    ) -> Option<Choices> {
        let rows = screen.last_of(screen.all(), LIST_ROWS_MAX);
        let choices = rows.rev().find_map(|row| {
            self.around(rules, screen, row)
                .or_else(|| self.buttons(screen, row))
        })?;
        let below =
            (choices.end..screen.all().end).filter(|row| !inner(screen.row(*row)).is_empty());
        let other = below
            .filter(|row| !self.foot.is_match(screen.row(*row)))
            .count();
        (other <= if is_at_ease { self.below } else { 0 }).then_some(choices)
    }

    /// Returns the choices around the selected one.
    fn around(
        &self,
        rules: &DialogueRules,
        screen: &RuleScreen<'_>,
        selected: usize,
    ) -> Option<Choices> {
        let row = screen.row(selected);
        let mark = self.selected.find(row)?;
        let column = columns(row.get(..mark.end())?);
        let label = |row: usize| label_at(screen.row(row), column);
        let is_rest = |row: &usize| {
            let row = screen.row(*row);
            !inner(row).is_empty() && indent(row) > column
        };
        let is_part =
            |row: &usize| !rules.omits(screen.row(*row)) && (label(*row).is_some() || is_rest(row));
        let above = (0..selected).rev().take_while(is_part);
        let start = above
            .filter(|row| label(*row).is_some())
            .last()
            .unwrap_or(selected);
        let below = (selected + 1..screen.all().end).take_while(is_part);
        let end = below.last().unwrap_or(selected) + 1;
        let at: Vec<usize> = (start..end)
            .filter(|row| *row == selected || label(*row).is_some())
            .collect();
        let place = at.iter().position(|row| *row == selected)?;
        let width = screen.all().map(|row| columns(screen.row(row))).max()?;
        let ends = at.iter().skip(1).copied().chain([end]);
        let list = at.iter().zip(ends).enumerate().map(|(number, (row, end))| {
            let text = if *row == selected {
                screen.row(*row).get(mark.end()..).unwrap_or_default()
            } else {
                label(*row).unwrap_or_default()
            };
            let (key, text) = numbered_label(text)
                .or_else(|| hinted_label(text))
                .unwrap_or(("", text));
            let below = (row + 1..end).map(|row| screen.row(row)).collect();
            DialogueChoice {
                key: match key {
                    "" => moves(place, number),
                    key => key.to_owned(),
                },
                label: label_of(screen.row(*row), text, below, width),
                selected: *row == selected,
            }
        });
        let list: Vec<DialogueChoice> = list.collect();
        // A mark before each row is that of quotations or of prompts.
        let is_marked = |row: usize| row != selected && self.selected.is_match(screen.row(row));
        let is_list = (2..=CHOICES_MAX).contains(&list.len()) && !(start..end).any(is_marked);
        is_list.then_some(Choices { start, end, list })
    }

    /// Returns the buttons in a row.
    fn buttons(&self, screen: &RuleScreen<'_>, row: usize) -> Option<Choices> {
        let buttons = self.button.as_ref()?.captures_iter(screen.row(row));
        let list = buttons.map(|captures| {
            let (key, label) = (group(&captures, "key"), group(&captures, "label"));
            // The key may be the first letter of the label: `[Y]es`.
            let is_letter = label.starts_with(char::is_lowercase);
            let label = format!("{}{label}", if is_letter { key } else { "" });
            let is_around = |c: char| !c.is_alphanumeric();
            DialogueChoice {
                key: if is_letter {
                    key.to_lowercase()
                } else {
                    key.to_owned()
                },
                label: one_line(label.trim_matches(is_around)),
                selected: false,
            }
        });
        let list: Vec<DialogueChoice> = list.collect();
        let (start, end) = (row, row + 1);
        (list.len() >= 2).then_some(Choices { start, end, list })
    }
}

/// Returns the text of a row that begins at a column, behind edges, blanks and the sign of a choice that is not selected.
fn label_at(row: &str, column: usize) -> Option<&str> {
    let start = row.char_indices().nth(column)?.0;
    let (before, text) = row.split_at(start);
    let is_before = |c: char| is_around(c) || matches!(c, '○' | '◯' | '◌' | '·' | '☐' | '◻');
    (before.chars().all(is_before) && !text.starts_with(is_around)).then_some(text)
}

/// Returns the number and the label of a numbered choice.
fn numbered_label(text: &str) -> Option<(&str, &str)> {
    let (number, label) = text.split_once(['.', ')'])?;
    let is_number = (1..=2).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit());
    (is_number && label.starts_with(' ')).then(|| (number, label.trim_start()))
}

/// Returns the key and the label of a choice that shows its keys behind its label: `Run (y) (enter)`.
fn hinted_label(text: &str) -> Option<(&str, &str)> {
    let (mut label, mut found) = (text.trim_end(), None);
    while let Some((before, keys)) = label
        .strip_suffix(')')
        .and_then(|label| label.rsplit_once(" ("))
    {
        for key in keys.split(" or ") {
            found = match key {
                "enter" => found,
                "esc" => found.or(Some("Escape")),
                "tab" => found.or(Some("Tab")),
                "shift+tab" => found.or(Some("BTab")),
                letter if letter.len() == 1 => Some(letter),
                _ => return None,
            };
        }
        label = before.trim_end();
    }
    Some((found?, label))
}

/// Returns the keys that move from the selected choice to another one and choose it.
fn moves(selected: usize, meant: usize) -> String {
    let key = if meant < selected { "Up " } else { "Down " };
    format!("{}Enter", key.repeat(selected.abs_diff(meant)))
}

/// Returns lines as a text of at most [`TEXT_BYTES_MAX`]: the title is at its beginning, the question at its end.
fn bounded(lines: &[Cow<'_, str>]) -> String {
    let all = lines.join("\n");
    if all.len() <= TEXT_BYTES_MAX {
        return all;
    }
    let half = TEXT_BYTES_MAX / 2 - 4;
    let (head, tail) = (first_bytes(&all, half), last_bytes(&all, half));
    format!("{head}\n…\n{tail}")
}

/// Returns the label of a choice with the rows below that belong to it: its rest where the row is full, else its
/// description.
fn label_of(row: &str, label: &str, below: Vec<&str>, width: usize) -> String {
    let mut whole = aside(label);
    let mut before = row;
    for row in below {
        let text = inner(row);
        let word = text.split(' ').next().map_or(0, columns);
        let is_full = columns(before) + 1 + word > width;
        let is_hyphenated = whole
            .strip_suffix('-')
            .is_some_and(|part| part.ends_with(char::is_alphanumeric));
        whole += match is_full {
            true if is_hyphenated => "",
            true => " ",
            false => " · ",
        };
        whole += &one_line(text);
        before = row;
    }
    first_chars(&whole, LABEL_CHARS_MAX).to_owned()
}

/// Returns a label in one line, its description apart from it.
fn aside(label: &str) -> String {
    match label.split_once("  ") {
        Some((label, description)) => format!("{} · {}", one_line(label), one_line(description)),
        None => one_line(label),
    }
}

fn group<'c>(captures: &'c Captures<'_>, name: &str) -> &'c str {
    captures.name(name).map_or("", |group| group.as_str())
}

fn columns(text: &str) -> usize {
    text.chars().count()
}

fn is_around(c: char) -> bool {
    c.is_whitespace() || EDGES.contains(&c) || c == '█'
}

/// Returns the columns before a row's text.
fn indent(row: &str) -> usize {
    row.chars().take_while(|c| is_around(*c)).count()
}

/// Returns a row without blanks and edges around it; empty for a side of a box.
fn inner(row: &str) -> &str {
    let text = row.trim_matches(is_around);
    if is_frame(text) { "" } else { text }
}

/// Returns the part of a row within all boxes, with its indent; empty for a side of a box.
fn beside_edges(row: &str) -> &str {
    if inner(row).is_empty() {
        return "";
    }
    let row = row.trim_end_matches(is_around);
    let before = row.len() - row.trim_start_matches(is_around).len();
    let edge = row.get(..before).and_then(|before| before.rfind(EDGES));
    let Some(edge) = edge else {
        return row;
    };
    let rest = row.get(edge..).unwrap_or_default();
    rest.trim_start_matches(EDGES)
}
