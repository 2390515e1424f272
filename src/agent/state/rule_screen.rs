//! A screen, and its preparation for the rules: normalised rows and ranges of them (pure).

use std::borrow::Cow;
use std::ops::Range;

use regex::Regex;

use crate::agent::decoration::is_box_drawing;
use crate::event::Cursor;
use crate::text::first_chars;

/// The maximum number of rows to examine, from the foot up. No terminal is taller.
const ROWS_MAX: usize = 400;
/// The maximum number of characters of a row to examine.
const CHARS_MAX: usize = 1_000;

/// Side edges of boxes.
pub(super) const EDGES: &[char] = &['│', '┃', '║'];

/// The tracks and handles of scroll bars.
const BARS: &[char] = &['│', '┃', '║', '█'];

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
    cursor: Option<usize>,
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
        let first = screen.rows.len().saturating_sub(ROWS_MAX);
        let cursor = screen
            .cursor
            .and_then(|cursor| usize::try_from(cursor.y).ok())
            .and_then(|row| row.checked_sub(first));
        let rows = screen.rows[first..].iter().map(|row| RuleRow::new(row));
        let rows: Vec<RuleRow<'a>> = rows.collect();
        let cursor = cursor.filter(|row| rows.get(*row).is_some_and(|row| !row.is_blank));
        Self { rows, cursor }
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

    pub fn all(&self) -> Range<usize> {
        0..self.rows.len()
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
        let text = match plain(first_chars(row, CHARS_MAX)) {
            Cow::Borrowed(row) => Cow::Borrowed(tidy(row)),
            Cow::Owned(row) => Cow::Owned(tidy(&row).to_owned()),
        };
        Self {
            is_blank: inner(&text).is_empty(),
            is_across: is_across(&text),
            text,
        }
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
    match row.trim_start().starts_with(EDGES) {
        // A single edge is the left one.
        true => match row.strip_suffix(EDGES) {
            Some(rest) if !rest.trim().is_empty() => rest.trim_end(),
            Some(_) | None => row,
        },
        // A scroll bar on the right.
        false => match row.strip_suffix(BARS) {
            Some(rest) if rest.ends_with(char::is_whitespace) => rest.trim_end(),
            Some(_) | None => row,
        },
    }
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
    let begins = (0..3).all(|_| first.next().is_some_and(is_side));
    begins && first.next().is_some() && row.ends_with(is_side)
}
