//! Observers in the background, for logs that are followed: a run that one of them leaves is continued by
//! the next one, unless its execution has ended.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::observer;
use super::output::print_message;
use crate::history::{RunDirectory, RunState};

/// The interval at which the observer that runs is looked up.
const INTERVAL: Duration = Duration::from_millis(250);

/// The time without an observer after which a line on standard error reports it.
const PATIENCE: Duration = Duration::from_secs(2);

/// The time in which an observer continues the runs of sessions that there still are.
const CONTINUES_WITHIN: Duration = Duration::from_secs(5);

/// The observers of a data directory, as they were seen.
pub(super) struct Observers {
    data: PathBuf,
    /// The processes of all.
    seen: BTreeSet<u32>,
    /// The process of the one that runs, and when it was first seen.
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

    /// Looks for the observer that runs, now and then. `is_waiting` if a run waits for one.
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
        // One that cannot be read is none.
        let known = observer::running(&self.data).ok().flatten();
        let pid = known.map(|known| known.pid);
        self.seen.extend(pid);
        if pid != self.running.map(|(pid, _)| pid) {
            self.running = pid.map(|pid| (pid, now));
        }
    }

    /// Returns true if a run that has no writer now was left by an observer, and the next one may continue
    /// it.
    pub fn may_continue(&self, run: &RunDirectory, now: Instant) -> bool {
        let Ok(Some(metadata)) = run.metadata() else {
            return false;
        };
        let is_left = matches!(metadata.state, RunState::Detached | RunState::Running);
        if !is_left || !self.seen.contains(&metadata.pid) {
            return false;
        }
        match self.running {
            // The observer that left it is about to end.
            Some((pid, _)) if pid == metadata.pid => true,
            Some((_, since)) => now.saturating_duration_since(since) < CONTINUES_WITHIN,
            None => true,
        }
    }
}
