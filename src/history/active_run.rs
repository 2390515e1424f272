//! One run in the writer's hands: lines wait here, go to the file in one write, and survive what happens to it.

mod metadata;

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::LogGapRange;
use crate::event::{Envelope, ExecutionId};
use crate::history::dir::RunDirectory;
use crate::history::dir_handle::{EVENTS, METADATA};
use crate::history::events_file::{EventsFile, FileChange};
use crate::history::line::{self, LineWriter};
use crate::history::lock::RunLock;
use crate::history::metadata::RunMetadata;
use crate::history::notice::{LogNotice, LogNoticeKind};
use crate::history::open_run::OpenRun;
use crate::history::pending::{BufferPool, PendingLimits, PendingLines};
use crate::history::rotate::Rotation;
use crate::history::run_files::close_newest;
use crate::timestamp::Timestamp;

/// How long writing to a run rests after an error: a full disk is not made emptier by asking.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// How often it is made sure, while writing, that the file still stands where it should: a
/// directory that was moved away takes its open files along, and only its path tells.
const PLACE_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Lines that wait this long are written before their batch is through.
const WRITE_BYTES_MAX: usize = 1024 * 1024;
/// Text that may wait for a run's file to work again: a minute of a pane that prints 1,000 lines a
/// second.
const RUN_TEXT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Room beyond that which only life-cycle events may use: about a thousand of them.
const RUN_LIFE_BYTES_MAX: usize = 256 * 1024;
/// What may wait in all runs together; a full disk is full for all of them.
const TOTAL_TEXT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Room beyond that which only life-cycle events may use.
const TOTAL_LIFE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Notices that wait for the caller to take them; who does not ask for so long does not care.
const NOTICES_MAX: usize = 1024;

/// Events of several threads may come so late, in microseconds, without the clock having gone back.
const CLOCK_SLACK_MICROS: i64 = 1_000_000;

/// What all runs share.
pub(super) struct WriterContext {
    pub(super) writer: LineWriter,
    pub(super) buffers: BufferPool,
    pub(super) clock: Clock,
    pub(super) host: String,
    /// Bytes that wait in all runs.
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

/// Writing fails since a while.
#[derive(Debug)]
struct WriteFailure {
    retry_at: Instant,
    cause: String,
}

/// A run that is being written.
#[derive(Debug)]
pub(super) struct ActiveRun {
    id: ExecutionId,
    directory: RunDirectory,
    lock: RunLock,
    events: EventsFile,
    metadata: RunMetadata,
    /// The metadata say something that the file does not say yet.
    has_new_metadata: bool,
    pending: PendingLines,
    next_seq: u64,
    /// The latest time that an event had.
    latest: Timestamp,
    /// That the clock went back was told.
    is_clock_reported: bool,
    header_due: bool,
    failure: Option<WriteFailure>,
    checked_at: Option<Instant>,
    /// Lines were written that are not synced.
    pub(super) is_dirty: bool,
    /// Names were made that are not synced.
    pub(super) is_directory_dirty: bool,
    /// No closed file has this number, or a higher one: never given twice, whatever is listed.
    next_file: u32,
    /// A file was closed, and the next could not be made yet.
    is_between_files: bool,
    /// A file was closed that is to be synced and compressed.
    pub(super) closed_file: Option<Arc<File>>,
    /// Goes away when everything is written.
    pub(super) is_ending: bool,
    /// Has lines of the batch that is being taken.
    pub(super) has_batch_lines: bool,
    /// A problem with syncing was told.
    pub(super) is_sync_failure_reported: bool,
    /// That no new file can be begun was told.
    is_rotation_failure_reported: bool,
    /// Which use of any run was the last of this one.
    pub(super) used_at: u64,
}

impl ActiveRun {
    pub(super) fn new(run: OpenRun, clock: &Clock) -> Self {
        let mut pending = PendingLines::default();
        if let Some((first, last)) = run.missing {
            let ts = clock.wall();
            pending.add_missing(LogGapRange { first, last, ts });
        }
        Self {
            id: run.execution_id().clone(),
            directory: run.directory,
            lock: run.lock,
            events: run.events,
            metadata: run.metadata,
            has_new_metadata: false,
            pending,
            next_seq: run.next_seq,
            latest: Timestamp::from_micros(i64::MIN),
            is_clock_reported: false,
            header_due: true,
            failure: None,
            checked_at: None,
            is_dirty: false,
            is_directory_dirty: true,
            next_file: 1,
            is_between_files: false,
            closed_file: None,
            is_ending: false,
            has_batch_lines: false,
            is_sync_failure_reported: false,
            is_rotation_failure_reported: false,
            used_at: 0,
        }
    }

    /// Takes events, which wait for [`ActiveRun::flush`]. Those that come back are to be given
    /// again after it: so much waits that it should be written first.
    pub(super) fn push<'a>(
        &mut self,
        context: &mut WriterContext,
        mut events: &'a [Envelope],
    ) -> &'a [Envelope] {
        while let Some((envelope, rest)) = events.split_first() {
            events = rest;
            // Without a number it is for viewers only.
            if envelope.seq.is_some() {
                self.push_one(context, envelope);
                if self.failure.is_none() && self.pending.len() >= WRITE_BYTES_MAX {
                    break;
                }
            }
        }
        events
    }

    fn push_one(&mut self, context: &mut WriterContext, envelope: &Envelope) {
        self.watch_clock(context, envelope.ts);
        if let Some(gap) = LogGapRange::of(envelope) {
            self.next_seq = self.next_seq.max(gap.last.saturating_add(1));
        }
        let limits = if self.failure.is_some() {
            self.limits(context)
        } else {
            PendingLimits::NONE
        };
        let before = self.pending.len();
        self.pending.push(
            &mut context.writer,
            &mut context.buffers,
            &self.id,
            envelope,
            limits,
        );
        context.pending_bytes = (context.pending_bytes + self.pending.len()).saturating_sub(before);
    }

    /// Says once when times cannot be relied on.
    fn watch_clock(&mut self, context: &mut WriterContext, ts: Timestamp) {
        if ts >= self.latest {
            self.latest = ts;
        } else if !self.is_clock_reported && ts.micros() + CLOCK_SLACK_MICROS < self.latest.micros()
        {
            self.is_clock_reported = true;
            let what = format!(
                "the clock went back from {} to {ts}; events are in the order of their numbers",
                self.latest
            );
            context.notify(&self.id, LogNoticeKind::ClockWentBack, what);
        }
    }

    fn limits(&self, context: &WriterContext) -> PendingLimits {
        let own = self.pending.len();
        let left = |total: usize| (own + total).saturating_sub(context.pending_bytes);
        PendingLimits {
            text: RUN_TEXT_BYTES_MAX.min(left(TOTAL_TEXT_BYTES_MAX)),
            life: (RUN_TEXT_BYTES_MAX + RUN_LIFE_BYTES_MAX)
                .min(left(TOTAL_TEXT_BYTES_MAX + TOTAL_LIFE_BYTES_MAX)),
        }
    }

    /// When the next try is due; `None` while writing works.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.failure.as_ref().map(|failing| failing.retry_at)
    }

    /// Makes the next flush a try, however short ago the last one was.
    pub(super) fn retry_now(&mut self, now: Instant) {
        if let Some(failing) = &mut self.failure {
            failing.retry_at = now;
        }
    }

    /// Whether a flush would do something now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        (self.header_due || !self.pending.is_empty()) && self.retry_at().is_none_or(|at| at <= now)
    }

    /// Writes what waits, if it is due. Never fails: what cannot be written waits for a better time.
    pub(super) fn flush(&mut self, context: &mut WriterContext, now: Instant) {
        if !self.is_due(now) {
            return;
        }
        let before = self.pending.len();
        let outcome = self.try_flush(context, now);
        context.pending_bytes = (context.pending_bytes + self.pending.len()).saturating_sub(before);
        match (outcome, self.failure.is_some()) {
            (Ok(()), false) => {}
            (Ok(()), true) => {
                self.failure = None;
                let path = self.directory.path();
                let what = match self.pending.take_dropped() {
                    0 => format!("the log {path:?} is written again, and nothing is missing"),
                    1 => format!("the log {path:?} is written again; 1 event is missing in it"),
                    lost => format!(
                        "the log {path:?} is written again; {lost} events are missing in it"
                    ),
                };
                context.notify(&self.id, LogNoticeKind::Recovered, what);
            }
            (Err(error), was_failing) => {
                let why = format!("{error:?}");
                if !was_failing {
                    let what = format!("{why}; what it cannot take waits, as far as there is room");
                    context.notify(&self.id, LogNoticeKind::Failing, what);
                }
                self.failure = Some(WriteFailure {
                    retry_at: now + RETRY_INTERVAL,
                    cause: why,
                });
                if !was_failing {
                    self.drop_excess(context);
                }
            }
        }
    }

    fn drop_excess(&mut self, context: &mut WriterContext) {
        let limits = self.limits(context);
        let before = self.pending.len();
        self.pending
            .drop_excess(&mut context.writer, &mut context.buffers, &self.id, limits);
        context.pending_bytes = (context.pending_bytes + self.pending.len()).saturating_sub(before);
    }

    fn try_flush(&mut self, context: &mut WriterContext, now: Instant) -> Result<()> {
        self.ensure_in_place(context, now)?;
        self.rotate_if_due(context);
        if std::mem::take(&mut self.header_due) {
            let first_seq = self.pending.first_seq().unwrap_or(self.next_seq);
            let by = (context.host.as_str(), std::process::id());
            let ts = context.clock.wall();
            let header = line::header(&self.id, ts, by, first_seq);
            self.pending.push_front(&mut context.writer, &header);
            self.events.begin(ts);
        }
        let attempt = self.pending.begin_write(&mut context.writer, &self.id);
        let bytes = self.pending.len();
        match self.events.append(self.pending.lines()) {
            Ok(()) => {
                self.pending.write_done(&mut context.buffers);
                context.bytes_written += bytes as u64;
                self.is_dirty = true;
                Ok(())
            }
            Err(torn) => {
                self.pending.write_failed(attempt, torn.kept);
                context.bytes_written += torn.kept as u64;
                self.is_dirty |= torn.kept > 0;
                Err(Error::file(
                    "cannot write",
                    &self.directory.events_path(),
                    torn.cause,
                ))
            }
        }
    }

    /// Goes on in a new file when it is time. Where that fails, this one is written to for longer.
    fn rotate_if_due(&mut self, context: &mut WriterContext) {
        let (len, began) = (self.events.len(), self.events.began());
        let due = context.rotation;
        // A header alone is nothing that a new file would hold less of.
        if self.header_due || !due.is_due(len, self.pending.len(), began, context.clock.wall()) {
            return;
        }
        match self.rotate() {
            Ok(()) => self.is_rotation_failure_reported = false,
            Err(error) => {
                if !std::mem::replace(&mut self.is_rotation_failure_reported, true) {
                    context.notify(&self.id, LogNoticeKind::NotRotated, format!("{error:?}"));
                }
            }
        }
    }

    /// Closes the file under a number and begins a new one. A reader finds either both names, or
    /// the number alone for a moment.
    fn rotate(&mut self) -> Result<()> {
        let failed = |cause| {
            let path = self.directory.events_path();
            Error::file(
                "cannot go on in a new file, so this one grows:",
                &path,
                cause,
            )
        };
        let dir = self.directory.open_dir()?;
        let number = close_newest(&dir, self.next_file).map_err(failed)?;
        self.next_file = number.saturating_add(1);
        // Whatever comes now, the old file is no longer the one to write to.
        self.closed_file = self.events.close();
        (self.is_directory_dirty, self.header_due) = (true, true);
        self.is_between_files = true;
        self.events = EventsFile::open(&dir).map_err(failed)?.events;
        self.is_between_files = false;
        Ok(())
    }

    /// Makes sure that what is written now can be found later.
    fn ensure_in_place(&mut self, context: &mut WriterContext, now: Instant) -> Result<()> {
        let failed = |directory: &RunDirectory, cause| {
            Error::file("cannot write", &directory.events_path(), cause)
        };
        let is_fresh = self
            .checked_at
            .is_some_and(|at| now < at + PLACE_CHECK_INTERVAL);
        if !is_fresh || self.events.handle().is_none() {
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
                // The header says from which number on the lines are there.
                self.header_due = true;
                let path = self.directory.events_path();
                let what = format!("somebody else cut the log {path:?}; it goes on behind the cut");
                context.notify(&self.id, LogNoticeKind::Disturbed, what);
            }
        }
        Ok(())
    }

    /// Makes the directory, the lock and the file again, as far as they are missing.
    fn recreate(&mut self, context: &mut WriterContext, now: Instant) -> Result<()> {
        let dir = self.directory.create()?;
        self.lock.retake(&dir)?;
        let found = EventsFile::open(&dir)
            .map_err(|cause| Error::file("cannot open", &dir.join(EVENTS), cause))?;
        let removed_by_us = std::mem::take(&mut self.is_between_files);
        if !removed_by_us && found.events.id() != self.events.id() {
            self.header_due = true;
            let path = self.directory.events_path();
            let what = format!("somebody else removed the log {path:?}; it goes on in a new file");
            context.notify(&self.id, LogNoticeKind::Disturbed, what);
        }
        self.events = found.events;
        self.is_directory_dirty = true;
        self.checked_at = Some(now);
        if !matches!(dir.identity(METADATA), Ok(Some(_)))
            && let Err(error) = self.metadata.write_in(&dir)
        {
            context.notify(&self.id, LogNoticeKind::NotSafe, format!("{error:?}"));
        }
        Ok(())
    }

    pub(super) fn id(&self) -> &ExecutionId {
        &self.id
    }

    pub(super) fn directory(&self) -> &RunDirectory {
        &self.directory
    }

    pub(super) fn is_open(&self) -> bool {
        self.events.handle().is_some()
    }

    /// Gives the file descriptor back; opened again when it is needed.
    pub(super) fn close_file(&mut self) -> Option<Arc<File>> {
        self.events.close()
    }

    /// A descriptor to sync the file through.
    pub(super) fn file_to_sync(&self) -> Option<Arc<File>> {
        match self.events.handle() {
            Some(file) => Some(Arc::clone(file)),
            // Any descriptor syncs what was written through another; a file that is gone needs none.
            None => {
                let dir = self.directory.open_dir().ok()?;
                dir.file(EVENTS, OFlags::RDONLY).ok().map(Arc::new)
            }
        }
    }
}
