//! The last line of an agent's row when a turn ends, when the agent asks, and when the next turn begins (pure).

use super::last::conclusion;
use super::row::{Row, RowState};
use crate::event::AgentState;

impl Row {
    /// Returns true if the row's agent waits for an answer.
    pub(crate) fn is_waiting(&self) -> bool {
        self.state == RowState::Agent(AgentState::Waiting.into())
    }

    pub(super) fn is_idle(&self) -> bool {
        self.state == RowState::Agent(AgentState::Idle.into())
    }

    pub(super) fn is_busy(&self) -> bool {
        self.is_waiting() || self.state == RowState::Agent(AgentState::Working.into())
    }

    /// Shows the conclusion of a turn: of the agent's answer, else of its summary.
    pub(super) fn conclude(&mut self, summary: &str) {
        let found = self.answer.conclusion().or_else(|| conclusion(summary));
        if let Some(found) = found {
            self.last_line = found;
        }
    }

    /// Says that the user has stopped the turn, or refused what the agent asked in it. `is_written`: the agent has recorded
    /// the stop, and the turn is over; a screen may show an agent at rest for a moment.
    pub(super) fn stop_turn(&mut self, is_written: bool) {
        let is_open = self.answer.is_open();
        if self.is_busy() && is_open || is_written {
            let asks = self.asks.as_ref();
            self.last_line = match asks.filter(|_| is_open && self.is_waiting()) {
                Some(asks) => format!("refused: {asks}"),
                None => "interrupted".to_owned(),
            };
        }
        if is_written {
            self.answer.end_turn();
        }
    }

    /// Shows the question of an agent that waits, unless the last line tells it: an agent may run several tools, and
    /// asks about one.
    pub(super) fn show_question(&mut self) {
        let asks = self.asks.as_ref().filter(|_| self.is_waiting());
        if let Some(asks) = asks.filter(|asks| !self.last_line.contains(asks.as_str())) {
            self.last_line.clone_from(asks);
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
