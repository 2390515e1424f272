//! Reads the screens of opencode: boxes with a bar on the left, indented answers, a panel on the
//! right (pure).
//!
//! Measured on 1.18.33: prompts, command output and errors are in boxes (`┃`), answers are indented by five
//! columns, and `▣  Build · MODEL · 3.2s` ends a turn. `╹▀▀▀` closes the input box. Screens of more than 120
//! columns have a panel of 42 columns on the right. Notices cover the top right rows.

use super::align::{ConversationPage, ConversationRow, RowPart};
use crate::agent::decoration::{indent, is_frame, is_spinner};
use crate::track::cut;

/// The bar at the left of a box.
const BAR: char = '┃';

/// The width of the panel, and the maximum width of a screen without a panel, in columns.
const PANEL_COLUMNS: usize = 42;
const PANEL_ABOVE: usize = 120;

/// The maximum number of columns before the bar of a box. A notice begins further right.
const BOX_INDENT_MAX: usize = 3;

/// Marks at the beginning of a tool's row or of the title of its box.
const TOOL_MARKS: &[char] = &['→', '←', '✱', '%', '◇', '⚙', '↔', '#'];

/// What kilo does before the first turn in a directory: it is no tool.
const SNAPSHOT: &str = "Initializing snapshot…";

/// The state that reading the next screen depends on.
#[derive(Clone, Debug, Default)]
pub(super) struct OpencodeLayout {
    /// The width of the terminal, and of the conversation at that width, in columns, if an input
    /// box has shown it.
    columns: Option<(usize, usize)>,
    /// True if the start screen was shown, so that the conversation is complete.
    is_first: bool,
}

impl OpencodeLayout {
    pub fn page(&mut self, rows: &[&str], width: usize) -> Option<ConversationPage> {
        let shown = |row: &&str| !row.trim().is_empty();
        let end = rows.iter().rposition(shown)? + 1;
        // The input box, or a dialogue in its place, which extends to the bottom.
        let is_bar = |row: &str| indent(row) <= BOX_INDENT_MAX && row.trim_start().starts_with(BAR);
        // At most six hints and blank rows are below the input box.
        let foot = end.saturating_sub(7);
        let edge = (0..end).rfind(|row| rows[*row].trim_start().starts_with("╹▀"));
        if let Some(edge) = edge
            && let above = rows[..edge].iter().rev()
            && let boxed = above.take_while(|row| row.trim_start().starts_with(BAR))
            && let boxed = boxed.map(|row| inside(row).trim()).collect::<Vec<&str>>()
            && (indent(rows[edge]) > BOX_INDENT_MAX
                || is_start(&rows[..edge - boxed.len()], &boxed))
        {
            self.is_first = true;
            return Some(ConversationPage {
                is_working: Some(false),
                is_first: true,
                typed: typed(boxed.into_iter().rev()),
                ..ConversationPage::default()
            });
        }
        let edge = edge.filter(|edge| *edge >= foot);
        let foot_start = match edge {
            Some(edge) => edge,
            None if rows[foot..end].iter().any(|row| is_bar(row)) => end,
            None => return None,
        };
        if let Some(edge) = edge {
            let line = rows[edge].trim_end();
            let line = &line[..line.rfind('▀').map_or(line.len(), |at| at + '▀'.len_utf8())];
            self.columns = Some((width, line.chars().count()));
        }
        // A list of commands or sessions covers the rows.
        let is_list = |row: &&str| {
            let title = row.trim_end().strip_suffix("   esc");
            title.is_some_and(|title| !title.trim().is_empty())
        };
        if rows[..foot_start]
            .iter()
            .any(|row| is_list(&cut(row, width)))
        {
            return None;
        }
        let columns = match self.columns {
            Some((of, columns)) if of == width => columns,
            _ if width > PANEL_ABOVE => width - PANEL_COLUMNS,
            _ => width,
        };
        let box_end = (0..foot_start).rfind(|row| is_bar(rows[*row]))? + 1;
        let box_start = (0..box_end)
            .rev()
            .take_while(|row| is_bar(rows[*row]))
            .last()?;
        let boxed = rows[box_start..box_end]
            .iter()
            .map(|row| inside(cut(row, columns)).trim());
        let is_dialogue = edge.is_none();
        let mut footer = rows[foot_start..end].iter();
        let is_working = is_dialogue || footer.any(|row| row.contains("interrupt"));
        let mut page = ConversationPage {
            is_working: Some(is_working),
            ..ConversationPage::default()
        };
        if !is_dialogue {
            page.typed = typed(boxed);
        }
        let mut is_spaced = true;
        let mut is_head = false;
        let mut was_bar = false;
        for (number, row) in rows[..box_start].iter().enumerate() {
            let row = cut(row, columns);
            let (row, notice) = without_notice(row);
            if let Some(notice) = notice {
                if !page.notice.is_empty() && !notice.is_empty() {
                    page.notice.push(' ');
                }
                page.notice.push_str(notice);
            }
            let (is_covered, is_boxed) = (notice.is_some(), is_bar(row));
            // If a box begins above the screen, its first visible row is not its head.
            let begins_box = is_boxed && !was_bar && (number > 0 || self.is_first);
            is_head = is_boxed && is_head || begins_box;
            was_bar = is_boxed;
            let shown = if is_boxed {
                boxed_row(inside(row).trim_end())
            } else {
                // An answer has an indent of five columns.
                text_row(row[5.min(indent(row))..].trim_end())
            };
            let Some((text, kind)) = shown else {
                is_spaced |= is_boxed || !is_covered;
                continue;
            };
            let mut row = ConversationRow::new(&text, kind, is_spaced);
            row.is_head = std::mem::take(&mut is_head);
            row.is_covered = is_covered;
            page.rows.push(row);
            is_spaced = false;
        }
        self.is_first &= page.rows.is_empty();
        Some(page)
    }

    pub fn sealed(rows: &[ConversationRow]) -> usize {
        let mut sealed = 0;
        let mut at = 0;
        while at < rows.len() {
            let end = block_end(rows, at);
            let block = &rows[at..end];
            match rows[at].kind {
                RowPart::End => sealed = end,
                // A queued prompt below the answer has not been sent yet.
                RowPart::Boxed if block.iter().any(is_queued) => return sealed,
                RowPart::Boxed if rows[at].is_head && Self::tool(&rows[at].text).is_none() => {
                    sealed = end;
                }
                // Text is complete once a tool follows it, and tools are complete once text follows them.
                _ if is_tool(&rows[at]) && at > 0 && !is_tool(&rows[at - 1]) => sealed = at,
                // A queued command has no box yet, so it resembles text.
                RowPart::Text if at > 0 && is_tool(&rows[at - 1]) && !is_command(&rows[at]) => {
                    sealed = at;
                }
                RowPart::Text | RowPart::Boxed | RowPart::Tool => {}
            }
            at = end;
        }
        sealed
    }

    pub fn tool(head: &str) -> Option<(&'static str, &str)> {
        if let Some(command) = head.strip_prefix("$ ") {
            return Some(("bash", command.trim()));
        }
        let rest = head.strip_prefix(TOOL_MARKS)?;
        // The answers to a question are counted.
        let is_count = |count: &str| count.trim().bytes().all(|digit| digit.is_ascii_digit());
        let name = match rest.strip_suffix(" answered") {
            Some(count) if is_count(count) => "question",
            _ => "",
        };
        rest.starts_with(' ').then(|| (name, rest.trim()))
    }
}

/// Returns true if these are the rows above and inside the input box of the start screen, in a pane
/// that is too narrow to centre the box.
fn is_start(above: &[&str], boxed: &[&str]) -> bool {
    let mut shown = above.iter().filter(|row| !row.trim().is_empty());
    match shown.next() {
        // The logo, in block characters.
        Some(first) => is_frame(first.trim()) && shown.all(|row| is_frame(row.trim())),
        // The text of the empty input box on the start screen.
        None => boxed.iter().any(|row| row.starts_with("Ask anything")),
    }
}

/// Returns the text that the user has typed into the input box. Its last row names the agent and the model.
fn typed<'a>(rows: impl Iterator<Item = &'a str>) -> String {
    let rows: Vec<&str> = rows.filter(|row| !row.is_empty()).collect();
    rows[..rows.len().saturating_sub(1)].join(" ")
}

/// Returns true if a row belongs to a queued prompt.
pub(super) fn is_queued(row: &ConversationRow) -> bool {
    row.text.trim() == "QUEUED"
}

fn is_command(row: &ConversationRow) -> bool {
    row.text.starts_with("$ ")
}

fn is_tool(row: &ConversationRow) -> bool {
    matches!(row.kind, RowPart::Boxed | RowPart::Tool)
}

/// Returns the end of the box or the single row that begins at `at`.
fn block_end(rows: &[ConversationRow], at: usize) -> usize {
    if rows[at].kind != RowPart::Boxed {
        return at + 1;
    }
    let continues = |row: &&ConversationRow| row.kind == RowPart::Boxed && !row.is_head;
    at + 1 + rows[at + 1..].iter().take_while(continues).count()
}

/// Returns the text and kind of a row outside boxes; `None` for decoration.
fn text_row(text: &str) -> Option<(String, RowPart)> {
    let bare = text.trim();
    if bare.is_empty() || is_frame(bare) {
        return None;
    }
    if let Some(end) = bare.strip_prefix("▣ ") {
        // Without a duration, the turn continues.
        let last = end.rsplit(" · ").next().unwrap_or_default().trim();
        let is_end = last == "interrupted" || is_time(last);
        return is_end.then(|| (end.trim().to_owned(), RowPart::End));
    }
    if let Some(rest) = bare.strip_prefix(is_spinner) {
        return match rest.trim() {
            "Thinking" | SNAPSHOT => None,
            rest => Some((format!("$ {rest}"), RowPart::Tool)),
        };
    }
    if bare.starts_with("+ Thought") || bare.starts_with("~ ") {
        return None;
    }
    let is_tool = bare.starts_with(TOOL_MARKS) && OpencodeLayout::tool(bare).is_some();
    // A heading of an answer is drawn without its mark.
    if is_tool && !bare.starts_with('#') {
        return Some((bare.to_owned(), RowPart::Tool));
    }
    if bare.starts_with('│') {
        let cells = bare.trim_matches('│').split('│').map(str::trim);
        return Some((cells.collect::<Vec<&str>>().join(" | "), RowPart::Text));
    }
    Some((text.to_owned(), RowPart::Text))
}

/// Matches `3.2s` and `1m 4s`.
fn is_time(text: &str) -> bool {
    let units = text.split(' ').all(|part| {
        let number = part.trim_end_matches(['h', 'm', 's']);
        part.len() > number.len()
            && !number.is_empty()
            && number.chars().all(|c| c.is_ascii_digit() || c == '.')
    });
    units && text.ends_with('s')
}

/// Returns the text of a row in a box, with the mark of a finished tool in place of a spinner; `None` for a
/// blank row.
fn boxed_row(text: &str) -> Option<(String, RowPart)> {
    let text = match text.strip_prefix(is_spinner) {
        Some(rest) => format!("$ {}", rest.trim()),
        None => text.to_owned(),
    };
    (!text.trim().is_empty()).then_some((text, RowPart::Boxed))
}

/// Returns the text of a row in a box, without the bar and the two blanks after it.
fn inside(row: &str) -> &str {
    let text = row.trim_start();
    let text = text.strip_prefix(BAR).unwrap_or(text);
    text.strip_prefix("  ").unwrap_or(text)
}

/// Splits a row into its text and the notice that covers its end.
fn without_notice(row: &str) -> (&str, Option<&str>) {
    let trimmed = row.trim_end();
    let Some(rest) = trimmed.strip_suffix(BAR) else {
        return (row, None);
    };
    match rest.rfind(BAR) {
        Some(at) if row[..at].chars().count() > BOX_INDENT_MAX => (
            row[..at].trim_end(),
            Some(rest[at + BAR.len_utf8()..].trim()),
        ),
        _ => (row, None),
    }
}
