//! Iterates over the wanted events of a log, in order, across its files.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Receiver;
use rustix::fs::{Mode, OFlags};

use super::block::{BLOCK_BYTES, Block, BlockStream, is_gzip};
use super::parse::{BlockLines, BlockParser, LogRecord, ParsedBlock, ParsedRecords};
use super::pool::{BlockBuffer, BlockSource, ReaderPool};
use super::query::Query;
use crate::error::{Error, Result};
use crate::event::LineDecoder;
use crate::history::dir::RunDirectory;
use crate::history::dir_handle::{DirHandle, EVENTS};
use crate::history::run_files::{RunFiles, open_closed};
use crate::timestamp::Timestamp;

/// A smaller log is read before threads would have started.
const SEQUENTIAL_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// The size of a block that one thread parses and returns: the block and its events stay in the
/// core's cache.
const SEQUENTIAL_BLOCK_BYTES: u64 = 32 * 1024;

/// The tolerance for skipping a file by the time of its last write: events are written some seconds
/// after they happen, and the clock may have been changed.
const WRITTEN_SLACK: Duration = Duration::from_secs(3600);

/// The most problems in a report.
const PROBLEMS_MAX: usize = 16;

/// Reads the events of a log from its oldest file to its newest, up to the end at the time of
/// reading. Memory does not grow with the log.
///
/// Continues after errors: lines that are not events are skipped and counted, and a file that
/// cannot be read is a problem in the report ([`LogReader::report`]).
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
    inputs: VecDeque<LogFile>,
    /// The directory of closed files.
    dir: Option<DirHandle>,
    current: CurrentFile,
    parser: Arc<BlockParser>,
    /// The size of a block.
    block_bytes: u64,
    /// Parses blocks in parallel; `None` for a small log and where all events are wanted.
    pool: Option<ReaderPool>,
    buffer: BlockBuffer,
    /// The results of queued jobs, in order, with the file of each.
    pending: VecDeque<(Receiver<io::Result<ParsedBlock>>, Arc<Path>)>,
    ready: ParsedRecords,
    /// The lines that are being parsed if all are wanted, and their file.
    lines: Option<(BlockLines, Arc<Path>)>,
    decoder: LineDecoder,
    report: ReadReport,
}

/// The report of a reader, beside the events.
#[derive(Debug, Default)]
pub struct ReadReport {
    /// The number of parsed lines that are not events; a filter parses fewer lines.
    pub invalid: u64,
    /// The file that contains the first of them, and its position there, in bytes of the
    /// uncompressed file.
    pub first_invalid: Option<(PathBuf, u64)>,
    /// The number of files whose last line is incomplete.
    pub torn: u64,
    /// The errors of files, or parts of them, that could not be read.
    pub problems: Vec<Error>,
}

#[derive(Debug)]
enum LogFile {
    Closed(u32),
    /// A file and the length to read.
    Open(File, PathBuf, u64),
}

/// The file that is being read.
enum CurrentFile {
    None,
    File {
        file: Arc<File>,
        path: Arc<Path>,
        next: u64,
        len: u64,
    },
    Stream(BlockStream, Arc<Path>),
}

impl std::fmt::Debug for CurrentFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CurrentFile")
    }
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
        let early = reader.inputs.len().saturating_sub(files);
        reader.inputs.drain(..early);
        Ok(reader)
    }

    /// Reads with this thread alone, in blocks of this size.
    pub(super) fn in_blocks_of(mut self, bytes: usize) -> Self {
        self.pool = None;
        self.block_bytes = bytes as u64;
        self
    }

    fn new(run: &RunDirectory, query: Query, keeps_lines: bool) -> Result<Self> {
        let dir = run.open_dir()?;
        let failed = |cause| Error::file("cannot read the log in", run.path(), cause);
        let files = RunFiles::list(&dir).map_err(failed)?;
        let newest = match files.newest {
            Some(file) => {
                let len = file.metadata().map_err(failed)?.len();
                Some((file, len))
            }
            None => None,
        };
        let closed = files.closed.iter().map(|closed| closed.number);
        let parser = Arc::new(BlockParser::new(query, keeps_lines));
        Ok(Self::up_to(closed, newest, dir, parser))
    }

    /// Reads a single file of lines at any path, compressed or not.
    ///
    /// # Errors
    /// If the file cannot be opened. [`Error::is_invalid_input`] if it is a directory, a device, a
    /// named pipe or a socket, which could have no end.
    pub fn open_file(path: &Path, query: Query) -> Result<Self> {
        let failed = |cause: io::Error| Error::file("cannot read", path, cause);
        // Without waiting for the peer of a named pipe, or for a modem.
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

    /// Reads the closed files of a run, and the newest up to a position at the end of a line.
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
        let is_small = match (inputs.len(), inputs.front()) {
            (1, Some(LogFile::Open(_, _, len))) => *len <= SEQUENTIAL_BYTES_MAX,
            (count, _) => count == 0,
        };
        // Threads pay where they skip lines. Parsed events move to another core, which costs more
        // than it saves when all of them are wanted.
        let pool = match is_small || parser.wants_all() {
            true => None,
            false => ReaderPool::start(&parser),
        };
        let block_bytes = match pool {
            Some(_) => BLOCK_BYTES as u64,
            None => SEQUENTIAL_BLOCK_BYTES,
        };
        Self {
            block_bytes,
            inputs,
            dir,
            current: CurrentFile::None,
            parser,
            pool,
            buffer: BlockBuffer::default(),
            pending: VecDeque::new(),
            ready: ParsedRecords::default(),
            lines: None,
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
    fn next_parsed(&mut self) -> Option<(io::Result<ParsedBlock>, Arc<Path>)> {
        let Some(jobs_max) = self.pool.as_ref().map(ReaderPool::ahead) else {
            let (source, path) = self.next_source()?;
            return Some((self.buffer.parse(source, &self.parser), path));
        };
        while self.pending.len() < jobs_max
            && let Some((source, path)) = self.next_source()
        {
            if let Some(pool) = &self.pool {
                self.pending.push_back((pool.parse(source), path));
            }
        }
        let (result, path) = self.pending.pop_front()?;
        let gone = || io::Error::other("the thread that read it has panicked");
        Some((result.recv().unwrap_or_else(|_| Err(gone())), path))
    }

    /// Returns the next block, if necessary of the next file.
    fn next_source(&mut self) -> Option<(BlockSource, Arc<Path>)> {
        loop {
            match &mut self.current {
                CurrentFile::None => {
                    let input = self.inputs.pop_front()?;
                    match self.begin(input) {
                        Ok(current) => self.current = current,
                        Err(error) => self.report.problem(error),
                    }
                }
                CurrentFile::File {
                    file,
                    path,
                    next,
                    len,
                } => {
                    if *next < *len {
                        let part = *next..*next + self.block_bytes;
                        *next = part.end;
                        let (file, len) = (Arc::clone(file), *len);
                        return Some((BlockSource::Part { file, part, len }, Arc::clone(path)));
                    }
                    self.current = CurrentFile::None;
                }
                CurrentFile::Stream(stream, path) => {
                    let mut block = Block::default();
                    match stream.next(&mut block) {
                        Ok(true) => return Some((BlockSource::Block(block), Arc::clone(path))),
                        Ok(false) => {}
                        Err(cause) => {
                            let error = Error::file("cannot read the rest of", path, cause);
                            self.report.problem(error);
                        }
                    }
                    self.current = CurrentFile::None;
                }
            }
        }
    }

    fn begin(&self, input: LogFile) -> Result<CurrentFile> {
        let (file, path, len) = match input {
            LogFile::Open(file, path, len) => {
                let written = file.metadata().ok().filter(|_| self.dir.is_some());
                if written.is_some_and(|metadata| self.is_too_old(metadata.mtime())) {
                    return Ok(CurrentFile::None);
                }
                (file, path, len)
            }
            LogFile::Closed(number) => {
                // Only a run's directory has closed files.
                let Some(dir) = &self.dir else {
                    return Ok(CurrentFile::None);
                };
                let name = |cause| {
                    let name = crate::history::rotate::ClosedFile::plain(number).name();
                    Error::file("cannot read", &dir.join(&name), cause)
                };
                let (file, closed) = open_closed(dir, number).map_err(name)?;
                let metadata = file.metadata().map_err(name)?;
                if self.is_too_old(metadata.mtime()) {
                    return Ok(CurrentFile::None);
                }
                (file, dir.join(&closed.name()), metadata.len())
            }
        };
        let path = path.into();
        if is_gzip(&file) {
            // At most a block.
            let read_bytes = (self.block_bytes as usize).min(BLOCK_BYTES);
            let block_bytes = match self.pool {
                Some(_) => BLOCK_BYTES,
                None => read_bytes,
            };
            let stream = BlockStream::unpack(file, read_bytes, block_bytes);
            return Ok(CurrentFile::Stream(stream, path));
        }
        Ok(CurrentFile::File {
            file: Arc::new(file),
            path,
            next: 0,
            len,
        })
    }

    /// Returns `true` if a file that was last written in this second contains no event of the
    /// wanted time.
    fn is_too_old(&self, written_s: i64) -> bool {
        self.parser.since().is_some_and(|since: Timestamp| {
            let slack_s = i64::try_from(WRITTEN_SLACK.as_secs()).unwrap_or(i64::MAX);
            written_s.saturating_add(slack_s) < since.micros() / 1_000_000
        })
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

impl LogReader {
    /// Returns the next event if all are wanted.
    fn next_of_all(&mut self) -> Option<LogRecord> {
        loop {
            if let Some((lines, path)) = &mut self.lines {
                let mut noted = ParsedBlock::default();
                let record = lines.next(&mut self.decoder, &mut noted);
                self.report.account(&noted, path);
                if record.is_some() {
                    return record;
                }
            }
            let used = self.lines.take().map(|(lines, _)| lines.into_memory());
            let (source, path) = self.next_source()?;
            match source.read(used.unwrap_or_default()) {
                Ok(block) => {
                    let noted = ParsedBlock::too_long(&block);
                    self.report.account(&noted, &path);
                    let keeps_lines = self.parser.keeps_lines();
                    self.lines = Some((BlockLines::of(block, keeps_lines), path));
                }
                Err(cause) => {
                    let error = Error::file("cannot read a part of", &path, cause);
                    self.report.problem(error);
                }
            }
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
                (Ok(parsed), path) => {
                    self.report.account(&parsed, &path);
                    self.ready = parsed.into_records();
                }
                (Err(cause), path) => {
                    self.report
                        .problem(Error::file("cannot read a part of", &path, cause));
                }
            }
        }
    }
}
