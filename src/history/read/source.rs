//! The files of a log, from oldest to newest, as blocks to read.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::block::{BLOCK_BYTES, Block, BlockStream, is_gzip, read_part};
use crate::error::{Error, Result};
use crate::history::dir_handle::DirHandle;
use crate::history::dir_handle::open_closed;
use crate::history::rotate::ClosedFile;
use crate::timestamp::Timestamp;

/// The tolerance for skipping a file by the time of its last write: events are written some seconds after
/// they happen, and the clock may have been set.
const WRITTEN_SLACK: Duration = Duration::from_secs(3600);

/// The origin of a block.
#[derive(Debug)]
pub(super) enum BlockSource {
    /// The lines that begin in a part of a file.
    Part {
        file: Arc<File>,
        part: Range<u64>,
        len: u64,
    },
    /// Lines that are already read.
    Block(Block),
}

impl BlockSource {
    /// Reads the lines, into this memory if needed.
    pub(super) fn read(self, memory: Vec<u8>) -> io::Result<Block> {
        match self {
            Self::Part { file, part, len } => {
                let mut block = Block::in_memory(memory);
                read_part(&file, part, len, &mut block)?;
                Ok(block)
            }
            Self::Block(block) => Ok(block),
        }
    }
}

/// Returns the error for a block that cannot be read.
pub(super) fn unread(path: &Path, cause: io::Error) -> Error {
    Error::file("cannot read a part of", path, cause)
}

/// A file of a log.
#[derive(Debug)]
pub(super) enum LogFile {
    Closed(u32),
    /// A file and the length to read.
    Open(File, PathBuf, u64),
}

/// The files of a log that have not been read yet.
#[derive(Debug, Default)]
pub(super) struct LogFiles {
    files: VecDeque<LogFile>,
    /// The directory of closed files.
    dir: Option<DirHandle>,
    /// Files without events from this time on are skipped.
    since: Option<Timestamp>,
    current: CurrentFile,
    /// The size of a block.
    block_bytes: u64,
}

/// The file that is being read.
#[derive(Default)]
enum CurrentFile {
    #[default]
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

impl LogFiles {
    pub(super) fn new(
        files: VecDeque<LogFile>,
        dir: Option<DirHandle>,
        since: Option<Timestamp>,
    ) -> Self {
        Self {
            files,
            dir,
            since,
            current: CurrentFile::None,
            block_bytes: BLOCK_BYTES as u64,
        }
    }

    /// Sets the size of a block.
    pub(super) fn in_blocks_of(&mut self, bytes: u64) {
        self.block_bytes = bytes;
    }

    /// Keeps only the last files.
    pub(super) fn keep_last(&mut self, files: usize) {
        let early = self.files.len().saturating_sub(files);
        self.files.drain(..early);
    }

    /// Returns true if the files contain at most `bytes`, as far as this is known without opening them.
    pub(super) fn are_within(&self, bytes: u64) -> bool {
        match (self.files.len(), self.files.front()) {
            (1, Some(LogFile::Open(_, _, len))) => *len <= bytes,
            (count, _) => count == 0,
        }
    }

    /// Returns the next block and its file, opening the next file if needed. Continues after an error.
    pub(super) fn next(&mut self) -> Option<Result<(BlockSource, Arc<Path>)>> {
        loop {
            match &mut self.current {
                CurrentFile::None => {
                    let file = self.files.pop_front()?;
                    match self.begin(file) {
                        Ok(current) => self.current = current,
                        Err(error) => return Some(Err(error)),
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
                        let source = BlockSource::Part { file, part, len };
                        return Some(Ok((source, Arc::clone(path))));
                    }
                    self.current = CurrentFile::None;
                }
                CurrentFile::Stream(stream, path) => {
                    let mut block = Block::default();
                    let failed = match stream.next(&mut block) {
                        Ok(true) => {
                            return Some(Ok((BlockSource::Block(block), Arc::clone(path))));
                        }
                        Ok(false) => None,
                        Err(cause) => {
                            Some(Err(Error::file("cannot read the rest of", path, cause)))
                        }
                    };
                    self.current = CurrentFile::None;
                    if failed.is_some() {
                        return failed;
                    }
                }
            }
        }
    }

    fn begin(&self, file: LogFile) -> Result<CurrentFile> {
        let (file, path, len) = match file {
            LogFile::Open(file, path, len) => (file, path, len),
            LogFile::Closed(number) => {
                // Only the directory of a run has closed files.
                let Some(dir) = &self.dir else {
                    return Ok(CurrentFile::None);
                };
                let name = |cause| {
                    let name = ClosedFile::plain(number).name();
                    Error::file("cannot read", &dir.join(&name), cause)
                };
                let (file, closed) = open_closed(dir, number).map_err(name)?;
                let len = file.metadata().map_err(name)?.len();
                (file, dir.join(&closed.name()), len)
            }
        };
        let is_old = |metadata: Metadata| self.is_too_old(metadata.mtime());
        if self.dir.is_some() && file.metadata().is_ok_and(is_old) {
            return Ok(CurrentFile::None);
        }
        let path = path.into();
        if is_gzip(&file) {
            // A block at most, which fits.
            let bytes = (self.block_bytes as usize).min(BLOCK_BYTES);
            let stream = BlockStream::unpack(file, bytes, bytes);
            return Ok(CurrentFile::Stream(stream, path));
        }
        Ok(CurrentFile::File {
            file: Arc::new(file),
            path,
            next: 0,
            len,
        })
    }

    /// Returns `true` if a file that was last written in this second contains no event of the wanted time.
    fn is_too_old(&self, written_s: i64) -> bool {
        self.since.is_some_and(|since: Timestamp| {
            let slack_s = i64::try_from(WRITTEN_SLACK.as_secs()).unwrap_or(i64::MAX);
            written_s.saturating_add(slack_s) < since.micros() / 1_000_000
        })
    }
}
