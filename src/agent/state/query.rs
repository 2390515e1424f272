//! Searches the regions of a screen that rules refer to (pure).

use std::ops::Range;

use regex::Regex;
use serde::Deserialize;

use super::rule_screen::{RuleScreen, inner};

/// The maximum number of rows in a region.
pub(super) const LINES_MAX: usize = 60;

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
    /// Returns true if the position of the region depends on the input box.
    pub fn needs_input(self) -> bool {
        use Region::{AboveInput, BelowInput, Input, LastMessage};
        matches!(self, Input | AboveInput | BelowInput | LastMessage)
    }

    /// Returns true if the rule sets the number of rows in the region.
    pub fn has_lines(self) -> bool {
        use Region::{AboveInput, BelowInput, Bottom};
        matches!(self, AboveInput | BelowInput | Bottom)
    }
}

/// A pattern and the region to search.
#[derive(Clone, Debug)]
pub(super) struct RowQuery {
    pub region: Region,
    pub lines: usize,
    pub pattern: Regex,
    /// A pattern that another row of the region must match.
    pub also: Option<Regex>,
    /// A pattern that the nearest non-blank row above must match.
    pub under: Option<Regex>,
    /// True if the highest matching row counts; false if the lowest one does.
    pub is_first: bool,
}

/// A screen as it appears to the rules of one agent.
pub(super) struct ScreenView<'p, 'a> {
    pub screen: &'p RuleScreen<'a>,
    pub message: Option<&'p Regex>,
    pub input: Option<Range<usize>>,
    /// The end of the rows above the input box.
    pub above: usize,
    /// True if a row within a frame does not count as the row of the cursor.
    pub only_unframed: bool,
}

impl RowQuery {
    /// Returns the lowest matching row of the region, or the highest if `is_first`, in the form
    /// that the pattern matches.
    pub fn find<'p>(&self, view: &ScreenView<'p, '_>) -> Option<&'p str> {
        let rows = view.rows(self.region, self.lines)?;
        let screen = view.screen;
        let text = |row: usize| match self.region {
            Region::Input => inner(screen.row(row)),
            _ => screen.row(row),
        };
        let is_under = |row: usize| {
            let matches = |under: &Regex| screen.before(row).is_some_and(|row| under.is_match(row));
            self.under.as_ref().is_none_or(matches)
        };
        let is_match = |row: &usize| self.pattern.is_match(text(*row)) && is_under(*row);
        let found = match self.is_first {
            true => rows.clone().find(is_match),
            false => rows.clone().rfind(is_match),
        }?;
        let has = |also: &Regex| rows.clone().any(|row| also.is_match(text(row)));
        self.also.as_ref().is_none_or(has).then(|| text(found))
    }
}

impl ScreenView<'_, '_> {
    fn rows(&self, region: Region, lines: usize) -> Option<Range<usize>> {
        let screen = self.screen;
        Some(match (region, &self.input) {
            (Region::Screen, _) => screen.all(),
            (Region::Cursor, _) => {
                let row = screen.cursor();
                match self.only_unframed && screen.is_framed(row.start) {
                    true => return None,
                    false => row,
                }
            }
            (Region::Bottom, _) => screen.last_of(screen.all(), lines),
            (_, None) => return None,
            (Region::Input, Some(input)) => input.clone(),
            (Region::BelowInput, Some(input)) => {
                screen.first_of(input.end..screen.all().end, lines)
            }
            (Region::AboveInput, Some(_)) => screen.last_of(0..self.above, lines),
            (Region::LastMessage, Some(_)) => {
                let rows = screen.last_of(0..self.above, LINES_MAX);
                let begins_message = |row: &usize| {
                    let message = self.message;
                    message.is_some_and(|message| message.is_match(screen.row(*row)))
                };
                // If no beginning is visible, the message began above these rows.
                rows.clone().rfind(begins_message).unwrap_or(rows.start)..rows.end
            }
        })
    }
}
