//! The announcement of a running observer: a lock in the data directory, and a file that names the
//! process and its socket.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::history::TrustedOwner;
use crate::timestamp::Timestamp;

const LOCK: &str = "observer.lock";
const FILE: &str = "observer.json";

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

/// The right to be the observer of a data directory. Held until dropped, or until the process ends.
#[derive(Debug)]
pub(in crate::cli) struct ObserverLock {
    file: File,
    data: PathBuf,
}

impl ObserverLock {
    /// Takes the lock.
    ///
    /// # Errors
    /// [`Error::is_locked`] if an observer runs; another error if the file cannot be created.
    pub fn take(data: &Path) -> Result<Self> {
        let path = data.join(LOCK);
        let file = open_lock(&path, true)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                // Removes the announcement of an observer that was killed. A failure is harmless.
                let _ = fs::remove_file(data.join(FILE));
                Ok(Self {
                    file,
                    data: data.to_owned(),
                })
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                Err(Error::locked("an observer runs already for").at(data))
            }
            Err(cause) => Err(Error::file("cannot lock", &path, cause.into())),
        }
    }

    pub fn announce(&self, announcement: &Announcement) -> Result<()> {
        let temporary = self.data.join("observer.json.tmp");
        let write = || {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = options.open(&temporary)?;
            let mut text = serde_json::to_vec_pretty(announcement)?;
            text.push(b'\n');
            file.write_all(&text)?;
            fs::rename(&temporary, self.data.join(FILE))
        };
        write().map_err(|cause| Error::file("cannot write", &self.data.join(FILE), cause))
    }

    /// Returns true if the data directory still contains this lock.
    pub fn is_in_place(&self) -> bool {
        let held = self.file.metadata();
        let found = fs::symlink_metadata(self.data.join(LOCK));
        match (held, found) {
            (Ok(held), Ok(found)) => (held.dev(), held.ino()) == (found.dev(), found.ino()),
            _ => false,
        }
    }

    /// Removes the announcement, before the observer ends.
    pub fn withdraw(&self) {
        if !self.is_in_place() {
            // The present announcement belongs to another observer.
            return;
        }
        // A remaining file is harmless, because readers check the lock first.
        let _ = fs::remove_file(self.data.join(FILE));
    }
}

/// Opens the lock file, for writing only if the lock is taken: a check must work in a read-only directory.
fn open_lock(path: &Path, is_taken: bool) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).mode(0o600);
    options.write(is_taken).create(is_taken);
    let failed = |cause| Error::file("cannot open", path, cause);
    let file = options.open(path).map_err(failed)?;
    TrustedOwner::User.check(path, &file.metadata().map_err(failed)?)?;
    Ok(file)
}

/// Returns true if an observer of the data directory runs, ready or not.
///
/// # Errors
/// If the lock cannot be checked, or is not the user's.
pub(in crate::cli) fn is_running(data: &Path) -> Result<bool> {
    let path = data.join(LOCK);
    let file = match open_lock(&path, false) {
        Ok(file) => file,
        Err(_) if !path.exists() => return Ok(false),
        Err(error) => return Err(error),
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
        Err(cause) => Err(Error::file("cannot check", &path, cause.into())),
    }
}

/// Returns the announcement of the running observer; `None` if no observer runs or it is not ready.
///
/// # Errors
/// If the lock or the announcement cannot be read, or is not the user's.
pub(in crate::cli) fn running(data: &Path) -> Result<Option<Announcement>> {
    if !is_running(data)? {
        return Ok(None);
    }
    let path = data.join(FILE);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(Error::file("cannot read", &path, cause)),
    };
    let metadata = fs::metadata(&path).map_err(|cause| Error::file("cannot read", &path, cause))?;
    TrustedOwner::User.check(&path, &metadata)?;
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|cause| Error::file("cannot use", &path, cause.into()))
}

/// Returns the pid of an observer that has ended without a stop, if no other has run since.
pub(in crate::cli) fn left_behind(data: &Path) -> Option<u32> {
    let known: Announcement = serde_json::from_slice(&fs::read(data.join(FILE)).ok()?).ok()?;
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
        fs::write(data.join(FILE), "{}").unwrap();
        let lock = ObserverLock::take(data).unwrap();
        assert!(is_running(data).unwrap());
        assert_eq!(running(data).unwrap(), None);
        assert_eq!(left_behind(data), None);
        assert!(ObserverLock::take(data).unwrap_err().is_locked());
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
        fs::rename(data.join(LOCK), data.join("moved")).unwrap();
        let other = ObserverLock::take(data).unwrap();
        assert!(other.is_in_place() && !lock.is_in_place());
        other.announce(&announcement).unwrap();
        lock.withdraw();
        assert!(running(data).unwrap().is_some());
        drop(other);
        drop(lock);
        assert_eq!(running(data).unwrap(), None);
        ObserverLock::take(data).unwrap().withdraw();
        assert!(!data.join(FILE).exists());
    }
}
