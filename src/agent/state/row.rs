//! What one row of an agent's screen is to a reader: text, the progress of its work, or decoration (pure).

use super::AgentState;
use super::agent_rules::AgentRules;
use super::rule_screen::{InputFrame, plain};
use crate::agent::decoration::{LineKind, bare_line};

/// An edge of a box may hold a title; so many characters of a line at its beginning tell it from a
/// list of dashes.
const EDGE_CHARS_MIN: usize = 10;

/// What a row of an agent's screen is to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowKind {
    /// What the agent says, what its tools print, what it asks, what was typed.
    Text,
    /// How far its work has come: a spinner, a clock. It changes all the time.
    Status,
    /// Lines, edges of boxes, an empty input, keys and names at the foot, blank rows.
    Decoration,
}

impl AgentRules {
    /// What a row is. It is detected by itself, without the rows around it, so that a row of text is
    /// never left out because of where it stands.
    pub fn row_kind(&self, row: &str) -> RowKind {
        let row = plain(row);
        let row = row.trim_end();
        match bare_line(row).kind {
            LineKind::Blank | LineKind::Rule => return RowKind::Decoration,
            LineKind::Input | LineKind::Bullet | LineKind::Text => {}
        }
        let mut working = self.rules.iter();
        if working.any(|rule| rule.state == AgentState::Working && rule.look.pattern.is_match(row))
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
        let Some(input) = &self.input else {
            return false;
        };
        let inner = bare_input(row);
        // Beside a bar everything is input.
        input.frame != InputFrame::Bar
            && input.prompt.is_match(inner)
            && input.empty.is_match(inner)
    }
}

/// The upper or lower edge of a box that has a title in it.
fn is_edge(row: &str) -> bool {
    let row = row.trim_start();
    let row = row.strip_prefix(['╭', '╰', '┌', '└']).unwrap_or(row);
    row.chars().take_while(|c| *c == '─').count() >= EDGE_CHARS_MIN
}

/// What stands in a row of an input box.
fn bare_input(row: &str) -> &str {
    row.trim_matches(|c: char| c == '│' || c.is_whitespace())
}
