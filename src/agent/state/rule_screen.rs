//! A screen as rules see it: its rows, and where the input box lies among them (pure).

use std::borrow::Cow;
use std::ops::Range;

use regex::Regex;
use serde::Deserialize;

use super::AgentScreen;
use super::agent_rules::InputBox;

/// Rows that are looked at, from the foot up: no terminal is taller.
const ROWS_MAX: usize = 400;
/// Of a row so many characters are looked at.
const CHARS_MAX: usize = 1_000;
/// The tallest input box.
const BOX_ROWS_MAX: usize = 60;
/// Blanks that an agent puts before its own box at most; what it quotes stands further in.
const INDENT_MAX: usize = 1;
/// So many blanks in a row of a box part what is typed from what stands beside the box.
const ASIDE: &str = "    ";

/// A line across the pane is no shorter.
const RULE_MIN: usize = 20;

/// Edges of boxes, at the sides.
const EDGES: &[char] = &['│', '┃', '║'];

/// Scroll bars: their tracks, and their handles.
const BARS: &[char] = &['│', '┃', '║', '█'];

/// The rows of a screen.
#[derive(Debug)]
pub(super) struct RuleScreen<'a> {
    rows: Vec<RuleRow<'a>>,
    cursor: Option<usize>,
}

/// A row, and what is asked about it again and again.
#[derive(Clone, Debug)]
struct RuleRow<'a> {
    text: Cow<'a, str>,
    is_blank: bool,
    is_across: bool,
}

/// How the input box of an agent is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum InputFrame {
    /// Between two lines across.
    Lines,
    /// With a bar on its left.
    Bar,
    /// Without: from a prompt to the next blank row.
    Open,
    /// The last row, under a plain line across; between them may stand what belongs to the input.
    Ruled,
}

impl InputFrame {
    /// The row above it belongs to it too.
    pub fn has_upper_edge(self) -> bool {
        matches!(self, Self::Lines | Self::Ruled)
    }
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

    fn is_across(&self, number: usize) -> bool {
        self.rows.get(number).is_some_and(|row| row.is_across)
    }

    fn is_shown(&self, number: usize) -> bool {
        self.rows.get(number).is_some_and(|row| !row.is_blank)
    }

    /// The row of the cursor; where that is blank or not known, the last one that is not blank.
    pub fn cursor(&self) -> Range<usize> {
        let row = self.cursor.or_else(|| self.last(self.all()));
        row.map_or(0..0, |row| row..row + 1)
    }

    pub fn all(&self) -> Range<usize> {
        0..self.rows.len()
    }

    /// The last rows of a range, so many that are not blank.
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

    /// The first rows of a range, so many that are not blank.
    pub fn first_of(&self, range: Range<usize>, count: usize) -> Range<usize> {
        let mut shown = range.clone().filter(|row| self.is_shown(*row));
        let end = match count.checked_sub(1).and_then(|last| shown.nth(last)) {
            Some(row) => row + 1,
            None => range.end,
        };
        range.start..end
    }

    fn last(&self, mut range: Range<usize>) -> Option<usize> {
        range.rfind(|row| self.is_shown(*row))
    }

    /// A row right under a line across that has another below it: no shell draws its prompt so.
    pub fn is_framed(&self, row: usize) -> bool {
        let above = row.checked_sub(1).is_some_and(|row| self.is_across(row));
        above && (row + 1..self.rows.len()).any(|row| self.is_across(row))
    }

    /// What stands above `end` without the rows right above it that are blank or match `hints`.
    pub fn above(&self, end: usize, hints: Option<&Regex>) -> usize {
        let Some(hints) = hints else {
            return end;
        };
        let is_text = |row: &usize| self.is_shown(*row) && !hints.is_match(self.row(*row));
        (0..end).rfind(is_text).map_or(0, |row| row + 1)
    }

    /// The nearest row above `row` that is not blank.
    pub fn before(&self, row: usize) -> Option<&str> {
        self.last(0..row).map(|row| self.row(row))
    }

    /// The rows of the input box, edges of lines across not among them: the lowest that there is.
    pub fn input(&self, input: &InputBox) -> Option<Range<usize>> {
        let rows = self.lowest(input)?;
        // An older one, below which something else was written, is none.
        let edges = usize::from(input.frame == InputFrame::Lines);
        let mut under = (rows.end + edges..self.rows.len()).filter(|row| self.is_shown(*row));
        let is_foot = |row| input.foot.is_match(self.row(row));
        under.all(is_foot).then_some(rows)
    }

    fn lowest(&self, input: &InputBox) -> Option<Range<usize>> {
        let prompt = &input.prompt;
        let foot = self.last_of(self.all(), input.below + 1).start;
        match input.frame {
            InputFrame::Lines => self.between_lines(foot, prompt),
            InputFrame::Bar => {
                let is_bar = |row: &usize| self.row(*row).trim_start().starts_with(EDGES);
                let end = (foot..self.rows.len()).rfind(is_bar)? + 1;
                let start = (0..end).rev().take_while(is_bar).last()?;
                let is_prompt = |row: usize| prompt.is_match(inner(self.row(row)));
                (start..end).any(is_prompt).then_some(start..end)
            }
            InputFrame::Open => {
                let rows = foot..self.rows.len();
                let start = rows.rev().find(|row| prompt.is_match(self.row(*row)))?;
                let typed = (start..self.rows.len()).take_while(|row| self.is_shown(*row));
                Some(start..typed.last()? + 1)
            }
            InputFrame::Ruled => {
                let end = self.last(self.all())? + 1;
                let first = end.saturating_sub(BOX_ROWS_MAX);
                let edge = (first..end).rfind(|row| self.is_across(*row))?;
                let line = self.row(edge);
                let is_plain = line.chars().all(|c| c == '─') && line.chars().count() >= RULE_MIN;
                let is_whole = (edge + 1..end).all(|row| self.is_shown(row));
                // Below it nothing may stand: it could be the prompt of a shell.
                let is_input = prompt.is_match(self.row(end - 1));
                (is_plain && is_whole && is_input).then_some(edge + 1..end)
            }
        }
    }

    fn between_lines(&self, foot: usize, prompt: &Regex) -> Option<Range<usize>> {
        let is_edge = |row: &usize| self.is_across(*row) && indent(self.row(*row)) <= INDENT_MAX;
        let mut end = None;
        for row in (0..self.rows.len()).rev().filter(is_edge) {
            if let Some(end) = end
                && end - row <= BOX_ROWS_MAX
                && row + 1 < end
                && indent(self.row(row + 1)) <= INDENT_MAX
                && prompt.is_match(inner(self.row(row + 1)))
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
}

impl<'a> RuleRow<'a> {
    fn new(row: &'a str) -> Self {
        let text = match plain(cut(row)) {
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

/// A row in which every blank is a plain one, and without characters that show nothing: some agents
/// write U+00A0 behind their prompts and bullets, and select how a glyph is drawn. Rules need not
/// know that.
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

/// Selectors of how a glyph is drawn, and what has no width.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{200b}' | '\u{2060}' | '\u{fe0e}' | '\u{fe0f}' | '\u{feff}'
    )
}

/// As much of a row as is looked at.
fn cut(row: &str) -> &str {
    // As many bytes cannot be more characters.
    let end = match row.len() > CHARS_MAX {
        true => row.char_indices().nth(CHARS_MAX),
        false => None,
    };
    end.map_or(row, |(end, _)| &row[..end])
}

/// A row without blanks and a box's edge at its end, so that its width does not matter.
fn tidy(row: &str) -> &str {
    let row = row.trim_end();
    match row.trim_start().starts_with(EDGES) {
        // An edge that stands alone is the left one.
        true => match row.strip_suffix(EDGES) {
            Some(rest) if !rest.trim().is_empty() => rest.trim_end(),
            Some(_) | None => row,
        },
        // A scroll bar at the right.
        false => match row.strip_suffix(BARS) {
            Some(rest) if rest.ends_with(char::is_whitespace) => rest.trim_end(),
            Some(_) | None => row,
        },
    }
}

/// A row of a box without the edge at its left.
pub(super) fn inner(row: &str) -> &str {
    row.trim_start_matches(|c: char| c.is_whitespace() || EDGES.contains(&c))
}

/// What a row of a box with a bar at its left says, without what stands beside the box.
pub(super) fn beside_bar(row: &str) -> &str {
    let text = row.trim_start().trim_start_matches(EDGES);
    match text.split_once(|c: char| !c.is_whitespace()) {
        Some((blanks, _)) if blanks.len() >= 2 * ASIDE.len() => "",
        _ => text.trim_start().split(ASIDE).next().unwrap_or_default(),
    }
}

fn indent(row: &str) -> usize {
    row.len() - row.trim_start_matches(' ').len()
}

/// A line across, with a title in it or without.
fn is_across(row: &str) -> bool {
    let is_side = |c: char| ('\u{2500}'..='\u{259f}').contains(&c) && !EDGES.contains(&c);
    let row = row.trim_start();
    let mut first = row.chars();
    let begins = (0..3).all(|_| first.next().is_some_and(is_side));
    begins && first.next().is_some() && row.ends_with(is_side)
}
