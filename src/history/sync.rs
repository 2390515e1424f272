//! `td-sync`: makes written lines survive a power cut, on a thread of its own.
//!
//! The log writer sends (it never waits for room, but for [`SyncPolicy::Always`] and at the end,
//! with a deadline), `td-sync` receives; it blocks in `fdatasync` and on an empty queue. Problems
//! go back through a bounded channel that it never waits for. It ends when the writer closes the
//! queue. ClosingRun a run is its work too, because that writes and syncs the metadata: the run's
//! lock travels with the job and is given back last.

use std::convert::Infallible;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use rustix::fs::OFlags;

use crate::error::{Error, Result};
use crate::event::ExecutionId;
use crate::history::dir::RunDirectory;
use crate::history::dir_handle::{EVENTS, sync_directory};
use crate::history::lock::RunLock;
use crate::history::metadata::RunMetadata;
use crate::history::notice::{LogNotice, LogNoticeKind};
use crate::thread::{self, Handle};

/// Jobs that wait. Each may keep a file open that the writer has closed, so this is part of the
/// sum of file descriptors, with one more in the thread's hands; what finds no room stays marked
/// and is offered again.
const QUEUE_MAX: usize = 63;
/// Problems that wait for the writer to hear of them; more of them say nothing new.
const PROBLEMS_MAX: usize = 64;

/// How soon written lines are made to survive a power cut. A crash of the program alone loses
/// nothing with any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// When the system likes.
    Never,
    /// So long after they were written, and at the end.
    Interval(Duration),
    /// Before the writer takes the next batch.
    Always,
}

impl Default for SyncPolicy {
    fn default() -> Self {
        Self::Interval(Duration::from_secs(1))
    }
}

/// What `td-sync` is asked to do.
#[derive(Debug)]
pub(super) enum SyncJob {
    /// Sync the lines of a run; `done` is dropped then.
    Data {
        id: ExecutionId,
        file: Arc<File>,
        done: Option<Sender<Infallible>>,
    },
    /// Make the names in a run directory, and its own, survive.
    Directory { id: ExecutionId, path: PathBuf },
    /// Put new metadata in the place of the old.
    Metadata {
        directory: RunDirectory,
        metadata: Box<RunMetadata>,
    },
    /// The last words of a run.
    Close(Box<ClosingRun>),
}

/// A run that nobody writes to any more.
#[derive(Debug)]
pub(super) struct ClosingRun {
    pub(super) directory: RunDirectory,
    pub(super) metadata: RunMetadata,
    /// Whether it has lines that are not synced.
    pub(super) is_dirty: bool,
    /// Whether its last words are to survive a power cut.
    pub(super) is_durable: bool,
    /// Given back when all of the above is done.
    #[expect(dead_code, reason = "held until the run is closed, then dropped")]
    pub(super) lock: RunLock,
}

/// The writer's side.
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

    /// Hands over a job if there is room for it; it comes back when there is none.
    pub(super) fn offer(&self, job: SyncJob) -> Result<(), SyncJob> {
        self.jobs.try_send(job).map_err(TrySendError::into_inner)
    }

    /// Syncs files and waits for it.
    pub(super) fn sync_now(&self, files: Vec<(ExecutionId, Arc<File>)>) {
        let (done, all_done) = bounded::<Infallible>(0);
        for (id, file) in files {
            // A thread that is gone has said so; there is nothing to wait for then.
            let _ = self.jobs.send(SyncJob::Data {
                id,
                file,
                done: Some(done.clone()),
            });
        }
        drop(done);
        // Returns when the last job has dropped its end.
        let _ = all_done.recv();
    }

    /// What went wrong since the last question.
    pub(super) fn problems(&self) -> impl Iterator<Item = LogNotice> + '_ {
        self.problems.try_iter()
    }

    /// Hands over the last jobs and waits for the end, both until the deadline; says what went
    /// wrong, and whether all was done.
    pub(super) fn finish(self, jobs: Vec<SyncJob>, deadline: Instant) -> (Vec<LogNotice>, bool) {
        let mut all_sent = true;
        for job in jobs {
            all_sent &= self.jobs.send_deadline(job, deadline).is_ok();
        }
        drop(self.jobs);
        let mut problems = Vec::new();
        // The thread never waits for this queue, so it may be read after the end.
        let ended = self.thread.join_deadline(deadline);
        problems.extend(self.problems.try_iter());
        // A thread that hangs in a disk that does not answer is left to the system.
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
            SyncJob::Directory { id, path } => {
                let outcome = sync_directory(&path)
                    .and_then(|()| path.parent().map_or(Ok(()), sync_directory));
                (
                    id,
                    outcome.map_err(|cause| Error::file("cannot sync", &path, cause)),
                )
            }
            SyncJob::Metadata {
                directory,
                metadata,
            } => {
                // A directory that was removed is not made again for its metadata.
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
            // When nobody listens so long, the first ones say it.
            let _ = report.try_send(notice);
        }
    }
}

impl ClosingRun {
    fn run(self) -> Result<()> {
        // A directory that was removed is not made again for its metadata.
        let dir = self.directory.open_dir()?;
        let synced = match self.is_dirty {
            true => dir
                .file(EVENTS, OFlags::RDONLY)
                .and_then(|file| file.sync_data()),
            false => Ok(()),
        };
        let written = self.metadata.write_in(&dir);
        if self.is_durable {
            // The new file in the place of the old one.
            sync_directory(dir.path())
                .map_err(|cause| Error::file("cannot sync", dir.path(), cause))?;
        }
        synced.map_err(|cause| Error::file("cannot sync", &dir.join(EVENTS), cause))?;
        written
    }
}
