//! The writer of all runs: takes batches of events and writes each run's events together.
//!
//! It runs on its caller's thread, takes `now` as an argument and returns deadlines. It never fails, and
//! waits only for the disk itself and for [`SyncPolicy::Always`].

use std::convert::Infallible;
use std::fmt;
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Map, Value};

use crate::clock::Clock;
use crate::error::Result;
use crate::event::{Envelope, ExecutionId, LogGapRange, TdEvent};
use crate::history::active_run::{ActiveRun, RETRY_INTERVAL, WriterContext};
use crate::history::background::{
    Chore, Chores, ClosingRun, LogNotice, LogNoticeKind, LogReport, LostRun, SyncJob, SyncPolicy,
    Syncer,
};
use crate::history::dir::{DataDir, RunDirectory};
use crate::history::line::LineWriter;
use crate::history::metadata::{RunState, host};
use crate::history::open_run::OpenRun;
use crate::history::rotate::Rotation;
use crate::history::runs::Retention;

/// The maximum number of open event files; see the budget in the module's documentation.
pub const FILES_MAX: usize = 96;
/// The minimum interval between prunings, which read the metadata of all runs. Opening a run starts one.
const PRUNE_INTERVAL: Duration = Duration::from_secs(3600);
/// The time for which shutdown waits for a disk.
const END_WAIT: Duration = Duration::from_secs(5);

/// Configures a [`LogWriter`].
#[derive(Clone, Debug, Default)]
pub struct LogOptions {
    /// The time until lines survive a power cut; defaults to one second.
    pub sync: SyncPolicy,
    /// The limits at which a log continues in a new file.
    pub rotation: Rotation,
    /// The amount of history to keep in addition to open runs. Applied when runs are opened and when a log
    /// continues in a new file.
    pub retention: Retention,
}

/// What the report will name.
#[derive(Default)]
struct Losses {
    lost: Vec<LostRun>,
    unlogged: Vec<LostRun>,
    not_kept: u64,
}

impl Losses {
    fn add(&mut self, lost: Option<LostRun>) {
        if let Some(lost) = lost {
            self.not_kept += add_lost(&mut self.lost, lost);
        }
    }

    fn add_unlogged(&mut self, lost: LostRun) {
        self.not_kept += add_lost(&mut self.unlogged, lost);
    }
}

/// Adds what a run lacks; returns the number of its events if there are too many runs.
fn add_lost(runs: &mut Vec<LostRun>, lost: LostRun) -> u64 {
    // The number of runs that a report names; further ones add only to its count.
    const LOST_RUNS_MAX: usize = 1000;
    let is_same = |run: &&mut LostRun| run.execution_id == lost.execution_id;
    if lost.events == 0 {
        return 0;
    }
    if let Some(run) = runs.iter_mut().find(is_same) {
        run.merge(&lost);
    } else if runs.len() < LOST_RUNS_MAX {
        runs.push(lost);
    } else {
        return lost.events;
    }
    0
}

/// Writes the events of all open runs unchanged. The bus has already redacted secrets
/// ([`BusOptions::redact`](crate::BusOptions::redact)).
///
/// ```
/// use td_observe::history::{DataDir, RunInfo};
/// use td_observe::internals::history::{LogOptions, LogWriter, open_run, read_tail};
/// use td_observe::{Clock, Envelope, TdEvent};
///
/// let temp = tempfile::tempdir().unwrap();
/// let clock = Clock::system();
/// let run = DataDir::new(temp.path()).run(&"job".into());
/// let mut log = LogWriter::start(LogOptions::default(), clock.clone())?;
/// log.attach(open_run(&run, RunInfo::default(), clock.wall())?, clock.now());
/// let event = TdEvent::IterationStarted { execution_id: "job".into(), iteration: 1 };
/// log.append(&[Envelope::new(Some(1), clock.wall(), event)], clock.now());
/// assert!(log.finish(clock.now()).lost.is_empty());
/// assert_eq!(read_tail(&run.events_path(), 1024)?.len(), 1);
/// # Ok::<(), td_observe::Error>(())
/// ```
#[must_use = "a writer that is not finished loses its pending events"]
pub struct LogWriter {
    runs: FxHashMap<ExecutionId, ActiveRun>,
    context: WriterContext,
    policy: SyncPolicy,
    sync_at: Option<Instant>,
    syncer: Syncer,
    chores: Chores,
    retention: Retention,
    /// The time of the last pruning.
    pruned_at: Option<Instant>,
    /// Ended runs for which `td-sync` had no room; at most as many as can be open.
    closing: Vec<ClosingRun>,
    unknown_executions: FxHashSet<ExecutionId>,
    /// Executions that are observed without a log until a run for them is attached or closed. Their events are
    /// only counted.
    unlogged: FxHashMap<ExecutionId, LostRun>,
    /// What the closed runs lack.
    losses: Losses,
    /// True if a run fails to write or waits for `td-sync` to close it. Checking all runs in every tick would
    /// make each batch more expensive with the number of open runs.
    needs_retry: bool,
    /// Counts uses of runs, to find the least recently used one.
    uses: u64,
}

impl fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogWriter")
            .field("runs", &self.runs.len())
            .finish_non_exhaustive()
    }
}

impl LogWriter {
    /// Creates a writer without runs.
    ///
    /// # Errors
    /// If the threads `td-sync` and `td-chores` cannot be started.
    pub fn start(options: LogOptions, clock: Clock) -> Result<Self> {
        Ok(Self {
            runs: FxHashMap::default(),
            context: WriterContext {
                writer: LineWriter::default(),
                reading: clock.reading(),
                clock,
                host: host(),
                pending_bytes: 0,
                bytes_written: 0,
                notices: Vec::new(),
                rotation: options.rotation,
            },
            policy: options.sync,
            sync_at: None,
            syncer: Syncer::start()?,
            chores: Chores::start()?,
            retention: options.retention,
            pruned_at: None,
            closing: Vec::new(),
            unknown_executions: FxHashSet::default(),
            unlogged: FxHashMap::default(),
            losses: Losses::default(),
            needs_retry: false,
            uses: 0,
        })
    }

    /// Adds a run and writes its header line. From now on, its events are written.
    pub fn attach(&mut self, run: OpenRun, now: Instant) {
        self.context.reading = self.context.clock.reading();
        let latest = run.latest;
        let run = ActiveRun::new(run, &self.context);
        // The run was opened before, after its last event.
        if self.context.reading.wall < latest {
            run.report_set_back(&mut self.context, latest);
        }
        let id = run.id().clone();
        self.unknown_executions.remove(&id);
        self.close_unlogged(&id);
        self.make_room_for_a_file();
        // Compresses files that an earlier writer left uncompressed.
        self.chores.offer(Chore::Compress(run.directory.clone()));
        let is_due = |at: Instant| now >= at + PRUNE_INTERVAL;
        if self.pruned_at.is_none_or(is_due) {
            self.prune(run.directory.data().clone(), now);
        }
        // The run's lock excludes another run of the same name.
        self.runs.insert(id.clone(), run);
        self.flush(&id, now);
        self.sync_written(std::slice::from_ref(&id), now);
    }

    /// Returns `true` if this writer has an open run for the execution.
    #[cfg(feature = "internals")]
    pub fn is_attached(&self, execution_id: &str) -> bool {
        self.runs.contains_key(execution_id)
    }

    /// Retries failed writes and syncs that are due. Returns when to call next; additional calls are
    /// harmless.
    pub fn tick(&mut self, now: Instant) -> Option<Instant> {
        let retry_at = if self.needs_retry {
            self.retry(now)
        } else {
            None
        };
        if self.sync_at.is_some_and(|at| at <= now) {
            self.sync_at = None;
            self.sync_dirty(now);
        }
        let close_at = (!self.closing.is_empty()).then(|| now + RETRY_INTERVAL);
        [retry_at, close_at, self.sync_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns the notices since the last call, to print and to emit as events.
    pub fn take_notices(&mut self) -> Vec<LogNotice> {
        for notice in self.syncer.problems.try_iter() {
            // Reported once per run, because a disk that cannot sync fails every second.
            let is_reported = self
                .runs
                .get_mut(&notice.execution_id)
                .is_some_and(|run| std::mem::replace(&mut run.reported.sync_failure, true));
            if !is_reported {
                self.context
                    .notify(&notice.execution_id, notice.kind, notice.message);
            }
        }
        std::mem::take(&mut self.context.notices)
    }

    /// Writes and syncs everything that is pending, closes all runs and ends the threads. Runs that were not
    /// closed are marked as detached. Waits at most five seconds for a disk that does not respond.
    pub fn finish(mut self, now: Instant) -> LogReport {
        let ids: Vec<_> = self.runs.keys().cloned().collect();
        // The runs whose files are compressed.
        let mut with_chores = Vec::new();
        let mut jobs: Vec<_> = self
            .closing
            .drain(..)
            .map(|closing| SyncJob::Close(Box::new(closing)))
            .collect();
        for id in ids {
            if let Some(failure) = self.runs.get_mut(&id).and_then(|run| run.failure.as_mut()) {
                failure.retry_at = now;
            }
            self.flush(&id, now);
            let Some(mut run) = self.runs.remove(&id) else {
                continue;
            };
            self.losses.add(run.take_lost());
            if !run.is_ending() {
                run.end(RunState::Detached, None);
            }
            if run.has_rotated() {
                with_chores.push(run.directory.clone());
            }
            let closing = run.into_closing(&self.context.clock, self.policy != SyncPolicy::Never);
            jobs.push(SyncJob::Close(Box::new(closing)));
        }
        let mut problems = self.take_notices();
        let (last_problems, all_done) = self.syncer.finish(jobs, now + END_WAIT);
        self.chores.finish(with_chores, now + END_WAIT);
        problems.extend(last_problems);
        if !all_done {
            let message =
                "the disk did not respond in time: the last lines may not be on it".to_owned();
            problems.push(LogNotice {
                execution_id: "".into(),
                kind: LogNoticeKind::NotSafe,
                message,
            });
        }
        for (_, lost) in std::mem::take(&mut self.unlogged) {
            self.losses.add_unlogged(lost);
        }
        LogReport {
            bytes_written: self.context.bytes_written,
            lost: self.losses.lost,
            unlogged: self.losses.unlogged,
            not_kept: self.losses.not_kept,
            problems,
        }
    }

    /// Retries failed writes and closes ended runs. Returns when the next retry is due.
    fn retry(&mut self, now: Instant) -> Option<Instant> {
        let is_due = |run: &&ActiveRun| run.retry_at().is_some_and(|at| at <= now);
        let due: Vec<_> = self
            .runs
            .values()
            .filter(is_due)
            .map(|run| run.id().clone())
            .collect();
        for id in &due {
            self.flush(id, now);
        }
        self.sync_written(&due, now);
        self.close_ended();
        let retry_at = self.runs.values().filter_map(ActiveRun::retry_at).min();
        // An ended run that still exists is also failing.
        self.needs_retry = retry_at.is_some() || !self.closing.is_empty();
        retry_at
    }

    fn flush(&mut self, id: &str, now: Instant) {
        let Some(mut run) = self.runs.get_mut(id) else {
            return;
        };
        if !run.is_due(now) {
            return;
        }
        if run.events.file.is_none() {
            self.make_room_for_a_file();
            let Some(again) = self.runs.get_mut(id) else {
                return;
            };
            run = again;
        }
        self.uses += 1;
        run.used_at = self.uses;
        run.flush(&mut self.context, now);
        self.needs_retry |= run.retry_at().is_some();
        if let Some(file) = run.closed.newest.take() {
            if self.policy != SyncPolicy::Never {
                // Without room in the queue, the compressed file is synced instead.
                self.syncer.offer_file(run.id(), file);
            }
            let directory = run.directory.clone();
            self.prune(directory.data().clone(), now);
            self.chores.offer(Chore::Compress(directory));
        }
    }

    /// Queues the removal of runs that are not retained, and the compression of what other writers have left.
    fn prune(&mut self, data: DataDir, now: Instant) {
        self.pruned_at = Some(now);
        let chore = Chore::Prune(data, self.retention, self.context.clock.wall());
        self.chores.offer(chore);
    }

    /// Closes the least recently used file if the limit is reached.
    fn make_room_for_a_file(&mut self) {
        let is_open = |run: &&mut ActiveRun| run.events.file.is_some();
        if self.runs.values_mut().filter(is_open).count() < FILES_MAX {
            return;
        }
        if let Some(run) = self
            .runs
            .values_mut()
            .filter(is_open)
            .min_by_key(|run| run.used_at)
            && let Some(file) = run.events.file.take()
            && run.unsynced.lines
            && self.policy != SyncPolicy::Never
        {
            // Without room in the queue, the run stays dirty, and its file is reopened to sync it.
            run.unsynced.lines = !self.syncer.offer_file(run.id(), file);
        }
    }

    /// Schedules syncs of these runs according to the policy.
    fn sync_written(&mut self, ids: &[ExecutionId], now: Instant) {
        match self.policy {
            SyncPolicy::Never => {}
            SyncPolicy::Interval(interval) => {
                let is_dirty = |run: &ActiveRun| run.unsynced.lines || run.unsynced.directory;
                if self.sync_at.is_none()
                    && ids.iter().filter_map(|id| self.runs.get(id)).any(is_dirty)
                {
                    self.sync_at = Some(now + interval);
                }
            }
            SyncPolicy::Always => {
                let mut files: Vec<(ExecutionId, Arc<File>)> = Vec::new();
                for id in ids {
                    if let Some(run) = self.runs.get_mut(id)
                        && std::mem::take(&mut run.unsynced.lines)
                        && let Some(file) = run.file_to_sync()
                    {
                        files.push((id.clone(), file));
                    }
                }
                if !files.is_empty() {
                    self.syncer.sync_now(files);
                }
                self.sync_dirty(now);
            }
        }
    }

    /// Queues everything that is not synced, as far as `td-sync` has room.
    fn sync_dirty(&mut self, now: Instant) {
        let mut full = false;
        for run in self.runs.values_mut() {
            if run.unsynced.directory {
                let job = SyncJob::Directory(run.directory.clone());
                run.unsynced.directory = self.syncer.offer(job).is_err();
            }
            if run.unsynced.lines {
                let file = run.file_to_sync();
                run.unsynced.lines =
                    file.is_some_and(|file| !self.syncer.offer_file(run.id(), file));
            }
            full |= run.unsynced.directory || run.unsynced.lines;
            full |= !run.queue_metadata(&self.syncer, &self.context.clock);
        }
        if full {
            self.sync_at = Some(now + RETRY_INTERVAL);
        }
    }

    /// Writes a batch, with one write for each run in it. Omits events without a number, which are only for
    /// viewers.
    pub fn append(&mut self, batch: &[Envelope], now: Instant) {
        // Later than the times of the events, so that no jump before one of them is missed.
        self.context.reading = self.context.clock.reading();
        let mut with_lines = Vec::new();
        let same_run =
            |a: &Envelope, b: &Envelope| a.event.execution_id() == b.event.execution_id();
        for group in batch.chunk_by(same_run) {
            let mut rest = group;
            while let Some(first) = rest.first() {
                let id = first.event.execution_id();
                let Some(run) = self.runs.get_mut(id) else {
                    self.count_unknown(rest);
                    break;
                };
                if !std::mem::replace(&mut run.has_batch_lines, true) {
                    with_lines.push(run.id().clone());
                }
                rest = run.push(&mut self.context, rest);
                if !rest.is_empty() {
                    self.flush(id, now);
                }
            }
        }
        for id in &with_lines {
            self.flush(id, now);
            if let Some(run) = self.runs.get_mut(id) {
                run.has_batch_lines = false;
                if !run.queue_metadata(&self.syncer, &self.context.clock) {
                    self.sync_at.get_or_insert(now);
                }
            }
        }
        self.sync_written(&with_lines, now);
    }

    /// Appends an event to the log alone, after the bus has assigned its last number.
    pub(crate) fn append_last(&mut self, event: TdEvent, now: Instant) {
        let run = self.runs.get(event.execution_id());
        // It would be one more event that is lost.
        if let Some(run) = run.filter(|run| run.failure.is_none()) {
            let (seq, ts) = (run.next_seq, self.context.clock.wall());
            self.append(&[Envelope::new(Some(seq), ts, event)], now);
        }
    }

    fn count_unknown(&mut self, group: &[Envelope]) {
        let Some(first) = group.first() else { return };
        let numbers = group.iter().filter_map(LogGapRange::of);
        if let Some(lost) = self.unlogged.get_mut(first.event.execution_id()) {
            numbers.for_each(|numbers| lost.add(numbers.first, numbers.last));
            return;
        }
        self.losses.not_kept += numbers.count() as u64;
        let id = first.event.execution_id();
        // The number of executions without an open run that are reported individually; further ones are only
        // counted.
        if self.unknown_executions.len() < 1024 && !self.unknown_executions.contains(id) {
            let id = ExecutionId::from(id);
            let message = format!(
                "the events of {:?} are not logged: it has no open run",
                &*id
            );
            self.context.notify(&id, LogNoticeKind::NotKept, message);
            self.unknown_executions.insert(id);
        }
    }

    /// Counts the events of an execution from now on without writing them.
    pub(crate) fn skip(&mut self, run: &RunDirectory, cause: String) {
        let id = run.execution_id().clone();
        let lost = LostRun::new(id.clone(), run.path().to_owned(), cause);
        self.unlogged.entry(id).or_insert(lost);
    }

    fn close_unlogged(&mut self, execution_id: &str) {
        if let Some(lost) = self.unlogged.remove(execution_id) {
            self.losses.add_unlogged(lost);
        }
    }

    /// Adds to the metadata of a run, replacing values with the same name.
    pub fn add_metadata(&mut self, execution_id: &str, extra: Map<String, Value>, now: Instant) {
        if let Some(run) = self.runs.get_mut(execution_id) {
            run.add_metadata(extra);
            if !run.queue_metadata(&self.syncer, &self.context.clock) {
                self.sync_at.get_or_insert(now);
            }
        }
    }

    /// Ends a run: writes its pending lines, then its metadata, then releases its lock. A run whose file
    /// cannot be written stays open until it can, or until the writer finishes. A skipped execution is
    /// forgotten.
    pub fn close_run(
        &mut self,
        execution_id: &str,
        state: RunState,
        exit_status: Option<i32>,
        now: Instant,
    ) {
        self.close_unlogged(execution_id);
        if let Some(run) = self.runs.get_mut(execution_id) {
            run.end(state, exit_status);
            self.flush(execution_id, now);
            self.close_ended();
            self.needs_retry = true;
        }
    }

    /// Drops `done` when the locks of all runs that were closed before are released, or at once if `td-sync` has no
    /// room.
    pub(crate) fn when_released(&self, done: Sender<Infallible>) {
        let _ = self.syncer.offer(SyncJob::Done(done));
    }

    /// Queues ended runs for `td-sync`, which writes their final metadata.
    fn close_ended(&mut self) {
        let sync = self.policy != SyncPolicy::Never;
        for (_, mut run) in self.runs.extract_if(|_, run| run.is_done()) {
            self.losses.add(run.take_lost());
            self.closing
                .push(run.into_closing(&self.context.clock, sync));
        }
        while let Some(closing) = self.closing.pop() {
            if let Err(job) = self.syncer.offer(SyncJob::Close(Box::new(closing))) {
                if let SyncJob::Close(closing) = job {
                    self.closing.push(*closing);
                }
                break;
            }
        }
    }
}
