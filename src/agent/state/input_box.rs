//! Finds an agent's input box on its screen (pure).

use std::ops::Range;

use regex::Regex;
use serde::Deserialize;

use super::rule_screen::{EDGES, RuleScreen, inner};
use crate::agent::decoration::indent;

/// The maximum height of an input box.
const BOX_ROWS_MAX: usize = 60;

/// The maximum indent of an agent's own box; quoted boxes are indented further.
const INDENT_MAX: usize = 1;

/// Separates typed text from the decoration to the right of the box.
const ASIDE: &str = "    ";

/// The minimum length of a horizontal line across the pane.
const RULE_MIN: usize = 20;

#[derive(Clone, Debug)]
pub(super) struct InputBox {
    pub frame: InputFrame,
    pub prompt: Regex,
    pub empty: Regex,
    /// The maximum number of rows below the box, and the pattern that each of them matches.
    pub below: usize,
    pub foot: Regex,
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
    /// The last row, under a plain horizontal line; other rows of the input may lie between.
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
                let start = (0..end).rev().take_while(is_bar).last()?;
                let is_prompt = |row: usize| prompt.is_match(inner(screen.row(row)));
                (start..end).any(is_prompt).then_some(start..end)
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
                let is_plain = line.chars().all(|c| c == '─') && line.chars().count() >= RULE_MIN;
                let is_whole = (edge + 1..end).all(|row| screen.is_shown(row));
                // Nothing may follow the prompt, because it could then be the prompt of a shell.
                let is_input = prompt.is_match(screen.row(end - 1));
                (is_plain && is_whole && is_input).then_some(edge + 1..end)
            }
        }
    }

    fn between_lines(&self, screen: &RuleScreen<'_>, foot: usize) -> Option<Range<usize>> {
        let is_edge =
            |row: &usize| screen.is_across(*row) && indent(screen.row(*row)) <= INDENT_MAX;
        let mut end = None;
        for row in (0..screen.all().end).rev().filter(is_edge) {
            if let Some(end) = end
                && end - row <= BOX_ROWS_MAX
                && row + 1 < end
                && indent(screen.row(row + 1)) <= INDENT_MAX
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
