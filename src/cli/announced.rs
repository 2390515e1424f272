//! A process that others find through the data directory: it holds a lock, and a file says what they need to know.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::private_file::replace;
use crate::error::{Error, Result};
use crate::history::TrustedOwner;

/// The names of a kind of process, of which a data directory has at most one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announced {
    /// The beginning of its files' names.
    pub name: &'static str,
    /// The problem if one runs already.
    pub runs_already: &'static str,
}

/// The right to be that process. Held until dropped, or until the process ends.
#[derive(Debug)]
pub(super) struct ProcessLock {
    kind: Announced,
    file: File,
    data: PathBuf,
}

impl Announced {
    fn lock_in(self, data: &Path) -> PathBuf {
        data.join(format!("{}.lock", self.name))
    }

    /// Returns the path of the file that says what others need to know.
    pub fn file_in(self, data: &Path) -> PathBuf {
        data.join(format!("{}.json", self.name))
    }

    /// Takes the lock.
    ///
    /// # Errors
    /// [`Error::is_locked`] if such a process runs; another error if the file cannot be created.
    pub fn take(self, data: &Path) -> Result<ProcessLock> {
        let path = self.lock_in(data);
        let file = open_lock(&path, true)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                // Removes the announcement of a process that was killed. A failure is harmless.
                let _ = fs::remove_file(self.file_in(data));
                Ok(ProcessLock {
                    kind: self,
                    file,
                    data: data.to_owned(),
                })
            }
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::locked(self.runs_already).at(data)),
            Err(cause) => Err(Error::file("cannot lock", &path, cause.into())),
        }
    }

    /// Returns true if such a process runs, ready or not.
    ///
    /// # Errors
    /// If the lock cannot be checked, or is not the user's.
    pub fn is_running(self, data: &Path) -> Result<bool> {
        let path = self.lock_in(data);
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

    /// Returns what the running process has announced; `None` if none runs or it is not ready.
    ///
    /// # Errors
    /// If the lock or the announcement cannot be read, or is not the user's.
    pub fn running<T: DeserializeOwned>(self, data: &Path) -> Result<Option<T>> {
        if !self.is_running(data)? {
            return Ok(None);
        }
        let path = self.file_in(data);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(Error::file("cannot read", &path, cause)),
        };
        let metadata =
            fs::metadata(&path).map_err(|cause| Error::file("cannot read", &path, cause))?;
        TrustedOwner::User.check(&path, &metadata)?;
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|cause| Error::file("cannot use", &path, cause.into()))
    }
}

impl ProcessLock {
    /// Writes what others need to know.
    pub fn announce(&self, announcement: &impl Serialize) -> Result<()> {
        let path = self.kind.file_in(&self.data);
        let write = || {
            let mut text = serde_json::to_vec_pretty(announcement)?;
            text.push(b'\n');
            replace(&path, &text)
        };
        write().map_err(|cause| Error::file("cannot write", &path, cause))
    }

    /// Returns true if the data directory still contains this lock.
    pub fn is_in_place(&self) -> bool {
        let held = self.file.metadata();
        let found = fs::symlink_metadata(self.kind.lock_in(&self.data));
        match (held, found) {
            (Ok(held), Ok(found)) => (held.dev(), held.ino()) == (found.dev(), found.ino()),
            _ => false,
        }
    }

    /// Removes the announcement, before the process ends.
    pub fn withdraw(&self) {
        if !self.is_in_place() {
            // The present announcement belongs to another process.
            return;
        }
        // A remaining file is harmless, because readers check the lock first.
        let _ = fs::remove_file(self.kind.file_in(&self.data));
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
