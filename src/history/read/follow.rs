//! A log that is being written: what is there, then what comes, across its rotation, without hole or double.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::block::BLOCK_BYTES;
use super::parse::{BlockParser, LogRecord, ParsedRecords};
use super::pool::{BlockBuffer, BlockSource};
use super::query::Query;
use super::reader::{LogReader, ReadReport};
use crate::error::{Error, Result};
use crate::history::dir::RunDirectory;
use crate::history::dir_handle::{DirHandle, EVENTS, FileId};
use crate::history::lock::is_written;
use crate::history::run_files::RunFiles;
use crate::history::tail::line_start;

/// Follows the log of a run, from another process than its writer's too.
///
/// It never waits: [`Follower::next`] gives what is there. Whoever follows looks again after a
/// while, and ends when nobody writes the run any more and all has been read:
///
/// ```no_run
/// use td_observe::history::{DataDir, Follower, Query};
/// let run = DataDir::new("/home/ann/.taskdaemon").run(&"build@1768989600".into());
/// let mut log = Follower::open(&run, Query::all())?;
/// loop {
///     // Asked first: what was written before the writer went is read then.
///     let is_written = log.is_written()?;
///     while let Some(record) = log.next()? {
///         println!("{}", record.envelope.ts);
///     }
///     if !is_written {
///         break;
///     }
///     // Woken backlog, it looks backlog.
///     std::thread::park_timeout(std::time::Duration::from_millis(50));
/// }
/// # Ok::<(), td_observe::Error>(())
/// ```
#[derive(Debug)]
pub struct Follower {
    run: RunDirectory,
    dir: DirHandle,
    parser: Arc<BlockParser>,
    /// What was there at first; gone when it has been read.
    backlog: Option<LogReader>,
    /// The file that is being written, if there is one already.
    newest: Option<NewestFile>,
    /// The number of the last closed file that is read, or being read; the newest's own, as soon as
    /// it is closed.
    number: u32,
    buffer: BlockBuffer,
    ready: ParsedRecords,
    report: ReadReport,
}

#[derive(Debug)]
struct NewestFile {
    file: Arc<File>,
    id: FileId,
    /// What has been read, in bytes; the start of a line.
    offset: u64,
}

impl Follower {
    /// Begins with all that is there.
    ///
    /// # Errors
    /// When there is no such run, or its directory cannot be read.
    pub fn open(run: &RunDirectory, query: Query) -> Result<Self> {
        let dir = run.open_dir()?;
        let failed = |cause| Error::file("cannot read the log in", run.path(), cause);
        let files = RunFiles::list(&dir).map_err(failed)?;
        let mut number = files.next_number();
        let parser = Arc::new(BlockParser::new(query, true));
        let newest = match files.newest {
            Some(file) => Some(NewestFile::open(file).map_err(failed)?),
            None => {
                number -= 1;
                None
            }
        };
        let there = match &newest {
            Some(newest) => {
                let file = newest.file.try_clone().map_err(failed)?;
                Some((file, newest.offset))
            }
            None => None,
        };
        let closed = files.closed.iter().map(|closed| closed.number);
        let backlog = LogReader::up_to(closed, there, run.open_dir()?, Arc::clone(&parser));
        Ok(Self {
            run: run.clone(),
            dir,
            parser,
            backlog: Some(backlog),
            newest,
            number,
            buffer: BlockBuffer::default(),
            ready: ParsedRecords::default(),
            report: ReadReport::default(),
        })
    }

    /// Whether somebody writes the run now.
    ///
    /// # Errors
    /// When that cannot be asked.
    pub fn is_written(&self) -> Result<bool> {
        is_written(&self.dir)
            .map_err(|cause| Error::file("cannot ask who writes", self.run.path(), cause))
    }

    /// The next event that is there; `None` when there is none yet.
    ///
    /// # Errors
    /// When the log cannot be read any more.
    #[allow(clippy::should_implement_trait, reason = "it is not over with a None")]
    pub fn next(&mut self) -> Result<Option<LogRecord>> {
        loop {
            // Asked again each time: files that were closed between two looks stand before the
            // newest.
            if let Some(backlog) = &mut self.backlog {
                if let Some(record) = backlog.next() {
                    return Ok(Some(record));
                }
                // Gone, its threads and files with it.
                self.report = self
                    .backlog
                    .take()
                    .map(LogReader::into_report)
                    .unwrap_or_default();
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

    /// What there is to say beside the events, so far.
    pub fn report(&self) -> &ReadReport {
        self.backlog
            .as_ref()
            .map_or(&self.report, LogReader::report)
    }

    /// Reads whole lines that came since; `false` when none did.
    fn read_on(&mut self) -> io::Result<bool> {
        if self.read_newest()? {
            return Ok(true);
        }
        let id = self.newest.as_ref().map(|newest| newest.id);
        if self.dir.identity(EVENTS)? == id {
            return Ok(false);
        }
        // It was closed meanwhile, so this is its end; or the writer is between two files, and the
        // next look finds the new one.
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
        // ClosedFile ones between the two, when many were filled since the last look. One that was
        // never closed but removed has left no number behind it.
        let between = files
            .closed
            .iter()
            .map(|closed| closed.number)
            .filter(|&closed| closed > before);
        let between: Vec<u32> = between.collect();
        self.newest = Some(NewestFile {
            id: FileId::of(&file)?,
            file: Arc::new(file),
            offset: 0,
        });
        if !between.is_empty() {
            let dir = self.run.open_dir().map_err(io::Error::other)?;
            let parser = Arc::clone(&self.parser);
            let reader = LogReader::up_to(between.into_iter(), None, dir, parser);
            self.read_between(reader);
        }
        Ok(true)
    }

    /// RunFiles that were closed between two looks: they are read as what was there at first is.
    fn read_between(&mut self, reader: LogReader) {
        let so_far = std::mem::take(&mut self.report);
        self.backlog = Some(reader.after(so_far));
    }

    fn read_newest(&mut self) -> io::Result<bool> {
        let Some(newest) = &mut self.newest else {
            return Ok(false);
        };
        let len = newest.file.metadata()?.len();
        // Cut: a torn line was mended, or somebody else cut it, and then what is gone is gone.
        newest.offset = newest.offset.min(len);
        if newest.offset == len {
            return Ok(false);
        }
        let end = len.min(newest.offset + BLOCK_BYTES as u64);
        // The start of a line is no line yet, however long it is.
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
        let parsed = self.buffer.parse(source, &self.parser)?;
        newest.offset = end;
        self.report.account(&parsed, &self.dir.join(EVENTS));
        self.ready = parsed.into_records();
        Ok(true)
    }
}

impl NewestFile {
    /// At the end of its last whole line.
    fn open(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(Self {
            offset: line_start(&file, len)?,
            id: FileId::of(&file)?,
            file: Arc::new(file),
        })
    }
}
