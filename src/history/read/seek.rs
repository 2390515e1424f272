//! A file of a log, compressed or uncompressed, whose records are read from any position.
//!
//! Positions refer to the uncompressed lines. A compressed file is decompressed from its start each time; a
//! cached index of its blocks shows where to search, so that earlier lines need not be parsed.

use std::fs::File;
use std::io::{self, Seek};
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use super::block::{BLOCK_BYTES, Block, BlockStream, is_gzip, read_part};
use super::parse::BlockLines;
use crate::event::{Envelope, LineDecoder};
use crate::history::dir_handle::FileId;
use crate::timestamp::Timestamp;

/// The maximum number of cached indexes of compressed files. An index takes about 48 bytes for each 256 KiB
/// of lines.
const INDEXES_MAX: usize = 64;

/// The size of the first window of a plain file: some hundred records.
const WINDOW_BYTES_MIN: u64 = 64 * 1024;
/// The size of the first window of a compressed file, which must be decompressed up to it.
const UNPACKED_WINDOW_BYTES_MIN: u64 = 1024 * 1024;

/// The number and the time of a record, which identify its place.
pub(super) type Key = (Option<u64>, Timestamp);

pub(super) fn key_of(envelope: &Envelope) -> Key {
    (envelope.seq, envelope.ts)
}

/// The caller stopped the reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stopped;

/// Returns `true` to stop the reading.
pub(super) type IsStopped<'a> = &'a dyn Fn() -> bool;

/// An open file.
#[derive(Debug)]
pub(super) struct SeekFile {
    file: File,
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
pub(super) struct Index {
    /// The range of the first record of each block, and its key.
    pub(super) records: Vec<(Range<u64>, Key)>,
    /// The length of all lines.
    len: u64,
}

/// The indexes of the compressed files that were read most recently.
#[derive(Debug, Default)]
pub(super) struct Indexes(Vec<(Stamp, Arc<Index>)>);

impl SeekFile {
    /// Wraps a file of which the first `len` bytes are read.
    pub(super) fn new(file: File, path: PathBuf, len: u64) -> io::Result<Self> {
        let packed = match is_gzip(&file) {
            true => {
                let metadata = file.metadata()?;
                let written = (metadata.mtime(), metadata.mtime_nsec());
                let stamp = Stamp(FileId::of(&file)?, metadata.len(), written);
                Some(Packed { stamp, index: None })
            }
            false => None,
        };
        Ok(Self {
            file,
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
                if indexes.0.len() == INDEXES_MAX {
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
            if let Some(record) = lines.next(&mut decoder, &mut None) {
                let place = lines.place_of(&record);
                index.records.push((place, key_of(&record.envelope)));
            }
        }
        Ok(index)
    }

    /// Returns the index of a compressed file; `None` for a plain file.
    pub(super) fn known_index(&self) -> Option<&Index> {
        self.packed.as_ref()?.index.as_deref()
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
            Some(_) => (UNPACKED_WINDOW_BYTES_MIN, u64::MAX / 2),
            None => (WINDOW_BYTES_MIN, BLOCK_BYTES as u64),
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
            while let Some(record) = lines.next(&mut decoder, &mut None) {
                let place = lines.place_of(&record);
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

    fn blocks(&self, range: Range<u64>) -> Blocks {
        if self.packed.is_none() {
            return Blocks::Parts(range.start..range.end.min(self.len));
        }
        // All descriptors of the file share their position.
        let file = self.file.try_clone();
        match file.and_then(|mut file| file.rewind().map(|()| file)) {
            Ok(file) => Blocks::Stream(BlockStream::unpack(file, BLOCK_BYTES, BLOCK_BYTES)),
            Err(cause) => {
                self.warn(&cause);
                Blocks::Parts(0..0)
            }
        }
    }

    fn next_block(
        &self,
        blocks: &mut Blocks,
        memory: Vec<u8>,
        is_stopped: IsStopped<'_>,
    ) -> Result<Option<Block>, Stopped> {
        let mut block = Block::in_memory(memory);
        loop {
            if matches!(blocks, Blocks::Parts(range) if range.is_empty()) {
                return Ok(None);
            }
            if is_stopped() {
                return Err(Stopped);
            }
            let read = match blocks {
                Blocks::Parts(range) => {
                    let end = range.end.min(range.start + BLOCK_BYTES as u64);
                    let part = range.start..end;
                    range.start = end;
                    read_part(&self.file, part, self.len, &mut block).map(|()| true)
                }
                Blocks::Stream(stream) => stream.next(&mut block),
            };
            match read {
                Ok(true) => return Ok(Some(block)),
                Ok(false) => return Ok(None),
                // The next part may be readable. A stream has ended.
                Err(cause) => self.warn(&cause),
            }
        }
    }

    fn warn(&self, cause: &io::Error) {
        log::warn!("cannot read a part of {:?}: {cause}", self.path);
    }
}

/// The blocks of a file that remain to be read.
enum Blocks {
    /// Parts of a plain file.
    Parts(Range<u64>),
    /// A compressed file from its start.
    Stream(BlockStream),
}
