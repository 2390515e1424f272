//! Extracts the conversation rows from an agent's screen, according to the agent's layout (pure).

use super::opencode::OpencodeLayout;
use super::row::{ConversationPage, ConversationRow};
use super::unknown;
use crate::agent::{AgentProgram, KnownAgent};

/// The maximum number of rows to examine. No terminal is taller.
const ROWS_MAX: usize = 500;

#[derive(Clone, Debug, Default)]
pub(super) enum Layout {
    Opencode(OpencodeLayout),
    /// The layout of an unknown agent: all scrolling rows are text.
    #[default]
    Unknown,
}

impl Layout {
    pub fn of(program: &AgentProgram) -> Self {
        match program {
            AgentProgram::Known(KnownAgent::Opencode) => Self::Opencode(OpencodeLayout::default()),
            AgentProgram::Known(_) | AgentProgram::Other(_) => Self::Unknown,
        }
    }

    /// Returns the conversation rows of a screen; `None` for another screen, such as a menu or a
    /// partly drawn screen.
    pub fn page(&mut self, rows: &[&str], width: usize) -> Option<ConversationPage> {
        let rows = &rows[..rows.len().min(ROWS_MAX)];
        match self {
            Self::Opencode(layout) => layout.page(rows, width),
            Self::Unknown => Some(unknown::page(rows)),
        }
    }

    /// Returns the number of leading rows that are final.
    pub fn sealed(&self, rows: &[ConversationRow]) -> usize {
        match self {
            Self::Opencode(_) => OpencodeLayout::sealed(rows),
            Self::Unknown => 0,
        }
    }

    /// Returns the name and the arguments of a tool, if the first row of a box is that of a tool.
    pub fn tool<'a>(&self, head: &'a str) -> Option<(&'a str, &'a str)> {
        match self {
            Self::Opencode(_) => OpencodeLayout::tool(head),
            Self::Unknown => None,
        }
    }

    /// Returns true if the layout shows which rows are final and where a conversation begins.
    pub fn shows_ends(&self) -> bool {
        matches!(self, Self::Opencode(_))
    }
}
