//! `log --follow`: shows logs and everything that is appended to them, until their writers end. A run that a
//! background observer leaves is followed further when the next observer continues it, unless its execution has
//! ended.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crossbeam_channel::select_biased;

use super::history::{EarlyEnd, Which, report_failure};
use super::log_show::{Selection, Show};
use super::observer;
use crate::clock::Clock;
use crate::feed::{FOLLOW_INTERVAL, LogItem, RunLogs};
use crate::history::{DataDir, RunDirectory, RunState};
use crate::thread::{Stop, is_stopped};

/// The interval of the search for new runs.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);

/// Follows logs to their ends; returns true if a part cannot be read. `data` is the directory whose observer may
/// continue runs, and `later` selects the runs that begin later.
pub(super) fn follow(
    data: PathBuf,
    runs: Vec<RunDirectory>,
    later: Option<(DataDir, Selection)>,
    mut logs: RunLogs,
    show: &mut Show,
    clock: &Clock,
    stop: &Stop,
) -> Result<bool, EarlyEnd> {
    let mut observers = Observers::of(data);
    observers.check(false, clock.now());
    show.open_stream()?;
    let is_single = runs.len() == 1 && later.is_none();
    let mut known: HashSet<PathBuf> = runs.iter().map(|run| run.path().into()).collect();
    logs.follow(runs.into_iter().map(|run| (run, 0)));
    let (mut has_failed, mut has_left, mut is_first) = (false, false, true);
    let mut search_at = clock.now() + SEARCH_INTERVAL;
    while !is_stopped(stop) {
        let next = logs.next(Some(clock.now()));
        match next {
            LogItem::Opened(run) => show.begin(&Which::Run(run), stop)?,
            LogItem::Event(_, record) => show.record(&record)?,
            LogItem::Ended(log) if observers.may_continue(&log.run, clock.now()) => {
                has_left = true;
                logs.follow_on(*log);
            }
            LogItem::Ended(log) => {
                let state = log.run.metadata().ok().flatten().map(|known| known.state);
                if is_single && state == Some(RunState::Running) {
                    message!("the run is cut off here: its writer has died");
                }
                let which = Which::Run(log.run);
                has_failed |= show.end(&which, log.log.report());
            }
            LogItem::Failed(_, error) if is_single => return Err(error.into()),
            LogItem::Failed(run, error) => has_failed |= report_failure(&Which::Run(run), &error),
            LogItem::Missed(_) => {}
            LogItem::Timeout | LogItem::End => {
                observers.check(std::mem::take(&mut has_left), clock.now());
                if std::mem::take(&mut is_first) {
                    show.page().flushed()?.release()?;
                } else {
                    show.page().flush()?;
                }
                match &later {
                    None if matches!(next, LogItem::End) => break,
                    Some((data, selection)) if clock.now() >= search_at => {
                        search_at = clock.now() + SEARCH_INTERVAL;
                        let runs = selection.runs_in(data)?.into_iter();
                        let new = runs.filter(|run| known.insert(run.path().into()));
                        logs.follow(new.map(|run| (run, 0)));
                    }
                    _ => {}
                }
                select_biased! {
                    recv(stop) -> _ => break,
                    recv(clock.after(FOLLOW_INTERVAL)) -> _ => {}
                }
            }
        }
    }
    show.finish()?;
    Ok(has_failed)
}

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
