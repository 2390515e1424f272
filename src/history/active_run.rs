//! One run that is being written: writes its pending lines to the file, and handles changes to the file by
//! other programs.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use serde_json::{Map, Value};

use crate::clock::{Clock, WallReading};
use crate::error::{Error, Result};
use crate::event::{Envelope, ExecutionId, LogGapRange, TdEvent};
use crate::history::background::{ClosingRun, LogNotice, LogNoticeKind, LostRun, SyncJob, Syncer};
use crate::history::dir::{RunDirectory, RunLock};
use crate::history::dir_handle::{EVENTS, METADATA, close_newest};
use crate::history::events_file::{EventsFile, FileChange, PendingLimits, PendingLines};
use crate::history::line::{self, LineWriter};
use crate::history::metadata::{RunMetadata, RunState, SESSION};
use crate::history::open_run::OpenRun;
use crate::history::rotate::Rotation;
use crate::timestamp::Timestamp;

/// The pause after an error; frequent retries do not free space on a full disk.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// The interval at which the writer checks that the file is still at its path. A directory that is moved
/// takes its open files along, and only the path shows it.
const PLACE_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Text that may be pending while the file cannot be written: one minute of a pane that prints 1,000 lines
/// per second.
const RUN_TEXT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Text that may be pending in all runs together; a full disk usually affects all of them.
const TOTAL_TEXT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum number of notices that wait for the caller; a caller that takes none for so long does not need
/// more.
const NOTICES_MAX: usize = 1024;

/// State shared by all runs.
pub(super) struct WriterContext {
    pub(super) writer: LineWriter,
    pub(super) clock: Clock,
    /// The clock when the current events were taken.
    pub(super) reading: WallReading,
    pub(super) host: String,
    pub(super) pending_bytes: usize,
    pub(super) bytes_written: u64,
    pub(super) notices: Vec<LogNotice>,
    pub(super) rotation: Rotation,
}

impl WriterContext {
    pub(super) fn notify(
        &mut self,
        execution_id: &ExecutionId,
        kind: LogNoticeKind,
        message: String,
    ) {
        if self.notices.len() < NOTICES_MAX {
            self.notices.push(LogNotice {
                execution_id: execution_id.clone(),
                kind,
                message,
            });
        }
    }
}

/// Details of the current write failure.
#[derive(Debug)]
pub(super) struct WriteFailure {
    pub(super) retry_at: Instant,
    cause: String,
}

/// The data of a run that a power cut would lose.
#[derive(Debug)]
pub(super) struct Unsynced {
    pub(super) lines: bool,
    /// The names in the run's directory.
    pub(super) directory: bool,
    /// Data that the file of metadata lacks.
    metadata: bool,
}

/// The files that rotation has closed.
#[derive(Debug)]
pub(super) struct ClosedFiles {
    /// A number above those of all closed files. No number is used twice, whatever the directory contains.
    next: u32,
    /// True if a file was closed and the next one could not be created yet.
    is_between: bool,
    /// The last one, which must be synced and compressed.
    pub(super) newest: Option<Arc<File>>,
}

/// The problems of a run that have been reported, each once.
#[derive(Debug, Default)]
pub(super) struct Reported {
    pub(super) sync_failure: bool,
    rotation_failure: bool,
    /// The number of lost events when writing last worked again.
    lost: u64,
}

/// A run that is being written.
#[derive(Debug)]
pub(super) struct ActiveRun {
    pub(super) directory: RunDirectory,
    lock: RunLock,
    /// True if the space for the last metadata is reserved. No line is written before: if there is no room for the
    /// next one, nothing could record that it is missing.
    has_reserve: bool,
    /// Its descriptor may be closed; it is reopened when it is needed.
    pub(super) events: EventsFile,
    metadata: RunMetadata,
    pub(super) pending: PendingLines,
    /// The events that will not be in the log.
    lost: LostRun,
    pub(super) next_seq: u64,
    /// The clock at the last events.
    reading: WallReading,
    header_due: bool,
    pub(super) failure: Option<WriteFailure>,
    checked_at: Option<Instant>,
    pub(super) unsynced: Unsynced,
    pub(super) closed: ClosedFiles,
    pub(super) reported: Reported,
    /// True if the run has lines of the current batch.
    pub(super) has_batch_lines: bool,
    /// The writer's use count when this run was last used.
    pub(super) used_at: u64,
}

impl ActiveRun {
    pub(super) fn new(run: OpenRun, context: &WriterContext) -> Self {
        let mut pending = PendingLines::default();
        if let Some((first, last)) = run.missing {
            let ts = context.reading.wall;
            pending.add_missing(LogGapRange { first, last, ts });
        }
        let id = run.directory.execution_id().clone();
        let path = run.directory.path().to_owned();
        Self {
            lost: LostRun::new(id, path, String::new()),
            directory: run.directory,
            lock: run.lock,
            has_reserve: run.has_reserve,
            events: run.events,
            metadata: run.metadata,
            pending,
            next_seq: run.next_seq,
            reading: context.reading,
            header_due: true,
            failure: None,
            checked_at: None,
            unsynced: Unsynced {
                lines: false,
                directory: true,
                metadata: false,
            },
            closed: ClosedFiles {
                next: run.next_file,
                is_between: false,
                newest: None,
            },
            reported: Reported::default(),
            has_batch_lines: false,
            used_at: 0,
        }
    }

    pub(super) fn limits(&self, context: &WriterContext) -> PendingLimits {
        let own = self.pending.len();
        let left = |total: usize| (own + total).saturating_sub(context.pending_bytes);
        PendingLimits {
            text: RUN_TEXT_BYTES_MAX.min(left(TOTAL_TEXT_BYTES_MAX)),
            // Life-cycle events have additional room, in each run for about a thousand.
            lifecycle: (RUN_TEXT_BYTES_MAX + 256 * 1024)
                .min(left(TOTAL_TEXT_BYTES_MAX + 16 * 1024 * 1024)),
        }
    }

    /// Returns true if rotation has closed files, which must be compressed.
    pub(super) fn has_rotated(&self) -> bool {
        self.closed.next > 1
    }

    pub(super) fn id(&self) -> &ExecutionId {
        self.directory.execution_id()
    }

    /// Returns the time of the next retry; `None` while writing works.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.failure.as_ref().map(|failure| failure.retry_at)
    }

    /// Returns `true` if a flush has something to do.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        (self.header_due || !self.pending.is_empty()) && self.retry_at().is_none_or(|at| at <= now)
    }

    /// Writes pending lines if they are due. Never fails: lines that cannot be written stay pending.
    pub(super) fn flush(&mut self, context: &mut WriterContext, now: Instant) {
        if !self.is_due(now) {
            return;
        }
        let before = self.pending.len();
        let outcome = self.try_flush(context, now);
        self.account(context, before);
        let was_failing = self.failure.is_some();
        self.failure = outcome.err().map(|error| WriteFailure {
            retry_at: now + RETRY_INTERVAL,
            cause: format!("{error:?}"),
        });
        match &self.failure {
            None if was_failing => {
                let path = self.directory.path();
                let before = std::mem::replace(&mut self.reported.lost, self.lost.events);
                let missing = match self.lost.events - before {
                    0 => ", and nothing is missing".to_owned(),
                    1 => "; 1 event is missing in it".to_owned(),
                    lost => format!("; {lost} events are missing in it"),
                };
                let message = format!("the log {path:?} is written again{missing}");
                context.notify(
                    self.directory.execution_id(),
                    LogNoticeKind::Recovered,
                    message,
                );
            }
            Some(WriteFailure { cause, .. }) if !was_failing => {
                let message = format!("{cause}; events are kept in memory as far as there is room");
                context.notify(
                    self.directory.execution_id(),
                    LogNoticeKind::Failing,
                    message,
                );
                let limits = self.limits(context);
                let before = self.pending.len();
                let writer = &mut context.writer;
                self.pending.drop_excess(writer, &mut self.lost, limits);
                self.explain_loss(None);
                self.account(context, before);
            }
            _ => {}
        }
    }

    /// Updates the total of all runs after the pending lines changed.
    pub(super) fn account(&self, context: &mut WriterContext, before: usize) {
        let bytes = context.pending_bytes + self.pending.len();
        context.pending_bytes = bytes.saturating_sub(before);
    }

    fn try_flush(&mut self, context: &mut WriterContext, now: Instant) -> Result<()> {
        self.ensure_in_place(context, now)?;
        self.ensure_reserve(context)?;
        self.rotate_if_due(context);
        if std::mem::take(&mut self.header_due) {
            let first_seq = self.pending.first_seq().unwrap_or(self.next_seq);
            let by = (context.host.as_str(), std::process::id());
            let ts = context.clock.wall();
            let header = line::header(self.directory.execution_id(), ts, by, first_seq);
            self.pending.push_front(&mut context.writer, &header);
            self.events.began.get_or_insert(ts);
        }
        let id = self.directory.execution_id();
        let append = |lines: &[u8]| self.events.append(lines);
        let (written, result) = self.pending.write(&mut context.writer, id, append);
        context.bytes_written += written as u64;
        self.unsynced.lines |= written > 0;
        let path = self.directory.events_path();
        result.map_err(|cause| Error::file("cannot write", &path, cause))
    }

    /// Continues in a new file if rotation is due. If that fails, the current file grows.
    fn rotate_if_due(&mut self, context: &mut WriterContext) {
        let (len, began) = (self.events.len, self.events.began);
        let due = context.rotation;
        // A file with only a header is not rotated.
        if self.header_due || !due.is_due(len, self.pending.len(), began, context.clock.wall()) {
            return;
        }
        match self.rotate() {
            Ok(()) => self.reported.rotation_failure = false,
            Err(error) => {
                if !std::mem::replace(&mut self.reported.rotation_failure, true) {
                    context.notify(
                        self.directory.execution_id(),
                        LogNoticeKind::NotRotated,
                        format!("{error:?}"),
                    );
                }
            }
        }
    }

    /// Renames the file to a numbered name and creates a new one. A reader finds either both names or,
    /// briefly, only the numbered one.
    fn rotate(&mut self) -> Result<()> {
        let failed = |cause| {
            let path = self.directory.events_path();
            Error::file("cannot begin a new file, so this one grows:", &path, cause)
        };
        let dir = self.directory.open_dir()?;
        let number = close_newest(&dir, self.closed.next).map_err(failed)?;
        self.closed.next = number.saturating_add(1);
        // From here on, the old file is not written any more, even if a later step fails.
        self.closed.newest = self.events.file.take();
        (self.unsynced.directory, self.header_due) = (true, true);
        self.closed.is_between = true;
        self.events = EventsFile::open(&dir).map_err(failed)?.events;
        self.closed.is_between = false;
        Ok(())
    }

    /// Ensures that readers find the lines that will be written.
    fn ensure_in_place(&mut self, context: &mut WriterContext, now: Instant) -> Result<()> {
        let failed = |directory: &RunDirectory, cause| {
            Error::file("cannot write", &directory.events_path(), cause)
        };
        let is_fresh = self
            .checked_at
            .is_some_and(|at| now < at + PLACE_CHECK_INTERVAL);
        if !is_fresh || self.events.file.is_none() {
            let in_place = match self.directory.open_dir() {
                Ok(dir) => {
                    self.lock.is_in_place(&dir)
                        && self.events.is_in_place(&dir)
                        && self
                            .events
                            .reopen(&dir)
                            .map_err(|cause| failed(&self.directory, cause))?
                }
                Err(_) if !self.directory.exists() => false,
                Err(error) => return Err(error),
            };
            if !in_place {
                return self.recreate(context, now);
            }
            self.checked_at = Some(now);
        }
        match self
            .events
            .check(now)
            .map_err(|cause| failed(&self.directory, cause))?
        {
            FileChange::None => {}
            FileChange::Removed => self.recreate(context, now)?,
            FileChange::Truncated => {
                // The header contains the number of the first line after it.
                self.header_due = true;
                let path = self.directory.events_path();
                let message = format!(
                    "another program truncated the log {path:?}; writing continues at its end"
                );
                context.notify(
                    self.directory.execution_id(),
                    LogNoticeKind::Disturbed,
                    message,
                );
            }
        }
        Ok(())
    }

    /// Creates the directory, the lock and the file again, if they are missing.
    fn recreate(&mut self, context: &mut WriterContext, now: Instant) -> Result<()> {
        let dir = self.directory.create()?;
        self.lock.retake(&dir)?;
        let found = EventsFile::open(&dir)
            .map_err(|cause| Error::file("cannot open", &dir.join(EVENTS), cause))?;
        let removed_by_us = std::mem::take(&mut self.closed.is_between);
        if !removed_by_us && found.events.id != self.events.id {
            self.header_due = true;
            let path = self.directory.events_path();
            let message = format!(
                "another program removed the log {path:?}; writing continues in a new file"
            );
            context.notify(
                self.directory.execution_id(),
                LogNoticeKind::Disturbed,
                message,
            );
        }
        self.events = found.events;
        self.unsynced.directory = true;
        self.checked_at = Some(now);
        self.has_reserve = false;
        Ok(())
    }

    /// Ensures that the end of the run can be recorded, and that the run has metadata until then.
    fn ensure_reserve(&mut self, context: &mut WriterContext) -> Result<()> {
        if self.has_reserve {
            return Ok(());
        }
        let dir = self.directory.open_dir()?;
        self.metadata.reserve(&dir)?;
        self.has_reserve = true;
        if !matches!(dir.identity(METADATA), Ok(Some(_)))
            && let Err(error) = self.metadata.write(&dir, true)
        {
            context.notify(
                self.directory.execution_id(),
                LogNoticeKind::NotSafe,
                format!("{error:?}"),
            );
        }
        Ok(())
    }

    /// Returns a descriptor through which the file can be synced.
    pub(super) fn file_to_sync(&self) -> Option<Arc<File>> {
        match &self.events.file {
            Some(file) => Some(Arc::clone(file)),
            // Any descriptor of the file syncs all its data. A removed file needs no sync.
            None => {
                let dir = self.directory.open_dir().ok()?;
                dir.file(EVENTS, OFlags::RDONLY).ok().map(Arc::new)
            }
        }
    }

    /// Adds to the metadata, replacing values with the same name.
    pub(super) fn add_metadata(&mut self, extra: Map<String, Value>) {
        self.metadata.extra.extend(extra);
        self.unsynced.metadata = true;
    }

    /// Queues changed metadata for `td-sync`. Returns `false` if the queue has no room.
    pub(super) fn queue_metadata(&mut self, syncer: &Syncer, clock: &Clock) -> bool {
        if self.unsynced.metadata {
            self.metadata.updated = clock.wall();
            let job = SyncJob::Metadata {
                directory: self.directory.clone(),
                metadata: Box::new(self.metadata.clone()),
            };
            self.unsynced.metadata = syncer.offer(job).is_err();
        }
        !self.unsynced.metadata
    }

    /// Sets the final state of the run.
    pub(super) fn end(&mut self, state: RunState, exit_status: Option<i32>) {
        self.metadata.state = state;
        self.metadata.exit_status = exit_status;
    }

    /// Returns `true` if the run is closed once everything is written.
    pub(super) fn is_ending(&self) -> bool {
        self.metadata.state != RunState::Running
    }

    /// Returns `true` if the run is ending and everything is written.
    pub(super) fn is_done(&self) -> bool {
        self.is_ending() && self.pending.is_empty() && !self.header_due
    }

    /// Returns what the log lacks, including what is still pending; `None` if it is complete.
    pub(super) fn take_lost(&mut self) -> Option<LostRun> {
        self.lost.is_recorded = self.pending.is_empty();
        self.pending.give_up(&mut self.lost);
        self.explain_loss(None);
        let (id, path) = (self.lost.execution_id.clone(), self.lost.path.clone());
        let lost = std::mem::replace(&mut self.lost, LostRun::new(id, path, String::new()));
        (lost.events > 0).then_some(lost)
    }

    /// Converts the run for `td-sync`, which closes it.
    pub(super) fn into_closing(self, clock: &Clock, sync: bool) -> ClosingRun {
        let mut metadata = self.metadata;
        metadata.updated = clock.wall();
        metadata.next_seq = Some(self.next_seq);
        // The next writer records them in a gap.
        metadata.dropped_from = self.pending.first_seq();
        let is_dirty = sync && self.unsynced.lines;
        ClosingRun {
            directory: self.directory,
            metadata,
            is_dirty,
            is_durable: sync,
            lock: self.lock,
        }
    }

    /// Takes events, which stay pending until [`ActiveRun::flush`]. Returns the remaining events if enough
    /// bytes are pending to be written first.
    pub(super) fn push<'a>(
        &mut self,
        context: &mut WriterContext,
        mut events: &'a [Envelope],
    ) -> &'a [Envelope] {
        self.watch_clock(context);
        while let Some((envelope, rest)) = events.split_first() {
            events = rest;
            // An event without a number is only for viewers.
            if envelope.seq.is_some() {
                self.push_one(context, envelope);
                // The number of pending bytes that are written before the end of their batch.
                if self.failure.is_none() && self.pending.len() >= 1024 * 1024 {
                    break;
                }
            }
        }
        events
    }

    fn push_one(&mut self, context: &mut WriterContext, envelope: &Envelope) {
        if let TdEvent::SessionStarted { session: name, .. }
        | TdEvent::SessionRenamed { to: name, .. } = &envelope.event
        {
            // Users can also find the run by the session's present name.
            if self.metadata.session() != name {
                let name = (SESSION.to_owned(), name.as_str().into());
                self.add_metadata(Map::from_iter([name]));
            }
        }
        if let Some(gap) = LogGapRange::of(envelope) {
            self.next_seq = self.next_seq.max(gap.last.saturating_add(1));
        }
        let limits = if self.failure.is_some() {
            self.limits(context)
        } else {
            PendingLimits::NONE
        };
        let before = self.pending.len();
        let writer = &mut context.writer;
        (self.pending).push(writer, &mut self.lost, envelope, limits);
        self.explain_loss(Some(&envelope.event));
        self.account(context, before);
    }

    /// Keeps the cause of the first loss, which `event` may have brought.
    fn explain_loss(&mut self, event: Option<&TdEvent>) {
        if self.lost.events == 0 || !self.lost.cause.is_empty() {
            return;
        }
        self.lost.cause = match (event, &self.failure) {
            (Some(TdEvent::LogGap { .. }), _) => {
                "more events were emitted than the queue to the log holds".to_owned()
            }
            (_, Some(failure)) => failure.cause.clone(),
            (_, None) => "an event is longer than a line of a log may be".to_owned(),
        };
    }

    /// Reports that the clock was set back, if it was since the last event.
    fn watch_clock(&mut self, context: &mut WriterContext) {
        let earlier = std::mem::replace(&mut self.reading, context.reading);
        if let Some(before) = context.reading.before_set_back(&earlier) {
            self.report_set_back(context, before);
        }
    }

    /// Reports that the clock was set back from this time.
    pub(super) fn report_set_back(&self, context: &mut WriterContext, before: Timestamp) {
        let now = context.reading.wall;
        let message = format!(
            "the clock was set back from {before} to {now}; events are in the order of their numbers"
        );
        context.notify(self.id(), LogNoticeKind::ClockWentBack, message);
    }
}
