//! All events of a log that are wanted, in order, across its files.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Receiver;
use flate2::bufread::MultiGzDecoder;

use super::block::{BLOCK_BYTES, Block, BlockStream};
use super::parse::{BlockLines, BlockParser, LogRecord, ParsedBlock, ParsedRecords};
use super::pool::{BlockBuffer, BlockSource, ReaderPool};
use super::query::Query;
use crate::error::{Error, Result};
use crate::history::dir::RunDirectory;
use crate::history::dir_handle::{DirHandle, EVENTS};
use crate::history::run_files::{RunFiles, open_closed};
use crate::timestamp::Timestamp;

/// A log that is smaller is read before threads for it would have begun.
const SEQUENTIAL_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// How much is read in one source where events are parsed and handed on by one thread: with all that
/// is made of it, it stays in the core's own cache.
const SEQUENTIAL_BLOCK_BYTES: u64 = 32 * 1024;

/// A file whose last write was so long before the time from which events are wanted is not read:
/// events are written some seconds after they happened, and the clock may have jumped by some.
const WRITTEN_SLACK: Duration = Duration::from_secs(3600);

/// Problems that are kept to be told; more of them say nothing new.
const PROBLEMS_MAX: usize = 16;

/// What begins every gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Reads the events of a log, from its oldest file to its newest, as far as it reaches when its
/// turn comes. Memory does not grow with the log.
///
/// It goes on where others would stop: lines that are no events are passed over and counted, and a
/// file that cannot be read is a problem to tell ([`LogReader::report`]).
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
    /// Where closed files are.
    dir: Option<DirHandle>,
    current: CurrentFile,
    parser: Arc<BlockParser>,
    /// How much of a file is looked at in one source.
    block_bytes: u64,
    mode: ParseMode,
    /// Answers that have been pending for, in order, and the file that each is about.
    pending: VecDeque<(Receiver<io::Result<ParsedBlock>>, Arc<Path>)>,
    ready: ParsedRecords,
    /// The lines that are being parsed, where all are wanted, and their file.
    lines: Option<(BlockLines, Arc<Path>)>,
    report: ReadReport,
}

/// What a reader has to say beside the events.
#[derive(Debug, Default)]
pub struct ReadReport {
    /// BlockLines that are no events; of those that were looked at, which a filter makes fewer.
    pub invalid: u64,
    /// The file that has the first of them, and where it begins there, in bytes (unpacked).
    pub first_invalid: Option<(PathBuf, u64)>,
    /// RunFiles whose last line is cut off.
    pub torn: u64,
    /// RunFiles, or parts of them, that could not be read.
    pub problems: Vec<Error>,
}

#[derive(Debug)]
enum LogFile {
    Closed(u32),
    /// As far as it is to be read.
    Open(File, PathBuf, u64),
}

/// What is being read.
enum CurrentFile {
    Nothing,
    File {
        file: Arc<File>,
        path: Arc<Path>,
        next: u64,
        len: u64,
    },
    BlockStream(BlockStream, Arc<Path>),
}

impl std::fmt::Debug for CurrentFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CurrentFile")
    }
}

#[derive(Debug)]
enum ParseMode {
    Sequential(BlockBuffer),
    Parallel(ReaderPool),
}

impl LogReader {
    /// Reads the log of a run.
    ///
    /// # Errors
    /// When there is no such run, or its directory cannot be read.
    pub fn open(run: &RunDirectory, query: Query) -> Result<Self> {
        Self::new(run, query, false)
    }

    /// As [`LogReader::open`], and keeps each event's line, as it stands in the log.
    ///
    /// # Errors
    /// As [`LogReader::open`].
    pub fn open_lines(run: &RunDirectory, query: Query) -> Result<Self> {
        Self::new(run, query, true)
    }

    /// As [`LogReader::open`], but only the last so many files.
    ///
    /// # Errors
    /// As [`LogReader::open`].
    pub fn open_last(run: &RunDirectory, files: usize, query: Query) -> Result<Self> {
        let mut reader = Self::new(run, query, false)?;
        let early = reader.inputs.len().saturating_sub(files);
        reader.inputs.drain(..early);
        Ok(reader)
    }

    fn new(run: &RunDirectory, query: Query, keeps_lines: bool) -> Result<Self> {
        let dir = run.open_dir()?;
        let failed = |cause| Error::file("cannot read the log in", run.path(), cause);
        let files = RunFiles::list(&dir).map_err(failed)?;
        let mut newest = Vec::new();
        if let Some(file) = files.newest {
            let len = file.metadata().map_err(failed)?.len();
            newest.push(LogFile::Open(file, run.path().join(EVENTS), len));
        }
        let closed = files
            .closed
            .iter()
            .map(|closed| LogFile::Closed(closed.number));
        let inputs = closed.chain(newest).collect();
        Ok(Self::over(
            inputs,
            Some(dir),
            Arc::new(BlockParser::new(query, keeps_lines)),
        ))
    }

    /// Reads one file that has lines of a log, compressed or not, wherever it is; a pipe too.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open_file(path: &Path, query: Query) -> Result<Self> {
        let failed = |cause| Error::file("cannot read", path, cause);
        let file = File::open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if about.is_dir() {
            return Err(Error::invalid("this is a directory, not a log:").at(path));
        }
        let parser = Arc::new(BlockParser::new(query, true));
        let mut reader = Self::over(VecDeque::new(), None, parser);
        if about.is_file() {
            let input = LogFile::Open(file, path.to_owned(), about.len());
            reader = Self::over([input].into(), None, reader.parser);
        } else {
            reader.current =
                CurrentFile::BlockStream(BlockStream::new(Box::new(file)), path.into());
        }
        Ok(reader)
    }

    /// The files of a run up to a place in the newest, which is where a line ends.
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

    /// The same, with a report that goes on from another's.
    pub(super) fn after(mut self, report: ReadReport) -> Self {
        self.report = report;
        self
    }

    fn over(inputs: VecDeque<LogFile>, dir: Option<DirHandle>, parser: Arc<BlockParser>) -> Self {
        let is_small = match (inputs.len(), inputs.front()) {
            (1, Some(LogFile::Open(_, _, len))) => *len <= SEQUENTIAL_BYTES_MAX,
            (count, _) => count == 0,
        };
        // Threads pay where they pass lines over. What they parse has to go to another core, which
        // costs more than it saves when all of it is wanted.
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
            current: CurrentFile::Nothing,
            parser,
            mode: pool.map_or_else(
                || ParseMode::Sequential(BlockBuffer::default()),
                ParseMode::Parallel,
            ),
            pending: VecDeque::new(),
            ready: ParsedRecords::default(),
            lines: None,
            report: ReadReport::default(),
        }
    }

    /// What there is to say beside the events, so far.
    pub fn report(&self) -> &ReadReport {
        &self.report
    }

    /// What there is to say, at the end.
    pub fn into_report(self) -> ReadReport {
        self.report
    }

    /// What the next source of the log pending_bytes.
    fn next_parsed(&mut self) -> Option<(io::Result<ParsedBlock>, Arc<Path>)> {
        if matches!(self.mode, ParseMode::Sequential(_)) {
            let (source, path) = self.next_source()?;
            let ParseMode::Sequential(buffer) = &mut self.mode else {
                return None;
            };
            return Some((buffer.parse(source, &self.parser), path));
        }
        while let ParseMode::Parallel(pool) = &self.mode
            && self.pending.len() < pool.ahead()
        {
            let Some((source, path)) = self.next_source() else {
                break;
            };
            if let ParseMode::Parallel(pool) = &self.mode {
                self.pending.push_back((pool.parse(source), path));
            }
        }
        let (answered, path) = self.pending.pop_front()?;
        let gone = || io::Error::other("the thread that read it has panicked");
        Some((answered.recv().unwrap_or_else(|_| Err(gone())), path))
    }

    /// The next source, of the next file where one is at its end.
    fn next_source(&mut self) -> Option<(BlockSource, Arc<Path>)> {
        loop {
            match &mut self.current {
                CurrentFile::Nothing => {
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
                    self.current = CurrentFile::Nothing;
                }
                CurrentFile::BlockStream(stream, path) => {
                    let mut block = Block::default();
                    match stream.next(&mut block) {
                        Ok(true) => return Some((BlockSource::Block(block), Arc::clone(path))),
                        Ok(false) => {}
                        Err(cause) => {
                            let error = Error::file("cannot read the rest of", path, cause);
                            self.report.problem(error);
                        }
                    }
                    self.current = CurrentFile::Nothing;
                }
            }
        }
    }

    fn begin(&self, input: LogFile) -> Result<CurrentFile> {
        let (file, path, len) = match input {
            LogFile::Open(file, path, len) => (file, path, len),
            LogFile::Closed(number) => {
                // ClosedFile files are listed in a directory only.
                let Some(dir) = &self.dir else {
                    return Ok(CurrentFile::Nothing);
                };
                let name = |cause| {
                    let name = crate::history::rotate::ClosedFile::plain(number).name();
                    Error::file("cannot read", &dir.join(&name), cause)
                };
                let (file, closed) = open_closed(dir, number).map_err(name)?;
                let about = file.metadata().map_err(name)?;
                if self.is_too_old(about.mtime()) {
                    return Ok(CurrentFile::Nothing);
                }
                (file, dir.join(&closed.name()), about.len())
            }
        };
        let mut magic = [0; GZIP_MAGIC.len()];
        let read = std::os::unix::fs::FileExt::read_at(&file, &mut magic, 0);
        let path = path.into();
        if read.is_ok_and(|read| read == magic.len()) && magic == GZIP_MAGIC {
            let unpacked = MultiGzDecoder::new(BufReader::with_capacity(BLOCK_BYTES, file));
            return Ok(CurrentFile::BlockStream(
                BlockStream::new(Box::new(unpacked)),
                path,
            ));
        }
        Ok(CurrentFile::File {
            file: Arc::new(file),
            path,
            next: 0,
            len,
        })
    }

    /// Whether a file that was last written in that second has nothing of the wanted time.
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

    /// Takes in what a source pending_bytes beside events.
    pub(super) fn account(&mut self, parsed: &ParsedBlock, path: &Path) {
        self.invalid += parsed.invalid;
        self.torn += u64::from(parsed.is_torn);
        if let (None, Some(at)) = (&self.first_invalid, parsed.first_invalid) {
            self.first_invalid = Some((path.to_owned(), at));
        }
    }
}

impl LogReader {
    /// The next event where all are wanted.
    fn next_of_all(&mut self) -> Option<LogRecord> {
        loop {
            if let Some((lines, path)) = &mut self.lines {
                let mut noted = ParsedBlock::default();
                let record = lines.next(&mut noted);
                self.report.account(&noted, path);
                if record.is_some() {
                    return record;
                }
                self.lines = None;
            }
            let (source, path) = self.next_source()?;
            match source.read() {
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
