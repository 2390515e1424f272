//! Tracks the background observers for followed logs: when an observer leaves a run, the next one continues it
//! unless its execution has ended.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::observer;
use crate::history::{RunDirectory, RunState};

/// The interval at which the running observer is checked.
const INTERVAL: Duration = Duration::from_millis(250);

/// The time without an observer after which a message reports it.
const ABSENCE_MAX: Duration = Duration::from_secs(2);

/// The time within which a new observer continues the runs of existing sessions.
const CONTINUES_WITHIN: Duration = Duration::from_secs(5);

/// The known observers of a data directory.
#[derive(Default)]
pub(super) struct Observers {
    data: PathBuf,
    /// The pids of all observers so far.
    seen: BTreeSet<u32>,
    /// The pid of the running observer, and the time of its detection.
    running: Option<(u32, Instant)>,
    checked_at: Option<Instant>,
    absence: Absence,
}

impl Observers {
    pub fn of(data: PathBuf) -> Self {
        Self {
            data,
            ..Self::default()
        }
    }

    /// Checks for a running observer at most every [`INTERVAL`]. `is_waiting` states that a run waits for one.
    pub fn check(&mut self, is_waiting: bool, now: Instant) {
        match is_waiting {
            true => self.absence.begin(now),
            false => self.absence.end(),
        }
        let since = |at: Instant| now.saturating_duration_since(at);
        if self.checked_at.is_some_and(|at| since(at) < INTERVAL) {
            return;
        }
        self.checked_at = Some(now);
        // An unreadable announcement counts as no observer.
        let known = observer::running(&self.data).ok().flatten();
        let pid = known.map(|known| known.pid);
        self.seen.extend(pid);
        if pid != self.running.map(|(pid, _)| pid) {
            self.running = pid.map(|pid| (pid, now));
        }
    }

    /// Returns true if an observer has left a run without a writer, and the next one may continue it.
    pub fn may_continue(&self, run: &RunDirectory, now: Instant) -> bool {
        let Ok(Some(metadata)) = run.metadata() else {
            return false;
        };
        let is_left = matches!(metadata.state, RunState::Detached | RunState::Running);
        if !is_left || !self.seen.contains(&metadata.pid) {
            return false;
        }
        match self.running {
            // The observer that left the run is about to end.
            Some((pid, _)) if pid == metadata.pid => true,
            Some((_, since)) => now.saturating_duration_since(since) < CONTINUES_WITHIN,
            None => true,
        }
    }
}

/// Reports on standard error that no observer runs, and that one runs again.
#[derive(Default)]
pub(super) struct Absence {
    since: Option<Instant>,
    has_reported: bool,
}

impl Absence {
    /// Records that no observer runs.
    pub fn begin(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= ABSENCE_MAX && !self.has_reported {
            self.has_reported = true;
            message!("the observer has ended; waiting for another one (td-observe start)");
        }
    }

    /// Records that an observer runs.
    pub fn end(&mut self) {
        self.since = None;
        if std::mem::take(&mut self.has_reported) {
            message!("an observer runs again");
        }
    }
}
