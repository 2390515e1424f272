//! Builds filters, block by block, so that memory is bounded.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::bufread::GzDecoder;
use rustix::fs::{FlockOperation, OFlags, flock};

use super::file::{FilterFile, FilterWriter, LogState, PlannedBlock};
use super::grams::Grams;
use super::reduce::{add_grams, outline_of};
use crate::history::dir_handle::{DirHandle, FileId};
use crate::history::line::LINE_BYTES_MAX;
use crate::history::read::block::{BLOCK_BYTES, Block, is_gzip, read_part};
use crate::history::rotate::filter_name;

/// The number of blocks of the smallest file with a filter: 8 MiB, which are searched in some milliseconds without one.
const BLOCKS_MIN: u64 = 32;
/// The least size of a compressed file with a filter, in blocks: logs become an eighth.
const PACKED_BLOCKS_MIN: u64 = BLOCKS_MIN / 8;

/// Returns `true` if a plain file of this length has a filter.
pub(in crate::history) fn has_filter(len: u64, block_bytes: u64) -> bool {
    len >= BLOCKS_MIN * block_bytes
}

/// Builds the filter of a log file in a temporary file, which replaces an earlier filter at the end.
#[derive(Debug)]
pub(in crate::history) struct FilterBuilder {
    writer: FilterWriter,
    /// True for a file whose blocks cannot be chosen: its filter is empty, so that it is not built again.
    is_empty: bool,
    /// Why the temporary file cannot be written.
    failed: Option<io::Error>,
    name: String,
    temporary: String,
}

impl FilterBuilder {
    /// Begins the filter of a log file with this name; `None` if it cannot have one, or another process is building it.
    ///
    /// # Errors
    /// If the temporary file cannot be written.
    pub(in crate::history) fn begin(
        dir: &DirHandle,
        log: &str,
        block_bytes: u64,
    ) -> io::Result<Option<Self>> {
        let Some(name) = filter_name(log) else {
            return Ok(None);
        };
        let temporary = format!("{name}.tmp");
        let file = dir.file(&temporary, OFlags::WRONLY | OFlags::CREATE)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
            || dir.identity(&temporary)? != Some(FileId::of(&file)?)
        {
            return Ok(None);
        }
        // Removes what another process has left.
        file.set_len(0)?;
        Ok(Some(Self {
            writer: FilterWriter::new(file, block_bytes),
            is_empty: false,
            failed: None,
            name,
            temporary,
        }))
    }

    /// Adds the next block. `member_end` is the end of its member of a compressed file, or 0. If it cannot be written, the
    /// end says so.
    pub(in crate::history) fn push(&mut self, block: &Block, member_end: u64) {
        if self.is_empty || self.failed.is_some() {
            return;
        }
        let mut grams = Grams::default();
        add_grams(block.lines(), &mut grams);
        let planned = PlannedBlock {
            offset: block.offset,
            bytes: block.lines().len() as u64,
            member_end,
            outline: outline_of(block),
        };
        self.failed = self.writer.push(planned, grams).err();
    }

    /// Leaves the filter empty: the blocks of the file cannot be chosen.
    pub(in crate::history) fn give_up(&mut self) {
        self.is_empty = true;
    }

    /// Completes the filter of a log file in its present state, and gives it its name.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(in crate::history) fn finish(self, dir: &DirHandle, log: &File) -> io::Result<()> {
        let state = LogState::of(log)?;
        self.finish_in(dir, state)
    }

    fn finish_in(mut self, dir: &DirHandle, state: LogState) -> io::Result<()> {
        if let Err(cause) = self.write(state) {
            self.discard(dir)?;
            return Err(cause);
        }
        // The file is locked until it has its name.
        dir.rename(&self.temporary, &self.name)
    }

    fn write(&mut self, state: LogState) -> io::Result<()> {
        self.failed.take().map_or(Ok(()), Err)?;
        if self.is_empty {
            self.writer.clear()?;
        }
        self.writer.finish(state)
    }

    /// Removes the temporary file.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub(in crate::history) fn discard(self, dir: &DirHandle) -> io::Result<()> {
        dir.remove(&self.temporary)
    }
}

/// Writes the filter of a log file that is not written any more, unless it has one.
///
/// # Errors
/// If the file cannot be read or the filter cannot be written.
pub(in crate::history) fn write_filter(
    dir: &DirHandle,
    name: &str,
    block_bytes: u64,
    is_cancelled: &AtomicBool,
) -> io::Result<()> {
    let Some(filter) = filter_name(name) else {
        return Ok(());
    };
    let log = dir.file(name, OFlags::RDONLY)?;
    let there = dir.existing_file(&filter)?;
    let is_valid = |file| FilterFile::of(file, &log).is_ok_and(|filter| filter.is_some());
    if there.is_some_and(is_valid) {
        return Ok(());
    }
    let (is_packed, len) = (is_gzip(&log), log.metadata()?.len());
    let state = LogState::of(&log)?;
    let is_small = if is_packed {
        len < PACKED_BLOCKS_MIN * block_bytes
    } else {
        !has_filter(len, block_bytes)
    };
    if is_small {
        return dir.remove(&filter);
    }
    let Some(mut builder) = FilterBuilder::begin(dir, name, block_bytes)? else {
        return Ok(());
    };
    let read = if is_packed {
        add_members(&mut builder, &log, is_cancelled)
    } else {
        add_parts(&mut builder, &log, block_bytes, is_cancelled)
    };
    if !matches!(read, Ok(true)) || LogState::of(&log)? != state {
        builder.discard(dir)?;
        return read.map(drop);
    }
    builder.finish_in(dir, state)
}

/// Adds the parts of a plain file. Returns `false` if it was cancelled.
fn add_parts(
    builder: &mut FilterBuilder,
    log: &File,
    block_bytes: u64,
    is_cancelled: &AtomicBool,
) -> io::Result<bool> {
    let len = log.metadata()?.len();
    let mut block = Block::default();
    let mut start = 0;
    while start < len {
        if is_cancelled.load(Ordering::Relaxed) {
            return Ok(false);
        }
        read_part(log, start..start + block_bytes, len, &mut block)?;
        builder.push(&block, 0);
        start += block_bytes;
    }
    Ok(true)
}

/// Adds the members of a compressed file. Returns `false` if it was cancelled.
fn add_members(
    builder: &mut FilterBuilder,
    log: &File,
    is_cancelled: &AtomicBool,
) -> io::Result<bool> {
    let (len, mut start, mut block) = (log.metadata()?.len(), 0, Block::default());
    let mut from = BufReader::new(log);
    from.rewind()?;
    while start < len {
        if is_cancelled.load(Ordering::Relaxed) {
            return Ok(false);
        }
        block = Block {
            offset: block.end(),
            bytes: block.bytes,
            ..Block::default()
        };
        block.bytes.clear();
        let mut member = GzDecoder::new(from);
        let read = (&mut member)
            .take(MEMBER_BYTES_MAX + 1)
            .read_to_end(&mut block.bytes)?;
        from = member.into_inner();
        start = from.stream_position()?;
        // Another program has compressed it, or a line is too long.
        let is_ours =
            read as u64 <= MEMBER_BYTES_MAX && block.bytes.last().is_none_or(|last| *last == b'\n');
        if !is_ours {
            builder.give_up();
            return Ok(true);
        }
        builder.push(&block, start);
    }
    Ok(true)
}

/// The maximum size of a member that this crate writes: a block and a line.
const MEMBER_BYTES_MAX: u64 = LINE_BYTES_MAX + BLOCK_BYTES as u64;
