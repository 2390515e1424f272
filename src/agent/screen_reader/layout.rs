//! Which rows of an agent's screen are its conversation: one layout an agent (pure).

use super::opencode::OpencodeLayout;
use super::row::{ConversationPage, ConversationRow, RowPart};
use super::unknown;
use crate::agent::{AgentProgram, KnownAgent};

/// Rows that are looked at: no terminal is taller.
const ROWS_MAX: usize = 500;

/// The layout of a screen.
#[derive(Clone, Debug)]
pub(super) enum Layout {
    Opencode(OpencodeLayout),
    /// Of an agent that is not known: whatever scrolls is its text.
    Unknown,
}

impl Layout {
    pub fn of(program: &AgentProgram) -> Self {
        match program {
            AgentProgram::Known(KnownAgent::Opencode) => Self::Opencode(OpencodeLayout::default()),
            AgentProgram::Known(_) | AgentProgram::Other(_) => Self::Unknown,
        }
    }

    /// What the screen shows of the conversation; `None` where it is another screen (a menu, a screen that
    /// is only half drawn).
    pub fn page(&mut self, rows: &[&str], width: usize) -> Option<ConversationPage> {
        let rows = &rows[..rows.len().min(ROWS_MAX)];
        match self {
            Self::Opencode(layout) => layout.page(rows, width),
            Self::Unknown => Some(unknown::page(rows)),
        }
    }

    /// How many of the rows do not change any more.
    pub fn sealed(&self, rows: &[ConversationRow]) -> usize {
        match self {
            Self::Opencode(_) => OpencodeLayout::sealed(rows),
            Self::Unknown => 0,
        }
    }

    /// Whether a box with this head is a tool's.
    pub fn tool<'a>(&self, head: &'a str) -> Option<(&'a str, &'a str)> {
        match self {
            Self::Opencode(_) => OpencodeLayout::tool(head),
            Self::Unknown => None,
        }
    }

    /// Whether it tells which rows do not change any more, and where a conversation begins.
    pub fn tells_ends(&self) -> bool {
        matches!(self, Self::Opencode(_))
    }

    /// Whether a row ends a turn that was completed.
    pub fn is_completed(&self, row: &ConversationRow) -> bool {
        row.kind == RowPart::End && !row.text.ends_with("interrupted")
    }
}
