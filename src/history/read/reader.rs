//! Iterates over the selected events of a log, in order, across its files.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crossbeam_channel::Receiver;
use rustix::fs::{Mode, OFlags};

use super::ahead::ReadAhead;
use super::parse::{BlockLines, BlockParser, LogRecord, ParsedBlock, ParsedRecords};
use super::pool::{BlockBuffer, ReaderPool};
use super::query::Query;
use super::source::{LogFile, LogFiles, unread};
use crate::error::{Error, Result};
use crate::event::LineDecoder;
use crate::history::dir::RunDirectory;
use crate::history::dir_handle::RunFiles;
use crate::history::dir_handle::{DirHandle, EVENTS};

/// Size up to which a log is read by one thread, because starting threads would take longer.
const SEQUENTIAL_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// The size of a block that one thread parses and returns: the block and its events stay in the core's cache.
const SEQUENTIAL_BLOCK_BYTES: u64 = 32 * 1024;

/// The maximum number of problems in a report.
const PROBLEMS_MAX: usize = 16;

/// Reads the events of a log from its oldest file to its newest, up to the end at the time of reading. Memory
/// does not grow with the size of the log.
///
/// Reading continues after errors: lines that are not events are skipped and counted, and a file that cannot
/// be read is reported as a problem ([`LogReader::report`]).
///
/// ```no_run
/// use td_observe::history::{DataDir, LogReader, Query};
/// let run = DataDir::new("/home/ann/.taskdaemon").run(&"build@1768989600".into());
/// let mut log = LogReader::open(&run, Query::all().kind("OutputGap"))?;
/// for record in &mut log {
///     println!("{}", record.envelope.ts);
/// }
/// println!("{} broken lines", log.report().invalid);
/// # Ok::<(), td_observe::Error>(())
/// ```
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
    ready: ParsedRecords,
    /// Reads the files if all events of a large log are wanted.
    ahead: Option<ReadAhead>,
    /// The lines that are being parsed, and their file, if all events are wanted.
    lines: Option<(BlockLines, Arc<Path>)>,
    /// The memory of the previous lines.
    memory: Vec<u8>,
    buffer: BlockBuffer,
    decoder: LineDecoder,
    report: ReadReport,
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
        Ok(reader)
    }

    /// Reads only in this thread, in blocks of this size.
    pub(super) fn in_blocks_of(mut self, bytes: usize) -> Self {
        (self.pool, self.is_parallel) = (None, false);
        self.files.in_blocks_of(bytes as u64);
        self
    }

    fn new(run: &RunDirectory, query: Query, keeps_lines: bool) -> Result<Self> {
        let dir = run.open_dir()?;
        let failed = |cause| Error::file("cannot read the log in", run.path(), cause);
        let mut files = RunFiles::list(&dir).map_err(failed)?;
        let newest = files.take_newest().map_err(failed)?;
        let closed = files.closed.iter().map(|closed| closed.number);
        let parser = Arc::new(BlockParser::new(query, keeps_lines));
        Ok(Self::up_to(closed, newest, dir, parser))
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
        Ok(Self::over([input].into(), None, parser))
    }

    /// Reads the closed files of a run, and the newest file up to a position at the end of a line.
    pub(super) fn up_to(
        closed: impl Iterator<Item = u32>,
        newest: Option<(File, u64)>,
        dir: DirHandle,
        parser: Arc<BlockParser>,
    ) -> Self {
        let path = dir.join(EVENTS);
        let newest = newest.map(|(file, len)| LogFile::Open(file, path, len));
        Self::over(
            closed.map(LogFile::Closed).chain(newest).collect(),
            Some(dir),
            parser,
        )
    }

    /// Continues another reader's report.
    pub(super) fn after(mut self, report: ReadReport) -> Self {
        self.report = report;
        self
    }

    fn over(inputs: VecDeque<LogFile>, dir: Option<DirHandle>, parser: Arc<BlockParser>) -> Self {
        let mut files = LogFiles::new(inputs, dir, parser.since());
        let is_parallel = !files.are_within(SEQUENTIAL_BYTES_MAX);
        // Parallel parsing pays off if threads skip lines. If all events are wanted, moving parsed events to
        // another core costs more than it saves.
        let pool = match is_parallel && !parser.wants_all() {
            true => ReaderPool::start(&parser),
            false => None,
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
            ready: ParsedRecords::default(),
            ahead: None,
            lines: None,
            memory: Vec::new(),
            buffer: BlockBuffer::default(),
            decoder: LineDecoder::default(),
            report: ReadReport::default(),
        }
    }

    /// Returns the report so far.
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
                let parsed = self.buffer.parse(source, &self.parser);
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
        let keeps_lines = self.parser.keeps_lines();
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

    /// Returns the next event, if all events are wanted.
    fn next_of_all(&mut self) -> Option<LogRecord> {
        loop {
            if let Some((lines, path)) = &mut self.lines {
                let mut noted = None;
                let record = lines.next(&mut self.decoder, &mut noted);
                if let Some(noted) = noted {
                    self.report.account(&noted, path);
                }
                if record.is_some() {
                    return record;
                }
            }
            if let Some((lines, _)) = self.lines.take() {
                let memory = lines.into_memory();
                match &self.ahead {
                    Some(ahead) => ahead.reuse(memory),
                    None => self.memory = memory,
                }
            }
            match self.next_lines()? {
                Ok((lines, path)) => {
                    self.report.account(&lines.too_long, &path);
                    self.lines = Some((lines, path));
                }
                Err(error) => self.report.problem(error),
            }
        }
    }
}

impl ReadReport {
    fn problem(&mut self, error: Error) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(error);
        }
    }

    /// Adds the counts of a block.
    pub(super) fn account(&mut self, parsed: &ParsedBlock, path: &Path) {
        self.invalid += parsed.invalid;
        self.torn += u64::from(parsed.is_torn);
        if let (None, Some(at)) = (&self.first_invalid, parsed.first_invalid) {
            self.first_invalid = Some((path.to_owned(), at));
        }
    }
}

impl Iterator for LogReader {
    type Item = LogRecord;

    fn next(&mut self) -> Option<LogRecord> {
        if self.parser.wants_all() {
            return self.next_of_all();
        }
        loop {
            if let Some(record) = self.ready.next() {
                return Some(record);
            }
            match self.next_parsed()? {
                Ok((parsed, path)) => {
                    self.report.account(&parsed, &path);
                    self.ready = parsed.into_records();
                }
                Err(error) => self.report.problem(error),
            }
        }
    }
}
