//! Blocks of whole lines, from parts of files and from compressed files, and the files of a log as blocks.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read, Seek};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::{GzDecoder, MultiGzDecoder};

use super::filter::{BlockChoice, FilterFile, Outline, PlannedBlock};
use crate::error::{Error, Result};
use crate::history::dir_handle::{DirHandle, open_closed};
use crate::history::line::LINE_BYTES_MAX;
use crate::history::rotate::{ClosedFile, filter_name};
use crate::timestamp::Timestamp;

/// The size of a block, which stays in a core's cache between the read and the search.
pub(in crate::history) const BLOCK_BYTES: usize = 256 * 1024;

/// Consecutive lines of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::history) struct Block {
    pub(in crate::history) bytes: Vec<u8>,
    /// Number of bytes at the start that belong to an earlier line.
    pub(super) skip: usize,
    /// The position of the first line in the uncompressed file, in bytes.
    pub(in crate::history) offset: u64,
    /// True if the last line of the file has no line feed.
    pub(super) is_torn: bool,
    /// The number of omitted lines, which were too long.
    pub(super) too_long: u64,
    /// True if earlier files were not read.
    pub(super) follows_skipped: bool,
}

impl Block {
    fn clear(&mut self, offset: u64) {
        self.bytes.clear();
        (self.skip, self.offset, self.is_torn, self.too_long) = (0, offset, false, 0);
    }

    /// Returns the lines with their line feeds; only a torn line has none.
    pub(in crate::history) fn lines(&self) -> &[u8] {
        self.bytes.get(self.skip..).unwrap_or_default()
    }

    /// Returns the position after the last line.
    pub(in crate::history) fn end(&self) -> u64 {
        self.offset + self.lines().len() as u64
    }

    /// Skips the first bytes.
    fn skip(&mut self, bytes: usize) {
        self.skip += bytes;
        self.offset += bytes as u64;
    }
}

/// Reads all lines that begin in a part of a file. `len` is the length of the file for this reader.
pub(in crate::history) fn read_part(
    file: &File,
    part: Range<u64>,
    len: u64,
    block: &mut Block,
) -> io::Result<()> {
    let end = part.end.min(len);
    // The byte before the part shows if a line begins at its start.
    let from = part.start.saturating_sub(1);
    // Overwriting the bytes of the previous block is cheaper than zeroing memory.
    let mut bytes = std::mem::take(&mut block.bytes);
    block.clear(from);
    read_to(file, from, end, &mut bytes, 0)?;
    block.bytes = bytes;
    if part.start > 0 {
        match memchr::memchr(b'\n', &block.bytes) {
            Some(at) => block.skip(at + 1),
            None => block.clear(end),
        }
    }
    complete(file, len, block)
}

/// Reads the rest of the last line. Its end is found before the line is read, so that a line that is too long
/// uses no memory.
fn complete(file: &File, len: u64, block: &mut Block) -> io::Result<()> {
    if block.lines().last().is_none_or(|&last| last == b'\n') {
        return Ok(());
    }
    let end = block.end();
    let line = memchr::memrchr(b'\n', &block.bytes).map_or(block.skip, |at| at + 1);
    let before = block.bytes.len();
    let read = (before - line) as u64;
    let limit = len.min(end + LINE_BYTES_MAX.saturating_sub(read));
    match line_end(file, end, limit)? {
        Some(line_end) => read_to(file, end, line_end, &mut block.bytes, before)?,
        None if limit < len => {
            block.bytes.truncate(line);
            block.too_long += 1;
        }
        None => {
            read_to(file, end, limit, &mut block.bytes, before)?;
            block.is_torn = true;
        }
    }
    Ok(())
}

/// Returns the position after the first line feed in a part of a file.
pub(in crate::history) fn line_end(file: &File, start: u64, end: u64) -> io::Result<Option<u64>> {
    let mut piece = Vec::new();
    // Starts small, because most lines are short.
    let (mut at, mut bytes) = (start, 4 * 1024);
    while at < end {
        read_to(file, at, end.min(at + bytes as u64), &mut piece, 0)?;
        bytes = (64 * 1024).min(bytes * 2);
        if let Some(found) = memchr::memchr(b'\n', &piece) {
            return Ok(Some(at + found as u64 + 1));
        }
        if piece.is_empty() {
            break;
        }
        at += piece.len() as u64;
    }
    Ok(None)
}

/// Replaces all bytes after the first `before` by a part of a file, or less if the file has become shorter.
fn read_to(file: &File, start: u64, end: u64, out: &mut Vec<u8>, before: usize) -> io::Result<()> {
    // A part has at most some hundred kilobytes.
    out.resize(before + end.saturating_sub(start) as usize, 0);
    let mut filled = before;
    let outcome = loop {
        let rest = out.get_mut(filled..).unwrap_or_default();
        if rest.is_empty() {
            break Ok(());
        }
        match file.read_at(rest, start + (filled - before) as u64) {
            Ok(0) => break Ok(()),
            Ok(read) => filled += read,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => break Err(cause),
        }
    };
    out.truncate(filled);
    outcome
}

/// Returns `true` if a file is compressed, regardless of its name.
pub(super) fn is_gzip(file: &File) -> bool {
    let mut magic = [0; 2];
    file.read_at(&mut magic, 0).is_ok() && magic == [0x1f, 0x8b]
}

/// Reads a stream block by block.
pub(super) struct BlockStream {
    from: Box<dyn Read + Send>,
    /// The size of a block, unless a line is longer.
    block_bytes: usize,
    /// The start of a line whose end has not been read yet.
    carry: Vec<u8>,
    /// The position of the carried bytes.
    offset: u64,
    /// True within a line that is too long, which is skipped to its end.
    skipping: bool,
    /// The error that ended the stream; returned after the preceding data.
    failed: Option<io::Error>,
}

impl BlockStream {
    fn new(from: Box<dyn Read + Send>, block_bytes: usize) -> Self {
        Self {
            from,
            block_bytes,
            carry: Vec::new(),
            offset: 0,
            skipping: false,
            failed: None,
        }
    }

    /// Reads the next block; returns `false` at the end. An error ends the stream.
    fn next(&mut self, block: &mut Block) -> io::Result<bool> {
        block.clear(self.offset);
        std::mem::swap(&mut block.bytes, &mut self.carry);
        loop {
            let before = block.bytes.len();
            if before > 8 * BLOCK_BYTES {
                // Reserves room for a longer line by hand, because the memory would otherwise double. The
                // reader probes for some bytes beyond its limit.
                block
                    .bytes
                    .reserve_exact(2 * self.block_bytes.max(BLOCK_BYTES));
            }
            let read = (&mut self.from)
                .take(self.block_bytes as u64)
                .read_to_end(&mut block.bytes);
            let added = block.bytes.len() - before;
            // Data before an error are valid, including an incomplete line. A decompressor may not repeat a
            // checksum error when it is read again.
            if let Err(cause) = read {
                self.from = Box::new(io::empty());
                self.failed = Some(cause);
            }
            if self.skipping {
                match memchr::memchr(b'\n', &block.bytes) {
                    Some(at) => {
                        block.skip(at + 1);
                        self.skipping = false;
                    }
                    None => {
                        block.offset += block.bytes.len() as u64;
                        block.bytes.clear();
                    }
                }
            }
            if added == 0 {
                block.is_torn = !block.lines().is_empty();
                self.offset = block.end();
                if block.is_torn || block.too_long > 0 {
                    return Ok(true);
                }
                return self.failed.take().map_or(Ok(false), Err);
            }
            // The carried bytes contain no line feed.
            let new = block.bytes.get(before..).unwrap_or_default();
            if let Some(at) = memchr::memrchr(b'\n', new).map(|at| before + at) {
                self.carry = block.bytes.split_off(at + 1);
                self.offset = block.end();
                return Ok(true);
            }
            if block.bytes.len() as u64 > LINE_BYTES_MAX {
                block.offset += block.lines().len() as u64;
                (block.bytes, block.skip) = (Vec::new(), 0);
                block.too_long += 1;
                self.skipping = true;
            }
        }
    }
}

/// The origin of a block.
#[derive(Debug)]
pub(super) enum BlockSource {
    /// The lines that begin in a part of a file.
    Part {
        file: Arc<File>,
        part: Range<u64>,
        len: u64,
    },
    /// The lines of a member of a compressed file.
    Member {
        file: Arc<File>,
        member: Range<u64>,
        offset: u64,
        bytes: u64,
    },
    /// Lines that are already read.
    Block(Block),
    /// Blocks that cannot match.
    Skipped(Outline),
}

impl BlockSource {
    /// Reads the lines, into this memory if needed.
    pub(super) fn read(self, memory: Vec<u8>) -> io::Result<Block> {
        match self {
            Self::Part { file, part, len } => {
                let mut block = Block {
                    bytes: memory,
                    ..Block::default()
                };
                read_part(&file, part, len, &mut block)?;
                Ok(block)
            }
            Self::Member {
                file,
                member,
                offset,
                bytes,
            } => read_member(&file, member, (offset, bytes), memory),
            Self::Block(block) => Ok(block),
            Self::Skipped(_) => Ok(Block::default()),
        }
    }

    /// Returns what is known of the lines without reading them.
    pub(super) fn skipped(self) -> Result<Outline, Self> {
        match self {
            Self::Skipped(outline) => Ok(outline),
            other => Err(other),
        }
    }
}

/// Reads the lines of a member of a compressed file, whose position and length are known.
fn read_member(
    file: &File,
    member: Range<u64>,
    (offset, bytes): (u64, u64),
    mut memory: Vec<u8>,
) -> io::Result<Block> {
    let mut packed = Vec::new();
    read_to(file, member.start, member.end, &mut packed, 0)?;
    memory.clear();
    GzDecoder::new(packed.as_slice())
        .take(bytes.saturating_add(1))
        .read_to_end(&mut memory)?;
    if memory.len() as u64 != bytes {
        let problem = "a part of it has another length than its filter states";
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    Ok(Block {
        is_torn: memory.last().is_some_and(|last| *last != b'\n'),
        bytes: memory,
        offset,
        ..Block::default()
    })
}

/// The blocks of a file that may match, according to its filter.
pub(super) struct BlockPlan {
    filter: FilterFile,
    choice: Arc<BlockChoice>,
    /// The next group of the filter, and the blocks of the present one.
    group: usize,
    blocks: std::vec::IntoIter<PlannedBlock>,
}

impl BlockPlan {
    /// Returns the next block; `None` if the filter has no more, or is damaged.
    fn next(&mut self) -> Option<PlannedBlock> {
        loop {
            if let Some(block) = self.blocks.next() {
                return Some(block);
            }
            let planned = self.filter.plan(self.group, &self.choice);
            let blocks = planned.map_err(|cause| log::debug!("{cause}"));
            self.blocks = blocks.ok()??.into_iter();
            self.group += 1;
        }
    }

    /// Skips blocks that cannot match, of one group at most. Calls `pass` with each.
    fn skip(&mut self, mut pass: impl FnMut(&PlannedBlock)) -> Step {
        let mut skipped: Option<Outline> = None;
        while let Some(mut block) = self.next_unless(skipped.is_some()) {
            let Some(outline) = block.outline.take() else {
                return Step::Read(block);
            };
            pass(&block);
            match &mut skipped {
                Some(skipped) => skipped.append(outline),
                None => skipped = Some(outline),
            }
        }
        skipped.map_or(Step::End, Step::Skip)
    }

    /// Returns the next block; with `skips_only`, only if it is of the present group and need not be read.
    fn next_unless(&mut self, skips_only: bool) -> Option<PlannedBlock> {
        let next = self.blocks.as_slice().first();
        if skips_only && next.is_none_or(|next| next.outline.is_none()) {
            return None;
        }
        self.next()
    }
}

/// What a plan says of the next blocks.
enum Step {
    /// They are skipped.
    Skip(Outline),
    /// This one is read.
    Read(PlannedBlock),
    /// The filter has no more, or is damaged: the rest is read.
    End,
}

/// Returns the error for a block that cannot be read.
pub(super) fn unread(path: &Path, cause: io::Error) -> Error {
    Error::file("cannot read a part of", path, cause)
}

/// The blocks of an open file that remain to be read.
pub(super) enum FileBlocks {
    /// Parts of a plain file of this length.
    Parts {
        file: Arc<File>,
        range: Range<u64>,
        len: u64,
        block_bytes: u64,
        plan: Option<PlannedParts>,
    },
    /// The members of a compressed file, which are blocks.
    Members {
        file: Arc<File>,
        plan: BlockPlan,
        /// The start of the next member, and the position of its first line.
        start: u64,
        offset: u64,
    },
    /// A compressed file, decompressed from its start.
    Stream(BlockStream, Arc<File>),
}

/// The plan of a plain file.
pub(super) struct PlannedParts {
    plan: BlockPlan,
    /// The end of the block that is being read.
    until: u64,
}

impl std::fmt::Debug for FileBlocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FileBlocks")
    }
}

impl FileBlocks {
    /// Reads a range of a file of this length, or all of it if it is compressed.
    pub(super) fn new(
        file: &Arc<File>,
        range: Range<u64>,
        len: u64,
        block_bytes: u64,
    ) -> io::Result<Self> {
        if !is_gzip(file) {
            return Ok(Self::Parts {
                file: Arc::clone(file),
                range: range.start..range.end.min(len),
                len,
                block_bytes,
                plan: None,
            });
        }
        Self::stream(file, block_bytes, (0, 0))
    }

    /// Decompresses a file from the start of a member on, with the position of its first line.
    fn stream(file: &Arc<File>, block_bytes: u64, (start, offset): (u64, u64)) -> io::Result<Self> {
        (&**file).seek(io::SeekFrom::Start(start))?;
        // A block at most, which fits.
        let bytes = block_bytes.min(BLOCK_BYTES as u64) as usize;
        let packed = BufReader::with_capacity(bytes, Arc::clone(file));
        let mut stream = BlockStream::new(Box::new(MultiGzDecoder::new(packed)), bytes);
        stream.offset = offset;
        Ok(Self::Stream(stream, Arc::clone(file)))
    }

    /// Skips the blocks of a file that cannot match.
    fn planned(self, plan: BlockPlan) -> Self {
        match self {
            Self::Parts {
                file,
                range,
                len,
                block_bytes,
                ..
            } => Self::Parts {
                file,
                range,
                len,
                block_bytes,
                plan: Some(PlannedParts { plan, until: 0 }),
            },
            Self::Stream(_, file) => Self::Members {
                file,
                plan,
                start: 0,
                offset: 0,
            },
            planned => planned,
        }
    }

    /// Returns how far the file is read, in bytes of the file as it is on the disk.
    fn position(&self) -> u64 {
        match self {
            Self::Parts { range, .. } => range.start,
            Self::Members { start, .. } => *start,
            // The size of a file whose position is unknown does not matter to what follows.
            Self::Stream(_, file) => (&**file).stream_position().unwrap_or_default(),
        }
    }

    /// Returns `true` if this is known to be the end.
    #[cfg(any(
        feature = "mcp",
        feature = "report",
        feature = "serve",
        feature = "tui"
    ))]
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Parts { range, .. } if range.is_empty())
    }

    /// Returns the next block. A compressed file ends at its first error.
    pub(super) fn next(&mut self) -> Option<io::Result<BlockSource>> {
        if let Self::Members { .. } = self
            && let Some(next) = self.next_member()
        {
            return Some(next);
        }
        match self {
            Self::Parts { range, .. } if range.is_empty() => None,
            Self::Parts {
                file,
                range,
                len,
                block_bytes,
                plan,
            } => {
                let end = range.end.min(range.start + *block_bytes);
                let planned = match plan {
                    Some(parts) => parts.next(range, end),
                    None => Ok(end),
                };
                let end = match planned {
                    Ok(end) => end,
                    Err(skipped) => return Some(Ok(BlockSource::Skipped(skipped))),
                };
                let part = std::mem::replace(&mut range.start, end)..end;
                let (file, len) = (Arc::clone(file), *len);
                Some(Ok(BlockSource::Part { file, part, len }))
            }
            // It has been read.
            Self::Members { .. } => None,
            Self::Stream(stream, _) => {
                let mut block = Block::default();
                match stream.next(&mut block) {
                    Ok(true) => Some(Ok(BlockSource::Block(block))),
                    Ok(false) => None,
                    Err(cause) => Some(Err(cause)),
                }
            }
        }
    }

    /// Returns the next member that is read, or what is skipped. `None` if the filter has no more; the rest of the file, if
    /// the filter is damaged, is then decompressed as a stream.
    fn next_member(&mut self) -> Option<io::Result<BlockSource>> {
        let Self::Members {
            file,
            plan,
            start,
            offset,
        } = self
        else {
            return None;
        };
        let pass = |block: &PlannedBlock| (*start, *offset) = (block.member_end, block.end());
        match plan.skip(pass) {
            Step::Skip(skipped) => return Some(Ok(BlockSource::Skipped(skipped))),
            Step::Read(block) => {
                let member = std::mem::replace(start, block.member_end)..block.member_end;
                *offset = block.end();
                return Some(Ok(BlockSource::Member {
                    file: Arc::clone(file),
                    member,
                    offset: block.offset,
                    bytes: block.bytes,
                }));
            }
            Step::End if file.metadata().is_ok_and(|about| *start >= about.len()) => return None,
            Step::End => {}
        }
        match Self::stream(file, BLOCK_BYTES as u64, (*start, *offset)) {
            Ok(rest) => *self = rest,
            Err(cause) => return Some(Err(cause)),
        }
        None
    }
}

impl PlannedParts {
    /// Returns the end of the next part, or what is skipped instead.
    fn next(&mut self, range: &mut Range<u64>, end: u64) -> Result<u64, Outline> {
        if range.start >= self.until {
            let (block_bytes, len) = (self.plan.filter.block_bytes, range.end);
            let pass = |_: &PlannedBlock| range.start = len.min(range.start + block_bytes);
            self.until = match self.plan.skip(pass) {
                Step::Skip(skipped) => return Err(skipped),
                Step::Read(_) => range.start + block_bytes,
                Step::End => u64::MAX,
            };
        }
        Ok(end.min(self.until))
    }
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
    /// The file that is being read.
    current: Option<(FileBlocks, Arc<Path>)>,
    /// The size of a block.
    block_bytes: u64,
    /// What the blocks of files with a filter must have; `None` if all are read.
    choice: Option<Arc<BlockChoice>>,
    /// Counts the bytes on the disk that are read.
    counter: Option<Arc<AtomicU64>>,
    /// The part of them that is of the file that is being read.
    counted: u64,
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
            current: None,
            block_bytes: BLOCK_BYTES as u64,
            choice: None,
            counter: None,
            counted: 0,
        }
    }

    /// Adds the bytes on the disk to this counter as they are read.
    #[cfg(feature = "cli")]
    #[cfg_attr(
        not(feature = "sqlite"),
        allow(dead_code, reason = "the export as a database uses it")
    )]
    pub(super) fn count_in(&mut self, counter: Arc<AtomicU64>) {
        self.counter = Some(counter);
    }

    /// Skips blocks that cannot match, as far as filters tell them.
    pub(super) fn choose(&mut self, choice: Option<Arc<BlockChoice>>) {
        self.choice = choice;
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

    /// Returns the next block and its file, opening the next file if needed. Continues after an error.
    pub(super) fn next(&mut self) -> Option<Result<(BlockSource, Arc<Path>)>> {
        loop {
            if let Some((blocks, path)) = &mut self.current {
                let next = blocks.next();
                if let Some(counter) = &self.counter {
                    let position = blocks.position().max(self.counted);
                    counter.fetch_add(position - self.counted, Ordering::Relaxed);
                    self.counted = position;
                }
                if let Some(next) = next {
                    let failed = |cause| Error::file("cannot read the rest of", path, cause);
                    let source = next.map(|source| (source, Arc::clone(path)));
                    return Some(source.map_err(failed));
                }
                self.current = None;
            }
            let file = self.files.pop_front()?;
            self.counted = 0;
            match self.begin(file) {
                Ok(Some(begun)) => self.current = Some(begun),
                Ok(None) => return Some(Ok(self.skipped())),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Returns a block without lines in place of a skipped file.
    fn skipped(&self) -> (BlockSource, Arc<Path>) {
        let block = Block {
            follows_skipped: true,
            ..Block::default()
        };
        let path = self
            .dir
            .as_ref()
            .map(DirHandle::path)
            .unwrap_or(Path::new(""));
        (BlockSource::Block(block), path.into())
    }

    /// Opens a file; returns `None` if it has no event of the wanted time.
    fn begin(&self, file: LogFile) -> Result<Option<(FileBlocks, Arc<Path>)>> {
        let (file, path, len) = match file {
            LogFile::Open(file, path, len) => (file, path, len),
            LogFile::Closed(number) => {
                // Only the directory of a run has closed files.
                let Some(dir) = &self.dir else {
                    return Ok(None);
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
            if let Some(counter) = &self.counter {
                counter.fetch_add(len, Ordering::Relaxed);
            }
            return Ok(None);
        }
        let plan = self.plan(&file, &path, len);
        let blocks = FileBlocks::new(&Arc::new(file), 0..len, len, self.block_bytes);
        let mut blocks = blocks.map_err(|cause| Error::file("cannot read", &path, cause))?;
        if let Some(plan) = plan {
            blocks = blocks.planned(plan);
        }
        Ok(Some((blocks, path.into())))
    }

    /// Returns the plan of a file that is read as a whole, if it has a filter and the query excludes blocks.
    fn plan(&self, file: &File, path: &Path, len: u64) -> Option<BlockPlan> {
        let (choice, dir) = (self.choice.as_ref()?, self.dir.as_ref()?);
        if file.metadata().ok()?.len() != len {
            return None;
        }
        let name = filter_name(path.file_name()?.to_str()?)?;
        let filter = FilterFile::of(dir.existing_file(&name).ok()??, file).ok()??;
        (!filter.is_empty()).then(|| BlockPlan {
            filter,
            choice: Arc::clone(choice),
            group: 0,
            blocks: Vec::new().into_iter(),
        })
    }

    /// Returns `true` if a file that was last written in this second contains no event of the wanted time.
    fn is_too_old(&self, written_s: i64) -> bool {
        // Events are written some seconds after they happen, and the clock may have been set: within an hour.
        self.since
            .is_some_and(|since| written_s.saturating_add(3600) < since.micros() / 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{SeekFrom, Write};

    use proptest::prelude::*;

    use super::super::parse::LineBytes;
    use super::*;

    fn file_with(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    /// Returns its bytes in pieces of these sizes.
    struct Pieces(Vec<u8>, Vec<usize>);

    impl Read for Pieces {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let size = self.1.pop().unwrap_or(usize::MAX).max(1);
            let size = size.min(self.0.len()).min(out.len());
            out[..size].copy_from_slice(&self.0[..size]);
            self.0.drain(..size);
            Ok(size)
        }
    }

    proptest! {
        /// For every division into parts, each line is read once and in order.
        #[test]
        fn parts_cover_all_lines(text in "[ab\n]{0,60}", step in 1..20_u64) {
            let file = file_with(text.as_bytes());
            let len = text.len() as u64;
            let (mut all, mut block) = (String::new(), Block::default());
            for start in (0..len).step_by(step as usize) {
                read_part(&file, start..start + step, len, &mut block).unwrap();
                let lines = std::str::from_utf8(block.lines()).unwrap();
                if !lines.is_empty() {
                    prop_assert_eq!(block.offset, all.len() as u64);
                }
                all.push_str(lines);
                let is_last = all.len() == text.len();
                prop_assert_eq!(block.is_torn, is_last && !lines.is_empty() && !text.ends_with('\n'));
                prop_assert!(block.is_torn || lines.is_empty() || lines.ends_with('\n'));
            }
            prop_assert_eq!(all, text);
        }

        #[test]
        fn blocks_cover_all_lines(text in "[ab\n]{0,60}", sizes in proptest::collection::vec(1..9_usize, 0..40)) {
            let mut stream = BlockStream::new(Box::new(Pieces(text.clone().into_bytes(), sizes)), BLOCK_BYTES);
            let (mut all, mut block) = (String::new(), Block::default());
            while stream.next(&mut block).unwrap() {
                prop_assert_eq!(block.offset, all.len() as u64);
                all.push_str(std::str::from_utf8(block.lines()).unwrap());
                prop_assert!(block.is_torn || block.lines().ends_with(b"\n"));
            }
            prop_assert_eq!(all, text);
        }
    }

    #[test]
    fn lines_are_text_wherever_a_part_begins() {
        let text = "a\u{1f980}\nb\u{e9}\n";
        let (file, len) = (file_with(text.as_bytes()), text.len() as u64);
        for start in 0..len {
            let mut block = Block::default();
            read_part(&file, start..len, len, &mut block).unwrap();
            let lines = block.lines().to_vec();
            let LineBytes::Text(checked) = LineBytes::checked(block) else {
                panic!("from {start}")
            };
            assert!(checked.as_bytes().ends_with(&lines), "from {start}");
        }
        let block = Block {
            bytes: b"\xff\n".to_vec(),
            ..Block::default()
        };
        let LineBytes::Unchecked(bytes) = LineBytes::checked(block) else {
            panic!("this is no text")
        };
        assert_eq!(bytes, b"\xff\n");
    }

    #[test]
    fn a_shortened_file_ends_early() {
        let file = file_with(b"one\ntwo\n");
        let mut block = Block::default();
        read_part(&file, 4..400, 400, &mut block).unwrap();
        assert_eq!(block.lines(), b"two\n");
        read_part(&file, 300..400, 400, &mut block).unwrap();
        assert!(block.lines().is_empty());
    }

    #[test]
    fn data_before_an_error_are_read_first() {
        /// Fails only once.
        struct Broken(bool);
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                if std::mem::replace(&mut self.0, true) {
                    Ok(0)
                } else {
                    Err(io::Error::other("broken"))
                }
            }
        }
        for (text, blocks) in [
            ("", &[][..]),
            ("one\n", &["one\n"]),
            ("one\ntwo", &["one\n", "two"]),
        ] {
            let mut stream =
                BlockStream::new(Box::new(text.as_bytes().chain(Broken(false))), BLOCK_BYTES);
            let mut block = Block::default();
            for lines in blocks {
                assert!(stream.next(&mut block).unwrap());
                assert_eq!(block.lines(), lines.as_bytes());
            }
            assert!(stream.next(&mut block).is_err(), "{text:?}");
            assert!(!stream.next(&mut block).unwrap());
        }
    }

    #[test]
    fn a_line_beyond_the_limit_in_a_file_takes_no_memory() {
        let mut file = file_with(b"first\n");
        file.set_len(6 + LINE_BYTES_MAX + 1).unwrap();
        file.seek(SeekFrom::End(0)).unwrap();
        file.write_all(b"\nlast\n").unwrap();
        let len = file.metadata().unwrap().len();
        let (mut lines, mut too_long, mut block) = (Vec::new(), 0, Block::default());
        for start in (0..len).step_by(BLOCK_BYTES) {
            read_part(&file, start..start + BLOCK_BYTES as u64, len, &mut block).unwrap();
            lines.extend_from_slice(block.lines());
            too_long += block.too_long;
            assert!(block.bytes.capacity() < 4 * BLOCK_BYTES);
        }
        assert_eq!(String::from_utf8(lines).unwrap(), "first\nlast\n");
        assert_eq!(too_long, 1);
    }

    #[test]
    fn an_endless_line_takes_no_memory() {
        struct Endless(u64);
        impl Read for Endless {
            fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
                let size = (out.len() as u64).min(self.0) as usize;
                out[..size].fill(b'x');
                self.0 -= size as u64;
                Ok(size)
            }
        }
        let from = Endless(LINE_BYTES_MAX + 2 * BLOCK_BYTES as u64).chain(&b"\nshort\n"[..]);
        let mut stream = BlockStream::new(Box::new(from), BLOCK_BYTES);
        let mut block = Block::default();
        assert!(stream.next(&mut block).unwrap());
        assert!(block.lines() == b"short\n" && block.too_long == 1);
        assert!(block.bytes.capacity() < 4 * BLOCK_BYTES);
        assert!(!stream.next(&mut block).unwrap());
    }
}
