//! One writer per run: an advisory lock on a separate file, which ends with the process that holds it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::error::{Error, Result};
use crate::history::dir::{RunDirectory, RunSlot};
use crate::history::dir_handle::{DirHandle, FileId, LOCK};
use crate::thread;

/// The number of attempts to lock a file that is removed between opening and locking, or that another program
/// probes at the same time.
const TRIES_MAX: u32 = 100;
/// The pause while other programs probe the lock, which they hold for microseconds.
const PROBE_PAUSE: Duration = Duration::from_millis(1);
/// The maximum size of a process id and a line feed; longer text is not from this program.
const PID_BYTES_MAX: usize = 16;

/// The right to write a run, held until it is dropped or the process ends.
#[derive(Debug)]
pub(super) struct RunLock {
    file: File,
    /// Accounts for this lock's file descriptor.
    #[expect(
        dead_code,
        reason = "held for its drop, which frees the slot for another run"
    )]
    slot: RunSlot,
}

impl RunLock {
    /// Takes the lock of a run.
    ///
    /// # Errors
    /// [`Error::is_locked`] if another process, or another part of this process, holds it.
    pub(super) fn take(run: &RunDirectory, dir: &DirHandle) -> Result<Self> {
        let slot = run.data().take_slot()?;
        let file = lock_file(dir)?;
        Ok(Self { file, slot })
    }

    /// Takes the lock again if its file was removed, so that no other writer treats the run as free.
    pub(super) fn retake(&mut self, dir: &DirHandle) -> Result<()> {
        if !self.is_in_place(dir) {
            self.file = lock_file(dir)?;
        }
        Ok(())
    }

    /// Returns `true` if the locked file is still the one that another writer would lock.
    pub(super) fn is_in_place(&self, dir: &DirHandle) -> bool {
        is_at(&self.file, dir).unwrap_or(false)
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        // Closing alone is not enough: a child that another thread is starting holds a copy of the descriptor
        // until it executes its program. If unlocking fails, closing must suffice.
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
                thread::park(Some(PROBE_PAUSE));
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
            // The text is only informative; the lock works without it.
            let _ = file.set_len(0);
            let _ = file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0);
            return Ok(file);
        }
        // The file was removed between opening and locking it, so the lock protects nothing.
    }
    Err(failed(io::Error::other(
        "another program keeps removing the lock file",
    )))
}

impl RunDirectory {
    /// Returns `true` if a writer has the run open.
    ///
    /// # Errors
    /// If there is no such run, or its lock cannot be probed.
    pub fn is_written(&self) -> Result<bool> {
        is_written(&self.open_dir()?)
            .map_err(|cause| Error::file("cannot check the lock of the run in", self.path(), cause))
    }
}

/// Returns `true` if a writer has the run of a directory open.
pub(super) fn is_written(dir: &DirHandle) -> io::Result<bool> {
    dir.existing_file(LOCK)?
        .map_or(Ok(false), |file| is_held(&file))
}

/// Returns `true` if a writer holds the lock. The only way to find out is to take a shared lock and release
/// it immediately.
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

/// Returns `true` if `file` is the lock file in the directory.
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
    fn a_refused_writer_learns_the_pid_of_the_holder() {
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
    fn probing_the_lock_does_not_refuse_writers() {
        let temp = tempfile::tempdir().unwrap();
        let run = DataDir::new(temp.path()).run(&"a".into());
        let dir = run.create().unwrap();
        assert!(!is_written(&dir).unwrap());
        let (guard, stop) = thread::stop_pair();
        let probed = run.open_dir().unwrap();
        let prober = thread::spawn("td-test", move || {
            while !thread::is_stopped(&stop) {
                is_written(&probed).unwrap();
            }
        })
        .unwrap();
        for _ in 0..200 {
            let lock = RunLock::take(&run, &dir).unwrap();
            assert!(is_written(&dir).unwrap());
            drop(lock);
        }
        drop(guard);
        prober.join().unwrap();
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
