//! The status file of an agent, read again after each change.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use crate::agent::{STATUS_BYTES_MAX, StatusFile};
use crate::observe::file_version::FileVersion;
use crate::process::RunningAgent;
use crate::timestamp::Timestamp;

/// The age from which the time of a change differs from that of the next one: the clock of files
/// advances every 4 to 10 milliseconds.
const SETTLED_AGE: Duration = Duration::from_millis(50);

/// The state that an agent reports about itself.
#[derive(Debug)]
pub(super) struct Status {
    path: PathBuf,
    /// The version that was read last.
    seen: Option<FileVersion>,
    content: Option<StatusFile>,
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
        let metadata = fs::metadata(&self.path).ok();
        let version = metadata.as_ref().map(FileVersion::of);
        if version.is_none() || version != self.seen {
            self.content = version.and_then(|_| self.file(agent));
            let is_settled = |age: Duration| age >= SETTLED_AGE;
            self.seen = version.filter(|version| version.age(now).is_some_and(is_settled));
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
