//! A screen, and its preparation for the rules: normalised rows and ranges of them (pure).

use std::borrow::Cow;
use std::ops::Range;

use super::super::decoration::{indent, is_box_drawing};
use super::super::program_name;
use crate::event::Cursor;
use crate::text::first_chars;
use regex::Regex;
use rustc_hash::FxHashSet;
use serde::Deserialize;

/// Side edges of boxes.
pub(super) const EDGES: &[char] = &['│', '┃', '║'];

/// The tracks and handles of scroll bars.
const BARS: &[char] = &['│', '┃', '║', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A screen, from which rules detect an agent's state.
///
/// ```
/// use td_observe::event::AgentState;
/// use td_observe::agent::{AgentScreen, StateRules};
/// let rules = StateRules::builtin();
/// // The last screen of an agent that has exited, and the shell below it.
/// let rows = ["⏺ It is.", "──────", "❯ ", "──────", "  ? for shortcuts", "me@host:~/a$ "];
/// let detected = rules.detect(&AgentScreen::of(&rows)).unwrap();
/// assert_eq!((detected.agent.as_str(), detected.state), ("shell", AgentState::Idle));
/// // Files quote screens: an editor's screen has no state.
/// let screen = AgentScreen { program: Some("vim"), ..AgentScreen::of(&rows[..5]) };
/// assert_eq!(rules.detect(&screen), None);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct AgentScreen<'a> {
    /// The rows from the top. Trailing blanks and blank rows at the bottom do not matter.
    pub rows: &'a [&'a str],
    /// The cursor; if unknown, it is assumed to be in the last non-blank row.
    pub cursor: Option<Cursor>,
    /// The foreground program of the terminal, as tmux reports it in `pane_current_command`.
    pub program: Option<&'a str>,
    /// True if the program fills the screen: it draws on the terminal's alternate screen.
    pub is_full: bool,
}

impl<'a> AgentScreen<'a> {
    /// Creates a screen from rows alone.
    #[must_use]
    pub fn of(rows: &'a [&'a str]) -> Self {
        Self {
            rows,
            ..Self::default()
        }
    }
}

/// The rows of a screen, prepared for the rules.
#[derive(Debug)]
pub(super) struct RuleScreen<'a> {
    rows: Vec<RuleRow<'a>>,
    /// The program fills the screen.
    pub is_full: bool,
    cursor: Option<usize>,
    below: usize,
    /// The columns of a horizontal line across the pane, if one is shown.
    width: Option<usize>,
    /// The line that ends with the row of the cursor.
    cursor_line: String,
}

/// A row and the properties that rules test repeatedly.
#[derive(Clone, Debug)]
struct RuleRow<'a> {
    text: Cow<'a, str>,
    is_blank: bool,
    is_across: bool,
}

impl<'a> RuleScreen<'a> {
    pub fn new(screen: &AgentScreen<'a>) -> Self {
        // The maximum number of rows to examine, from the foot up. No terminal is taller.
        let first = screen.rows.len().saturating_sub(400);
        let cursor = screen
            .cursor
            .and_then(|cursor| usize::try_from(cursor.y).ok())
            .and_then(|row| row.checked_sub(first));
        let rows = screen.rows[first..].iter().map(|row| RuleRow::new(row));
        let rows: Vec<RuleRow<'a>> = rows.collect();
        let last = rows.iter().rposition(|row| !row.is_blank);
        let below = cursor
            .zip(last)
            .map_or(0, |(cursor, last)| cursor.saturating_sub(last));
        let cursor = cursor.filter(|row| rows.get(*row).is_some_and(|row| !row.is_blank));
        // The minimum length of a horizontal line across the pane.
        let lines = rows.iter().filter(|row| row.columns() >= 20);
        let lines = lines.filter(|row| row.text.chars().all(|c| c == '─'));
        let width = lines.map(RuleRow::columns).max();
        let mut screen = Self {
            rows,
            is_full: screen.is_full,
            cursor,
            below,
            width,
            cursor_line: String::new(),
        };
        let row = screen.cursor();
        let line = screen.lines(screen.line_start(row.start)..row.end);
        screen.cursor_line = line.concat();
        screen
    }

    /// Returns how many rows the cursor is below the last non-blank row.
    pub fn rows_below(&self) -> usize {
        self.below
    }

    pub fn row(&self, number: usize) -> &str {
        self.rows.get(number).map_or("", |row| &row.text)
    }

    pub fn is_across(&self, number: usize) -> bool {
        self.rows.get(number).is_some_and(|row| row.is_across)
    }

    pub fn is_shown(&self, number: usize) -> bool {
        self.rows.get(number).is_some_and(|row| !row.is_blank)
    }

    /// Returns the row of the cursor; if that row is blank or unknown, the last non-blank row.
    pub fn cursor(&self) -> Range<usize> {
        let row = self.cursor.or_else(|| self.last(self.all()));
        row.map_or(0..0, |row| row..row + 1)
    }

    /// Returns the line that ends with the row of the cursor.
    pub fn cursor_line(&self) -> &str {
        &self.cursor_line
    }

    pub fn all(&self) -> Range<usize> {
        0..self.rows.len()
    }

    /// Returns the first row of the line that ends with `row`: a line that is longer than the pane is wide fills the
    /// rows above.
    pub fn line_start(&self, row: usize) -> usize {
        let above = (0..row).rev();
        above
            .take_while(|row| self.is_full(*row))
            .last()
            .unwrap_or(row)
    }

    /// Returns the text of rows, of which those that a line fills are joined to the next.
    pub fn lines(&self, range: Range<usize>) -> Vec<Cow<'_, str>> {
        let mut lines: Vec<Cow<'_, str>> = Vec::new();
        let mut is_open = false;
        for row in range {
            let text = self.row(row);
            match lines.last_mut().filter(|_| is_open) {
                Some(line) => line.to_mut().push_str(text),
                None => lines.push(Cow::Borrowed(text)),
            }
            is_open = self.is_full(row);
            let is_blank_cut = is_open && self.rows.get(row).map(RuleRow::columns) != self.width;
            if let Some(line) = lines.last_mut().filter(|_| is_blank_cut) {
                line.to_mut().push(' ');
            }
        }
        lines
    }

    /// Returns true if text fills a row, of which a blank in the last column is not shown.
    fn is_full(&self, row: usize) -> bool {
        let columns = self.rows.get(row).filter(|row| !row.is_across);
        let columns = columns.map_or(0, RuleRow::columns);
        self.width
            .is_some_and(|width| columns == width || columns + 1 == width)
    }

    /// Returns the last rows of a range, of which `count` are not blank.
    pub fn last_of(&self, range: Range<usize>, count: usize) -> Range<usize> {
        let mut start = range.end;
        for _ in 0..count {
            match self.last(range.start..start) {
                Some(row) => start = row,
                None => break,
            }
        }
        start..range.end
    }

    /// Returns the rows of the box with a bar on the left to which `row` belongs.
    pub fn boxed(&self, row: usize) -> Option<Range<usize>> {
        let is_bar = |row: &usize| self.row(*row).trim_start().starts_with(EDGES);
        let start = (0..=row).rev().take_while(is_bar).last()?;
        let end = (row..self.rows.len()).take_while(is_bar).last()? + 1;
        Some(start..end)
    }

    /// Returns the first rows of a range, of which `count` are not blank.
    pub fn first_of(&self, range: Range<usize>, count: usize) -> Range<usize> {
        let mut shown = range.clone().filter(|row| self.is_shown(*row));
        let end = match count.checked_sub(1).and_then(|last| shown.nth(last)) {
            Some(row) => row + 1,
            None => range.end,
        };
        range.start..end
    }

    pub fn last(&self, mut range: Range<usize>) -> Option<usize> {
        range.rfind(|row| self.is_shown(*row))
    }

    /// Returns true if the row is directly below a horizontal line and above another one. Shells do
    /// not draw their prompts this way.
    pub fn is_framed(&self, row: usize) -> bool {
        let above = row.checked_sub(1).is_some_and(|row| self.is_across(row));
        above && (row + 1..self.rows.len()).any(|row| self.is_across(row))
    }

    /// Returns the end of the text above `end`, excluding the rows directly above it that are blank
    /// or match `hints`.
    pub fn above(&self, end: usize, hints: Option<&Regex>) -> usize {
        let Some(hints) = hints else {
            return end;
        };
        let is_text = |row: &usize| self.is_shown(*row) && !hints.is_match(self.row(*row));
        (0..end).rfind(is_text).map_or(0, |row| row + 1)
    }

    /// Returns the nearest non-blank row above `row`.
    pub fn before(&self, row: usize) -> Option<&str> {
        self.last(0..row).map(|row| self.row(row))
    }
}

impl<'a> RuleRow<'a> {
    fn new(row: &'a str) -> Self {
        // The maximum number of characters of a row to examine.
        let text = match plain(first_chars(row, 1_000)) {
            Cow::Borrowed(row) => Cow::Borrowed(tidy(row)),
            Cow::Owned(row) => Cow::Owned(tidy(&row).to_owned()),
        };
        Self {
            is_blank: inner(&text).is_empty(),
            is_across: is_across(&text),
            text,
        }
    }

    fn columns(&self) -> usize {
        self.text.chars().count()
    }
}

/// Replaces each kind of blank with a plain space and removes invisible characters, so that rules can
/// ignore them. Some agents write U+00A0 after prompts and bullets, and variation selectors after glyphs.
pub(super) fn plain(row: &str) -> Cow<'_, str> {
    let is_odd = |c: char| is_odd_blank(c) || is_invisible(c);
    if !row.contains(is_odd) {
        return Cow::Borrowed(row);
    }
    let shown = row.chars().filter(|c| !is_invisible(*c));
    Cow::Owned(
        shown
            .map(|c| if is_odd_blank(c) { ' ' } else { c })
            .collect(),
    )
}

fn is_odd_blank(c: char) -> bool {
    matches!(c, '\u{a0}' | '\u{2007}' | '\u{202f}')
}

/// Returns true if a character is a variation selector or has no width.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{200b}' | '\u{2060}' | '\u{fe0e}' | '\u{fe0f}' | '\u{feff}'
    )
}

/// Removes the trailing blanks and box edge of a row, so that the width of the box does not matter.
fn tidy(row: &str) -> &str {
    let row = row.trim_end();
    let rest = if row.trim_start().starts_with(EDGES) {
        // A single edge is the left one.
        row.strip_suffix(EDGES)
            .filter(|rest| !rest.trim().is_empty())
    } else {
        // A scroll bar on the right.
        row.strip_suffix(BARS)
            .filter(|rest| rest.ends_with(char::is_whitespace))
    };
    rest.map_or(row, str::trim_end)
}

/// Returns the row of a box without the edge on the left.
pub(super) fn inner(row: &str) -> &str {
    row.trim_start_matches(|c: char| c.is_whitespace() || EDGES.contains(&c))
}

/// Returns true if a row is a horizontal line, with or without a title.
fn is_across(row: &str) -> bool {
    let is_side = |c: char| is_box_drawing(c) && !EDGES.contains(&c);
    let row = row.trim_start();
    let mut first = row.chars();
    let begins = (0..2).all(|_| first.next().is_some_and(is_side));
    begins && first.nth(1).is_some() && row.ends_with(is_side)
}

// Finds an agent's input box on its screen (pure).

/// The maximum height of an input box.
const BOX_ROWS_MAX: usize = 60;

/// The maximum indent of an agent's own box, unless its rules say another one; quoted boxes are indented further.
pub(super) const INDENT_MAX: usize = 1;

/// Separates typed text from the decoration to the right of the box.
const ASIDE: &str = "    ";

#[derive(Clone, Debug)]
pub(super) struct InputBox {
    pub frame: InputFrame,
    pub prompt: Regex,
    pub empty: Regex,
    /// The maximum number of rows below the box, and the pattern that each of them matches.
    pub below: usize,
    pub foot: Regex,
    /// The maximum indent of a box between two lines.
    pub indent: usize,
    /// Matches rows directly above the box that belong to it rather than to the conversation.
    pub hints: Option<Regex>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum InputFrame {
    /// Between two horizontal lines.
    Lines,
    /// With a bar on the left.
    Bar,
    /// Without a frame: from a prompt to the next blank row.
    Open,
    /// The last line, under a plain horizontal line; other rows of the input may lie between.
    Ruled,
}

impl InputFrame {
    /// Returns true if the row above the box belongs to it.
    pub fn has_upper_edge(self) -> bool {
        matches!(self, Self::Lines | Self::Ruled)
    }
}

impl InputBox {
    /// Returns the rows of the lowest input box, without its horizontal edges.
    pub fn find(&self, screen: &RuleScreen<'_>) -> Option<Range<usize>> {
        let rows = self.lowest(screen)?;
        // Other text below the box means that the box is outdated.
        let edges = usize::from(self.frame == InputFrame::Lines);
        let mut under = (rows.end + edges..screen.all().end).filter(|row| screen.is_shown(*row));
        let is_foot = |row| self.foot.is_match(screen.row(row));
        under.all(is_foot).then_some(rows)
    }

    fn lowest(&self, screen: &RuleScreen<'_>) -> Option<Range<usize>> {
        let prompt = &self.prompt;
        let foot = screen.last_of(screen.all(), self.below + 1).start;
        match self.frame {
            InputFrame::Lines => self.between_lines(screen, foot),
            InputFrame::Bar => {
                let is_bar = |row: &usize| screen.row(*row).trim_start().starts_with(EDGES);
                let end = (foot..screen.all().end).rfind(is_bar)? + 1;
                let rows = screen.boxed(end - 1)?;
                let is_prompt = |row: usize| prompt.is_match(inner(screen.row(row)));
                rows.clone().any(is_prompt).then_some(rows)
            }
            InputFrame::Open => {
                let rows = foot..screen.all().end;
                let start = rows.rev().find(|row| prompt.is_match(screen.row(*row)))?;
                let typed = (start..screen.all().end).take_while(|row| screen.is_shown(*row));
                Some(start..typed.last()? + 1)
            }
            InputFrame::Ruled => {
                let end = screen.last(screen.all())? + 1;
                let first = end.saturating_sub(BOX_ROWS_MAX);
                let edge = (first..end).rfind(|row| screen.is_across(*row))?;
                let line = screen.row(edge);
                // The minimum length of a horizontal line across the pane.
                let is_plain = line.chars().all(|c| c == '─') && line.chars().count() >= 20;
                let is_whole = (edge + 1..end).all(|row| screen.is_shown(row));
                // Nothing may follow the prompt, because it could then be the prompt of a shell.
                let is_input = prompt.is_match(screen.row(screen.line_start(end - 1)));
                // Below a prompt that is sent, the cursor waits for the answer.
                let is_sent = screen.rows_below() > 0 && !screen.is_full(end - 1);
                (is_plain && is_whole && is_input && !is_sent).then_some(edge + 1..end)
            }
        }
    }

    fn between_lines(&self, screen: &RuleScreen<'_>, foot: usize) -> Option<Range<usize>> {
        let is_edge =
            |row: &usize| screen.is_across(*row) && indent(screen.row(*row)) <= self.indent;
        let mut end = None;
        for row in (0..screen.all().end).rev().filter(is_edge) {
            if let Some(end) = end
                && end - row <= BOX_ROWS_MAX
                && row + 1 < end
                && indent(screen.row(row + 1)) <= self.indent
                && self.prompt.is_match(inner(screen.row(row + 1)))
            {
                return Some(row + 1..end);
            }
            if row < foot {
                return None;
            }
            end = Some(row);
        }
        None
    }

    /// Returns true if the user has typed nothing in these rows.
    pub fn is_empty(&self, screen: &RuleScreen<'_>, mut rows: Range<usize>) -> bool {
        let text = |row: usize| match self.frame {
            InputFrame::Bar => beside_bar(screen.row(row)),
            InputFrame::Lines | InputFrame::Open | InputFrame::Ruled => inner(screen.row(row)),
        };
        // Text between the horizontal line and the prompt is part of a question.
        let typed = |row: usize| self.frame != InputFrame::Ruled || self.prompt.is_match(text(row));
        rows.all(|row| text(row).is_empty() || !typed(row) || self.empty.is_match(text(row)))
    }
}

/// Returns the text of a row in a box with a bar on the left, without the decoration on the right.
fn beside_bar(row: &str) -> &str {
    let text = row.trim_start().trim_start_matches(EDGES);
    match text.split_once(|c: char| !c.is_whitespace()) {
        Some((blanks, _)) if blanks.len() >= 2 * ASIDE.len() => "",
        _ => text.trim_start().split(ASIDE).next().unwrap_or_default(),
    }
}

// Recognises terminals that belong to a shell or a file viewer instead of an agent (pure).

/// The features of shells and file viewers.
#[derive(Clone, Debug)]
pub(super) struct ShellRules {
    pub programs: FxHashSet<String>,
    /// Programs that display files.
    pub readers: FxHashSet<String>,
    /// Programs that wait for the reader after each page.
    pub pagers: FxHashSet<String>,
    /// Matches one of the last rows of a program that displays a file.
    pub viewer: Option<Regex>,
    /// Matches the first row of such a program.
    pub heading: Option<Regex>,
    /// Matches a prompt with nothing typed.
    pub prompt: Regex,
    /// Matches a prompt with a typed command.
    pub command: Regex,
}

impl ShellRules {
    /// Returns true if the program excludes an agent. A shell must also show its prompt, because an
    /// agent that a script starts runs under the name of the shell.
    pub fn has_terminal(&self, program: &str, screen: &RuleScreen<'_>) -> bool {
        let name = program_name(program);
        self.readers.contains(name)
            || (self.programs.contains(name) && self.prompt_row(screen).is_some())
    }

    /// Returns true if the last rows or the first one are those of a program that displays a file.
    pub fn shows_file(&self, screen: &RuleScreen<'_>) -> bool {
        // Editors have a row for messages below that of their state.
        let mut rows = screen.last_of(screen.all(), 2);
        let viewer = self.viewer.as_ref();
        viewer.is_some_and(|viewer| rows.any(|row| viewer.is_match(screen.row(row))))
            || self.has_heading(screen)
    }

    /// Returns true if the first row is that of a program that displays a file.
    pub fn has_heading(&self, screen: &RuleScreen<'_>) -> bool {
        let heading = self.heading.as_ref();
        heading.is_some_and(|heading| heading.is_match(screen.row(0)))
    }

    /// Returns true if the program displays files, and waits for nobody.
    pub fn only_shows(&self, program: Option<&str>) -> bool {
        let name = program.map(program_name).unwrap_or_default();
        self.readers.contains(name) && !self.pagers.contains(name)
    }

    /// Returns true if the prompt of a shell follows the input box, so that the agent has exited.
    pub fn follows(&self, input: Option<&Range<usize>>, screen: &RuleScreen<'_>) -> bool {
        let end = input.map_or(0, |rows| rows.end);
        let has_prompt = self.prompt_row(screen).is_some_and(|row| row >= end);
        let mut below = end..screen.all().end;
        has_prompt || (input.is_some() && below.any(|row| self.command.is_match(screen.row(row))))
    }

    /// Returns the row of the cursor if it is a prompt.
    fn prompt_row(&self, screen: &RuleScreen<'_>) -> Option<usize> {
        let mut row = screen.cursor();
        row.find(|row| self.prompt.is_match(screen.row(*row)) && !screen.is_framed(*row))
    }
}
