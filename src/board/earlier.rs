//! Since when an agent is in the state in which its observation begins, as its transcript says (pure).

use super::last::EarlierTurn;
use super::row::{READING_TIME, Row};
use super::state::RowState;
use crate::event::AgentState;
use crate::timestamp::Timestamp;

impl EarlierTurn {
    /// Returns the time since when the agent is in this state, which the board learns `at` a time.
    fn since(&self, state: &RowState, at: Timestamp) -> Option<Timestamp> {
        let RowState::Agent(state) = state else {
            return None;
        };
        // Later, another state of the same turn is a change that the observer has seen.
        let is_first = at <= self.found.after(READING_TIME);
        let since = match state.known()? {
            AgentState::Idle | AgentState::Done | AgentState::Error | AgentState::Limited => {
                self.ended
            }
            AgentState::Working => self.began.filter(|_| is_first && self.ended.is_none()),
            AgentState::Waiting => self.acted.filter(|_| is_first),
            AgentState::Suspended | AgentState::Unknown => None,
        };
        since.filter(|since| *since < at)
    }
}

impl Row {
    /// Takes what an agent's transcript says of the time before the observation.
    pub(super) fn find_conversation(&mut self, turn: EarlierTurn, answer: &str) {
        let is_over = turn.ended.is_some();
        if is_over && self.is_busy() {
            // It has begun another turn.
            return;
        }
        // A state of a turn that goes on counts only if the row has just entered it: an observer has seen others begin.
        let is_first = is_over || turn.found <= self.since.after(READING_TIME);
        let since = turn.since(&self.state, turn.found);
        if let Some(since) = since.filter(|_| is_first) {
            if since > self.since.after(READING_TIME) {
                // It is another turn than the one that an earlier observer has seen.
                self.seen = self.seen.filter(|seen| *seen >= since);
                self.dismissed = false;
                self.since = since;
            }
            self.since = self.since.min(since);
        }
        self.earlier = Some(Box::new(turn));
        if !is_over {
            self.answer.begin_turn();
        }
        let has_spoken = !self.answer.is_empty();
        // What the pane's program is called after a restart may have cleared what was known.
        let is_known = has_spoken || self.last_observed.is_some() && !self.last_line.is_empty();
        if is_known || answer.is_empty() {
            return;
        }
        self.answer.push(answer);
        if self.says_trouble() {
            // The words of the trouble matter more.
        } else if is_over {
            self.conclude("");
        } else if let Some(sentence) = self.answer.last_sentence() {
            self.last_line = sentence;
        }
        self.answer.push("\n\n");
    }

    /// Returns since when the row is in the state that it enters: since before the observation, if it began with this
    /// state.
    pub(super) fn date(&mut self, at: Timestamp) -> Timestamp {
        let since = self.since_before(&self.state, at);
        let is_known = !self.is_unknown() && self.state != RowState::Running;
        if is_known && since.is_none() {
            self.earlier = None;
        }
        since.unwrap_or(at)
    }

    /// Returns the time before the observation since when the agent is in this state.
    pub(super) fn since_before(&self, state: &RowState, at: Timestamp) -> Option<Timestamp> {
        self.earlier.as_ref()?.since(state, at)
    }

    /// Returns true if the last line has the words of an error or a limit.
    fn says_trouble(&self) -> bool {
        let is_error = self.state == RowState::Agent(AgentState::Error.into());
        (is_error || self.is_limited()) && self.asks.is_some()
    }
}
