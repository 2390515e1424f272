//! Iterates over the selected events of a log, in order, across its files.
//!
//! The threads `td-read-N` read and parse blocks, so that all cores search a large log. The reader queues jobs
//! and receives each result over a separate channel, in the order of the jobs. Both queues are bounded by
//! [`ReaderPool::ahead`]. A thread blocks on the queue of jobs and on the disk. It ends when the reader drops
//! the pool, which joins it.
//!
//! If all events are wanted, the thread `td-ahead` reads, decompresses and checks the next blocks while the
//! reader converts earlier lines to events. Events are not created in this thread, because freeing memory in
//! another thread than the one that allocated it costs more than parsing. The thread blocks on the disk and on
//! the bounded queue of blocks. It ends at the end of the log, or when the reader is dropped, which joins it.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::vec;

use crossbeam_channel::{Receiver, Sender, bounded};
use rustix::fs::{Mode, OFlags};

use super::block::{BLOCK_BYTES, BlockSource, FileBlocks, LogFile, LogFiles, unread};
use super::numbers::{
    BlockNumbers, MissingEvents, NextNumber, NumberCheck, NumberSpan, PromisedEnd,
};
use super::parse::{BlockLines, BlockParser, LogRecord, ParsedBlock};
use super::query::Query;
use crate::error::{Error, Result};
use crate::event::LineDecoder;
use crate::history::dir::{RunDirectory, is_written};
use crate::history::dir_handle::{DirHandle, EVENTS, LOCK, RunFiles};
use crate::history::metadata::RunMetadata;
use crate::thread::{self, Handle};
use crate::timestamp::Timestamp;

/// The size of a block that one thread parses and returns: the block and its events stay in the core's cache.
pub(super) const SEQUENTIAL_BLOCK_BYTES: u64 = 32 * 1024;

/// The maximum number of problems in a report.
const PROBLEMS_MAX: usize = 16;

/// Reads the events of a log from its oldest file to its newest, up to the end at the time of reading. Memory
/// does not grow with the size of the log.
///
/// Reading continues after errors: lines that are not events are skipped and counted, events that were logged and
/// are no longer there are counted, and a file that cannot be read is reported as a problem
/// ([`LogReader::report`]).
///
/// ```no_run
/// use td_observe::history::{DataDir, LogReader, Query};
/// let run = DataDir::new("/home/ann/.taskdaemon").run(&"build@1768989600".into());
/// let mut log = LogReader::open(&run, Query::all().kind("OutputGap"))?;
/// for record in &mut log {
///     println!("{}", record.envelope.ts);
/// }
/// println!("{} broken lines", log.report().invalid);
/// for lost in log.report().missing_places() {
///     println!("{} to {} are missing", lost.first_seq, lost.last_seq);
/// }
/// # Ok::<(), td_observe::Error>(())
/// ```
///
/// The line `LogOpened` with which each file begins is no record.
#[derive(Debug)]
pub struct LogReader {
    files: LogFiles,
    parser: Arc<BlockParser>,
    /// True if the log is large enough for other threads to help.
    is_parallel: bool,
    /// Parses blocks in parallel; `None` for a small log or if all events are wanted.
    pool: Option<ReaderPool>,
    /// The results of queued jobs, in order, with the file of each.
    pending: VecDeque<(Receiver<io::Result<ParsedBlock>>, Arc<Path>)>,
    /// The events of the last block.
    ready: vec::IntoIter<LogRecord>,
    /// Reads the files if all events of a large log are wanted.
    ahead: Option<ReadAhead>,
    /// The lines that are being parsed, and their file, if all events are wanted.
    lines: Option<(BlockLines, Arc<Path>)>,
    /// The memory of the previous block.
    memory: Vec<u8>,
    decoder: LineDecoder,
    pub(super) report: ReadReport,
    /// The number at which the log ends, if it is known, and its last file; `None` if more files follow.
    end: Option<(Option<PromisedEnd>, PathBuf)>,
}

/// The report of a reader, in addition to the events.
#[derive(Debug, Default)]
pub struct ReadReport {
    /// The number of parsed lines that are not events. With a filter, fewer lines are parsed.
    pub invalid: u64,
    /// The file that contains the first such line, and the line's position in bytes of the uncompressed file.
    pub first_invalid: Option<(PathBuf, u64)>,
    /// The number of files whose last line is incomplete.
    pub torn: u64,
    /// The errors of files, or parts of files, that could not be read.
    pub problems: Vec<Error>,
    pub(super) numbers: NumberCheck,
    /// The time of the last line that was read with a query for some events, if it is in this crate's format.
    #[cfg_attr(not(feature = "report"), allow(dead_code))]
    pub(crate) last: Option<Timestamp>,
}

impl LogReader {
    /// Reads the log of a run.
    ///
    /// # Errors
    /// If there is no such run, or its directory cannot be read.
    pub fn open(run: &RunDirectory, query: Query) -> Result<Self> {
        Self::new(run, query, false)
    }

    /// Reads the log of a run and keeps each event's line as it is in the log.
    ///
    /// # Errors
    /// The same as [`LogReader::open`].
    pub fn open_lines(run: &RunDirectory, query: Query) -> Result<Self> {
        Self::new(run, query, true)
    }

    /// Reads only the last files of a run.
    ///
    /// # Errors
    /// The same as [`LogReader::open`].
    pub fn open_last(run: &RunDirectory, files: usize, query: Query) -> Result<Self> {
        let mut reader = Self::new(run, query, false)?;
        reader.files.keep_last(files);
        reader.report.numbers.begin_anywhere();
        Ok(reader)
    }

    /// Adds the bytes on the disk to this counter as they are read, for those who show the progress.
    #[cfg(feature = "cli")]
    #[cfg_attr(
        not(feature = "sqlite"),
        allow(dead_code, reason = "the export as a database uses it")
    )]
    pub(crate) fn counting_in(mut self, counter: Arc<std::sync::atomic::AtomicU64>) -> Self {
        self.files.count_in(counter);
        self
    }

    /// Reads only in this thread, in blocks of this size.
    pub(super) fn in_blocks_of(mut self, bytes: u64) -> Self {
        (self.pool, self.is_parallel) = (None, false);
        self.files.in_blocks_of(bytes);
        self
    }

    pub(super) fn in_this_thread(self) -> Self {
        self.in_blocks_of(SEQUENTIAL_BLOCK_BYTES)
    }

    fn new(run: &RunDirectory, query: Query, keeps_lines: bool) -> Result<Self> {
        run.refresh();
        let dir = run.open_dir()?;
        let failed = |cause| Error::file("cannot read the log in", run.path(), cause);
        let metadata = known_end(&dir);
        let mut files = RunFiles::list(&dir).map_err(failed)?;
        let newest = files.take_newest().map_err(failed)?;
        let closed = files.closed.iter().map(|closed| closed.number);
        let parser = Arc::new(BlockParser::new(query, keeps_lines));
        let next = NextNumber::Is(1);
        let is_empty = files.closed.is_empty() && newest.as_ref().is_none_or(|(_, len)| *len == 0);
        let empty = is_empty
            .then(|| without_log(&dir, metadata.as_ref()))
            .flatten();
        let mut reader = Self::up_to(closed, newest, dir, parser, next);
        let end = metadata.as_ref().and_then(PromisedEnd::of);
        reader.end = Some((end, run.events_path()));
        reader.report.problems.extend(empty);
        Ok(reader)
    }

    /// Reads a single file of lines at any path, compressed or uncompressed.
    ///
    /// # Errors
    /// If the file cannot be opened. [`Error::is_invalid_input`] if it is a directory, a device, a named pipe
    /// or a socket, which might never end.
    pub fn open_file(path: &Path, query: Query) -> Result<Self> {
        let failed = |cause: io::Error| Error::file("cannot read", path, cause);
        // Does not wait for the other end of a named pipe, or for a modem.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty());
        let file = File::from(file.map_err(|cause| failed(cause.into()))?);
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(Error::invalid("this is a directory, not a log:").at(path));
        }
        if !metadata.is_file() {
            return Err(Error::invalid(
                "only regular files are read as logs; this is a device, a pipe or a socket:",
            )
            .at(path));
        }
        let parser = Arc::new(BlockParser::new(query, true));
        let input = LogFile::Open(file, path.to_owned(), metadata.len());
        let next = NextNumber::AnyHeader;
        let mut reader = Self::over([input].into(), None, parser, next);
        reader.end = Some((None, path.to_owned()));
        Ok(reader)
    }

    /// Reads the closed files of a run, and the newest file up to a position at the end of a line.
    pub(super) fn up_to(
        closed: impl Iterator<Item = u32>,
        newest: Option<(File, u64)>,
        dir: DirHandle,
        parser: Arc<BlockParser>,
        next: NextNumber,
    ) -> Self {
        let path = dir.join(EVENTS);
        let newest = newest.map(|(file, len)| LogFile::Open(file, path, len));
        Self::over(
            closed.map(LogFile::Closed).chain(newest).collect(),
            Some(dir),
            parser,
            next,
        )
    }

    /// Reads files whose first line has the number `next`.
    fn over(
        inputs: VecDeque<LogFile>,
        dir: Option<DirHandle>,
        parser: Arc<BlockParser>,
        next: NextNumber,
    ) -> Self {
        let report = ReadReport {
            numbers: NumberCheck::new(next, &parser.query),
            ..ReadReport::default()
        };
        let is_parallel = match (inputs.len(), inputs.front()) {
            // Starting threads for less would take longer.
            (1, Some(LogFile::Open(_, _, len))) => *len > 2 * 1024 * 1024,
            (count, _) => count > 0,
        };
        let mut files = LogFiles::new(inputs, dir, parser.query.since);
        files.choose(parser.choice.clone());
        // Parallel parsing pays off if threads skip lines. If all events are wanted, moving parsed events to
        // another core costs more than it saves.
        let pool = if is_parallel && !parser.wants_all {
            ReaderPool::start(&parser)
        } else {
            None
        };
        if pool.is_none() {
            files.in_blocks_of(SEQUENTIAL_BLOCK_BYTES);
        }
        Self {
            files,
            parser,
            is_parallel,
            pool,
            pending: VecDeque::new(),
            ready: Vec::new().into_iter(),
            ahead: None,
            lines: None,
            memory: Vec::new(),
            decoder: LineDecoder::default(),
            report,
            end: None,
        }
    }

    /// Returns the report so far. Numbers are compared block by block, and with those of the metadata at the end
    /// of the log.
    pub fn report(&self) -> &ReadReport {
        &self.report
    }

    /// Returns the final report.
    pub fn into_report(self) -> ReadReport {
        self.report
    }

    /// Returns the events of the next block.
    fn next_parsed(&mut self) -> Option<Result<(ParsedBlock, Arc<Path>)>> {
        let Some(jobs_max) = self.pool.as_ref().map(ReaderPool::ahead) else {
            let next = self.files.next()?;
            return Some(next.and_then(|(source, path)| {
                let parsed = parse_block(source, &self.parser, &mut self.memory);
                Ok((parsed.map_err(|cause| unread(&path, cause))?, path))
            }));
        };
        while self.pending.len() < jobs_max
            && let Some(next) = self.files.next()
        {
            match (next, &self.pool) {
                (Ok((source, path)), Some(pool)) => {
                    self.pending.push_back((pool.parse(source), path));
                }
                (Ok(_), None) => {}
                (Err(error), _) => self.report.problem(error),
            }
        }
        let (result, path) = self.pending.pop_front()?;
        let panicked = || io::Error::other("the thread that read it has panicked");
        let parsed = result.recv().unwrap_or_else(|_| Err(panicked()));
        let parsed = parsed.map_err(|cause| unread(&path, cause));
        Some(parsed.map(|parsed| (parsed, path)))
    }

    /// Returns the next lines, if all events are wanted.
    fn next_lines(&mut self) -> Option<Result<(BlockLines, Arc<Path>)>> {
        let keeps_lines = self.parser.keeps_lines;
        if std::mem::take(&mut self.is_parallel) {
            self.ahead = ReadAhead::start(&mut self.files, keeps_lines);
        }
        if let Some(ahead) = &mut self.ahead {
            return ahead.next();
        }
        let next = self.files.next()?;
        Some(next.and_then(|(source, path)| {
            let block = source.read(std::mem::take(&mut self.memory));
            let block = block.map_err(|cause| unread(&path, cause))?;
            Ok((BlockLines::unchecked(block, keeps_lines), path))
        }))
    }

    /// Returns the next event, as the iterator does; `None` also once `is_stopped` returns `true`, which is called once
    /// for each block.
    #[cfg(any(feature = "mcp", feature = "report", feature = "sqlite"))]
    pub(crate) fn next_until(&mut self, is_stopped: &dyn Fn() -> bool) -> Option<LogRecord> {
        self.next_unless(is_stopped)
    }

    fn next_unless(&mut self, is_stopped: &dyn Fn() -> bool) -> Option<LogRecord> {
        let next = if self.parser.wants_all {
            self.next_of_all(is_stopped)
        } else {
            self.next_selected(is_stopped)
        };
        if next.is_none()
            && !is_stopped()
            && let Some((end, path)) = self.end.take()
        {
            self.report.numbers.finish(end, &path);
        }
        next
    }

    /// Returns the next event, if all events are wanted.
    fn next_of_all(&mut self, is_stopped: &dyn Fn() -> bool) -> Option<LogRecord> {
        loop {
            if let Some((lines, path)) = &mut self.lines {
                if let Some(record) = lines.next(&mut self.decoder) {
                    return Some(record);
                }
                self.report.account(&lines.parsed, path);
            }
            if let Some((lines, _)) = self.lines.take() {
                let memory = lines.into_memory();
                match &self.ahead {
                    // Memory without room in the queue is freed.
                    Some(ahead) => drop(ahead.used.try_send(memory)),
                    None => self.memory = memory,
                }
            }
            if is_stopped() {
                return None;
            }
            match self.next_lines()? {
                Ok(lines) => self.lines = Some(lines),
                Err(error) => self.report.problem(error),
            }
        }
    }

    /// Returns the next event of a query.
    fn next_selected(&mut self, is_stopped: &dyn Fn() -> bool) -> Option<LogRecord> {
        loop {
            if let Some(record) = self.ready.next() {
                return Some(record);
            }
            if is_stopped() {
                return None;
            }
            match self.next_parsed()? {
                Ok((parsed, path)) => {
                    self.report.account(&parsed, &path);
                    self.ready = parsed.records.into_iter();
                }
                Err(error) => self.report.problem(error),
            }
        }
    }
}

/// Returns the metadata of a run, if they are readable. They must be read before its files are listed: a run that
/// ends in the meantime has more events than the list.
pub(super) fn known_end(dir: &DirHandle) -> Option<RunMetadata> {
    RunMetadata::read_in(dir).ok().flatten()
}

/// Returns the problem of a run without any line, if it is not just beginning: its writer creates the file before
/// the metadata, and begins it with a header. Nothing states how many events it had.
pub(in crate::history) fn without_log(
    dir: &DirHandle,
    metadata: Option<&RunMetadata>,
) -> Option<Error> {
    let is_own = match metadata {
        // Metadata of other programs have no pid.
        Some(metadata) => metadata.pid != 0 && PromisedEnd::of(metadata).is_none(),
        // A full disk has kept the writer from writing them.
        None => !matches!(dir.identity(LOCK), Ok(None)),
    };
    if !is_own || is_written(dir).unwrap_or(true) {
        return None;
    }
    let problem = "the log is empty or was removed, and how many events it had is not known:";
    Some(Error::other(problem).at(dir.join(EVENTS)))
}

/// Returns the number at which a file of a log begins, and that of its first event, which is higher if the first
/// lines are missing; `None` for the event of a file that has only a header.
pub(in crate::history) fn first_numbers(file: File) -> io::Result<Option<(u64, Option<u64>)>> {
    // The first lines suffice, unless they are damaged.
    let mut spans: Vec<NumberSpan> = Vec::new();
    for numbers in block_numbers(file, 4096)? {
        spans.extend(numbers.spans);
        // A line alone may be damaged, or may have changed places with the next one.
        let events = spans.iter().filter(|span| !span.is_header_alone());
        if events.clone().nth(1).is_some() || events.clone().any(|span| span.lines > 1) {
            break;
        }
    }
    let event = match spans.split_first() {
        None => return Ok(None),
        // The next event of a header that stands alone is missing, unless the number of one of them is damaged,
        // which is then too high.
        Some((first, later)) if first.is_header_alone() => {
            let events = later.iter().filter(|span| !span.is_header_alone());
            events.take(2).map(|span| span.first).min()
        }
        Some((first, later)) => {
            let next = later.first().filter(|next| next.is_before(first));
            Some(next.unwrap_or(first).first)
        }
    };
    let first = spans.first().map(|span| span.first);
    Ok(first.map(|first| (first.min(event.unwrap_or(first)), event)))
}

/// Returns the last number in a file of a log, which is read to its end.
pub(in crate::history) fn last_number(file: &File) -> io::Result<Option<u64>> {
    let spans = block_numbers(file.try_clone()?, BLOCK_BYTES as u64)?;
    let (mut before, mut last) = (None, None);
    for span in spans.flat_map(|numbers| numbers.spans) {
        before = last.replace(span);
    }
    let moved = before.filter(|before| last.as_ref().is_some_and(|last| last.is_before(before)));
    Ok(moved.or(last).map(|span| span.last))
}

/// Returns the numbers of each block of a file, up to its first unreadable part.
fn block_numbers(file: File, block_bytes: u64) -> io::Result<impl Iterator<Item = BlockNumbers>> {
    let (len, file) = (file.metadata()?.len(), Arc::new(file));
    let mut blocks = FileBlocks::new(&file, 0..u64::MAX, len, block_bytes)?;
    let mut decoder = LineDecoder::default();
    Ok(std::iter::from_fn(move || {
        let block = blocks.next()?.ok()?.read(Vec::new()).ok()?;
        let mut lines = BlockLines::unchecked(block, false);
        while lines.next(&mut decoder).is_some() {}
        Some(lines.parsed.numbers)
    }))
}

impl ReadReport {
    /// Returns the number of events that were logged and are no longer in the part that was read: their lines were
    /// removed or damaged, or a file was. With a filter, damage within a line that is not parsed may not be
    /// found.
    pub fn missing(&self) -> u64 {
        self.numbers.missing
    }

    /// Returns where events are missing, in the order of the log; the first 1,024 places.
    pub fn missing_places(&self) -> &[MissingEvents] {
        &self.numbers.places
    }

    fn problem(&mut self, error: Error) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(error);
        }
    }

    /// Adds the counts of a block.
    pub(super) fn account(&mut self, parsed: &ParsedBlock, path: &Path) {
        self.numbers.take(&parsed.numbers, path);
        self.invalid += parsed.invalid;
        self.last = parsed.last.or(self.last);
        self.torn += u64::from(parsed.is_torn);
        if let (None, Some(at)) = (&self.first_invalid, parsed.first_invalid) {
            self.first_invalid = Some((path.to_owned(), at));
        }
    }
}

impl Iterator for LogReader {
    type Item = LogRecord;

    fn next(&mut self) -> Option<LogRecord> {
        self.next_unless(&|| false)
    }
}

/// Reads and parses a block in the memory of the previous one.
pub(super) fn parse_block(
    source: BlockSource,
    parser: &BlockParser,
    memory: &mut Vec<u8>,
) -> io::Result<ParsedBlock> {
    let source = match source.skipped() {
        Ok(outline) => return Ok(ParsedBlock::skipped(outline)),
        Err(source) => source,
    };
    let block = source.read(std::mem::take(memory))?;
    let parsed = parser.parse(&block);
    *memory = block.bytes;
    Ok(parsed)
}

type ParsedSender = Sender<io::Result<ParsedBlock>>;

/// The threads of a reader.
#[derive(Debug)]
struct ReaderPool {
    /// Dropped to end the threads.
    jobs: Option<Sender<(BlockSource, ParsedSender)>>,
    threads: Vec<Handle<()>>,
}

impl ReaderPool {
    /// Starts one thread per core. Returns `None` if there is only one core or no thread can be started.
    fn start(parser: &Arc<BlockParser>) -> Option<Self> {
        // More threads would be limited by memory bandwidth.
        let wanted = thread::cores().min(8);
        if wanted < 2 {
            return None;
        }
        let (jobs, queue) = bounded::<(BlockSource, ParsedSender)>(wanted * 2);
        let threads = (0..wanted).map_while(|n| {
            let (queue, parser) = (queue.clone(), Arc::clone(parser));
            let parse_queued = move || {
                let mut memory = Vec::new();
                for (source, sender) in queue {
                    // A dropped reader needs no result.
                    let _ = sender.send(parse_block(source, &parser, &mut memory));
                }
            };
            thread::spawn(format!("td-read-{n}"), parse_queued).ok()
        });
        let threads: Vec<_> = threads.collect();
        (!threads.is_empty()).then_some(Self {
            jobs: Some(jobs),
            threads,
        })
    }

    /// Returns the number of concurrent jobs: one in progress and one queued per thread.
    fn ahead(&self) -> usize {
        self.threads.len() * 2
    }

    /// Queues a job.
    fn parse(&self, source: BlockSource) -> Receiver<io::Result<ParsedBlock>> {
        // Has room for its only result, so that a thread never waits for a dropped reader.
        let (sender, receiver) = bounded(1);
        let source = match source.skipped() {
            Ok(outline) => {
                // The receiver is there.
                let _ = sender.send(Ok(ParsedBlock::skipped(outline)));
                return receiver;
            }
            Err(source) => source,
        };
        if let Some(jobs) = &self.jobs {
            // The threads live as long as the pool. If one panics, its result is missing below.
            let _ = jobs.send((source, sender));
        }
        receiver
    }
}

impl Drop for ReaderPool {
    fn drop(&mut self) {
        self.jobs = None;
        self.threads.drain(..).for_each(Handle::join_logged);
    }
}

/// The number of blocks that wait for the reader; the second one covers the time of a slow read.
const BLOCKS_MAX: usize = 2;

/// Lines and their file.
type Lines = Result<(BlockLines, Arc<Path>)>;

/// The reader's handle of the thread.
#[derive(Debug)]
struct ReadAhead {
    /// Dropped to end the thread.
    lines: Option<Receiver<Lines>>,
    /// Memory of used blocks.
    used: Sender<Vec<u8>>,
    thread: Option<Handle<()>>,
}

impl ReadAhead {
    /// Starts the thread, which takes the files. Returns `None` if there is only one core or the thread
    /// cannot be started.
    fn start(files: &mut LogFiles, keeps_lines: bool) -> Option<Self> {
        if thread::cores() < 2 {
            return None;
        }
        let (sender, lines) = bounded(BLOCKS_MAX);
        let (used, memory) = bounded(BLOCKS_MAX);
        // Sent to the thread later, so that the files are not lost if it cannot be started.
        let (give, given) = bounded(1);
        let thread = thread::spawn("td-ahead", move || {
            if let Ok(files) = given.recv() {
                read_ahead(files, keeps_lines, &memory, &sender);
            }
        });
        let thread = Some(thread.ok()?);
        let mut files = std::mem::take(files);
        files.in_blocks_of(BLOCK_BYTES as u64);
        // The thread waits for them, so this succeeds.
        let _ = give.send(files);
        Some(Self {
            lines: Some(lines),
            used,
            thread,
        })
    }

    /// Waits for the next lines. Returns `None` at the end, and an error for unreadable parts.
    fn next(&mut self) -> Option<Lines> {
        if let Some(lines) = self.lines.as_ref().and_then(|lines| lines.recv().ok()) {
            return Some(lines);
        }
        let panicked = self.thread.take()?.join().err()?;
        let error = Error::other("cannot read the rest of the log").because(panicked);
        Some(Err(error))
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.lines = None;
        if let Some(thread) = self.thread.take() {
            thread.join_logged();
        }
    }
}

fn read_ahead(
    mut files: LogFiles,
    keeps_lines: bool,
    memory: &Receiver<Vec<u8>>,
    sender: &Sender<Lines>,
) {
    while let Some(next) = files.next() {
        let lines = next.and_then(|(source, path)| {
            let block = source.read(memory.try_recv().unwrap_or_default());
            let block = block.map_err(|cause| unread(&path, cause))?;
            Ok((BlockLines::checked(block, keeps_lines), path))
        });
        if sender.send(lines).is_err() {
            // The reader has been dropped.
            return;
        }
    }
}
