//! One writer a run: an advisory lock on a file of its own, which ends with the process that holds it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::error::{Error, Result};
use crate::history::dir::{LOCK, RunDirectory, RunSlot};
use crate::history::dir_handle::{DirHandle, FileId};
use crate::thread;

/// How often the lock file may vanish between opening and locking it, or be asked about by others
/// at just that moment, before that is an error.
const TRIES_MAX: u32 = 100;
/// How long to wait for those who only ask whether the run is being written: they hold the lock
/// for microseconds.
const ASKED_PAUSE: Duration = Duration::from_millis(1);
/// Room for any pid and its line feed; what is longer was not written by us.
const PID_BYTES_MAX: usize = 16;

/// The right to write a run. Held until dropped, or until the process is gone.
#[derive(Debug)]
pub(super) struct RunLock {
    file: File,
    /// Counts this lock's file descriptor.
    #[expect(
        dead_code,
        reason = "held for its drop, which gives the place to another run"
    )]
    slot: RunSlot,
}

impl RunLock {
    /// Takes the lock of a run.
    ///
    /// # Errors
    /// [`Error::is_locked`] when another process, or another part of this one, holds it.
    pub(super) fn take(run: &RunDirectory, dir: &DirHandle) -> Result<Self> {
        let slot = run.data().take_slot()?;
        let file = lock_file(dir)?;
        Ok(Self { file, slot })
    }

    /// Takes the lock again when its file was removed, so that nobody else thinks the run is free.
    pub(super) fn retake(&mut self, dir: &DirHandle) -> Result<()> {
        if !self.is_in_place(dir) {
            self.file = lock_file(dir)?;
        }
        Ok(())
    }

    /// Whether the locked file is still the one that others would try to lock.
    pub(super) fn is_in_place(&self, dir: &DirHandle) -> bool {
        is_at(&self.file, dir).unwrap_or(false)
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        // Closing alone is not enough: a child that another thread is just starting holds a copy of
        // the descriptor until it runs its program. If this fails, closing has to do.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

fn lock_file(dir: &DirHandle) -> Result<File> {
    let path = dir.join(LOCK);
    let failed = |cause: io::Error| Error::file("cannot lock the run with", &path, cause);
    for _ in 0..TRIES_MAX {
        let file = dir
            .file(LOCK, OFlags::RDWR | OFlags::CREATE)
            .map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) if !is_held(&file).map_err(failed)? => {
                thread::park(Some(ASKED_PAUSE));
                continue;
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let holder = pid_in(&file)
                    .map_or("another process".to_owned(), |pid| format!("process {pid}"));
                return Err(
                    Error::locked(format!("{holder} is writing this run, it holds")).at(path),
                );
            }
            Err(cause) => return Err(failed(cause.into())),
        }
        if is_at(&file, dir).map_err(failed)? {
            // The text only helps a human: without room for it the lock is as good.
            let _ = file.set_len(0);
            let _ = file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0);
            return Ok(file);
        }
        // Somebody removed the file between our opening and locking it: what we hold is nothing.
    }
    Err(failed(io::Error::other("it keeps vanishing")))
}

impl RunDirectory {
    /// Whether somebody writes the run now.
    ///
    /// # Errors
    /// When there is no such run, or that cannot be asked.
    pub fn is_written(&self) -> Result<bool> {
        is_written(&self.open_dir()?)
            .map_err(|cause| Error::file("cannot ask who writes the run in", self.path(), cause))
    }
}

/// Whether somebody writes the run of a directory now.
pub(super) fn is_written(dir: &DirHandle) -> io::Result<bool> {
    match dir.file(LOCK, OFlags::RDONLY) {
        Ok(file) => is_held(&file),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(cause),
    }
}

/// Whether a writer holds the lock. There is no way to ask but to take it, as one of many, and to
/// give it back at once.
fn is_held(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            flock(file, FlockOperation::Unlock)?;
            Ok(false)
        }
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
        Err(cause) => Err(cause.into()),
    }
}

/// Whether `file` is the lock file that stands in the directory now.
fn is_at(file: &File, dir: &DirHandle) -> io::Result<bool> {
    Ok(dir.identity(LOCK)? == Some(FileId::of(file)?))
}

fn pid_in(file: &File) -> Option<u32> {
    let mut text = [0; PID_BYTES_MAX];
    let read = file.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(text.get(..read)?)
        .ok()?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::dir::DataDir;

    #[test]
    fn the_second_is_told_who_is_first() {
        let temp = tempfile::tempdir().unwrap();
        let run = DataDir::new(temp.path()).run(&"a".into());
        let dir = run.create().unwrap();
        let first = RunLock::take(&run, &dir).unwrap();
        let error = RunLock::take(&run, &dir).unwrap_err();
        assert!(error.is_locked());
        assert!(
            error
                .to_string()
                .contains(&format!("process {} is", std::process::id()))
        );
        drop(first);
        assert!(RunLock::take(&run, &dir).is_ok());
    }

    #[test]
    fn whoever_asks_is_in_nobodys_way() {
        let temp = tempfile::tempdir().unwrap();
        let run = DataDir::new(temp.path()).run(&"a".into());
        let dir = run.create().unwrap();
        assert!(!is_written(&dir).unwrap());
        let (guard, stop) = thread::stop_pair();
        let asked = run.open_dir().unwrap();
        let asking = thread::spawn("td-test", move || {
            while !thread::is_stopped(&stop) {
                is_written(&asked).unwrap();
            }
        })
        .unwrap();
        for _ in 0..200 {
            let lock = RunLock::take(&run, &dir).unwrap();
            assert!(is_written(&dir).unwrap());
            drop(lock);
        }
        drop(guard);
        asking.join().unwrap();
        assert!(!is_written(&dir).unwrap());
    }

    #[test]
    fn a_removed_lock_is_taken_again() {
        let temp = tempfile::tempdir().unwrap();
        let run = DataDir::new(temp.path()).run(&"a".into());
        let dir = run.create().unwrap();
        let mut lock = RunLock::take(&run, &dir).unwrap();
        dir.remove(LOCK).unwrap();
        assert!(!lock.is_in_place(&dir));
        lock.retake(&dir).unwrap();
        assert!(RunLock::take(&run, &dir).unwrap_err().is_locked());
    }
}
