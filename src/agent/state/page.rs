//! A screen as rules see it: its rows, and where the input box lies among them (pure).

use std::ops::Range;

use regex::Regex;
use serde::Deserialize;

use crate::event::Cursor;

/// Rows that are looked at, from the foot up: no terminal is taller.
const ROWS_MAX: usize = 400;
/// Of a row so many characters are looked at.
const CHARS_MAX: usize = 1_000;
/// The tallest input box.
const BOX_ROWS_MAX: usize = 60;

/// Edges of boxes, at the sides.
const EDGES: &[char] = &['│', '┃', '║'];

/// The rows of a screen.
#[derive(Debug)]
pub(super) struct Page<'a> {
    rows: Vec<&'a str>,
    cursor: Option<usize>,
}

/// How the input box of an agent is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Frame {
    /// Between two lines across.
    Lines,
    /// With a bar on its left.
    Bar,
    /// Without: from a prompt to the next blank row.
    Open,
}

impl<'a> Page<'a> {
    pub fn new(rows: &[&'a str], cursor: Option<Cursor>) -> Self {
        let first = rows.len().saturating_sub(ROWS_MAX);
        let cursor = cursor
            .and_then(|cursor| usize::try_from(cursor.y).ok())
            .and_then(|row| row.checked_sub(first));
        let rows: Vec<&str> = rows[first..].iter().map(|row| tidy(row)).collect();
        let cursor = cursor.filter(|row| rows.get(*row).is_some_and(|row| !is_blank(row)));
        Self { rows, cursor }
    }

    pub fn row(&self, number: usize) -> &'a str {
        self.rows.get(number).copied().unwrap_or_default()
    }

    /// The row of the cursor; where that is blank or not known, the last one that is not blank.
    pub fn cursor(&self) -> Range<usize> {
        let row = self.cursor.or_else(|| self.last(0..self.rows.len()));
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
        let mut shown = range.clone().filter(|row| !is_blank(self.row(*row)));
        let end = match count.checked_sub(1).and_then(|last| shown.nth(last)) {
            Some(row) => row + 1,
            None => range.end,
        };
        range.start..end
    }

    fn last(&self, mut range: Range<usize>) -> Option<usize> {
        range.rfind(|row| !is_blank(self.row(*row)))
    }

    /// The rows of the input box, edges of lines across not among them: the lowest that there is,
    /// with at most `below` rows under it that are not blank.
    pub fn input(&self, frame: Frame, prompt: &Regex, below: usize) -> Option<Range<usize>> {
        let is_prompt = |row: usize| prompt.is_match(inner(self.row(row)));
        let foot = self.last_of(self.all(), below + 1).start;
        match frame {
            Frame::Lines => {
                let mut end = None;
                for row in (0..self.rows.len())
                    .rev()
                    .filter(|row| is_across(self.row(*row)))
                {
                    if let Some(end) = end
                        && end - row <= BOX_ROWS_MAX
                        && row + 1 < end
                        && is_prompt(row + 1)
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
            Frame::Bar => {
                let is_bar = |row: &usize| self.row(*row).trim_start().starts_with(EDGES);
                let end = (foot..self.rows.len()).rfind(is_bar)? + 1;
                let start = (0..end).rev().take_while(is_bar).last()?;
                (start..end).any(is_prompt).then_some(start..end)
            }
            Frame::Open => {
                let start = (foot..self.rows.len()).rfind(|row| {
                    let row = self.row(*row);
                    prompt.is_match(row)
                })?;
                let is_shown = |row: &usize| !is_blank(self.row(*row));
                let end = (start..self.rows.len()).take_while(is_shown).last()? + 1;
                Some(start..end)
            }
        }
    }
}

/// A row without blanks and a box's edge at its end, so that its width does not matter.
fn tidy(row: &str) -> &str {
    let end = row.char_indices().nth(CHARS_MAX);
    let row = end.map_or(row, |(end, _)| &row[..end]).trim_end();
    match row.trim_start().starts_with(EDGES) {
        // An edge that stands alone is the left one.
        true => match row.strip_suffix(EDGES) {
            Some(rest) if !rest.trim().is_empty() => rest.trim_end(),
            Some(_) | None => row,
        },
        false => row,
    }
}

/// A row of a box without the edge at its left.
pub(super) fn inner(row: &str) -> &str {
    row.trim_start_matches(|c: char| c.is_whitespace() || EDGES.contains(&c))
}

fn is_blank(row: &str) -> bool {
    inner(row).is_empty()
}

/// A line across, with a title in it or without.
fn is_across(row: &str) -> bool {
    let is_side = |c: char| ('\u{2500}'..='\u{259f}').contains(&c) && !EDGES.contains(&c);
    let row = row.trim();
    row.chars().count() > 3 && row.chars().take(3).all(is_side) && row.ends_with(is_side)
}
