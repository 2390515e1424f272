//! Classifies one row of an agent's screen: text, progress, or decoration (pure).

use super::AgentState;
use super::agent_rules::AgentRules;
use super::input_box::InputFrame;
use super::rule_screen::plain;
use crate::agent::decoration::{LineKind, bare_line};

/// The minimum number of line characters at the beginning of a box's edge. An edge may hold a
/// title, and a list item may begin with a few dashes.
const EDGE_CHARS_MIN: usize = 10;

/// The kind of a row of an agent's screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    /// The agent's answers and questions, tool output, and typed input.
    Text,
    /// Continuously changing progress, such as a spinner or a clock.
    Status,
    /// Lines, box edges, an empty input box, keys and names at the foot, and blank rows.
    Decoration,
}

impl AgentRules {
    /// Returns the kind of a row. Neighbouring rows have no influence, so that a text row is
    /// recognised at any position.
    pub fn row_kind(&self, row: &str) -> RowKind {
        let row = plain(row);
        let row = row.trim_end();
        match bare_line(row).kind {
            LineKind::Blank | LineKind::Rule => return RowKind::Decoration,
            LineKind::Input | LineKind::Bullet | LineKind::Text => {}
        }
        let mut working = self.rules.iter();
        if working.any(|rule| rule.state == AgentState::Working && rule.query.pattern.is_match(row))
        {
            return RowKind::Status;
        }
        let is_foot = self.decoration.as_ref();
        let is_foot = is_foot.is_some_and(|decoration| decoration.is_match(row));
        match is_foot || is_edge(row) || self.is_empty_input(row) {
            true => RowKind::Decoration,
            false => RowKind::Text,
        }
    }

    fn is_empty_input(&self, row: &str) -> bool {
        let inner = row.trim_matches(|c: char| c == '│' || c.is_whitespace());
        self.input.as_ref().is_some_and(|input| {
            // Any row could be input in a box with a bar.
            input.frame != InputFrame::Bar
                && input.prompt.is_match(inner)
                && input.empty.is_match(inner)
        })
    }
}

/// Returns true if a row is the upper or lower edge of a box with a title.
fn is_edge(row: &str) -> bool {
    let row = row.trim_start();
    let row = row.strip_prefix(['╭', '╰', '┌', '└']).unwrap_or(row);
    row.chars().take_while(|c| *c == '─').count() >= EDGE_CHARS_MIN
}
