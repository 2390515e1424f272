//! One run in the writer's hands: lines wait here, go to the file in one write, and survive what happens to it.

mod ending;

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::LogGapRange;
use crate::event::{Envelope, ExecutionId};
use crate::history::dir::{EVENTS, METADATA, RunDirectory};
use crate::history::file::{EventsFile, Standing};
use crate::history::files::close_newest;
use crate::history::line::{self, LineWriter};
use crate::history::lock::RunLock;
use crate::history::metadata::Metadata;
use crate::history::notice::{Notice, NoticeKind};
use crate::history::pending::{Limits, Pending, Spares};
use crate::history::rotate::Rotation;
use crate::history::run::OpenRun;
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
pub(super) struct Tools {
    pub(super) writer: LineWriter,
    pub(super) spares: Spares,
    pub(super) clock: Clock,
    pub(super) host: String,
    /// Bytes that wait in all runs.
    pub(super) held: usize,
    pub(super) bytes_written: u64,
    pub(super) notices: Vec<Notice>,
    pub(super) rotation: Rotation,
}

impl Tools {
    pub(super) fn say(&mut self, execution_id: &ExecutionId, kind: NoticeKind, what: String) {
        if self.notices.len() < NOTICES_MAX {
            self.notices.push(Notice {
                execution_id: execution_id.clone(),
                kind,
                what,
            });
        }
    }
}

/// Writing fails since a while.
#[derive(Debug)]
struct Failing {
    retry_at: Instant,
    why: String,
}

/// A run that is being written.
#[derive(Debug)]
pub(super) struct ActiveRun {
    id: ExecutionId,
    directory: RunDirectory,
    lock: RunLock,
    events: EventsFile,
    metadata: Metadata,
    /// The metadata say something that the file does not say yet.
    has_remark: bool,
    pending: Pending,
    next_seq: u64,
    /// The latest time that an event had.
    latest: Timestamp,
    /// That the clock went back was told.
    is_clock_told: bool,
    header_due: bool,
    failing: Option<Failing>,
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
    pub(super) is_touched: bool,
    /// A problem with syncing was told.
    pub(super) is_unsafe_told: bool,
    /// That no new file can be begun was told.
    is_rotation_told: bool,
    /// Which use of any run was the last of this one.
    pub(super) used_at: u64,
}

impl ActiveRun {
    pub(super) fn new(run: OpenRun, clock: &Clock) -> Self {
        let mut pending = Pending::default();
        if let Some((first, last)) = run.missing {
            let ts = clock.wall();
            pending.note_missing(LogGapRange { first, last, ts });
        }
        Self {
            id: run.execution_id().clone(),
            directory: run.directory,
            lock: run.lock,
            events: run.events,
            metadata: run.metadata,
            has_remark: false,
            pending,
            next_seq: run.next_seq,
            latest: Timestamp::from_micros(i64::MIN),
            is_clock_told: false,
            header_due: true,
            failing: None,
            checked_at: None,
            is_dirty: false,
            is_directory_dirty: true,
            next_file: 1,
            is_between_files: false,
            closed_file: None,
            is_ending: false,
            is_touched: false,
            is_unsafe_told: false,
            is_rotation_told: false,
            used_at: 0,
        }
    }

    /// Takes events, which wait for [`ActiveRun::flush`]. Those that come back are to be given
    /// again after it: so much waits that it should be written first.
    pub(super) fn push<'a>(
        &mut self,
        tools: &mut Tools,
        mut events: &'a [Envelope],
    ) -> &'a [Envelope] {
        while let Some((envelope, rest)) = events.split_first() {
            events = rest;
            // Without a number it is for viewers only.
            if envelope.seq.is_some() {
                self.push_one(tools, envelope);
                if self.failing.is_none() && self.pending.len() >= WRITE_BYTES_MAX {
                    break;
                }
            }
        }
        events
    }

    fn push_one(&mut self, tools: &mut Tools, envelope: &Envelope) {
        self.watch_clock(tools, envelope.ts);
        if let Some(gap) = LogGapRange::of(envelope) {
            self.next_seq = self.next_seq.max(gap.last.saturating_add(1));
        }
        let limits = if self.failing.is_some() {
            self.limits(tools)
        } else {
            Limits::NONE
        };
        let before = self.pending.len();
        self.pending.push(
            &mut tools.writer,
            &mut tools.spares,
            &self.id,
            envelope,
            limits,
        );
        tools.held = (tools.held + self.pending.len()).saturating_sub(before);
    }

    /// Says once when times cannot be relied on.
    fn watch_clock(&mut self, tools: &mut Tools, ts: Timestamp) {
        if ts >= self.latest {
            self.latest = ts;
        } else if !self.is_clock_told && ts.micros() + CLOCK_SLACK_MICROS < self.latest.micros() {
            self.is_clock_told = true;
            let what = format!(
                "the clock went back from {} to {ts}; events are in the order of their numbers",
                self.latest
            );
            tools.say(&self.id, NoticeKind::ClockWentBack, what);
        }
    }

    fn limits(&self, tools: &Tools) -> Limits {
        let own = self.pending.len();
        let left = |total: usize| (own + total).saturating_sub(tools.held);
        Limits {
            text: RUN_TEXT_BYTES_MAX.min(left(TOTAL_TEXT_BYTES_MAX)),
            life: (RUN_TEXT_BYTES_MAX + RUN_LIFE_BYTES_MAX)
                .min(left(TOTAL_TEXT_BYTES_MAX + TOTAL_LIFE_BYTES_MAX)),
        }
    }

    /// When the next try is due; `None` while writing works.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.failing.as_ref().map(|failing| failing.retry_at)
    }

    /// Makes the next flush a try, however short ago the last one was.
    pub(super) fn retry_now(&mut self, now: Instant) {
        if let Some(failing) = &mut self.failing {
            failing.retry_at = now;
        }
    }

    /// Whether a flush would do something now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        (self.header_due || !self.pending.is_empty()) && self.retry_at().is_none_or(|at| at <= now)
    }

    /// Writes what waits, if it is due. Never fails: what cannot be written waits for a better time.
    pub(super) fn flush(&mut self, tools: &mut Tools, now: Instant) {
        if !self.is_due(now) {
            return;
        }
        let before = self.pending.len();
        let outcome = self.try_flush(tools, now);
        tools.held = (tools.held + self.pending.len()).saturating_sub(before);
        match (outcome, self.failing.is_some()) {
            (Ok(()), false) => {}
            (Ok(()), true) => {
                self.failing = None;
                let path = self.directory.path();
                let what = match self.pending.take_dropped() {
                    0 => format!("the log {path:?} is written again, and nothing is missing"),
                    1 => format!("the log {path:?} is written again; 1 event is missing in it"),
                    lost => format!(
                        "the log {path:?} is written again; {lost} events are missing in it"
                    ),
                };
                tools.say(&self.id, NoticeKind::Recovered, what);
            }
            (Err(error), was_failing) => {
                let why = format!("{error:?}");
                if !was_failing {
                    let what = format!("{why}; what it cannot take waits, as far as there is room");
                    tools.say(&self.id, NoticeKind::Failing, what);
                }
                self.failing = Some(Failing {
                    retry_at: now + RETRY_INTERVAL,
                    why,
                });
                if !was_failing {
                    self.shed(tools);
                }
            }
        }
    }

    fn shed(&mut self, tools: &mut Tools) {
        let limits = self.limits(tools);
        let before = self.pending.len();
        self.pending
            .shed(&mut tools.writer, &mut tools.spares, &self.id, limits);
        tools.held = (tools.held + self.pending.len()).saturating_sub(before);
    }

    fn try_flush(&mut self, tools: &mut Tools, now: Instant) -> Result<()> {
        self.ensure_in_place(tools, now)?;
        self.rotate_if_due(tools);
        if std::mem::take(&mut self.header_due) {
            let first_seq = self.pending.first_seq().unwrap_or(self.next_seq);
            let by = (tools.host.as_str(), std::process::id());
            let ts = tools.clock.wall();
            let header = line::header(&self.id, ts, by, first_seq);
            self.pending.push_front(&mut tools.writer, &header);
            self.events.begin(ts);
        }
        let sealed = self.pending.seal(&mut tools.writer, &self.id);
        let bytes = self.pending.len();
        match self.events.append(self.pending.lines()) {
            Ok(()) => {
                self.pending.clear(&mut tools.spares);
                tools.bytes_written += bytes as u64;
                self.is_dirty = true;
                Ok(())
            }
            Err(torn) => {
                self.pending.unseal(sealed, torn.kept);
                tools.bytes_written += torn.kept as u64;
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
    fn rotate_if_due(&mut self, tools: &mut Tools) {
        let (len, began) = (self.events.len(), self.events.began());
        let due = tools.rotation;
        // A header alone is nothing that a new file would hold less of.
        if self.header_due || !due.is_due(len, self.pending.len(), began, tools.clock.wall()) {
            return;
        }
        match self.rotate() {
            Ok(()) => self.is_rotation_told = false,
            Err(error) => {
                if !std::mem::replace(&mut self.is_rotation_told, true) {
                    tools.say(&self.id, NoticeKind::NotRotated, format!("{error:?}"));
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
    fn ensure_in_place(&mut self, tools: &mut Tools, now: Instant) -> Result<()> {
        let failed = |directory: &RunDirectory, cause| {
            Error::file("cannot write", &directory.events_path(), cause)
        };
        let looked_lately = self
            .checked_at
            .is_some_and(|at| now < at + PLACE_CHECK_INTERVAL);
        if !looked_lately || self.events.handle().is_none() {
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
                return self.make_again(tools, now);
            }
            self.checked_at = Some(now);
        }
        match self
            .events
            .standing(now)
            .map_err(|cause| failed(&self.directory, cause))?
        {
            Standing::Same => {}
            Standing::Gone => self.make_again(tools, now)?,
            Standing::Truncated => {
                // The header says from which number on the lines are there.
                self.header_due = true;
                let path = self.directory.events_path();
                let what = format!("somebody else cut the log {path:?}; it goes on behind the cut");
                tools.say(&self.id, NoticeKind::Disturbed, what);
            }
        }
        Ok(())
    }

    /// Makes the directory, the lock and the file again, as far as they are missing.
    fn make_again(&mut self, tools: &mut Tools, now: Instant) -> Result<()> {
        let dir = self.directory.create()?;
        self.lock.retake(&dir)?;
        let found = EventsFile::open(&dir)
            .map_err(|cause| Error::file("cannot open", &dir.join(EVENTS), cause))?;
        let removed_by_us = std::mem::take(&mut self.is_between_files);
        if !removed_by_us && found.events.id() != self.events.id() {
            self.header_due = true;
            let path = self.directory.events_path();
            let what = format!("somebody else removed the log {path:?}; it goes on in a new file");
            tools.say(&self.id, NoticeKind::Disturbed, what);
        }
        self.events = found.events;
        self.is_directory_dirty = true;
        self.checked_at = Some(now);
        if !matches!(dir.identity(METADATA), Ok(Some(_)))
            && let Err(error) = self.metadata.write_in(&dir)
        {
            tools.say(&self.id, NoticeKind::NotSafe, format!("{error:?}"));
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
