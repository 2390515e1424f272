//! The last line of an agent's row when a turn ends, when the agent asks, and when the next turn begins (pure).

use super::last::conclusion;
use super::row::Row;
use super::state::RowState;
use crate::event::{AgentState, StateEvidence};
use crate::timestamp::Timestamp;

impl Row {
    /// Returns true if the row's agent waits for an answer.
    pub(crate) fn is_waiting(&self) -> bool {
        self.state == RowState::Agent(AgentState::Waiting.into())
    }

    /// Notes that the agent has said or done something.
    pub(super) fn note_words(&mut self, at: Timestamp) {
        self.note_output(at);
        self.note_news();
        self.earlier = None;
    }

    /// Forgets what was said by a program that has ended, or is another's.
    pub(super) fn forget_words(&mut self) {
        self.last_line.clear();
        self.answer.clear();
    }

    /// Returns true if the words on an agent's screen are ahead of what it has written. The screen may show the end of a
    /// turn first.
    pub(super) fn is_ahead(&self, words: &str) -> bool {
        let is = |state: AgentState| self.state == RowState::Agent(state.into());
        let is_inferred = self.evidence == Some(StateEvidence::Inferred.into());
        let is_unwritten = is(AgentState::Done) && is_inferred && self.answer.is_open();
        (is(AgentState::Working) || is_unwritten) && !self.answer.contains(words)
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
        let asks = self.asks.as_ref();
        if !is_open && !is_written && asks == Some(&self.last_line) {
            // The question of a menu, or of a command of the user, is answered.
            self.last_line.clear();
        } else if self.is_busy() && is_open || is_written {
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

    /// Forgets as the last line how the last turn ended, because the agent works again.
    pub(super) fn forget_last_turn(&mut self) {
        let is_failure = self.asks.as_ref() == Some(&self.last_line);
        let concludes = || self.answer.conclusion().as_ref() == Some(&self.last_line);
        let RowState::Agent(before) = &self.state else {
            return;
        };
        match before.known() {
            Some(AgentState::Error | AgentState::Limited) if is_failure => self.last_line.clear(),
            Some(AgentState::Done) if concludes() => self.last_line.clear(),
            // What an agent at rest has written already is of the turn that begins.
            Some(AgentState::Idle) => {
                let said = self
                    .answer
                    .last_sentence()
                    .filter(|_| self.answer.is_open());
                self.last_line = said.unwrap_or_default();
            }
            _ => {}
        }
    }
}
