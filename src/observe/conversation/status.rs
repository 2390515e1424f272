//! The status file of an agent, read again after each change.

use std::fs::{self, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::agent::{STATUS_BYTES_MAX, StatusFile};
use crate::process::RunningAgent;
use crate::timestamp::Timestamp;

/// The age from which the time of a change differs from that of the next one: the clock of files
/// advances every 4 to 10 milliseconds.
const SETTLED_MICROS: i64 = 50_000;

/// The state that an agent reports about itself.
#[derive(Debug)]
pub(super) struct Status {
    path: PathBuf,
    /// The change that was read last.
    seen: Option<Change>,
    content: Option<StatusFile>,
}

/// The identity of one version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    inode: u64,
    bytes: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl Change {
    fn of(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            bytes: metadata.len(),
            seconds: metadata.mtime(),
            nanoseconds: metadata.mtime_nsec(),
        }
    }

    fn is_settled(self, now: Timestamp) -> bool {
        let micros = self.seconds.saturating_mul(1_000_000);
        let at = micros.saturating_add(self.nanoseconds / 1_000);
        now.micros().saturating_sub(at) >= SETTLED_MICROS
    }
}

impl Status {
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            seen: None,
            content: None,
        }
    }

    /// Returns the current content; `None` if there is no file or another process wrote it.
    pub fn read(&mut self, agent: &RunningAgent, now: Timestamp) -> Option<&StatusFile> {
        let change = fs::metadata(&self.path)
            .ok()
            .map(|metadata| Change::of(&metadata));
        if change.is_none() || change != self.seen {
            self.content = change.and_then(|_| self.file(agent));
            self.seen = change.filter(|change| change.is_settled(now));
        }
        self.content.as_ref()
    }

    fn file(&self, agent: &RunningAgent) -> Option<StatusFile> {
        let mut bytes = Vec::new();
        let opened = fs::File::open(&self.path).ok()?;
        opened.take(STATUS_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        StatusFile::read(&bytes).filter(|status| status.is_of(agent.pid, agent.started))
    }
}
