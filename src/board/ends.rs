//! How panes end: so soon that it is no news, with their agents killed, or as an earlier observer has seen.

use super::row::{LastObserved, Row, is_failure};
use super::state::{ExecutionKind, RowState};
use crate::agent::{KnownAgent, failure_in_words};
use crate::timestamp::Timestamp;
use crate::track::ProcessExit;

/// A pane that lived less than this time has no row if it ended well, or if nobody knows how, in microseconds.
const BRIEF_MICROS: i64 = 2_000_000;

impl Row {
    /// Returns true for a pane that ended so soon that it is no news, and is not known to have failed: a busy machine may
    /// hide the status of a program that ends before the observer knows of it. An agent may have been killed then. The
    /// pane is no row of the board; it is kept for events that arrive after its end.
    pub(super) fn is_brief(&self) -> bool {
        self.kind == ExecutionKind::Pane
            && self.is_new
            && self.state == RowState::Exited
            && (self.exit_status == Some(0) || self.exit_status.is_none() && !self.is_agents())
            && self.lived().is_some_and(|micros| micros < BRIEF_MICROS)
    }

    /// Returns true if the row's program is a known agent.
    pub(super) fn is_agents(&self) -> bool {
        let agent = self.agent.as_deref();
        agent.and_then(KnownAgent::named).is_some()
    }

    /// Returns true if an ended row is known to have lasted for a time in which its user may have looked away.
    #[cfg(feature = "notify")]
    pub(crate) fn has_lived_long(&self) -> bool {
        self.lived()
            .is_some_and(|micros| micros >= super::row::LONG_MICROS)
    }

    /// Returns the microseconds from the beginning of an ended row to its end.
    pub(super) fn lived(&self) -> Option<i64> {
        let began = self.began?;
        Some(self.since.micros().saturating_sub(began.micros()))
    }

    /// Returns true if an agent was in the pane when the last observer ended, and the pane is not read yet. What is
    /// reported as printed since is the agent's screen, of which no observer keeps lines.
    pub(super) fn resumes_agent(&self) -> bool {
        let before = self.last_observed.as_ref();
        let agent = before.and_then(|before| before.agent.as_deref());
        agent.is_some_and(|agent| KnownAgent::named(agent).is_some())
    }

    /// Fails as before the last observer ended, if what failed then is still news; returns true if so.
    pub(super) fn fail_again(&mut self) -> bool {
        self.restore_if(|before| before.state == RowState::Failed && !before.ended)
    }

    /// Ends as before the last observer ended, which tmux keeps the pane of; returns true if so.
    pub(super) fn end_again(&mut self, exit_status: Option<i32>) -> bool {
        self.restore_if(|before| before.ended && before.exit_status == exit_status)
    }

    /// Restores what the last observer knew, if it is still so.
    fn restore_if(&mut self, is_still: impl FnOnce(&LastObserved) -> bool) -> bool {
        let before = self.last_observed.take_if(|before| is_still(before));
        let Some(before) = before else {
            return false;
        };
        self.set_question(before.asks, None, None);
        (self.evidence, self.source) = (None, None);
        self.enter(before.state, before.since);
        (self.agent, self.exit_status) = (before.agent, before.exit_status);
        (self.since, self.seen) = (before.since, before.seen);
        (self.began, self.dismissed, self.ended) = (before.began, before.dismissed, before.ended);
        true
    }

    /// Ends with the pane's own program, unless that end is known since before the observer began.
    pub(super) fn end_program(&mut self, exit_status: Option<i32>, at: Timestamp) {
        if !self.end_again(exit_status) {
            self.fail_if_killed(exit_status, at);
            self.end(exit_status, at);
            if exit_status.is_some_and(is_failure) {
                self.job_ended = Some(at);
            }
        }
    }

    /// Returns true if the last line has the words of a failure that needs the user.
    pub(super) fn says_failure(&self) -> bool {
        self.state == RowState::Failed && self.asks.is_some()
    }

    /// Fails because the agent was killed, which needs the user.
    pub(super) fn fail(&mut self, words: String, exit_status: i32, at: Timestamp) {
        self.enter(RowState::Failed, at);
        self.exit_status = Some(exit_status);
        self.evidence = None;
        self.last_line.clone_from(&words);
        self.set_question(Some(words), None, None);
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
