//! The announcement of a running observer, which names the process and its socket.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cli::announced::Announced;
#[cfg(feature = "hosts")]
use crate::cli::announced::ProcessLock;
#[cfg(feature = "hosts")]
use crate::clock::Clock;
use crate::error::Result;
use crate::timestamp::Timestamp;

/// The observer of a data directory.
pub(super) const OBSERVER: Announced = Announced {
    name: "observer",
    runs_already: "an observer runs already for",
};

/// The information that faces need about the observer of a data directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::cli) struct Announcement {
    /// The pid of the observer.
    pub pid: u32,
    /// The socket of its API.
    pub socket: PathBuf,
    /// The data directory.
    pub data_dir: PathBuf,
    /// The sockets of the observed tmux servers.
    pub servers: Vec<PathBuf>,
    /// The version of the program.
    pub version: String,
    /// The time of its start.
    pub started: Timestamp,
    /// Clients may type into panes.
    #[serde(default)]
    pub allow_input: bool,
    /// The other options of its start, with their values.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// The file of its configuration, whether or not it exists.
    #[serde(default)]
    pub config: Option<PathBuf>,
}

impl Announcement {
    /// Returns a line for people if the file of the configuration has changed since the observer has started.
    pub fn outdated(&self) -> Option<String> {
        let path = self.config.as_ref()?;
        let written = fs::metadata(path).ok()?;
        let written = Timestamp::from_unix(written.mtime(), written.mtime_nsec())?;
        (written > self.started).then(|| {
            format!(
                "{} is newer than the observer: its changes take effect after td-observe stop and start",
                path.display()
            )
        })
    }

    /// Returns a line for people about the observer in this state.
    pub fn line(&self, state: &str) -> String {
        format!(
            "{state}: pid {}, socket {}, data directory {}\n",
            self.pid,
            self.socket.display(),
            self.data_dir.display()
        )
    }
}

/// The right to stand for the observer of a data directory in which several are read as one.
#[cfg(feature = "hosts")]
pub(in crate::cli) struct HubLock(ProcessLock);

#[cfg(feature = "hosts")]
impl HubLock {
    /// Takes the lock of a new directory.
    pub fn take(data: &Path) -> Result<Self> {
        OBSERVER.take(data).map(Self)
    }

    /// Tells faces where to ask.
    pub fn announce(&self, places: (&Path, &Path), clock: &Clock) -> Result<()> {
        // The observer of each host decides.
        self.announce_as(places, true, clock)
    }

    /// Tells faces where to ask, and that nobody types there.
    #[cfg(feature = "redis")]
    pub fn announce_reading(&self, places: (&Path, &Path), clock: &Clock) -> Result<()> {
        self.announce_as(places, false, clock)
    }

    fn announce_as(
        &self,
        (socket, data): (&Path, &Path),
        allow_input: bool,
        clock: &Clock,
    ) -> Result<()> {
        self.0.announce(&Announcement {
            pid: std::process::id(),
            socket: socket.to_owned(),
            data_dir: data.to_owned(),
            servers: Vec::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: clock.wall(),
            allow_input,
            options: BTreeMap::new(),
            config: None,
        })
    }
}

/// Returns true if an observer of the data directory runs, ready or not.
///
/// # Errors
/// If the lock cannot be checked, or is not the user's.
pub(in crate::cli) fn is_running(data: &Path) -> Result<bool> {
    OBSERVER.is_running(data)
}

/// Returns the announcement of the running observer; `None` if no observer runs or it is not ready.
///
/// # Errors
/// If the lock or the announcement cannot be read, or is not the user's.
pub(in crate::cli) fn running(data: &Path) -> Result<Option<Announcement>> {
    OBSERVER.running(data)
}

/// Returns the pid of an observer that has ended without a stop, if no other has run since.
pub(in crate::cli) fn left_behind(data: &Path) -> Option<u32> {
    let known: Announcement =
        serde_json::from_slice(&fs::read(OBSERVER.file_in(data)).ok()?).ok()?;
    (!is_running(data).ok()?).then_some(known.pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_observer_for_a_data_directory() {
        let temp = tempfile::tempdir().unwrap();
        let data = temp.path();
        assert!(!is_running(data).unwrap());
        // An observer that was killed has left its announcement.
        fs::write(OBSERVER.file_in(data), "{}").unwrap();
        let lock = OBSERVER.take(data).unwrap();
        assert!(is_running(data).unwrap());
        assert_eq!(running(data).unwrap(), None);
        assert_eq!(left_behind(data), None);
        assert!(OBSERVER.take(data).unwrap_err().is_locked());
        let announcement = Announcement {
            pid: 7,
            socket: data.join("s"),
            data_dir: data.to_owned(),
            servers: vec!["/tmp/tmux-0/default".into()],
            config: None,
            version: "1".to_owned(),
            started: Timestamp::from_micros(0),
            allow_input: true,
            options: BTreeMap::new(),
        };
        lock.announce(&announcement).unwrap();
        assert_eq!(running(data).unwrap(), Some(announcement.clone()));
        assert!(lock.is_in_place());
        fs::rename(data.join("observer.lock"), data.join("moved")).unwrap();
        let other = OBSERVER.take(data).unwrap();
        assert!(other.is_in_place() && !lock.is_in_place());
        other.announce(&announcement).unwrap();
        lock.withdraw();
        assert!(running(data).unwrap().is_some());
        drop(other);
        drop(lock);
        assert_eq!(running(data).unwrap(), None);
        OBSERVER.take(data).unwrap().withdraw();
        assert!(!OBSERVER.file_in(data).exists());
    }
}
