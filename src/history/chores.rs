//! The thread `td-chores`, which compresses closed files and removes runs that are not retained.
//!
//! The writer sends chores and never waits. A chore that finds no room or fails is queued again when its run
//! is opened the next time. `td-chores` blocks on the disk and on an empty queue. It ends when the writer
//! closes the queue. When it is cancelled, it stops within a file and discards the incomplete compressed
//! file.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use flate2::Compression;
use flate2::write::GzEncoder;
use rustix::fs::{FlockOperation, OFlags, Timestamps, flock, futimens};

use crate::error::{Error, Result};
use crate::history::dir::{DataDir, RunDirectory};
use crate::history::dir_handle::{DirHandle, FileId, sync_directory};
use crate::history::prune::Retention;
use crate::history::rotate::ClosedFile;
use crate::history::run_files::all_closed;
use crate::thread::{self, Handle};
use crate::timestamp::Timestamp;

/// The number of queued chores, most of them runs with files to compress. Usually, fewer runs are written at
/// the same time.
const QUEUE_MAX: usize = 256;
/// The bytes read between two checks for cancellation, which take some milliseconds.
const CHUNK_BYTES: usize = 256 * 1024;

/// Work without a deadline.
#[derive(Debug)]
pub(super) enum Chore {
    /// Compress all closed files of a run.
    Compress(RunDirectory),
    /// Remove the runs that are not retained at this time.
    Prune(DataDir, Retention, Timestamp),
}

/// The writer's handle of `td-chores`.
#[derive(Debug)]
pub(super) struct Chores {
    jobs: Sender<Chore>,
    is_cancelled: Arc<AtomicBool>,
    thread: Handle<()>,
}

impl Chores {
    pub(super) fn start() -> Result<Self> {
        let (jobs, queue) = bounded(QUEUE_MAX);
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let given_up = Arc::clone(&is_cancelled);
        let thread = thread::spawn("td-chores", move || serve(&queue, &given_up))?;
        Ok(Self {
            jobs,
            is_cancelled,
            thread,
        })
    }

    /// Queues a chore if there is room.
    pub(super) fn offer(&self, chore: Chore) {
        // The module's documentation describes what happens to refused chores.
        let (Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) =
            self.jobs.try_send(chore);
    }

    /// Cancels the current chore and waits for the thread until the deadline.
    pub(super) fn finish(self, deadline: Instant) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        drop(self.jobs);
        // A thread that hangs on a disk that does not respond is abandoned.
        if let Ok(Err(panicked)) = self.thread.join_deadline(deadline) {
            log::error!("{panicked}");
        }
    }
}

fn serve(queue: &Receiver<Chore>, is_cancelled: &AtomicBool) {
    for chore in queue {
        if is_cancelled.load(Ordering::Relaxed) {
            return;
        }
        let done = match chore {
            Chore::Compress(run) => compress_all(&run, is_cancelled),
            Chore::Prune(data, retention, now) => prune(&data, retention, now, is_cancelled),
        };
        if let Err(error) = done {
            // A failure is harmless: an uncompressed file is valid, and excess history is only kept longer.
            log::warn!("{error:?}");
        }
    }
}

fn prune(
    data: &DataDir,
    retention: Retention,
    now: Timestamp,
    is_cancelled: &AtomicBool,
) -> Result<()> {
    let is_cancelled = || is_cancelled.load(Ordering::Relaxed);
    let pruned = data.prune_unless_cancelled(retention, now, &is_cancelled)?;
    for run in pruned.runs {
        log::info!("removed the run {}: too much history", run.execution_id);
    }
    for problem in pruned.problems {
        log::warn!("{problem:?}");
    }
    Ok(())
}

/// Compresses all closed files of a run that are not compressed.
fn compress_all(run: &RunDirectory, is_cancelled: &AtomicBool) -> Result<()> {
    let dir = run.open_dir()?;
    let failed = |cause| Error::file("cannot compress the log in", run.path(), cause);
    let mut plain = all_closed(&dir).map_err(failed)?;
    plain.retain(|closed| !closed.is_gzip);
    plain.sort();
    for closed in plain {
        if is_cancelled.load(Ordering::Relaxed) {
            break;
        }
        compress(&dir, closed.number, is_cancelled).map_err(failed)?;
    }
    Ok(())
}

/// Replaces a plain file by a compressed one. One of the two is complete at any time.
fn compress(dir: &DirHandle, number: u32, is_cancelled: &AtomicBool) -> io::Result<()> {
    let (plain, compressed) = (
        ClosedFile::plain(number).name(),
        ClosedFile::gzip(number).name(),
    );
    let temporary = format!("{compressed}.tmp");
    let from = dir.file(&plain, OFlags::RDONLY)?;
    let into = dir.file(&temporary, OFlags::WRONLY | OFlags::CREATE)?;
    if flock(&into, FlockOperation::NonBlockingLockExclusive).is_err()
        || dir.identity(&temporary)? != Some(FileId::of(&into)?)
    {
        // Another process is compressing the file, or has just finished and renamed it.
        return Ok(());
    }
    match compress_into(&from, &into, is_cancelled) {
        Ok(true) => {}
        // An incomplete file is harmless but uses disk space.
        given_up => {
            dir.remove(&temporary)?;
            return given_up.map(drop);
        }
    }
    match dir.rename_new(&temporary, &compressed) {
        // The new name must be durable before the plain file is removed.
        Ok(()) => sync_directory(dir.path())?,
        // A crash left both files. A different file with this name must be kept.
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {
            dir.remove(&temporary)?;
            let there = dir.file(&compressed, OFlags::RDONLY)?;
            if uncompressed_bytes(&there)? != from.metadata()?.len() as u32 {
                return Err(io::Error::other(format!(
                    "{compressed} exists already with other content"
                )));
            }
        }
        Err(cause) => return Err(cause),
    }
    dir.remove(&plain)
}

/// Returns the uncompressed length of a file modulo 2^32, from its last bytes (RFC 1952).
fn uncompressed_bytes(file: &File) -> io::Result<u32> {
    let mut end = [0; 4];
    let at = file.metadata()?.len().saturating_sub(4);
    file.read_exact_at(&mut end, at)?;
    Ok(u32::from_le_bytes(end))
}

/// Compresses a file and syncs the result. Returns `false` if it was cancelled.
fn compress_into(mut from: &File, into: &File, is_cancelled: &AtomicBool) -> io::Result<bool> {
    // Removes the output of another process.
    into.set_len(0)?;
    let mut encoder = GzEncoder::new(into, Compression::default());
    let mut source = vec![0; CHUNK_BYTES];
    loop {
        let read = match from.read(&mut source) {
            Ok(0) => break,
            Ok(read) => read,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
            Err(cause) => return Err(cause),
        };
        if is_cancelled.load(Ordering::Relaxed) {
            return Ok(false);
        }
        encoder.write_all(source.get(..read).unwrap_or_default())?;
    }
    encoder.finish()?;
    keep_times(from, into)?;
    into.sync_all()?;
    Ok(true)
}

/// Copies the times, from which readers derive the age of a file.
fn keep_times(from: &File, into: &File) -> io::Result<()> {
    let about = rustix::fs::fstat(from)?;
    let time = |second, nanosecond| rustix::fs::Timespec {
        tv_sec: second,
        // Always below a billion.
        tv_nsec: nanosecond as _,
    };
    let times = Timestamps {
        last_access: time(about.st_atime, about.st_atime_nsec),
        last_modification: time(about.st_mtime, about.st_mtime_nsec),
    };
    Ok(futimens(into.as_fd(), &times)?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_plain_or_a_compressed_file_always_exists() {
        let temp = tempfile::tempdir().unwrap();
        let run = DataDir::new(temp.path()).run(&"a".into());
        run.create().unwrap();
        let text = "a line of a log\n".repeat(50_000);
        let at = |name: String| run.path().join(name);
        fs::write(at(ClosedFile::plain(1).name()), &text).unwrap();
        fs::write(at(ClosedFile::gzip(1).name() + ".tmp"), "left by another").unwrap();
        // Cancelled immediately: only the leftover file is removed.
        let dir = run.open_dir().unwrap();
        compress(&dir, 1, &AtomicBool::new(true)).unwrap();
        assert_eq!(
            fs::read_to_string(at(ClosedFile::plain(1).name())).unwrap(),
            text
        );
        assert_eq!(fs::read_dir(run.path()).unwrap().count(), 1);
        compress_all(&run, &AtomicBool::new(false)).unwrap();
        assert_eq!(fs::read_dir(run.path()).unwrap().count(), 1);
        let compressed = File::open(at(ClosedFile::gzip(1).name())).unwrap();
        let mut unpacked = String::new();
        flate2::read::GzDecoder::new(compressed)
            .read_to_string(&mut unpacked)
            .unwrap();
        assert_eq!(unpacked, text);
    }

    #[test]
    fn a_file_in_both_forms_is_reduced_to_one() {
        let temp = tempfile::tempdir().unwrap();
        let run = DataDir::new(temp.path()).run(&"a".into());
        run.create().unwrap();
        let at = |name: String| run.path().join(name);
        let plain = at(ClosedFile::plain(1).name());
        fs::write(&plain, "the same").unwrap();
        compress_all(&run, &AtomicBool::new(false)).unwrap();
        fs::write(&plain, "the same").unwrap();
        compress_all(&run, &AtomicBool::new(false)).unwrap();
        assert_eq!(fs::read_dir(run.path()).unwrap().count(), 1);
        // A different file is neither lost nor replaces the first.
        fs::write(&plain, "something else").unwrap();
        assert!(compress_all(&run, &AtomicBool::new(false)).is_err());
        assert_eq!(fs::read_to_string(&plain).unwrap(), "something else");
        assert!(at(ClosedFile::gzip(1).name()).exists());
    }

    #[test]
    fn a_file_that_another_process_compresses_is_skipped() {
        let temp = tempfile::tempdir().unwrap();
        let run = DataDir::new(temp.path()).run(&"a".into());
        run.create().unwrap();
        let plain = run.path().join(ClosedFile::plain(1).name());
        fs::write(&plain, "x").unwrap();
        let other = File::create(run.path().join(ClosedFile::gzip(1).name() + ".tmp")).unwrap();
        flock(&other, FlockOperation::LockExclusive).unwrap();
        compress_all(&run, &AtomicBool::new(false)).unwrap();
        assert!(plain.exists());
    }
}
