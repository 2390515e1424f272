//! `events.jsonl` of one run: appends whole lines and detects changes by other programs.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use crate::history::dir_handle::{DirHandle, EVENTS, FileId};
use crate::history::tail::{self, Repair};
use crate::timestamp::Timestamp;

/// The interval at which the writer checks whether another program removed or truncated the file. A
/// run with fewer than a thousand writes a second is checked before each write. More frequent
/// checks cost more than the writes: since Linux 6.13, reading a file's times makes the next write
/// update the time in inode and journal.
///
/// Lines written to a removed file within this interval are lost. Lines written after a truncation
/// precede the header that reports it, and the first of them may continue an incomplete line; the
/// number in the header is correct all the same.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// The file; its descriptor may be closed temporarily.
#[derive(Debug)]
pub(super) struct EventsFile {
    /// Shared with `td-sync`, which may still sync the file after it is closed here.
    file: Option<Arc<File>>,
    id: FileId,
    /// The length at the last write or check.
    len: u64,
    /// The time of the first line, if there is one.
    began: Option<Timestamp>,
    /// The file ends within a line of another writer.
    newline_due: bool,
    /// The time of the last check.
    checked_at: Option<Instant>,
}

/// The result of opening the file.
#[derive(Debug)]
pub(super) struct OpenedEvents {
    pub(super) events: EventsFile,
    pub(super) repair: Repair,
    pub(super) last_seq: Option<u64>,
}

/// A change to the file by another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileChange {
    /// No change.
    None,
    /// The file is shorter.
    Truncated,
    /// The file has no name any more; what is written to it is lost.
    Removed,
}

/// A failed write.
#[derive(Debug)]
pub(super) struct AppendError {
    /// The number of bytes that are in the file: whole lines.
    pub(super) kept: usize,
    pub(super) cause: io::Error,
}

/// Repairs read the file. Every write goes to the end, whatever other programs do to the file.
fn flags() -> OFlags {
    OFlags::RDWR | OFlags::APPEND
}

impl EventsFile {
    /// Opens or creates the file and repairs its end.
    pub(super) fn open(dir: &DirHandle) -> io::Result<OpenedEvents> {
        let file = dir.file(EVENTS, flags() | OFlags::CREATE)?;
        let repair = tail::repair(&file)?;
        let last_seq = tail::last_seq(&file)?;
        let events = Self {
            id: FileId::of(&file)?,
            len: file.metadata()?.len(),
            began: tail::first_ts(&file)?,
            newline_due: repair == Repair::Failed,
            checked_at: None,
            file: Some(Arc::new(file)),
        };
        Ok(OpenedEvents {
            events,
            repair,
            last_seq,
        })
    }

    /// Opens the file again after [`EventsFile::close`]. Returns `false` if it is missing or
    /// replaced.
    pub(super) fn reopen(&mut self, dir: &DirHandle) -> io::Result<bool> {
        if self.file.is_none() {
            match dir.file(EVENTS, flags()) {
                Ok(file) if FileId::of(&file)? == self.id => self.file = Some(Arc::new(file)),
                Ok(_) => return Ok(false),
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(cause) => return Err(cause),
            }
        }
        Ok(true)
    }

    /// Closes the descriptor.
    pub(super) fn close(&mut self) -> Option<Arc<File>> {
        self.file.take()
    }

    pub(super) fn handle(&self) -> Option<&Arc<File>> {
        self.file.as_ref()
    }

    pub(super) fn id(&self) -> FileId {
        self.id
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the time of the first line, if there is one.
    pub(super) fn began(&self) -> Option<Timestamp> {
        self.began
    }

    /// Sets the time of the first line.
    pub(super) fn begin(&mut self, now: Timestamp) {
        self.began.get_or_insert(now);
    }

    /// Returns `true` if the directory still contains this file.
    pub(super) fn is_in_place(&self, dir: &DirHandle) -> bool {
        dir.identity(EVENTS)
            .is_ok_and(|found| found == Some(self.id))
    }

    /// Detects a change to the file if a check is due. Called before every write.
    pub(super) fn check(&mut self, now: Instant) -> io::Result<FileChange> {
        let Some(file) = &self.file else {
            return Ok(FileChange::Removed);
        };
        if self.checked_at.is_some_and(|at| now < at + CHECK_INTERVAL) {
            return Ok(FileChange::None);
        }
        let metadata = file.metadata()?;
        if metadata.nlink() == 0 {
            return Ok(FileChange::Removed);
        }
        self.checked_at = Some(now);
        let before = std::mem::replace(&mut self.len, metadata.len());
        if self.len == before {
            return Ok(FileChange::None);
        }
        // The other program may have left an incomplete line.
        let mut last = [b'\n'];
        if self.len > 0 {
            file.read_exact_at(&mut last, self.len - 1)?;
        }
        self.newline_due = last != *b"\n";
        Ok(if self.len < before {
            FileChange::Truncated
        } else {
            FileChange::None
        })
    }

    /// Appends whole lines, with a single write where the system accepts them at once. After an
    /// error the file still ends with a whole line, or the next line begins on a new line.
    pub(super) fn append(&mut self, lines: &[u8]) -> Result<(), AppendError> {
        let Some(file) = self.file.clone() else {
            return Err(AppendError {
                kept: 0,
                cause: io::ErrorKind::NotFound.into(),
            });
        };
        if self.newline_due {
            (&*file)
                .write_all(b"\n")
                .map_err(|cause| AppendError { kept: 0, cause })?;
            self.len += 1;
            self.newline_due = false;
        }
        let mut done = 0;
        while let Some(rest) = lines.get(done..).filter(|rest| !rest.is_empty()) {
            let cause = match (&*file).write(rest) {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(written) => {
                    done += written;
                    self.len += written as u64;
                    continue;
                }
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
                Err(cause) => cause,
            };
            let written = lines.get(..done).unwrap_or_default();
            let kept = written
                .iter()
                .rposition(|&byte| byte == b'\n')
                .map_or(0, |at| at + 1);
            let torn = written.get(kept..).unwrap_or_default();
            if !torn.is_empty() {
                match remove_partial_line(&file, torn) {
                    Ok(len) => self.len = len,
                    Err(_) => self.newline_due = true,
                }
            }
            return Err(AppendError { kept, cause });
        }
        Ok(())
    }
}

/// Removes an incomplete line from the end, if it is still there, and returns the length of the
/// file.
fn remove_partial_line(file: &File, torn: &[u8]) -> io::Result<u64> {
    let len = file.metadata()?.len();
    let start = len
        .checked_sub(torn.len() as u64)
        .ok_or(io::ErrorKind::UnexpectedEof)?;
    let mut found = vec![0; torn.len()];
    file.read_exact_at(&mut found, start)?;
    if found != torn {
        return Err(io::Error::other("another program wrote to the file"));
    }
    file.set_len(start)?;
    Ok(start)
}
