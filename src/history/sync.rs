//! The thread `td-sync`, which makes written lines survive a power cut.
//!
//! The writer sends jobs to `td-sync`. It waits for room only with [`SyncPolicy::Always`] and, until a
//! deadline, at the end. `td-sync` blocks in `fdatasync` and on an empty queue. It reports problems over a
//! bounded channel without waiting for room. It ends when the writer closes the queue. It also closes runs,
//! because that writes and syncs the metadata: the job holds the run's lock and releases it last.

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

/// The number of queued jobs. Each may hold open a file that the writer has closed, so the budget of file
/// descriptors includes them and the job in progress. Data without room in the queue stay marked and are
/// queued again.
const QUEUE_MAX: usize = 63;
/// The number of problems that wait for the writer; more would add no information.
const PROBLEMS_MAX: usize = 64;

/// The time until written lines survive a power cut. A crash of this program alone loses nothing, whatever
/// the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyncPolicy {
    /// When the system decides.
    Never,
    /// This long after the write, and at the end.
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
    /// True if some of its lines are not synced.
    pub(super) is_dirty: bool,
    /// True if the final metadata must survive a power cut.
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

    /// Queues a sync of a run's file. Returns `false` if there is no room.
    pub(super) fn offer_file(&self, id: &ExecutionId, file: Arc<File>) -> bool {
        let job = SyncJob::Data {
            id: id.clone(),
            file,
            done: None,
        };
        self.offer(job).is_ok()
    }

    /// Syncs files and waits for completion.
    pub(super) fn sync_now(&self, files: Vec<(ExecutionId, Arc<File>)>) {
        let (done, all_done) = bounded::<Infallible>(0);
        for (id, file) in files {
            // If the thread has ended, its panic was reported and there is nothing to wait for.
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

    /// Queues the last jobs and waits for the thread, both until the deadline. Returns the problems, and
    /// `true` if all jobs were done.
    pub(super) fn finish(self, jobs: Vec<SyncJob>, deadline: Instant) -> (Vec<LogNotice>, bool) {
        let mut all_sent = true;
        for job in jobs {
            all_sent &= self.jobs.send_deadline(job, deadline).is_ok();
        }
        drop(self.jobs);
        // The thread never waits for room in this queue, so it can be read after the thread's end.
        let ended = self.thread.join_deadline(deadline);
        let problems = self.problems.try_iter().collect();
        // A thread that hangs on a disk that does not respond is abandoned.
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
                // A removed directory must not be created again for its metadata.
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
            // If the writer does not read the problems, the first ones suffice.
            let _ = report.try_send(notice);
        }
    }
}

/// Syncs the metadata of a run, if they exist.
fn sync_metadata(directory: &RunDirectory) -> io::Result<()> {
    // A removed directory has nothing to sync.
    let Ok(dir) = directory.open_dir() else {
        return Ok(());
    };
    let file = dir.existing_file(METADATA)?;
    file.map_or(Ok(()), |file| file.sync_data())
}

impl ClosingRun {
    fn run(self) -> Result<()> {
        // A removed directory must not be created again for its metadata.
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
