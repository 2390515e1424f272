//! Tracks the background observers for followed logs: when an observer leaves a run, the next one continues it
//! unless its execution has ended.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::observer;
use super::output::print_message;
use crate::history::{RunDirectory, RunState};

/// The interval at which the running observer is checked.
const INTERVAL: Duration = Duration::from_millis(250);

/// The time without an observer after which a line on standard error reports it.
const PATIENCE: Duration = Duration::from_secs(2);

/// The time within which a new observer continues the runs of existing sessions.
const CONTINUES_WITHIN: Duration = Duration::from_secs(5);

/// The known observers of a data directory.
pub(super) struct Observers {
    data: PathBuf,
    /// The pids of all observers so far.
    seen: BTreeSet<u32>,
    /// The pid of the running observer, and the time of its detection.
    running: Option<(u32, Instant)>,
    checked_at: Option<Instant>,
    /// The time since which a run waits for the next observer.
    waiting_since: Option<Instant>,
    has_reported: bool,
}

impl Observers {
    pub fn of(data: PathBuf) -> Self {
        Self {
            data,
            seen: BTreeSet::new(),
            running: None,
            checked_at: None,
            waiting_since: None,
            has_reported: false,
        }
    }

    /// Checks for a running observer at most every [`INTERVAL`]. `is_waiting` states that a run waits for one.
    pub fn check(&mut self, is_waiting: bool, now: Instant) {
        let since = |at: Instant| now.saturating_duration_since(at);
        match (is_waiting, self.waiting_since) {
            (true, None) => self.waiting_since = Some(now),
            (true, Some(at)) if since(at) >= PATIENCE && !self.has_reported => {
                self.has_reported = true;
                print_message("the observer has ended; waiting for another one (td-observe start)");
            }
            (true, Some(_)) => {}
            (false, _) => {
                self.waiting_since = None;
                if std::mem::take(&mut self.has_reported) {
                    print_message("an observer runs again");
                }
            }
        }
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
