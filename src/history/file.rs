//! `events.jsonl` of one run: appended to in whole lines, and known to be still what it was.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use crate::history::dir::EVENTS;
use crate::history::dir_handle::{DirHandle, FileId};
use crate::history::tail::{self, Repair};
use crate::timestamp::Timestamp;

/// How often the writer looks, while writing, whether somebody else removed or cut the file; so a
/// run with fewer than a thousand writes a second is looked at before each of them. Not oftener,
/// because a look and its consequence cost more than the write: since Linux 6.13 whoever asks for a
/// file's times makes the next write put a new time into inode and journal.
///
/// What is written within this time to a file that was removed is lost, as if it had been removed
/// so much later. What is written behind a cut stands there before the header that tells of it, and
/// its first line may have joined half a line; the header's number is true all the same.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// The file, open or closed for a while.
#[derive(Debug)]
pub(super) struct EventsFile {
    /// Shared with `td-sync`, which may still sync it when it is closed here.
    file: Option<Arc<File>>,
    id: FileId,
    /// Its length when we last wrote or looked.
    len: u64,
    /// When its first line was written, if it has one.
    began: Option<Timestamp>,
    /// The file ends in the middle of a line that is not ours to complete.
    newline_due: bool,
    /// When we last looked.
    looked_at: Option<Instant>,
}

/// What opening found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) events: EventsFile,
    pub(super) repair: Repair,
    pub(super) last_seq: Option<u64>,
}

/// What became of the file since we last wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing: it is ours alone.
    Same,
    /// Somebody else made it shorter.
    Truncated,
    /// It has no name any more: what is written to it is lost.
    Gone,
}

/// A write that failed.
#[derive(Debug)]
pub(super) struct Torn {
    /// How many bytes are in the file: whole lines.
    pub(super) kept: usize,
    pub(super) cause: io::Error,
}

/// Appending, and reading for repairs: every write goes to the end, whatever others do to the file.
fn flags() -> OFlags {
    OFlags::RDWR | OFlags::APPEND
}

impl EventsFile {
    /// Opens the file, makes it where it is missing, and mends its end.
    pub(super) fn open(dir: &DirHandle) -> io::Result<Found> {
        let file = dir.file(EVENTS, flags() | OFlags::CREATE)?;
        let repair = tail::repair(&file)?;
        let last_seq = tail::last_seq(&file)?;
        let events = Self {
            id: FileId::of(&file)?,
            len: file.metadata()?.len(),
            began: tail::first_ts(&file)?,
            newline_due: repair == Repair::Left,
            looked_at: None,
            file: Some(Arc::new(file)),
        };
        Ok(Found {
            events,
            repair,
            last_seq,
        })
    }

    /// Opens the file again after [`EventsFile::close`]; `false` when another stands in its place,
    /// or none.
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

    /// Gives the descriptor back.
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

    /// When its first line was written, if it has one.
    pub(super) fn began(&self) -> Option<Timestamp> {
        self.began
    }

    /// The first line is of now.
    pub(super) fn begin(&mut self, now: Timestamp) {
        self.began.get_or_insert(now);
    }

    /// Whether the file stands in the directory.
    pub(super) fn is_in_place(&self, dir: &DirHandle) -> bool {
        dir.identity(EVENTS)
            .is_ok_and(|found| found == Some(self.id))
    }

    /// What became of the file, if it is time for a look; called before every write.
    pub(super) fn standing(&mut self, now: Instant) -> io::Result<Standing> {
        let Some(file) = &self.file else {
            return Ok(Standing::Gone);
        };
        if self.looked_at.is_some_and(|at| now < at + LOOK_INTERVAL) {
            return Ok(Standing::Same);
        }
        let metadata = file.metadata()?;
        if metadata.nlink() == 0 {
            return Ok(Standing::Gone);
        }
        self.looked_at = Some(now);
        let before = std::mem::replace(&mut self.len, metadata.len());
        if self.len == before {
            return Ok(Standing::Same);
        }
        // Whoever changed it may have left half a line.
        let mut last = [b'\n'];
        if self.len > 0 {
            file.read_exact_at(&mut last, self.len - 1)?;
        }
        self.newline_due = last != *b"\n";
        Ok(if self.len < before {
            Standing::Truncated
        } else {
            Standing::Same
        })
    }

    /// Appends whole lines, with one write where the system takes them at once. After an error the
    /// file still ends with a whole line, or the next line begins on a line of its own.
    pub(super) fn append(&mut self, lines: &[u8]) -> Result<(), Torn> {
        let Some(file) = self.file.clone() else {
            return Err(Torn {
                kept: 0,
                cause: io::ErrorKind::NotFound.into(),
            });
        };
        if self.newline_due {
            (&*file)
                .write_all(b"\n")
                .map_err(|cause| Torn { kept: 0, cause })?;
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
                match cut_back(&file, torn) {
                    Ok(len) => self.len = len,
                    Err(_) => self.newline_due = true,
                }
            }
            return Err(Torn { kept, cause });
        }
        Ok(())
    }
}

/// Takes half a line off the end, if it is still there, and says how long the file is then.
fn cut_back(file: &File, torn: &[u8]) -> io::Result<u64> {
    let len = file.metadata()?.len();
    let start = len
        .checked_sub(torn.len() as u64)
        .ok_or(io::ErrorKind::UnexpectedEof)?;
    let mut found = vec![0; torn.len()];
    file.read_exact_at(&mut found, start)?;
    if found != torn {
        return Err(io::Error::other("somebody else wrote to the file"));
    }
    file.set_len(start)?;
    Ok(start)
}
