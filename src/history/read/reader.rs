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

use super::block::{BLOCK_BYTES, Block, Stream};
use super::pool::{Piece, Pool, Scratch};
use super::query::Query;
use super::sift::{Lines, Record, Records, Sifted, Sifter};
use crate::error::{Error, Result};
use crate::history::dir::{EVENTS, RunDirectory};
use crate::history::dir_handle::DirHandle;
use crate::history::files::{Files, open_closed};
use crate::timestamp::Timestamp;

/// A log that is smaller is read before threads for it would have begun.
const ALONE_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// How much is read in one piece where events are parsed and handed on by one thread: with all that
/// is made of it, it stays in the core's own cache.
const ALONE_BLOCK_BYTES: u64 = 32 * 1024;

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
/// println!("{} broken lines", log.report().broken);
/// # Ok::<(), td_observe::Error>(())
/// ```
#[derive(Debug)]
pub struct LogReader {
    inputs: VecDeque<Input>,
    /// Where closed files are.
    dir: Option<DirHandle>,
    current: Current,
    sifter: Arc<Sifter>,
    /// How much of a file is looked at in one piece.
    piece_bytes: u64,
    work: Work,
    /// Answers that have been asked for, in order, and the file that each is about.
    asked: VecDeque<(Receiver<io::Result<Sifted>>, Arc<Path>)>,
    ready: Records,
    /// The lines that are being parsed, where all are wanted, and their file.
    lines: Option<(Lines, Arc<Path>)>,
    report: ReadReport,
}

/// What a reader has to say beside the events.
#[derive(Debug, Default)]
pub struct ReadReport {
    /// Lines that are no events; of those that were looked at, which a filter makes fewer.
    pub broken: u64,
    /// The file that has the first of them, and where it begins there, in bytes (unpacked).
    pub first_broken: Option<(PathBuf, u64)>,
    /// Files whose last line is cut off.
    pub torn: u64,
    /// Files, or parts of them, that could not be read.
    pub problems: Vec<Error>,
}

#[derive(Debug)]
enum Input {
    Closed(u32),
    /// As far as it is to be read.
    Open(File, PathBuf, u64),
}

/// What is being read.
enum Current {
    Nothing,
    File {
        file: Arc<File>,
        path: Arc<Path>,
        next: u64,
        len: u64,
    },
    Stream(Stream, Arc<Path>),
}

impl std::fmt::Debug for Current {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Current")
    }
}

#[derive(Debug)]
enum Work {
    Alone(Scratch),
    Together(Pool),
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
        let files = Files::list(&dir).map_err(failed)?;
        let mut newest = Vec::new();
        if let Some(file) = files.newest {
            let len = file.metadata().map_err(failed)?.len();
            newest.push(Input::Open(file, run.path().join(EVENTS), len));
        }
        let closed = files
            .closed
            .iter()
            .map(|closed| Input::Closed(closed.number));
        let inputs = closed.chain(newest).collect();
        Ok(Self::over(
            inputs,
            Some(dir),
            Arc::new(Sifter::new(query, keeps_lines)),
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
        let sifter = Arc::new(Sifter::new(query, true));
        let mut reader = Self::over(VecDeque::new(), None, sifter);
        if about.is_file() {
            let input = Input::Open(file, path.to_owned(), about.len());
            reader = Self::over([input].into(), None, reader.sifter);
        } else {
            reader.current = Current::Stream(Stream::new(Box::new(file)), path.into());
        }
        Ok(reader)
    }

    /// The files of a run up to a place in the newest, which is where a line ends.
    pub(super) fn up_to(
        closed: impl Iterator<Item = u32>,
        newest: Option<(File, u64)>,
        dir: DirHandle,
        sifter: Arc<Sifter>,
    ) -> Self {
        let path = dir.join(EVENTS);
        let newest = newest.map(|(file, len)| Input::Open(file, path, len));
        Self::over(
            closed.map(Input::Closed).chain(newest).collect(),
            Some(dir),
            sifter,
        )
    }

    /// The same, with a report that goes on from another's.
    pub(super) fn after(mut self, report: ReadReport) -> Self {
        self.report = report;
        self
    }

    fn over(inputs: VecDeque<Input>, dir: Option<DirHandle>, sifter: Arc<Sifter>) -> Self {
        let is_small = match (inputs.len(), inputs.front()) {
            (1, Some(Input::Open(_, _, len))) => *len <= ALONE_BYTES_MAX,
            (count, _) => count == 0,
        };
        // Threads pay where they pass lines over. What they parse has to go to another core, which
        // costs more than it saves when all of it is wanted.
        let pool = match is_small || sifter.wants_all() {
            true => None,
            false => Pool::start(&sifter),
        };
        let piece_bytes = match pool {
            Some(_) => BLOCK_BYTES as u64,
            None => ALONE_BLOCK_BYTES,
        };
        Self {
            piece_bytes,
            inputs,
            dir,
            current: Current::Nothing,
            sifter,
            work: pool.map_or_else(|| Work::Alone(Scratch::default()), Work::Together),
            asked: VecDeque::new(),
            ready: Records::default(),
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

    /// What the next piece of the log held.
    fn next_sifted(&mut self) -> Option<(io::Result<Sifted>, Arc<Path>)> {
        if matches!(self.work, Work::Alone(_)) {
            let (piece, path) = self.next_piece()?;
            let Work::Alone(scratch) = &mut self.work else {
                return None;
            };
            return Some((scratch.sift(piece, &self.sifter), path));
        }
        while let Work::Together(pool) = &self.work
            && self.asked.len() < pool.ahead()
        {
            let Some((piece, path)) = self.next_piece() else {
                break;
            };
            if let Work::Together(pool) = &self.work {
                self.asked.push_back((pool.ask(piece), path));
            }
        }
        let (answered, path) = self.asked.pop_front()?;
        let gone = || io::Error::other("the thread that read it has panicked");
        Some((answered.recv().unwrap_or_else(|_| Err(gone())), path))
    }

    /// The next piece, of the next file where one is at its end.
    fn next_piece(&mut self) -> Option<(Piece, Arc<Path>)> {
        loop {
            match &mut self.current {
                Current::Nothing => {
                    let input = self.inputs.pop_front()?;
                    match self.begin(input) {
                        Ok(current) => self.current = current,
                        Err(error) => self.report.problem(error),
                    }
                }
                Current::File {
                    file,
                    path,
                    next,
                    len,
                } => {
                    if *next < *len {
                        let part = *next..*next + self.piece_bytes;
                        *next = part.end;
                        let (file, len) = (Arc::clone(file), *len);
                        return Some((Piece::Part { file, part, len }, Arc::clone(path)));
                    }
                    self.current = Current::Nothing;
                }
                Current::Stream(stream, path) => {
                    let mut block = Block::default();
                    match stream.next(&mut block) {
                        Ok(true) => return Some((Piece::Block(block), Arc::clone(path))),
                        Ok(false) => {}
                        Err(cause) => {
                            let error = Error::file("cannot read the rest of", path, cause);
                            self.report.problem(error);
                        }
                    }
                    self.current = Current::Nothing;
                }
            }
        }
    }

    fn begin(&self, input: Input) -> Result<Current> {
        let (file, path, len) = match input {
            Input::Open(file, path, len) => (file, path, len),
            Input::Closed(number) => {
                // Closed files are listed in a directory only.
                let Some(dir) = &self.dir else {
                    return Ok(Current::Nothing);
                };
                let name = |cause| {
                    let name = crate::history::rotate::Closed::plain(number).name();
                    Error::file("cannot read", &dir.join(&name), cause)
                };
                let (file, closed) = open_closed(dir, number).map_err(name)?;
                let about = file.metadata().map_err(name)?;
                if self.is_too_old(about.mtime()) {
                    return Ok(Current::Nothing);
                }
                (file, dir.join(&closed.name()), about.len())
            }
        };
        let mut magic = [0; GZIP_MAGIC.len()];
        let read = std::os::unix::fs::FileExt::read_at(&file, &mut magic, 0);
        let path = path.into();
        if read.is_ok_and(|read| read == magic.len()) && magic == GZIP_MAGIC {
            let unpacked = MultiGzDecoder::new(BufReader::with_capacity(BLOCK_BYTES, file));
            return Ok(Current::Stream(Stream::new(Box::new(unpacked)), path));
        }
        Ok(Current::File {
            file: Arc::new(file),
            path,
            next: 0,
            len,
        })
    }

    /// Whether a file that was last written in that second has nothing of the wanted time.
    fn is_too_old(&self, written_s: i64) -> bool {
        self.sifter.since().is_some_and(|since: Timestamp| {
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

    /// Takes in what a piece held beside events.
    pub(super) fn account(&mut self, sifted: &Sifted, path: &Path) {
        self.broken += sifted.broken;
        self.torn += u64::from(sifted.is_torn);
        if let (None, Some(at)) = (&self.first_broken, sifted.first_broken) {
            self.first_broken = Some((path.to_owned(), at));
        }
    }
}

impl LogReader {
    /// The next event where all are wanted.
    fn next_of_all(&mut self) -> Option<Record> {
        loop {
            if let Some((lines, path)) = &mut self.lines {
                let mut noted = Sifted::default();
                let record = lines.next(&mut noted);
                self.report.account(&noted, path);
                if record.is_some() {
                    return record;
                }
                self.lines = None;
            }
            let (piece, path) = self.next_piece()?;
            match piece.read() {
                Ok(block) => {
                    let noted = Sifted::too_long(&block);
                    self.report.account(&noted, &path);
                    let keeps_lines = self.sifter.keeps_lines();
                    self.lines = Some((Lines::of(block, keeps_lines), path));
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
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if self.sifter.wants_all() {
            return self.next_of_all();
        }
        loop {
            if let Some(record) = self.ready.next() {
                return Some(record);
            }
            match self.next_sifted()? {
                (Ok(sifted), path) => {
                    self.report.account(&sifted, &path);
                    self.ready = sifted.into_records();
                }
                (Err(cause), path) => {
                    self.report
                        .problem(Error::file("cannot read a part of", &path, cause));
                }
            }
        }
    }
}
