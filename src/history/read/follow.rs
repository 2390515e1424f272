//! Follows a log that is being written: reads existing events and then appended ones, across rotations,
//! without gaps or duplicates.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::vec;

use super::block::{BLOCK_BYTES, BlockSource};
use super::numbers::{NextNumber, PromisedEnd};
use super::parse::{BlockParser, LogRecord};
use super::query::Query;
use super::reader::{LogReader, ReadReport, known_end, parse_block, without_log};
use crate::error::{Error, Result};
use crate::history::dir::{RunDirectory, is_written};
use crate::history::dir_handle::{DirHandle, EVENTS, FileId, RunFiles};
use crate::history::tail::line_start;

/// Follows the log of a run while another process may write it.
///
/// [`Follower::next`] never waits: it returns existing events. The caller polls it, and stops when no writer
/// has the run open and everything is read:
///
/// ```no_run
/// use td_observe::history::{DataDir, Follower, Query};
/// let run = DataDir::new("/home/ann/.taskdaemon").run(&"build@1768989600".into());
/// let mut log = Follower::open(&run, Query::all())?;
/// loop {
///     // Checked before reading, so that the last lines of a writer that ends are read.
///     let is_written = log.is_written()?;
///     while let Some(record) = log.next()? {
///         println!("{}", record.envelope.ts);
///     }
///     if !is_written {
///         break;
///     }
///     // Polls for new events.
///     std::thread::park_timeout(std::time::Duration::from_millis(50));
/// }
/// # Ok::<(), td_observe::Error>(())
/// ```
#[derive(Debug)]
pub struct Follower {
    run: RunDirectory,
    dir: DirHandle,
    parser: Arc<BlockParser>,
    /// Files that existed at the start or were closed between two polls; `None` once they are read.
    backlog: Option<LogReader>,
    /// The file that is being written, if it exists.
    newest: Option<NewestFile>,
    /// The number of the last closed file that is read or being read, and later of the newest file once it is
    /// closed.
    number: u32,
    /// The memory of the previous block.
    memory: Vec<u8>,
    /// The events of the last block.
    ready: vec::IntoIter<LogRecord>,
    report: ReadReport,
}

#[derive(Debug)]
struct NewestFile {
    file: Arc<File>,
    id: FileId,
    /// The position up to which the file is read, in bytes; always the start of a line.
    offset: u64,
}

impl Follower {
    /// Begins with all existing events.
    ///
    /// # Errors
    /// If there is no such run, or its directory cannot be read.
    pub fn open(run: &RunDirectory, query: Query) -> Result<Self> {
        run.refresh();
        let dir = run.open_dir()?;
        let files = RunFiles::list(&dir);
        let follow = files.and_then(|files| Self::of_files(run, dir, files, query, None));
        follow.map_err(|cause| Error::file("cannot read the log in", run.path(), cause))
    }

    /// Begins with all events of these files, or at an offset in the newest one.
    pub(in crate::history) fn of_files(
        run: &RunDirectory,
        dir: DirHandle,
        files: RunFiles,
        query: Query,
        offset: Option<u64>,
    ) -> io::Result<Self> {
        let mut number = files.next_number();
        let parser = Arc::new(BlockParser::new(query, true));
        let mut newest = match files.newest {
            Some(file) => Some(NewestFile::open(file)?),
            None => {
                number -= 1;
                None
            }
        };
        let backlog = match (offset, &mut newest) {
            (Some(offset), Some(newest)) => {
                newest.offset = offset;
                None
            }
            (_, newest) => {
                let there = match newest {
                    Some(newest) => Some((newest.file.try_clone()?, newest.offset)),
                    None => None,
                };
                let closed = files.closed.iter().map(|closed| closed.number);
                let dir = run.open_dir().map_err(io::Error::other)?;
                let next = NextNumber::Is(1);
                Some(LogReader::up_to(
                    closed,
                    there,
                    dir,
                    Arc::clone(&parser),
                    next,
                ))
            }
        };
        Ok(Self {
            run: run.clone(),
            dir,
            parser,
            backlog,
            newest,
            number,
            memory: Vec::new(),
            ready: Vec::new().into_iter(),
            report: ReadReport::default(),
        })
    }

    /// Reads existing events in the thread of the caller, where several logs are read at the same time.
    pub(crate) fn in_this_thread(mut self) -> Self {
        self.backlog = self.backlog.map(LogReader::in_this_thread);
        self
    }

    /// Returns `true` if a writer has the run open.
    ///
    /// # Errors
    /// If the lock cannot be probed.
    pub fn is_written(&self) -> Result<bool> {
        is_written(&self.dir).map_err(|cause| {
            Error::file(
                "cannot check the lock of the run in",
                self.run.path(),
                cause,
            )
        })
    }

    /// Returns the next event; `None` if there is none yet.
    ///
    /// # Errors
    /// If the log can no longer be read.
    #[allow(clippy::should_implement_trait, reason = "it is not over with a None")]
    pub fn next(&mut self) -> Result<Option<LogRecord>> {
        loop {
            // Checked in each call, because files that were closed between two polls precede the newest one.
            if let Some(backlog) = &mut self.backlog {
                if let Some(record) = backlog.next() {
                    return Ok(Some(record));
                }
                // Dropping the reader ends its threads and closes its files.
                self.report = std::mem::take(&mut backlog.report);
                self.backlog = None;
            }
            if let Some(record) = self.ready.next() {
                return Ok(Some(record));
            }
            let more = self
                .read_on()
                .map_err(|cause| Error::file("cannot follow the log in", self.run.path(), cause))?;
            if !more {
                return Ok(None);
            }
        }
    }

    /// Returns the report so far.
    pub fn report(&self) -> &ReadReport {
        self.backlog
            .as_ref()
            .map_or(&self.report, LogReader::report)
    }

    /// Returns the final report of a run that has no writer and is read to its end. Only this report includes the
    /// events that are missing at the end.
    pub fn into_report(mut self) -> ReadReport {
        let known = known_end(&self.dir);
        let path = self.dir.join(EVENTS);
        let mut report = match self.backlog.take() {
            Some(backlog) => backlog.into_report(),
            None => std::mem::take(&mut self.report),
        };
        // Another writer may have continued and ended the run after the last read.
        let is_read = match &self.newest {
            Some(newest) => {
                let len = newest.file.metadata().map(|about| about.len());
                report.problems.extend(match &len {
                    Ok(0) if self.number == 1 => without_log(&self.dir, known.as_ref()),
                    _ => None,
                });
                // An incomplete last line is not read.
                len.and_then(|len| line_start(&newest.file, len))
                    .is_ok_and(|end| end == newest.offset)
                    && (self.dir.identity(EVENTS)).is_ok_and(|id| id == Some(newest.id))
            }
            None => {
                let is_none = self.number == 0;
                let problem = is_none.then(|| without_log(&self.dir, known.as_ref()));
                report.problems.extend(problem.flatten());
                matches!(self.dir.identity(EVENTS), Ok(None))
            }
        };
        let end = known.as_ref().and_then(PromisedEnd::of);
        report.numbers.finish(end.filter(|_| is_read), &path);
        report
    }

    /// Reads new complete lines; returns `false` if there are none.
    fn read_on(&mut self) -> io::Result<bool> {
        if self.read_newest()? {
            return Ok(true);
        }
        let id = self.newest.as_ref().map(|newest| newest.id);
        if self.dir.identity(EVENTS)? == id {
            return Ok(false);
        }
        // The file was closed, so this is its end; or the writer is between two files, and the next poll
        // finds the new one.
        if self.read_newest()? {
            return Ok(true);
        }
        let files = RunFiles::list(&self.dir)?;
        let number = files.next_number();
        let Some(file) = files.newest else {
            return Ok(false);
        };
        if Some(FileId::of(&file)?) == id {
            return Ok(false);
        }
        let before = std::mem::replace(&mut self.number, number);
        // Files that were filled and closed since the last poll. A file that was removed instead of closed
        // has no number.
        let closed = files.closed.iter().map(|closed| closed.number);
        let between: Vec<u32> = closed.filter(|&closed| closed > before).collect();
        self.newest = Some(NewestFile {
            id: FileId::of(&file)?,
            file: Arc::new(file),
            offset: 0,
        });
        if !between.is_empty() {
            let dir = self.run.open_dir().map_err(io::Error::other)?;
            let parser = Arc::clone(&self.parser);
            let between = between.into_iter();
            let mut reader = LogReader::up_to(between, None, dir, parser, NextNumber::AnyLine);
            reader.report = std::mem::take(&mut self.report);
            self.backlog = Some(reader);
        }
        Ok(true)
    }

    fn read_newest(&mut self) -> io::Result<bool> {
        let Some(newest) = &mut self.newest else {
            return Ok(false);
        };
        let len = newest.file.metadata()?.len();
        // The file is shorter: a torn line was repaired, or another program truncated the file and its lines
        // are lost.
        newest.offset = newest.offset.min(len);
        if newest.offset == len {
            return Ok(false);
        }
        let end = len.min(newest.offset + BLOCK_BYTES as u64);
        // An incomplete line is not read, even if it is long.
        let end = match line_start(&newest.file, end)? {
            whole if whole > newest.offset => whole,
            _ if end == len => return Ok(false),
            _ => match line_start(&newest.file, len)? {
                whole if whole > newest.offset => whole,
                _ => return Ok(false),
            },
        };
        let source = BlockSource::Part {
            file: Arc::clone(&newest.file),
            part: newest.offset..end,
            len: end,
        };
        let parsed = parse_block(source, &self.parser, &mut self.memory)?;
        newest.offset = end;
        self.report.account(&parsed, &self.dir.join(EVENTS));
        self.ready = parsed.records.into_iter();
        Ok(true)
    }
}

impl NewestFile {
    /// Opens the file at the end of its last whole line.
    fn open(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(Self {
            offset: line_start(&file, len)?,
            id: FileId::of(&file)?,
            file: Arc::new(file),
        })
    }
}
