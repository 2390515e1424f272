//! One run on its way to its stream: how far it is in Redis, and the log that is read on from there.

use std::os::unix::fs::MetadataExt;
use std::time::Instant;

use super::batch::Batch;
use super::keys::{AboutRun, EntryId};
use crate::error::Result;
use crate::event::{ExecutionId, LogGapRange};
use crate::history::{Follower, Query, RunDirectory, RunMetadata, RunState, fnv1a};
use crate::timestamp::Timestamp;

/// The field of metadata with the rows of the board, which changes every other second and which the events give.
const BOARD: &str = "board";

/// Times of events that are this much before an earlier one are those of a clock that went back, in milliseconds. The
/// threads of an observer emit within less.
const BACK_MS: u64 = 1000;

/// The most entries of a run in a transaction, so that a run that prints much does not hold up the others.
const RUN_ENTRIES_MAX: usize = 2048;

/// A run that is shipped.
#[derive(Debug)]
pub(super) struct ShippedRun {
    pub directory: RunDirectory,
    /// The name of the run in keys.
    pub name: String,
    pub stream: String,
    /// The last entry that Redis has.
    pub last: EntryId,
    /// The last entry that was read from the log.
    read: EntryId,
    /// The log behind the last entry that was read, if it is open.
    log: Option<Follower>,
    /// The hash of the line of the last entry that Redis has, until the log is opened there.
    expected: Option<u64>,
    /// What is said of the run in Redis.
    pub registered: Option<AboutRun>,
    /// True if the log may have unread events.
    pub is_ready: bool,
    /// True if nothing writes the run, and its log was read to its end.
    has_ended: bool,
    /// True if its metadata may have changed.
    pub is_changed: bool,
    /// When its metadata are looked at next.
    pub look_at: Option<Instant>,
    /// True if Redis must be asked for its last entry.
    pub is_uncertain: bool,
    /// Until when nothing is sent, because its key has something else.
    pub blocked_until: Option<Instant>,
    /// The directory, whatever has its name later.
    inode: u64,
    /// The number of the last event that is known to be in the log.
    pub known: u64,
    /// The time of an event before that of an earlier one, with the earlier time.
    pub clock_back: Option<(Timestamp, u64)>,
    /// When its log was last used, in turns.
    pub used: u64,
}

impl ShippedRun {
    pub fn new(directory: RunDirectory, name: String, stream: String) -> Self {
        let inode = inode(&directory).unwrap_or_default();
        Self {
            directory,
            name,
            stream,
            last: EntryId::default(),
            read: EntryId::default(),
            log: None,
            expected: None,
            registered: None,
            is_ready: true,
            has_ended: false,
            is_changed: true,
            look_at: None,
            is_uncertain: true,
            blocked_until: None,
            inode,
            known: 0,
            clock_back: None,
            used: 0,
        }
    }

    pub fn id(&self) -> &ExecutionId {
        self.directory.execution_id()
    }

    /// Returns true if its directory is still the one that was found.
    pub fn is_in_place(&self) -> bool {
        inode(&self.directory).is_some_and(|inode| inode == self.inode)
    }

    /// Notes that the log or the metadata may have changed.
    pub fn note_change(&mut self) {
        if self.is_complete() && !self.directory.is_written().unwrap_or(false) {
            // Another writer may have continued and ended the run.
            if let Ok(Some(metadata)) = self.directory.metadata() {
                self.note_end(&metadata);
            }
            if self.known <= self.last.number {
                return;
            }
        }
        (self.is_ready, self.is_changed) = (true, true);
    }

    /// Returns true if its metadata may have changed, and it is time to look at them.
    pub fn must_be_looked_at(&self, now: Instant) -> bool {
        self.is_changed && self.look_at.is_none_or(|at| at <= now)
    }

    /// Returns true if Redis has all that was read.
    pub fn is_settled(&self) -> bool {
        self.read == self.last
    }

    /// Returns true if its log is open.
    pub fn is_open(&self) -> bool {
        self.log.is_some()
    }

    /// Closes the log; it is opened again when it is needed.
    pub fn close(&mut self) {
        self.log = None;
        self.read = self.last;
    }

    /// Continues after the last entry that Redis has, whose line is given if it is one of this program.
    pub fn go_on_after(&mut self, last: EntryId, line: Option<&[u8]>) {
        self.is_uncertain = false;
        self.last = last;
        if self.read != last || self.log.is_none() {
            (self.log, self.read) = (None, last);
            self.expected = line.map(fnv1a);
            (self.is_ready, self.has_ended) = (true, false);
        }
    }

    /// Returns true if nothing writes the run, and Redis has all its events.
    pub fn is_complete(&self) -> bool {
        self.has_ended && self.read == self.last
    }

    /// Takes a run to be complete that was registered as such, without reading its log.
    pub fn set_complete(&mut self) {
        (self.has_ended, self.is_ready) = (true, false);
        self.known = self.last.number;
    }

    /// Adds the next events to the transaction.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn fill(&mut self, batch: &mut Batch, is_alone: bool) -> Result<()> {
        let was_written = self.directory.is_written()?;
        let mut read = self.read;
        let mut added = 0;
        let log = match &mut self.log {
            Some(log) => log,
            none => {
                let log = open_after(&self.directory, read, self.expected.take())?;
                // A thread for each of many logs would be too many.
                none.insert(if is_alone { log } else { log.in_this_thread() })
            }
        };
        self.has_ended = false;
        while added < RUN_ENTRIES_MAX && !batch.is_full() {
            let Some(record) = log.next()? else {
                (self.is_ready, self.has_ended) = (false, !was_written);
                break;
            };
            // Lines of older logs have no number; what Redis has may come first.
            let Some(numbers) = LogGapRange::of(&record.envelope) else {
                continue;
            };
            let ms = EntryId::ms_of(numbers.ts);
            // A lower number at a later time is new: after a power cut, numbers are assigned again.
            if numbers.last <= read.number && ms <= read.ms {
                continue;
            }
            if ms.saturating_add(BACK_MS) < read.ms && self.clock_back.is_none() {
                self.clock_back = Some((numbers.ts, read.ms));
            }
            read = read.next(numbers.ts, numbers.last);
            if added == 0 {
                batch.begin_run(self.directory.execution_id());
            }
            batch.push(&self.stream, read, record.line());
            added += 1;
        }
        self.read = read;
        self.known = self.known.max(read.number);
        Ok(())
    }

    /// Returns what is to be said of the run; `None` if that is said already, or its metadata cannot be read.
    pub fn news(&self, data: &str) -> Option<AboutRun> {
        let mut metadata = self.directory.metadata().ok().flatten()?;
        metadata.extra.remove(BOARD);
        let is_complete = self.is_complete();
        if !is_complete {
            // It changes every other second.
            metadata.updated = metadata.created;
            // What is said of the end follows the last event.
            metadata.state = RunState::Running;
            (metadata.next_seq, metadata.exit_status) = (None, None);
        }
        let about = AboutRun {
            stream: self.stream.clone(),
            data: data.to_owned(),
            last: is_complete.then_some(self.last.number),
            is_removed: false,
            metadata,
        };
        (self.registered.as_ref() != Some(&about)).then_some(about)
    }

    /// Notes the number of the last event, which the metadata of an ended run have.
    pub fn note_end(&mut self, metadata: &RunMetadata) {
        let last = metadata.next_seq.unwrap_or_default().saturating_sub(1);
        self.known = self.known.max(last);
    }
}

/// Opens a log behind an entry, or at its beginning if the entry is not in it: a power cut may have taken the end of the
/// log, and others events may have the numbers since.
fn open_after(directory: &RunDirectory, last: EntryId, expected: Option<u64>) -> Result<Follower> {
    if last.number == 0 {
        return Follower::open(directory, Query::all());
    }
    if let Some(expected) = expected {
        let mut log = directory
            .follow_after(last.number - 1, None)?
            .in_this_thread();
        while let Some(record) = log.next()? {
            let number = LogGapRange::of(&record.envelope).map_or(0, |numbers| numbers.last);
            if number >= last.number {
                if fnv1a(record.line()) != expected {
                    return Follower::open(directory, Query::all());
                }
                break;
            }
        }
    }
    directory.follow_after(last.number, None)
}

fn inode(directory: &RunDirectory) -> Option<u64> {
    Some(std::fs::metadata(directory.path()).ok()?.ino())
}
