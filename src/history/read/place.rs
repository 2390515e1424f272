//! Places in a log, by number or time, found by bisection over its files and then over the positions in one
//! file.
//!
//! Positions refer to the uncompressed lines. A compressed file is decompressed from its start each time; a
//! cached index of its blocks shows where to search, so that earlier lines need not be parsed.

use std::fs::File;
use std::io;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use super::block::{BLOCK_BYTES, Block, FileBlocks, is_gzip};
use super::parse::BlockLines;
use crate::error::{Error, Result};
use crate::event::{Envelope, LineDecoder};
use crate::history::dir::RunDirectory;
use crate::history::dir_handle::{DirHandle, EVENTS, FileId, RunFiles, open_closed};
use crate::history::rotate::ClosedFile;
use crate::timestamp::Timestamp;

/// A place between two records of a log.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// Right before the first record with this number or a higher one.
    Before(u64),
    /// Right after the last record with this number or a lower one.
    #[cfg_attr(
        not(any(feature = "mcp", feature = "serve", feature = "tui")),
        allow(dead_code)
    )]
    After(u64),
    /// Right before the first record of a later time.
    #[cfg_attr(not(feature = "tui"), allow(dead_code))]
    Until(Timestamp),
}

impl Place {
    /// Returns `true` for a record before the place and `false` for one after it. `None` if the record has no
    /// number and therefore cannot decide.
    fn is_behind(self, (seq, ts): Key) -> Option<bool> {
        match self {
            Self::Before(place) => seq.map(|seq| seq < place),
            Self::After(place) => seq.map(|seq| seq <= place),
            Self::Until(place) => Some(ts <= place),
        }
    }

    /// Returns `true` if a record may be in a page that ends or begins at the place. If numbers were assigned
    /// again, this prevents a reader that turns pages from looping.
    pub(super) fn admits(self, envelope: &Envelope, is_before: bool) -> bool {
        match self {
            Self::Until(_) => true,
            _ => (self.is_behind(key_of(envelope))).is_none_or(|is_behind| is_behind == is_before),
        }
    }
}

/// A position in a file of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// The index of the file, from the oldest. The number of files means the end of the log.
    pub(super) file: usize,
    pub(super) offset: u64,
}

/// The files of a log, as of one listing.
pub(super) struct PagedFiles {
    dir: DirHandle,
    closed: Vec<ClosedFile>,
    newest: Option<(std::fs::File, u64)>,
}

impl PagedFiles {
    pub(super) fn list(run: &RunDirectory) -> Result<Self> {
        run.refresh();
        let dir = run.open_dir()?;
        let failed = |cause| Error::file("cannot read the log in", run.path(), cause);
        let mut files = RunFiles::list(&dir).map_err(failed)?;
        Ok(Self {
            newest: files.take_newest().map_err(failed)?,
            closed: files.closed,
            dir,
        })
    }

    pub(super) fn count(&self) -> usize {
        self.closed.len() + usize::from(self.newest.is_some())
    }

    /// Returns the end of the log.
    pub(super) fn end(&self) -> Position {
        Position {
            file: self.count(),
            offset: 0,
        }
    }

    /// Opens a file; `None` if it no longer exists or cannot be read.
    pub(super) fn open(&self, number: usize) -> Option<SeekFile> {
        let opened = match (self.closed.get(number), &self.newest) {
            (Some(closed), _) => {
                open_closed(&self.dir, closed.number).and_then(|(file, closed)| {
                    let len = file.metadata()?.len();
                    SeekFile::new(file, self.dir.join(&closed.name()), len)
                })
            }
            (None, Some((file, len))) if number == self.closed.len() => file
                .try_clone()
                .and_then(|file| SeekFile::new(file, self.dir.join(EVENTS), *len)),
            (None, _) => return None,
        };
        let cannot = |cause| log::warn!("cannot read a file of {:?}: {cause}", self.dir.path());
        opened.map_err(cannot).ok()
    }

    /// Opens a file and determines the length of its lines.
    pub(super) fn open_indexed(
        &self,
        number: usize,
        indexes: &mut Indexes,
        is_stopped: IsStopped<'_>,
    ) -> Result<Option<SeekFile>, Stopped> {
        let mut file = self.open(number);
        if let Some(file) = &mut file {
            file.index(indexes, is_stopped)?;
        }
        Ok(file)
    }

    /// Finds the position of a place.
    ///
    /// Numbers and times grow along a log. If they do not, several positions may fit, and the result is one
    /// of them.
    pub(super) fn find(
        &self,
        place: Place,
        indexes: &mut Indexes,
        is_stopped: IsStopped<'_>,
    ) -> Result<Position, Stopped> {
        let first_in = |number: usize| match self.open(number) {
            Some(file) => first_of(&file, 0..u64::MAX, place, is_stopped),
            None => Ok(None),
        };
        // The file after the last one whose first record is before the place.
        let files = narrow(0..self.count() as u64, 0, |range| {
            for number in range {
                if let Some((_, is_behind)) = first_in(number as usize)? {
                    return Ok(Some((number..number + 1, is_behind)));
                }
            }
            Ok(None)
        })?;
        let mut position = Position::default();
        if let Some(number) = (files.behind as usize).checked_sub(1)
            && let Some(file) = self.open_indexed(number, indexes, is_stopped)?
        {
            let found = find_in(&file, place, is_stopped)?;
            position = Position {
                file: number,
                offset: found.behind,
            };
            if let (Some(offset), false) = (found.ahead, matches!(place, Place::After(_))) {
                return Ok(Position {
                    file: number,
                    offset,
                });
            }
        }
        if matches!(place, Place::After(_)) {
            return Ok(position);
        }
        // Records without a number may precede the first record after the place.
        let number = files.ahead as usize;
        let first = first_in(number)?;
        Ok(Position {
            file: number,
            offset: first.map_or(0, |(at, _)| at.start),
        })
    }
}

/// The position of a place in a file.
#[derive(Debug, Default)]
struct Found {
    /// The end of the last record before the place, or the start of the file.
    behind: u64,
    /// The start of the first record after the place.
    ahead: Option<u64>,
}

fn find_in(file: &SeekFile, place: Place, is_stopped: IsStopped<'_>) -> Result<Found, Stopped> {
    let narrowed = match &file.packed {
        Some(Packed {
            index: Some(index), ..
        }) => {
            let entry = |number: u64| index.records.get(number as usize);
            let blocks = narrow(0..index.records.len() as u64, 0, |mut range| {
                Ok(range.find_map(|number| {
                    let (_, key) = entry(number)?;
                    Some((number..number + 1, place.is_behind(*key)?))
                }))
            })?;
            let start = |number| entry(number).map(|(place, _)| place.start);
            Narrowed {
                behind: blocks.behind.checked_sub(1).and_then(start).unwrap_or(0),
                top: start(blocks.ahead).unwrap_or(file.len()),
                ahead: start(blocks.ahead).unwrap_or(file.len()),
            }
        }
        // The rest is searched line by line.
        _ => narrow(0..file.len(), 32 * 1024, |range| {
            first_of(file, range, place, is_stopped)
        })?,
    };
    let mut found = Found {
        behind: narrowed.behind,
        ahead: (narrowed.ahead < file.len()).then_some(narrowed.ahead),
    };
    file.each_record(
        narrowed.behind..narrowed.top,
        is_stopped,
        &mut |envelope, at| {
            match place.is_behind(key_of(&envelope)) {
                Some(true) => found.behind = at.end,
                Some(false) => {
                    found.ahead = Some(at.start);
                    return ControlFlow::Break(());
                }
                None => {}
            }
            ControlFlow::Continue(())
        },
    )?;
    Ok(found)
}

/// Returns the first record in a range that decides on which side of the place it is.
fn first_of(
    file: &SeekFile,
    range: Range<u64>,
    place: Place,
    is_stopped: IsStopped<'_>,
) -> Result<Option<(Range<u64>, bool)>, Stopped> {
    let mut first = None;
    // Most records are shorter.
    let probe = range.end.min(range.start.saturating_add(4 * 1024));
    for part in [range.start..probe, probe..range.end] {
        if first.is_none() && !part.is_empty() {
            file.each_record(part, is_stopped, &mut |envelope, at| {
                first = place
                    .is_behind(key_of(&envelope))
                    .map(|is_behind| (at, is_behind));
                match first {
                    Some(_) => ControlFlow::Break(()),
                    None => ControlFlow::Continue(()),
                }
            })?;
        }
    }
    Ok(first)
}

/// The rest of a range after bisection.
#[derive(Debug, PartialEq, Eq)]
struct Narrowed {
    /// The end of the last element that is known to be before the place, or the start of the range.
    behind: u64,
    /// The end of the part that is still undecided.
    top: u64,
    /// The start of the first element that is known not to be before the place, or the end of the range.
    /// Elements between `top` and this position cannot decide.
    ahead: u64,
}

/// Narrows a range by bisection to at most some units. `first` returns the range of the first element in a
/// part of the range that can decide on which side it is, and its side.
fn narrow(
    range: Range<u64>,
    grain: u64,
    mut first: impl FnMut(Range<u64>) -> Result<Option<(Range<u64>, bool)>, Stopped>,
) -> Result<Narrowed, Stopped> {
    let mut left = Narrowed {
        behind: range.start,
        top: range.end,
        ahead: range.end,
    };
    while left.top.saturating_sub(left.behind) > grain {
        let middle = left.behind + (left.top - left.behind) / 2;
        match first(middle..left.top)? {
            Some((at, true)) => left.behind = at.end,
            found => {
                left.top = middle;
                if let Some((at, false)) = found {
                    left.ahead = at.start;
                }
            }
        }
    }
    Ok(left)
}

/// The number and the time of a record, which identify its place.
type Key = (Option<u64>, Timestamp);

fn key_of(envelope: &Envelope) -> Key {
    (envelope.seq, envelope.ts)
}

/// The caller stopped the reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stopped;

/// Returns `true` to stop the reading.
type IsStopped<'a> = &'a dyn Fn() -> bool;

/// An open file.
#[derive(Debug)]
pub(super) struct SeekFile {
    file: Arc<File>,
    path: PathBuf,
    /// The length of the file on disk.
    len: u64,
    packed: Option<Packed>,
}

#[derive(Debug)]
struct Packed {
    stamp: Stamp,
    index: Option<Arc<Index>>,
}

/// Identifies the content of a closed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp(FileId, u64, (i64, i64));

/// The index of a compressed file.
#[derive(Debug, Default)]
struct Index {
    /// The range of the first record of each block, and its key.
    records: Vec<(Range<u64>, Key)>,
    /// The length of all lines.
    len: u64,
}

/// The indexes of the compressed files that were read most recently.
#[derive(Debug, Default)]
pub(super) struct Indexes(Vec<(Stamp, Arc<Index>)>);

impl SeekFile {
    /// Wraps a file of which the first `len` bytes are read.
    pub(super) fn new(file: File, path: PathBuf, len: u64) -> io::Result<Self> {
        let mut packed = None;
        if is_gzip(&file) {
            let metadata = file.metadata()?;
            let written = (metadata.mtime(), metadata.mtime_nsec());
            let stamp = Stamp(FileId::of(&file)?, metadata.len(), written);
            packed = Some(Packed { stamp, index: None });
        }
        Ok(Self {
            file: Arc::new(file),
            path,
            len,
            packed,
        })
    }

    /// Finds or builds the index if the file is compressed.
    pub(super) fn index(
        &mut self,
        indexes: &mut Indexes,
        is_stopped: IsStopped<'_>,
    ) -> Result<(), Stopped> {
        let Some(Packed { stamp, index: None }) = self.packed else {
            return Ok(());
        };
        let known = indexes.0.iter().find(|(known, _)| *known == stamp);
        let index = match known {
            Some((_, index)) => Arc::clone(index),
            None => {
                let index = Arc::new(self.build_index(is_stopped)?);
                // An index takes about 48 bytes for each 256 KiB of lines.
                if indexes.0.len() == 64 {
                    indexes.0.remove(0);
                }
                indexes.0.push((stamp, Arc::clone(&index)));
                index
            }
        };
        let index = Some(index);
        self.packed = Some(Packed { stamp, index });
        Ok(())
    }

    fn build_index(&self, is_stopped: IsStopped<'_>) -> Result<Index, Stopped> {
        let (mut index, mut decoder) = (Index::default(), LineDecoder::default());
        let mut blocks = self.blocks(0..u64::MAX);
        while let Some(block) = self.next_block(&mut blocks, Vec::new(), is_stopped)? {
            index.len = block.end();
            let mut lines = BlockLines::unchecked(block, false);
            if let Some(record) = lines.next(&mut decoder) {
                index
                    .records
                    .push((lines.place(), key_of(&record.envelope)));
            }
        }
        Ok(index)
    }

    /// Returns the length of all lines. For a compressed file, it is known once it has an index.
    pub(super) fn len(&self) -> u64 {
        match &self.packed {
            Some(Packed { index, .. }) => index.as_ref().map_or(u64::MAX, |index| index.len),
            None => self.len,
        }
    }

    /// Returns the size of the first window and of the largest one.
    ///
    /// A plain file is read block by block. A compressed file is decompressed from its start for each window,
    /// so windows double without limit; a window is never in memory as a whole.
    pub(super) fn windows(&self) -> (u64, u64) {
        match self.packed {
            Some(_) => (1024 * 1024, u64::MAX / 2),
            // Some hundred records first.
            None => (64 * 1024, BLOCK_BYTES as u64),
        }
    }

    /// Passes the records whose lines begin in a range, with their ranges, to `each` until it breaks.
    ///
    /// Skips lines that are not events, and unreadable parts.
    pub(super) fn each_record(
        &self,
        range: Range<u64>,
        is_stopped: IsStopped<'_>,
        each: &mut dyn FnMut(Envelope, Range<u64>) -> ControlFlow<()>,
    ) -> Result<(), Stopped> {
        let (mut decoder, mut memory) = (LineDecoder::default(), Vec::new());
        let mut blocks = self.blocks(range.clone());
        while let Some(block) = self.next_block(&mut blocks, memory, is_stopped)? {
            if block.offset >= range.end {
                return Ok(());
            }
            if block.end() <= range.start {
                memory = block.bytes;
                continue;
            }
            let mut lines = BlockLines::unchecked(block, false);
            while let Some(record) = lines.next(&mut decoder) {
                let place = lines.place();
                if place.start >= range.end {
                    return Ok(());
                }
                if place.start >= range.start && each(record.envelope, place).is_break() {
                    return Ok(());
                }
            }
            memory = lines.into_memory();
        }
        Ok(())
    }

    /// Returns the blocks of a range; a compressed file is read from its start.
    fn blocks(&self, range: Range<u64>) -> Option<FileBlocks> {
        let blocks = FileBlocks::new(&self.file, range, self.len, BLOCK_BYTES as u64);
        blocks.map_err(|cause| self.warn(&cause)).ok()
    }

    fn next_block(
        &self,
        blocks: &mut Option<FileBlocks>,
        mut memory: Vec<u8>,
        is_stopped: IsStopped<'_>,
    ) -> Result<Option<Block>, Stopped> {
        while let Some(blocks) = blocks.as_mut().filter(|blocks| !blocks.is_empty()) {
            if is_stopped() {
                return Err(Stopped);
            }
            let Some(next) = blocks.next() else {
                return Ok(None);
            };
            match next.and_then(|source| source.read(std::mem::take(&mut memory))) {
                Ok(block) => return Ok(Some(block)),
                // The next part may be readable. A stream has ended.
                Err(cause) => self.warn(&cause),
            }
        }
        Ok(None)
    }

    fn warn(&self, cause: &io::Error) {
        log::warn!("cannot read a part of {:?}: {cause}", self.path);
    }
}
