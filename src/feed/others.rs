//! Runs that other processes write into the data directory: commands, loops, agents, and sessions of tmux
//! servers that this observer does not observe. Reads their events from their logs into the feed.
//!
//! `td-others` waits for changes in the data directory, reads appended events and passes them to the feed. It
//! ends when its handle is stopped or dropped.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::logs::{LogItem, RunLogs};
use super::memory::Feed;
use super::survivors::Survivors;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::{ExecutionId, LogGapRange};
use crate::history::{
    Change, DataDir, Query, RunChanges, RunDirectory, RunMetadata, RunState, host,
};
use crate::process::stat;
use crate::thread::{self, Handle, Panicked};
use crate::timestamp::Timestamp;

/// The most runs that are followed at the same time, because each one takes two descriptors.
const FOLLOWED_MAX: usize = 128;

/// The most runs of other hosts that are followed at the same time, by a process that has nothing else open.
#[cfg(feature = "redis")]
const COPIES_MAX: usize = 4096;

/// The most runs that wait for a followed one to end. Further runs are found by a later scan.
const WAITING_MAX: usize = 10_000;

/// The most events that are read before notifications are handled.
const BATCH_MAX: usize = 1024;

/// The time in which notifications of changes are collected.
const COLLECT_PAUSE: Duration = Duration::from_millis(20);

/// The interval at which followed runs are read without a notification, because some file systems send none.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// The interval at which the writers of followed runs are looked at: the board shows within half a second that one is
/// suspended.
const WRITERS_INTERVAL: Duration = Duration::from_millis(400);

/// The interval of scans of all runs, with and without notifications of changes.
const SCAN_INTERVAL: Duration = Duration::from_secs(30);
const SCAN_INTERVAL_UNREPORTED: Duration = Duration::from_millis(250);

/// Scans take at most this fraction of the time: one part in 200.
const SCAN_SHARE: u32 = 200;

/// The handle of the thread.
#[derive(Debug)]
pub(crate) struct Others {
    thread: Handle<()>,
    wake: UnixStream,
}

impl Others {
    /// Starts the thread. `servers` are the sockets of the tmux servers whose sessions the observer itself
    /// observes.
    pub fn start(feed: Feed, servers: &[PathBuf]) -> Result<Self> {
        Self::start_with(feed, servers, (FOLLOWED_MAX, false))
    }

    /// Starts the thread for copies of runs of other hosts.
    #[cfg(feature = "redis")]
    pub fn start_for_copies(feed: Feed) -> Result<Self> {
        Self::start_with(feed, &[], (COPIES_MAX, true))
    }

    fn start_with(
        feed: Feed,
        servers: &[PathBuf],
        (followed_max, are_copies): (usize, bool),
    ) -> Result<Self> {
        let (wake, woken) = UnixStream::pair()
            .map_err(|cause| Error::other("cannot follow other processes").because(cause))?;
        let mut follower = OthersFollower {
            changes: RunChanges::of(feed.data()),
            data: feed.data().clone(),
            servers: servers.iter().map(|socket| real(socket)).collect(),
            host: host(),
            logs: RunLogs::following(Query::all(), feed.clock()),
            followed: BTreeMap::new(),
            waiting: BTreeMap::new(),
            is_full: false,
            followed_max,
            are_copies,
            writers_at: feed.clock().now(),
            clock: feed.clock().clone(),
            feed,
        };
        let thread = thread::spawn("td-others", move || follower.run(&woken))?;
        Ok(Self { thread, wake })
    }

    /// Ends the thread.
    pub fn stop(self) -> Result<(), Panicked> {
        drop(self.wake);
        self.thread.join()
    }
}

struct OthersFollower {
    changes: RunChanges,
    feed: Feed,
    data: DataDir,
    servers: Vec<PathBuf>,
    host: String,
    logs: RunLogs,
    followed: BTreeMap<ExecutionId, FollowedRun>,
    waiting: BTreeMap<ExecutionId, RunDirectory>,
    /// The most runs that are followed at the same time.
    followed_max: usize,
    /// The runs are copies of other hosts' runs.
    are_copies: bool,
    /// The user was warned that runs are waiting.
    is_full: bool,
    /// When the writers are looked at next.
    writers_at: Instant,
    clock: Clock,
}

/// A run of another process.
struct FollowedRun {
    run: RunDirectory,
    /// The number and time of the last event that was read.
    seq: u64,
    last: Timestamp,
    /// The process that writes it, if it is of this host.
    writer: Option<u32>,
}

/// Returns true if the process is stopped, as by Ctrl-Z.
pub(super) fn is_stopped(pid: u32) -> bool {
    stat(pid).is_some_and(|process| process.is_stopped)
}

impl OthersFollower {
    fn run(&mut self, woken: &UnixStream) {
        // Follow the runs that were active when the board was built, even if they have ended since.
        for row in self.feed.rows() {
            if !row.has_ended() {
                self.follow(self.data.run(&row.execution_id));
            }
        }
        let mut scan_at = self.scan();
        let mut is_collecting = false;
        loop {
            let is_behind = self.read_all();
            if std::mem::take(&mut is_collecting) && !is_behind {
                thread::park(Some(COLLECT_PAUSE));
            }
            let now = self.clock.now();
            if now >= self.writers_at {
                self.look_at_writers();
                self.writers_at = now + WRITERS_INTERVAL;
            }
            let until = if self.followed.is_empty() {
                scan_at
            } else {
                scan_at.min(now + READ_INTERVAL).min(self.writers_at)
            };
            let timeout = if is_behind {
                Duration::ZERO
            } else {
                until.saturating_duration_since(now)
            };
            match self.changes.wait(woken, timeout) {
                Change::Stop => return,
                Change::Runs(runs) => {
                    runs.into_iter().for_each(|run| self.follow(run));
                    // Collect notifications that follow shortly.
                    is_collecting = true;
                }
                Change::Any => scan_at = self.clock.now(),
                Change::Nothing => {}
            }
            if self.clock.now() >= scan_at {
                scan_at = self.scan();
            }
        }
    }

    /// Searches for runs that are being written; returns the time of the next scan.
    fn scan(&mut self) -> Instant {
        let began = self.clock.now();
        match self.data.run_directories() {
            Ok(runs) => {
                for run in runs {
                    let is_known = self.followed.contains_key(run.execution_id());
                    if !is_known && run.is_written().unwrap_or(false) {
                        self.follow(run);
                    }
                }
            }
            Err(error) => log::debug!("{error:?}"),
        }
        let now = self.clock.now();
        let interval = if self.changes.are_reported() {
            SCAN_INTERVAL
        } else {
            SCAN_INTERVAL_UNREPORTED
        };
        now + interval.max(now.saturating_duration_since(began) * SCAN_SHARE)
    }

    /// Begins to follow a run, if another process writes it.
    fn follow(&mut self, run: RunDirectory) {
        let id = run.execution_id();
        if self.followed.contains_key(id) {
            return;
        }
        // Without metadata, the run is not open yet, or the directory is not a run.
        let Ok(Some(metadata)) = run.metadata() else {
            return;
        };
        if self.is_own(&metadata) {
            return;
        }
        if self.followed.len() >= self.followed_max {
            if !std::mem::replace(&mut self.is_full, true) {
                log::warn!(
                    "{} runs of other processes are on the board; others come when these have ended",
                    self.followed_max
                );
            }
            if self.waiting.len() < WAITING_MAX {
                self.waiting.insert(id.clone(), run);
            }
            return;
        }
        // Watch before reading, so that no change is missed.
        self.changes.watch(&run);
        let seq = self.feed.begin_other(id);
        let followed = FollowedRun {
            run: run.clone(),
            seq,
            last: metadata.updated,
            writer: Some(metadata.pid).filter(|_| metadata.host == self.host),
        };
        self.followed.insert(id.clone(), followed);
        self.logs.follow([(run, seq)]);
    }

    /// Returns true for a run that this observer writes, or of a tmux server that it observes.
    fn is_own(&self, metadata: &RunMetadata) -> bool {
        let is_writer = metadata.pid == std::process::id() && metadata.host == self.host;
        let is_observed = || {
            let identity = metadata.identity.as_ref();
            identity.is_some_and(|server| self.servers.contains(&real(Path::new(&server.socket))))
        };
        is_writer || is_observed()
    }

    /// Reports the runs whose writers are suspended, or go on.
    fn look_at_writers(&mut self) {
        let wall = self.clock.wall();
        for (id, known) in &self.followed {
            if let Some(writer) = known.writer {
                self.feed.set_suspended(id, is_stopped(writer), wall);
            }
        }
    }

    /// Reads appended events of all runs; returns true if more may follow.
    fn read_all(&mut self) -> bool {
        let mut events = Vec::new();
        let mut ended = Vec::new();
        self.logs.poll();
        while events.len() < BATCH_MAX {
            match self.logs.next(Some(self.clock.now())) {
                LogItem::Event(run, record) => {
                    let envelope = record.envelope;
                    let known = self.followed.get_mut(&run);
                    // Skip headers, lines of older logs, events that the feed has, and events of other
                    // executions, because they would get wrong numbers.
                    if let (Some(known), Some(numbers)) = (known, LogGapRange::of(&envelope))
                        && numbers.last > known.seq
                        && envelope.event.execution_id() == run.as_str()
                    {
                        (known.seq, known.last) = (numbers.last, numbers.ts);
                        events.push(envelope);
                    }
                }
                LogItem::Ended(log) => ended.push(log.run),
                LogItem::Failed(run, error) => {
                    // A later scan finds it again if it is being written.
                    log::warn!("{error:?}");
                    self.leave(run.execution_id());
                }
                LogItem::Timeout | LogItem::End => break,
                LogItem::Opened(_) | LogItem::Missed(_) => {}
            }
        }
        let mut is_behind = events.len() == BATCH_MAX;
        for id in self.feed.take_others(events) {
            self.leave(&id);
        }
        for run in ended {
            if let Some(known) = self.leave(run.execution_id()) {
                // The exit status is unknown if the metadata have none.
                let metadata = run.metadata().ok().flatten();
                if self.are_copies && metadata.as_ref().is_some_and(RunMetadata::is_open_copy) {
                    continue;
                }
                let exit_status = metadata.as_ref().and_then(|metadata| metadata.exit_status);
                // The writer has not recorded its end.
                let is_cut_off = metadata
                    .as_ref()
                    .is_some_and(|metadata| metadata.state == RunState::Running);
                let mut survivors = Survivors::new(self.clock.clone());
                let survivors = survivors.of(metadata.as_ref());
                let id = run.execution_id();
                (self.feed).end_other(id, exit_status, is_cut_off, known.last, |row| {
                    survivors.fate(row)
                });
            }
        }
        while self.followed.len() < self.followed_max
            && let Some((_, run)) = self.waiting.pop_first()
        {
            is_behind = true;
            self.follow(run);
        }
        is_behind
    }

    /// No longer follows a run.
    fn leave(&mut self, id: &ExecutionId) -> Option<FollowedRun> {
        self.logs.leave(id);
        let known = self.followed.remove(id)?;
        self.changes.unwatch(&known.run);
        Some(known)
    }
}

/// Returns the path without symbolic links, as far as it exists.
pub(crate) fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
