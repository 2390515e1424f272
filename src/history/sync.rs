//! The thread `td-sync` makes written lines survive a power cut.
//!
//! The writer sends jobs and `td-sync` receives them. The writer waits for room only with
//! [`SyncPolicy::Always`] and, with a deadline, at the end. `td-sync` blocks in `fdatasync` and on
//! an empty queue. It reports problems through a bounded channel for which it never waits. It ends
//! when the writer closes the queue. It also closes runs, because that writes and syncs the
//! metadata: the run's lock travels with the job and is released last.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use rustix::fs::OFlags;

use crate::error::{Error, Result};
use crate::event::ExecutionId;
use crate::history::dir::RunDirectory;
use crate::history::dir_handle::{EVENTS, METADATA, sync_directory};
use crate::history::lock::RunLock;
use crate::history::metadata::RunMetadata;
use crate::history::notice::{LogNotice, LogNoticeKind};
use crate::thread::{self, Handle};

/// The number of queued jobs. Each may keep a file open that the writer has closed, so this is part
/// of the sum of file descriptors, together with one in the thread's hands. What finds no room
/// stays marked and is offered again.
const QUEUE_MAX: usize = 63;
/// The number of problems that wait for the writer; further ones add nothing.
const PROBLEMS_MAX: usize = 64;

/// The time until written lines survive a power cut. A crash of the program alone loses nothing
/// with any policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyncPolicy {
    /// The system decides.
    Never,
    /// This long after they were written, and at the end.
    Interval(Duration),
    /// Before the writer takes the next batch.
    Always,
}

impl Default for SyncPolicy {
    fn default() -> Self {
        Self::Interval(Duration::from_secs(1))
    }
}

/// A job for `td-sync`.
#[derive(Debug)]
pub(super) enum SyncJob {
    /// Syncs the lines of a run, then drops `done`.
    Data {
        id: ExecutionId,
        file: Arc<File>,
        done: Option<Sender<Infallible>>,
    },
    /// Syncs the metadata, the names in a run directory and its own name.
    Directory(RunDirectory),
    /// Replaces the metadata.
    Metadata {
        directory: RunDirectory,
        metadata: Box<RunMetadata>,
    },
    Close(Box<ClosingRun>),
}

/// A run that has ended.
#[derive(Debug)]
pub(super) struct ClosingRun {
    pub(super) directory: RunDirectory,
    pub(super) metadata: RunMetadata,
    /// Some of its lines are not synced.
    pub(super) is_dirty: bool,
    /// The final metadata should survive a power cut.
    pub(super) is_durable: bool,
    /// Released when all of the above is done.
    #[expect(dead_code, reason = "held until the run is closed, then dropped")]
    pub(super) lock: RunLock,
}

/// The writer's handle of `td-sync`.
#[derive(Debug)]
pub(super) struct Syncer {
    jobs: Sender<SyncJob>,
    problems: Receiver<LogNotice>,
    thread: Handle<()>,
}

impl Syncer {
    pub(super) fn start() -> Result<Self> {
        let (jobs, queue) = bounded(QUEUE_MAX);
        let (report, problems) = bounded(PROBLEMS_MAX);
        let thread = thread::spawn("td-sync", move || serve(&queue, &report))?;
        Ok(Self {
            jobs,
            problems,
            thread,
        })
    }

    /// Queues a job, or returns it if there is no room.
    pub(super) fn offer(&self, job: SyncJob) -> Result<(), SyncJob> {
        self.jobs.try_send(job).map_err(TrySendError::into_inner)
    }

    /// Queues syncing a run's file. Returns `false` if there is no room.
    pub(super) fn offer_file(&self, id: &ExecutionId, file: Arc<File>) -> bool {
        let job = SyncJob::Data {
            id: id.clone(),
            file,
            done: None,
        };
        self.offer(job).is_ok()
    }

    /// Syncs files and waits until that is done.
    pub(super) fn sync_now(&self, files: Vec<(ExecutionId, Arc<File>)>) {
        let (done, all_done) = bounded::<Infallible>(0);
        for (id, file) in files {
            // If the thread is gone, its panic was reported and there is nothing to wait for.
            let _ = self.jobs.send(SyncJob::Data {
                id,
                file,
                done: Some(done.clone()),
            });
        }
        drop(done);
        // Returns when the last job has dropped its sender.
        let _ = all_done.recv();
    }

    /// Returns the problems since the last call.
    pub(super) fn problems(&self) -> impl Iterator<Item = LogNotice> + '_ {
        self.problems.try_iter()
    }

    /// Queues the last jobs and waits for the thread, both until the deadline. Returns the
    /// problems, and `true` if all was done.
    pub(super) fn finish(self, jobs: Vec<SyncJob>, deadline: Instant) -> (Vec<LogNotice>, bool) {
        let mut all_sent = true;
        for job in jobs {
            all_sent &= self.jobs.send_deadline(job, deadline).is_ok();
        }
        drop(self.jobs);
        let mut problems = Vec::new();
        // The thread never waits for this queue, so it can be read after its end.
        let ended = self.thread.join_deadline(deadline);
        problems.extend(self.problems.try_iter());
        // A thread that hangs in a disk that does not respond is abandoned.
        (problems, all_sent && matches!(ended, Ok(Ok(()))))
    }
}

fn serve(queue: &Receiver<SyncJob>, report: &Sender<LogNotice>) {
    for job in queue {
        let (id, outcome) = match job {
            SyncJob::Data { id, file, done } => {
                let outcome = file
                    .sync_data()
                    .map_err(|cause| Error::other("cannot sync the log").because(cause));
                drop(done);
                (id, outcome)
            }
            SyncJob::Directory(directory) => {
                let path = directory.path();
                let outcome = sync_metadata(&directory)
                    .and_then(|()| sync_directory(path))
                    .and_then(|()| path.parent().map_or(Ok(()), sync_directory));
                let outcome = outcome.map_err(|cause| Error::file("cannot sync", path, cause));
                (directory.execution_id().clone(), outcome)
            }
            SyncJob::Metadata {
                directory,
                metadata,
            } => {
                // A removed directory is not created again for its metadata.
                let written = directory.open_dir().and_then(|dir| metadata.write_in(&dir));
                (directory.execution_id().clone(), written)
            }
            SyncJob::Close(closing) => (closing.directory.execution_id().clone(), closing.run()),
        };
        if let Err(error) = outcome {
            let notice = LogNotice {
                execution_id: id,
                kind: LogNoticeKind::NotSafe,
                message: format!("{error:?}"),
            };
            // While the writer takes no problems, the first ones suffice.
            let _ = report.try_send(notice);
        }
    }
}

/// Syncs the metadata of a run, if it is there.
fn sync_metadata(directory: &RunDirectory) -> io::Result<()> {
    // A removed directory has nothing to sync.
    let Ok(dir) = directory.open_dir() else {
        return Ok(());
    };
    match dir.file(METADATA, OFlags::RDONLY) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
        file => file?.sync_data(),
    }
}

impl ClosingRun {
    fn run(self) -> Result<()> {
        // A removed directory is not created again for its metadata.
        let dir = self.directory.open_dir()?;
        let synced = match self.is_dirty {
            true => dir
                .file(EVENTS, OFlags::RDONLY)
                .and_then(|file| file.sync_data()),
            false => Ok(()),
        };
        let written = self.metadata.write_in(&dir);
        if self.is_durable {
            // Makes the new name of the metadata durable.
            sync_directory(dir.path())
                .map_err(|cause| Error::file("cannot sync", dir.path(), cause))?;
        }
        synced.map_err(|cause| Error::file("cannot sync", &dir.join(EVENTS), cause))?;
        written
    }
}
