//! The writer's two threads, and its notices to the user.
//!
//! `td-sync` makes written lines survive a power cut. The writer waits for room in its queue only with
//! [`SyncPolicy::Always`] and, until a deadline, at the end. `td-sync` blocks in `fdatasync` and on an empty
//! queue. It reports problems over a bounded channel without waiting for room. It ends when the writer closes the
//! queue. It also closes runs, because that writes and syncs the metadata: the job holds the run's lock and
//! releases it last.
//!
//! `td-chores` removes runs that are not retained, compresses closed files and writes the filters with which searches
//! skip blocks. The writer waits for it only at the
//! end, for the files of its own runs and until a deadline. Files that are left are compressed when a writer
//! prunes the next time. `td-chores` blocks on the disk and on an empty queue. It ends when the writer closes the
//! queue. When it is cancelled, it stops within a file and discards the incomplete compressed file.

use std::convert::Infallible;
use std::fmt;
use std::fs::{File, FileTimes};
use std::io::{self, BufReader, Seek, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};
use rustix::fs::{FlockOperation, OFlags, flock};

use crate::error::{Error, Result};
use crate::event::{ExecutionId, TdEvent};
use crate::history::dir::{DataDir, RunDirectory, RunLock, is_written};
use crate::history::dir_handle::{DirHandle, EVENTS, FileId, METADATA, all_closed, sync_directory};
use crate::history::metadata::RunMetadata;
use crate::history::read::{
    BLOCK_BYTES, Block, FilterBuilder, has_filter, read_part, write_filter,
};
use crate::history::rotate::ClosedFile;
use crate::history::runs::Retention;
use crate::history::tail;
use crate::thread::{self, Handle};
use crate::timestamp::Timestamp;

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
    /// Drops the sender, behind all jobs that were queued before.
    Done(Sender<Infallible>),
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
    pub(super) problems: Receiver<LogNotice>,
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
                // A removed directory has nothing to sync.
                let metadata = directory
                    .open_dir()
                    .map_or(Ok(None), |dir| dir.existing_file(METADATA));
                let outcome = metadata
                    .and_then(|file| file.map_or(Ok(()), |file| file.sync_data()))
                    .and_then(|()| sync_directory(path))
                    .and_then(|()| path.parent().map_or(Ok(()), sync_directory))
                    .map_err(|cause| Error::file("cannot sync", path, cause));
                (directory.execution_id().clone(), outcome)
            }
            SyncJob::Metadata {
                directory,
                metadata,
            } => {
                // A removed directory must not be created again for its metadata.
                let written = directory.open_dir().and_then(|dir| {
                    metadata
                        .write(&dir, true)
                        .and_then(|()| metadata.reserve(&dir))
                });
                (directory.execution_id().clone(), written)
            }
            SyncJob::Close(closing) => (closing.directory.execution_id().clone(), closing.run()),
            SyncJob::Done(done) => {
                drop(done);
                continue;
            }
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

impl ClosingRun {
    fn run(self) -> Result<()> {
        // A removed directory must not be created again for its metadata.
        let dir = self.directory.open_dir()?;
        let synced = if self.is_dirty {
            dir.file(EVENTS, OFlags::RDONLY)
                .and_then(|file| file.sync_data())
        } else {
            Ok(())
        };
        let written = self.metadata.write_last(&dir);
        if self.is_durable {
            // Makes the new name of the metadata durable.
            sync_directory(dir.path())
                .map_err(|cause| Error::file("cannot sync", dir.path(), cause))?;
        }
        synced.map_err(|cause| Error::file("cannot sync", &dir.join(EVENTS), cause))?;
        written
    }
}

/// The number of queued chores, most of them runs with files to compress. Usually, fewer runs are written at
/// the same time.
const CHORES_MAX: usize = 256;
/// The time in which a cancelled chore ends.
const CANCEL_WAIT: Duration = Duration::from_secs(1);

/// Work without a deadline.
#[derive(Debug)]
pub(super) enum Chore {
    /// Compress all closed files of a run, and write the filters that its files lack.
    Compress(RunDirectory),
    /// Remove the runs that are not retained at this time, and compress what other writers have left.
    Prune(DataDir, Retention, Timestamp),
}

/// The writer's handle of `td-chores`.
#[derive(Debug)]
pub(super) struct Chores {
    jobs: Sender<Chore>,
    /// True once nothing is pruned any more.
    is_ending: Arc<AtomicBool>,
    is_cancelled: Arc<AtomicBool>,
    thread: Handle<()>,
}

impl Chores {
    pub(super) fn start() -> Result<Self> {
        let (jobs, queue) = bounded(CHORES_MAX);
        let (is_ending, is_cancelled) =
            (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (ending, cancelled) = (Arc::clone(&is_ending), Arc::clone(&is_cancelled));
        let thread = thread::spawn("td-chores", move || {
            serve_chores(&queue, &ending, &cancelled)
        })?;
        Ok(Self {
            jobs,
            is_ending,
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

    /// Compresses the closed files of these runs until the deadline, and ends the thread.
    pub(super) fn finish(self, runs: Vec<RunDirectory>, deadline: Instant) {
        self.is_ending.store(true, Ordering::Relaxed);
        for run in runs {
            // A thread that has no room until then does not respond.
            let _ = self.jobs.send_deadline(Chore::Compress(run), deadline);
        }
        drop(self.jobs);
        let ended = self.thread.join_deadline(deadline).or_else(|thread| {
            self.is_cancelled.store(true, Ordering::Relaxed);
            thread.join_deadline(deadline + CANCEL_WAIT)
        });
        // A thread that hangs on a disk that does not respond is abandoned.
        if let Ok(Err(panicked)) = ended {
            log::error!("{panicked}");
        }
    }
}

fn serve_chores(queue: &Receiver<Chore>, is_ending: &AtomicBool, is_cancelled: &AtomicBool) {
    for chore in queue {
        if is_cancelled.load(Ordering::Relaxed) {
            return;
        }
        let done = match chore {
            // Filters are left to the next observer once this one ends: nobody should wait for them.
            Chore::Compress(run) => {
                compress_all(&run, is_cancelled).and_then(|()| write_filters(&run, is_ending))
            }
            Chore::Prune(..) if is_ending.load(Ordering::Relaxed) => Ok(()),
            Chore::Prune(data, retention, now) => prune(&data, retention, now, is_ending)
                .and_then(|()| compress_left(&data, is_ending)),
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

/// Compresses closed files of runs that have no writer any more.
fn compress_left(data: &DataDir, is_cancelled: &AtomicBool) -> Result<()> {
    for run in data.run_directories()? {
        if is_cancelled.load(Ordering::Relaxed) {
            break;
        }
        if !run.is_written().unwrap_or(true)
            && let Err(error) =
                compress_all(&run, is_cancelled).and_then(|()| write_filters(&run, is_cancelled))
        {
            log::info!("{error:?}");
        }
    }
    Ok(())
}

/// Writes the filters that the files of a run lack. The newest file has one once the run has ended.
pub(crate) fn write_filters(run: &RunDirectory, is_cancelled: &AtomicBool) -> Result<()> {
    let dir = run.open_dir()?;
    let failed = |cause| Error::file("cannot write a filter of the log in", run.path(), cause);
    let closed = all_closed(&dir).map_err(failed)?;
    let packed = closed.into_iter().filter(|closed| closed.is_gzip);
    let mut names: Vec<String> = packed.map(ClosedFile::name).collect();
    let has_newest = dir.identity(EVENTS).map_err(failed)?.is_some();
    if has_newest && !is_written(&dir).map_err(failed)? {
        names.push(EVENTS.to_owned());
    }
    for name in names {
        if is_cancelled.load(Ordering::Relaxed) {
            break;
        }
        write_filter(&dir, &name, BLOCK_BYTES as u64, is_cancelled).map_err(failed)?;
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
        compress(&dir, closed.number, BLOCK_BYTES as u64, is_cancelled).map_err(failed)?;
    }
    Ok(())
}

/// Replaces a plain file by a compressed one. One of the two is complete at any time.
pub(super) fn compress(
    dir: &DirHandle,
    number: u32,
    block_bytes: u64,
    is_cancelled: &AtomicBool,
) -> io::Result<()> {
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
    let begun = if has_filter(from.metadata()?.len(), block_bytes) {
        FilterBuilder::begin(dir, &compressed, block_bytes)
    } else {
        Ok(None)
    };
    let mut filter = begun.unwrap_or_else(|cause| without_filter(&cause));
    match compress_into((&from, &into), block_bytes, &mut filter, is_cancelled) {
        Ok(true) => {}
        // An incomplete file is harmless but uses disk space.
        given_up => {
            dir.remove(&temporary)?;
            filter.map_or(Ok(()), |filter| filter.discard(dir))?;
            return given_up.map(drop);
        }
    }
    match dir.rename_new(&temporary, &compressed) {
        // The new name must be durable before the plain file is removed.
        Ok(()) => sync_directory(dir.path())?,
        // A crash left both files. A different file with this name must be kept.
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {
            dir.remove(&temporary)?;
            filter.take().map_or(Ok(()), |filter| filter.discard(dir))?;
            let there = dir.file(&compressed, OFlags::RDONLY)?;
            if !is_same_text(&from, &there)? {
                return Err(io::Error::other(format!(
                    "{compressed} exists already with other content"
                )));
            }
        }
        Err(cause) => return Err(cause),
    }
    let finished = filter.map_or(Ok(()), |filter| filter.finish(dir, &into));
    finished.unwrap_or_else(|cause| drop(without_filter(&cause)));
    dir.remove(&plain)
}

/// Logs why a file has no filter. It is compressed all the same, which makes room on a disk that is nearly full.
fn without_filter(cause: &io::Error) -> Option<FilterBuilder> {
    log::info!("cannot write a filter of a log: {cause}");
    None
}

/// Returns `true` if a compressed file has as many bytes as the plain one.
fn is_same_text(plain: &File, compressed: &File) -> io::Result<bool> {
    let packed = BufReader::new(compressed);
    let len = io::copy(&mut MultiGzDecoder::new(packed), &mut io::sink())?;
    Ok(len == plain.metadata()?.len())
}

/// Compresses a file block by block, each of which is a member of its own, so that a reader may skip it. Syncs the result.
/// Returns `false` if it was cancelled.
fn compress_into(
    (from, into): (&File, &File),
    block_bytes: u64,
    filter: &mut Option<FilterBuilder>,
    is_cancelled: &AtomicBool,
) -> io::Result<bool> {
    // Removes the output of another process.
    into.set_len(0)?;
    let mut comment = tail::last_seq(from)?.map_or_else(String::new, tail::gzip_comment);
    let (len, mut block) = (from.metadata()?.len(), Block::default());
    let (mut start, mut written) = (0, 0);
    while written < len {
        if is_cancelled.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let part = start..start + block_bytes;
        start = part.end;
        read_part(from, part, len, &mut block)?;
        let is_last = start >= len;
        if block.lines().is_empty() && !is_last {
            // It is within a long line.
            continue;
        }
        let end = if is_last { len } else { block.end() };
        let builder = GzBuilder::new().comment(std::mem::take(&mut comment));
        let mut encoder: GzEncoder<&File> = builder.write(into, Compression::default());
        if block.offset == written && block.end() == end {
            encoder.write_all(block.lines())?;
        } else {
            // The line before the block is too long to be read.
            copy_range(from, written..end, &mut encoder)?;
            filter.iter_mut().for_each(FilterBuilder::give_up);
        }
        encoder.finish()?;
        written = end;
        if let Some(filter) = filter {
            let member_end = (&*into).stream_position()?;
            filter.push(&block, member_end);
        }
    }
    // Readers derive the age of a file from its times.
    let about = from.metadata()?;
    let times = FileTimes::new().set_accessed(about.accessed()?);
    into.set_times(times.set_modified(about.modified()?))?;
    into.sync_all()?;
    Ok(true)
}

fn copy_range(from: &File, range: Range<u64>, into: &mut impl Write) -> io::Result<()> {
    let mut source = vec![0; BLOCK_BYTES];
    let mut at = range.start;
    while at < range.end {
        let wanted = source
            .len()
            .min(usize::try_from(range.end - at).unwrap_or(usize::MAX));
        let bytes = source.get_mut(..wanted).unwrap_or_default();
        from.read_exact_at(bytes, at)?;
        into.write_all(bytes)?;
        at += wanted as u64;
    }
    Ok(())
}

/// The kind of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogNoticeKind {
    /// Writing has begun to fail. Reported once, until it works again.
    Failing,
    /// Writing works again.
    Recovered,
    /// Another program removed, replaced or truncated the file; writing continues.
    Disturbed,
    /// A new file could not be created, so the old one grows. Reported once, until rotation works again.
    NotRotated,
    /// The wall clock was set back: numbers are in order, times are not.
    ClockWentBack,
    /// `fdatasync` failed, or the metadata could not be written.
    NotSafe,
    /// Events arrived for an execution that has no open run. Reported once per execution.
    NotKept,
}

/// A condition of a run's log that its user should know about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogNotice {
    /// The execution of the run.
    pub execution_id: ExecutionId,
    /// The kind of the notice.
    pub(crate) kind: LogNoticeKind,
    /// A sentence for users.
    pub message: String,
}

impl LogNotice {
    /// Returns the notice as an event of its execution.
    pub(crate) fn to_event(&self) -> TdEvent {
        let execution_id = self.execution_id.clone();
        let (context, message) = ("log".to_owned(), self.message.clone());
        match self.kind {
            LogNoticeKind::Failing => TdEvent::Error {
                execution_id,
                context,
                message,
            },
            _ => TdEvent::Warning {
                execution_id,
                context,
                message,
            },
        }
    }
}

/// The result of writing logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct LogReport {
    /// The number of bytes written to event files.
    pub bytes_written: u64,
    /// Runs that lack events in their log.
    pub lost: Vec<LostRun>,
    /// Executions whose run could not be opened, for example because another process writes it. Their events were
    /// delivered, but are not in a log.
    pub unlogged: Vec<LostRun>,
    /// The number of events that belong to no run, or to further runs than [`LogReport::lost`] and
    /// [`LogReport::unlogged`] hold, 1,000 each.
    pub not_kept: u64,
    /// Problems at the end: syncing, metadata, or a disk that did not respond.
    pub problems: Vec<LogNotice>,
}

/// The events of a run that are not in its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRun {
    /// The run's execution.
    pub execution_id: ExecutionId,
    /// The directory of the run.
    pub path: PathBuf,
    /// The number of these events.
    pub events: u64,
    /// The number of the first of these events.
    pub first_seq: u64,
    /// The number of the last of these events.
    pub last_seq: u64,
    /// Why the first of them is missing.
    pub cause: String,
    /// True if `LogGap` events in the log stand for all of them.
    pub is_recorded: bool,
}

impl LostRun {
    /// Creates the record of a run that lacks nothing so far.
    pub(super) fn new(execution_id: ExecutionId, path: PathBuf, cause: String) -> Self {
        Self {
            execution_id,
            path,
            events: 0,
            first_seq: u64::MAX,
            last_seq: 0,
            cause,
            is_recorded: false,
        }
    }

    /// Adds the events with these numbers.
    pub(super) fn add(&mut self, first: u64, last: u64) {
        self.events += last.saturating_sub(first) + 1;
        self.first_seq = self.first_seq.min(first);
        self.last_seq = self.last_seq.max(last);
    }

    /// Adds the events of another record of the same run.
    pub(super) fn merge(&mut self, other: &Self) {
        self.events += other.events;
        self.first_seq = self.first_seq.min(other.first_seq);
        self.last_seq = self.last_seq.max(other.last_seq);
        self.is_recorded &= other.is_recorded;
    }
}

impl fmt::Display for LostRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            execution_id,
            path,
            events,
            first_seq,
            last_seq,
            cause,
            ..
        } = self;
        match events {
            1 => write!(f, "event {first_seq} of {execution_id} is not")?,
            // Other events lie between them.
            _ if last_seq.saturating_sub(*first_seq) >= *events => write!(
                f,
                "{events} events between {first_seq} and {last_seq} of {execution_id} are not"
            )?,
            _ => write!(
                f,
                "events {first_seq} to {last_seq} of {execution_id} are not"
            )?,
        }
        write!(f, " in the log {}: {cause}", path.display())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;

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
        compress(&dir, 1, BLOCK_BYTES as u64, &AtomicBool::new(true)).unwrap();
        assert_eq!(
            fs::read_to_string(at(ClosedFile::plain(1).name())).unwrap(),
            text
        );
        assert_eq!(fs::read_dir(run.path()).unwrap().count(), 1);
        compress_all(&run, &AtomicBool::new(false)).unwrap();
        assert_eq!(fs::read_dir(run.path()).unwrap().count(), 1);
        let compressed = File::open(at(ClosedFile::gzip(1).name())).unwrap();
        let mut unpacked = String::new();
        flate2::read::MultiGzDecoder::new(compressed)
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
