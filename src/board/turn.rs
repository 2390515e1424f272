//! The last line of an agent's row when a turn ends, and when the next one begins (pure).

use super::last::conclusion;
use super::row::{Row, RowState};
use crate::event::AgentState;

impl Row {
    /// Shows the conclusion of a turn: of the agent's answer, else of its summary.
    pub(super) fn conclude(&mut self, summary: &str) {
        let found = self.answer.conclusion().or_else(|| conclusion(summary));
        if let Some(found) = found {
            self.last_line = found;
        }
    }

    /// Forgets the conclusion or the failure of the last turn as the last line, because the agent works again.
    pub(super) fn forget_last_turn(&mut self) {
        let is_failure = self.asks.as_ref() == Some(&self.last_line);
        let concludes = || self.answer.conclusion().as_ref() == Some(&self.last_line);
        let RowState::Agent(before) = &self.state else {
            return;
        };
        match before.known() {
            Some(AgentState::Error | AgentState::Limited) if is_failure => self.last_line.clear(),
            Some(AgentState::Done | AgentState::Idle) if concludes() => self.last_line.clear(),
            _ => {}
        }
    }
}
