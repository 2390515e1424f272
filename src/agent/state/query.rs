//! Searches the regions of a screen that rules name (pure).

use std::ops::Range;

use regex::Regex;
use serde::Deserialize;

use super::rule_screen::{RuleScreen, inner};

/// The most rows of a region.
pub(super) const LINES_MAX: usize = 60;

/// A region of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Region {
    Input,
    AboveInput,
    BelowInput,
    LastMessage,
    Bottom,
    Cursor,
    Screen,
}

impl Region {
    /// Returns whether the region's position depends on the input box.
    pub fn needs_input(self) -> bool {
        use Region::{AboveInput, BelowInput, Input, LastMessage};
        matches!(self, Input | AboveInput | BelowInput | LastMessage)
    }

    /// Returns whether the rule sets the region's number of rows.
    pub fn has_lines(self) -> bool {
        use Region::{AboveInput, BelowInput, Bottom};
        matches!(self, AboveInput | BelowInput | Bottom)
    }
}

/// A pattern, and the region in which it is searched.
#[derive(Clone, Debug)]
pub(super) struct RowQuery {
    pub place: Region,
    pub lines: usize,
    pub pattern: Regex,
    /// Another row of the region must match this pattern.
    pub also: Option<Regex>,
    /// The nearest row above that is not blank must match this pattern.
    pub under: Option<Regex>,
    /// The highest matching row counts, instead of the lowest.
    pub is_first: bool,
}

/// A screen as one agent's rules see it.
pub(super) struct ScreenView<'p, 'a> {
    pub page: &'p RuleScreen<'a>,
    pub message: Option<&'p Regex>,
    pub input: Option<Range<usize>>,
    /// The end of the rows above the input box.
    pub above: usize,
    /// A row within a frame does not count as the cursor's row.
    pub only_unframed: bool,
}

impl RowQuery {
    /// Returns the lowest matching row of the region, or the highest if `is_first`, as the pattern
    /// sees it.
    pub fn find<'p>(&self, sight: &ScreenView<'p, '_>) -> Option<&'p str> {
        let rows = sight.rows(self.place, self.lines)?;
        let page = sight.page;
        let text = |row: usize| match self.place {
            Region::Input => inner(page.row(row)),
            _ => page.row(row),
        };
        let is_under = |row: usize| {
            let says = |under: &Regex| page.before(row).is_some_and(|row| under.is_match(row));
            self.under.as_ref().is_none_or(says)
        };
        let is_it = |row: &usize| self.pattern.is_match(text(*row)) && is_under(*row);
        let found = match self.is_first {
            true => rows.clone().find(is_it),
            false => rows.clone().rfind(is_it),
        };
        let found = found?;
        let has = |also: &Regex| rows.clone().any(|row| also.is_match(text(row)));
        self.also.as_ref().is_none_or(has).then(|| text(found))
    }
}

impl ScreenView<'_, '_> {
    fn rows(&self, place: Region, lines: usize) -> Option<Range<usize>> {
        let page = self.page;
        Some(match (place, &self.input) {
            (Region::Screen, _) => page.all(),
            (Region::Cursor, _) => {
                let row = page.cursor();
                match self.only_unframed && page.is_framed(row.start) {
                    true => return None,
                    false => row,
                }
            }
            (Region::Bottom, _) => page.last_of(page.all(), lines),
            (_, None) => return None,
            (Region::Input, Some(input)) => input.clone(),
            (Region::BelowInput, Some(input)) => page.first_of(input.end..page.all().end, lines),
            (Region::AboveInput, Some(_)) => page.last_of(0..self.above, lines),
            (Region::LastMessage, Some(_)) => {
                let rows = page.last_of(0..self.above, LINES_MAX);
                let begins = |row: &usize| {
                    let message = self.message;
                    message.is_some_and(|message| message.is_match(page.row(*row)))
                };
                // A message that begins above the screen includes every row shown.
                rows.clone().rfind(begins).unwrap_or(rows.start)..rows.end
            }
        })
    }
}
