//! Reads parts of files that other programs write, and notices that such a file was replaced.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::Duration;

use serde::Deserialize;

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

/// Returns the position after the first line end, or the length of a text without one: bytes that were
/// read from the middle of a file begin with a partial line.
pub(super) fn after_partial_line(bytes: &[u8]) -> usize {
    memchr::memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1)
}

// Identifies the versions of a file, to notice that it was changed or replaced.

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

    /// Returns true if both are versions of the same file, which was not replaced in between.
    pub fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Returns the time of the last write; `None` if a timestamp cannot hold it.
    pub fn modified(&self) -> Option<Timestamp> {
        let (seconds, nanos) = self.modified;
        let micros = seconds.checked_mul(1_000_000)?.checked_add(nanos / 1_000)?;
        Some(Timestamp::from_micros(micros))
    }

    /// Returns the time since the last write; `None` if the file's clock is ahead.
    pub fn age(&self, now: Timestamp) -> Option<Duration> {
        let age = now.micros().checked_sub(self.modified()?.micros())?;
        u64::try_from(age).ok().map(Duration::from_micros)
    }
}

#[derive(Deserialize)]
struct Dated<'a> {
    #[serde(borrow)]
    timestamp: Option<&'a str>,
}

/// Returns the position of the first line of a text with a new time. Lines without a time belong to their predecessor.
pub(super) fn first_line(text: &[u8], is_new: impl Fn(Timestamp) -> bool) -> usize {
    let mut at = 0;
    while at < text.len() {
        let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |end| at + end + 1);
        if time(&text[at..end]).is_some_and(&is_new) {
            return at;
        }
        at = end;
    }
    text.len()
}

pub(super) fn last_time(text: &[u8]) -> Option<Timestamp> {
    let mut lines = text.rsplit(|byte| *byte == b'\n');
    lines.find_map(time)
}

fn time(line: &[u8]) -> Option<Timestamp> {
    let dated: Dated<'_> = serde_json::from_slice(line).ok()?;
    dated.timestamp?.parse().ok()
}
