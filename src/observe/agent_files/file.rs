//! Follows files that other programs write: what is new in them, and whether they were replaced.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::OFlags;

use crate::agent::record_time;
use crate::timestamp::Timestamp;

/// Reads `bytes` bytes from `offset` on, or fewer if the file ends before.
///
/// # Errors
/// The error of the system. Interrupted reads are continued.
pub(super) fn read_at(file: &File, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
    let mut read = 0;
    while read < buffer.len() {
        match file.read_at(&mut buffer[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(read);
    Ok(buffer)
}

/// Opens a file without waiting: a program may have put a pipe in its place.
pub(super) fn open(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::empty())
}

fn open_with(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = i32::try_from((OFlags::NONBLOCK | flags).bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is no regular file"))
    }
}

/// Returns an absolute path without links in its directories. The file itself may be a link, with a name of its own.
pub(super) fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let directory = path
        .parent()
        .and_then(|parent| fs::canonicalize(parent).ok());
    match directory.zip(path.file_name()) {
        Some((directory, name)) => directory.join(name),
        None => path,
    }
}

/// Reads a small file, opened with these flags, at most `bytes_max` of it; `None` if it cannot be read.
pub(super) fn read_small(path: &Path, flags: OFlags, bytes_max: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = open_with(path, flags).ok()?;
    file.take(bytes_max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Reads the end of a file, in whole lines. Returns their position in the file, too.
pub(super) fn read_tail(file: &File, bytes: u64, bytes_max: u64) -> io::Result<(u64, Vec<u8>)> {
    let start = bytes.saturating_sub(bytes_max);
    let mut tail = read_at(file, start, bytes - start)?;
    // What was read from the middle of a file begins with a partial line.
    let partial = match start {
        0 => 0,
        _ => memchr::memchr(b'\n', &tail).map_or(tail.len(), |end| end + 1),
    };
    tail.drain(..partial);
    Ok((start + partial as u64, tail))
}

/// A file that another program appends to, rewrites or replaces, and how far it was read.
#[derive(Debug)]
pub(super) struct Followed {
    pub path: PathBuf,
    /// The version that was read last.
    pub seen: Option<FileVersion>,
    /// The position up to which it was read.
    pub offset: u64,
}

impl Followed {
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            seen: None,
            offset: 0,
        }
    }

    /// Returns true if this is another file than before.
    pub fn is_replaced(&self, version: &FileVersion) -> bool {
        self.seen
            .is_some_and(|seen| (seen.device, seen.inode) != (version.device, version.inode))
    }

    /// Reads on from the last position, at most `bytes_max`.
    pub fn read(&mut self, file: &File, bytes: u64, bytes_max: u64) -> io::Result<Vec<u8>> {
        let left = bytes.saturating_sub(self.offset);
        let piece = read_at(file, self.offset, left.min(bytes_max))?;
        self.offset += piece.len() as u64;
        Ok(piece)
    }
}

// Identifies the versions of a file, to notice that it was changed or replaced.

/// Returns the time at which a file was created, where its file system knows it.
pub(super) fn created(metadata: &Metadata) -> Option<Timestamp> {
    let since_epoch = metadata.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since_epoch.as_micros())
        .ok()
        .map(Timestamp::from_micros)
}

/// The properties that reveal a change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileVersion {
    device: u64,
    inode: u64,
    pub bytes: u64,
    /// The seconds and nanoseconds of the last write.
    modified: (i64, i64),
}

impl FileVersion {
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }

    /// Returns the time of the last write; `None` if a timestamp cannot hold it.
    pub fn modified(&self) -> Option<Timestamp> {
        let (seconds, nanos) = self.modified;
        Timestamp::from_unix(seconds, nanos)
    }

    /// Returns the time since the last write; `None` if the file's clock is ahead.
    pub fn age(&self, now: Timestamp) -> Option<Duration> {
        let age = now.micros().checked_sub(self.modified()?.micros())?;
        u64::try_from(age).ok().map(Duration::from_micros)
    }
}

/// Returns the position of the first line of a text with a new time. Lines without a time belong to their predecessor.
pub(super) fn first_line(text: &[u8], is_new: impl Fn(Timestamp) -> bool) -> usize {
    let mut at = 0;
    while at < text.len() {
        let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |end| at + end + 1);
        if record_time(&text[at..end]).is_some_and(&is_new) {
            return at;
        }
        at = end;
    }
    text.len()
}

pub(super) fn last_time(text: &[u8]) -> Option<Timestamp> {
    let mut lines = text.rsplit(|byte| *byte == b'\n');
    lines.find_map(record_time)
}
