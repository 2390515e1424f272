//! Where rules look, and what they find there (pure).

use std::ops::Range;

use regex::Regex;
use serde::Deserialize;

use super::rule_screen::{RuleScreen, inner};

/// Rows a rule may look at.
pub(super) const LINES_MAX: usize = 60;

/// Where a rule looks.
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
    /// It is found from the input box.
    pub fn needs_input(self) -> bool {
        use Region::{AboveInput, BelowInput, Input, LastMessage};
        matches!(self, Input | AboveInput | BelowInput | LastMessage)
    }

    /// It has as many rows as the rule says.
    pub fn has_lines(self) -> bool {
        use Region::{AboveInput, BelowInput, Bottom};
        matches!(self, AboveInput | BelowInput | Bottom)
    }
}

/// A pattern, and where it is looked for.
#[derive(Clone, Debug)]
pub(super) struct RowQuery {
    pub place: Region,
    pub lines: usize,
    pub pattern: Regex,
    /// Another row there must match this too.
    pub also: Option<Regex>,
    /// The nearest row above that is not blank must match this too.
    pub under: Option<Regex>,
    /// The highest such row counts, not the lowest.
    pub is_first: bool,
}

/// A screen, as one agent's rules see it.
pub(super) struct ScreenView<'p, 'a> {
    pub page: &'p RuleScreen<'a>,
    pub message: Option<&'p Regex>,
    pub input: Option<Range<usize>>,
    /// Where what stands above the input box ends.
    pub above: usize,
    /// A row in a frame is no row of the cursor.
    pub only_unframed: bool,
}

impl RowQuery {
    /// The lowest row there that matches, as the pattern sees it; where the look says so, the highest.
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
                // One that begins above the screen has all that is shown.
                rows.clone().rfind(begins).unwrap_or(rows.start)..rows.end
            }
        })
    }
}
