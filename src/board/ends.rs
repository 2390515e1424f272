//! How panes end: so soon that it is no news, or with their agents killed.

use super::row::{ExecutionKind, Row, RowState};
use crate::agent::{KnownAgent, failure_in_words};
use crate::timestamp::Timestamp;
use crate::track::ProcessExit;

/// A pane that lived less than this time and ended well has no row, in microseconds.
const BRIEF_MICROS: i64 = 2_000_000;

impl Row {
    /// Returns true for a pane that ended well so soon that it is no news. It is no row of the board; it is kept for
    /// events that arrive after its end.
    pub(super) fn is_brief(&self) -> bool {
        self.kind == ExecutionKind::Pane
            && self.is_new
            && self.state == RowState::Exited
            && self.exit_status == Some(0)
            && self.lived().is_some_and(|micros| micros < BRIEF_MICROS)
    }

    /// Returns the microseconds from the beginning of an ended row to its end.
    pub(super) fn lived(&self) -> Option<i64> {
        let began = self.began?;
        Some(self.since.micros().saturating_sub(began.micros()))
    }

    /// Fails if this exit status is that of an agent that was killed, which needs the user, however short it lived. Its
    /// end may be known already.
    pub(super) fn fail_if_killed(&mut self, exit_status: Option<i32>, at: Timestamp) {
        let exit = ProcessExit {
            status: exit_status,
            signal: None,
        };
        let agent = self.agent.clone();
        let agent = agent.filter(|agent| KnownAgent::named(agent).is_some());
        if let (Some(agent), Some(status)) = (agent, exit_status.filter(|_| exit.is_killed()))
            && !self.has_ended()
            && self.state != RowState::Failed
        {
            self.fail(failure_in_words(&agent, status), status, at);
        }
    }
}
