//! The job in a shell's row: its beginning and end, and when it is the program of the row.

use std::time::Duration;

use super::row::{LONG_MICROS, Row};
use super::state::RowState;
use crate::agent::{KnownAgent, failure_in_words};
use crate::event::{AgentState, StateEvidence, StateSource};
use crate::timestamp::Timestamp;

/// The time after which a job in a shell is the program of its row: the short commands of a loop are not. `while true;
/// do make; sleep 1; done` changed the program 22 times in 11 s.
const JOB_NAMED_AFTER: Duration = Duration::from_secs(3);

/// The time after the end of a job in which its last lines are still read.
const LAST_WORDS_TIME: Duration = Duration::from_secs(1);

/// The time before the report of a job in which it may have printed its first lines: it is reported when it is 0.5 s old,
/// and later on a busy machine.
const FIRST_WORDS_TIME: Duration = Duration::from_secs(1);

/// The exit status of a program that `kill` has ended: 128 and SIGTERM.
const KILLED: i32 = 128 + 15;

/// Returns true if a job that has run so long is the program of its row.
pub(super) fn is_job_named(millis: u64) -> bool {
    u128::from(millis) >= JOB_NAMED_AFTER.as_millis()
}

impl Row {
    /// A job begins in the pane's shell.
    pub(super) fn begin_job(&mut self, is_script: bool, at: Timestamp) {
        (self.runs_script, self.exit_status) = (is_script, None);
        let before = &mut self.last_observed;
        before.take_if(|before| before.state == RowState::Failed);
        let is_idle = self.is_idle();
        let works_again = std::mem::take(&mut self.works_again) && !is_script;
        let has_failed = self.state == RowState::Failed;
        if has_failed || self.stopped_job.is_some() {
            // The row has the name of another job.
            self.set_agent("shell".to_owned());
        }
        if !self.is_agents() {
            // What was printed before is the line of another job.
            let printed = self.printed.clone();
            let own = printed.filter(|(_, printed)| at <= printed.after(FIRST_WORDS_TIME));
            self.last_line = own.map(|(line, _)| line).unwrap_or_default();
        }
        if has_failed || is_script && is_idle {
            self.set_question(None, None, None);
            // A script has no state of its own until it asks: at its end, a wait for the prompt goes by that.
            self.enter(RowState::Running, at);
            if works_again {
                self.evidence = Some(StateEvidence::Inferred.into());
                self.source = Some(StateSource::Screen.into());
                self.enter(RowState::Agent(AgentState::Working.into()), at);
            }
        }
    }

    /// The job in the pane's shell ends well. Its prompt was there before, or is not recognised.
    pub(super) fn end_job(&mut self, at: Timestamp) {
        self.earlier = None;
        if self.state == RowState::Running || self.is_unknown() {
            self.enter(RowState::Agent(AgentState::Idle.into()), at);
        }
    }

    /// The job in the pane's shell fails. It needs the user if it ran so long that he may have looked away; the job's
    /// last line stays.
    pub(super) fn fail_job(&mut self, program: &str, status: i32, millis: u64, at: Timestamp) {
        self.enter(RowState::Failed, at);
        self.failed_after = self.job_ended.or(self.began);
        self.exit_status = Some(status);
        self.evidence = None;
        let is_long = i64::try_from(millis).is_ok_and(|millis| millis >= LONG_MICROS / 1_000);
        let words = is_long.then(|| failure_in_words(program, status));
        self.set_question(words, None, None);
    }

    /// Takes a line that was printed.
    pub(super) fn print(&mut self, line: String, at: Timestamp) {
        if !self.has_last_words(at) {
            self.last_line.clone_from(&line);
        }
        self.printed = Some((line, at));
    }

    /// Returns true if what is printed now is not the last line of a job that has failed: it is known, or too long ago.
    fn has_last_words(&self, at: Timestamp) -> bool {
        let is_late = at > self.since.after(LAST_WORDS_TIME);
        self.state == RowState::Failed && (is_late || self.failed_after.is_none())
    }

    /// Makes the job the program of the row. What the shell has printed is nothing that an agent has said.
    pub(super) fn name_job(&mut self) {
        let name = self.job.as_ref().map(|(name, _)| name.clone());
        let agent = name.as_deref().and_then(KnownAgent::named);
        if agent.is_some() && self.agent != name {
            self.last_line.clear();
        }
        self.agent = name;
    }

    /// An agent begins, which has no state before it shows its screen, and has said nothing. One that goes on under another
    /// observer has.
    pub(super) fn begin_agent(&mut self, at: Timestamp) {
        self.set_question(None, None, None);
        if self.last_observed.is_none() && self.earlier.is_none() {
            self.forget_words();
        }
        (self.evidence, self.source) = (Some(StateEvidence::Inferred.into()), None);
        self.enter(RowState::Agent(AgentState::Unknown.into()), at);
    }

    /// The shell has its terminal back because a job is stopped, which the row names: the one that has just run, else
    /// the last one. The prompt is the shell's.
    pub(super) fn stop_job(&mut self) {
        self.runs_script = false;
        let job = self.job.as_ref().map(|(name, _)| name.clone());
        self.stopped_job = job.or(self.stopped_job.take());
        if self.stopped_job.is_some() {
            self.agent.clone_from(&self.stopped_job);
        }
    }

    /// Makes the job the program of the row if it has run long enough, unless the shell reads commands beside it; returns
    /// true if the row has changed.
    pub(super) fn name_due_job(&mut self, now: Timestamp) -> bool {
        let job = self.job.as_ref();
        let is_due = job.is_some_and(|(_, began)| now >= began.after(JOB_NAMED_AFTER));
        let is_new = is_due && !self.is_behind_prompt() && !self.has_named_job();
        if is_new {
            self.name_job();
        }
        is_new
    }

    /// Returns true if the pane's shell reads commands beside its jobs, which are stopped or in the background.
    fn is_behind_prompt(&self) -> bool {
        let is_suspended = self.state == RowState::Agent(AgentState::Suspended.into());
        let is_idle = self.is_idle();
        let is_behind = match &self.job {
            Some((_, began)) => self.since > *began,
            None => is_suspended || self.agent.as_deref() == Some("shell"),
        };
        is_behind && (is_idle || is_suspended)
    }

    /// Returns true if the job that has ended with this status was behind the prompt: the user has ended it there, such
    /// as by `kill %1`, and knows of it.
    pub(super) fn is_ended_by_shell(&self, status: i32) -> bool {
        status == KILLED && self.is_behind_prompt()
    }

    /// Returns true if a job runs in the pane's shell, and is the program of the row.
    pub(super) fn has_named_job(&self) -> bool {
        let job = self.job.as_ref().map(|(name, _)| name);
        job.is_some() && job == self.agent.as_ref()
    }
}
