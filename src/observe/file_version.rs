//! Identifies the versions of a file, to notice that it was changed or replaced.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use crate::timestamp::Timestamp;

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
