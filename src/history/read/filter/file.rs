//! The format of a filter's file, its writer and its reader.
//!
//! ```text
//! for each group of blocks: pages of 4 KiB with the sets: row by row the blocks that have a bit, then a checksum
//!                           the places and outlines of the blocks
//! the directory:            where each group is, and the checksum of its places and outlines
//! the footer:               the state of the log file, where the directory is, checksums
//! ```
//!
//! A search of a text reads one page for each sequence of the text and group, so that it takes milliseconds for
//! gigabytes. Numbers are of eight bytes, the lowest first.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::{FileExt, MetadataExt};

use flate2::Crc;

use super::choice::{BlockChoice, Blocks, GROUP_BLOCKS};
use super::grams::{BITS_MAX, BITS_MIN, Grams};
use super::outline::Outline;
use crate::history::read::numbers::NumberSpan;
use crate::timestamp::Timestamp;

/// The first number of the footer: the name of the format, and its version.
const FORMAT: u64 = u64::from_le_bytes(*b"tdfilt\0\x01");
/// The size of the footer: twelve numbers.
const FOOTER_BYTES: usize = 12 * 8;
/// The size of a group in the directory: six numbers.
const GROUP_BYTES: usize = 6 * 8;
/// The size of a page, which the system reads as a whole.
const PAGE_BYTES: usize = 4096;
/// The part of a page before its checksum.
const PAGE_DATA_BYTES: usize = PAGE_BYTES - 4;
/// The maximum size of a block's place and outline.
const OUTLINE_BYTES_MAX: u64 = 1024;
/// The maximum number of groups that a reader accepts: those of a log of 64 TB.
const GROUPS_MAX: u64 = 1_000_000;

/// The state of a log file. The time of its last change tells each change, also one after which another program has
/// set back the other times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogState([u64; 6]);

impl LogState {
    pub(super) fn of(log: &File) -> io::Result<Self> {
        let about = log.metadata()?;
        let signed = [
            about.mtime(),
            about.mtime_nsec(),
            about.ctime(),
            about.ctime_nsec(),
        ];
        let [mtime, mtime_ns, ctime, ctime_ns] = signed.map(i64::cast_unsigned);
        Ok(Self([
            about.len(),
            about.ino(),
            mtime,
            mtime_ns,
            ctime,
            ctime_ns,
        ]))
    }
}

/// A block of a log file, and whether it must be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::history::read) struct PlannedBlock {
    /// The position of its first line in the uncompressed file, and the length of its lines.
    pub(in crate::history::read) offset: u64,
    pub(in crate::history::read) bytes: u64,
    /// The end of its member of a compressed file; 0 otherwise.
    pub(in crate::history::read) member_end: u64,
    /// The outline of a block that may be skipped.
    pub(in crate::history::read) outline: Option<Outline>,
}

impl PlannedBlock {
    /// Returns the position after its last line.
    pub(in crate::history::read) fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }
}

/// A group in the directory.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// The position of its pages, followed by its outlines.
    start: u64,
    /// The number of bits of a set.
    bits: u32,
    blocks: usize,
    outlines: u64,
    outlines_bytes: u64,
    crc: u64,
}

fn checksum(parts: &[&[u8]]) -> u32 {
    let mut crc = Crc::new();
    parts.iter().for_each(|part| crc.update(part));
    crc.sum()
}

fn push(out: &mut Vec<u8>, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

/// Reads numbers.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn next(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn signed(&mut self) -> Option<i64> {
        self.next().map(u64::cast_signed)
    }

    fn array<const N: usize>(&mut self) -> Option<[u64; N]> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = self.next()?;
        }
        Some(numbers)
    }
}

/// Writes a filter while its log file is read.
#[derive(Debug)]
pub(super) struct FilterWriter {
    file: File,
    block_bytes: u64,
    /// The size of what is written.
    len: u64,
    /// The directory of the groups that are written.
    groups: Vec<u8>,
    /// The blocks of the group that is not written yet.
    open: Vec<(PlannedBlock, Grams)>,
}

impl FilterWriter {
    /// Writes into an empty file.
    pub(super) fn new(file: File, block_bytes: u64) -> Self {
        Self {
            file,
            block_bytes,
            len: 0,
            groups: Vec::new(),
            open: Vec::new(),
        }
    }

    /// Removes all blocks.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.open.clear();
        self.groups.clear();
        self.len = 0;
        Ok(())
    }

    pub(super) fn push(&mut self, block: PlannedBlock, grams: Grams) -> io::Result<()> {
        self.open.push((block, grams));
        if self.open.len() == GROUP_BLOCKS {
            self.write_group()?;
        }
        Ok(())
    }

    fn write_group(&mut self) -> io::Result<()> {
        if self.open.is_empty() {
            return Ok(());
        }
        let bits = self.bits();
        let mut out = self.pages(bits);
        let outlines = out.len() as u64;
        self.open
            .iter()
            .for_each(|(block, _)| push_block(&mut out, block));
        let crc = checksum(&[out.get(outlines as usize..).unwrap_or_default()]);
        let outlines_bytes = out.len() as u64 - outlines;
        let start = self.len;
        let blocks = self.open.len() as u64;
        push(
            &mut self.groups,
            [
                start,
                bits.into(),
                blocks,
                start + outlines,
                outlines_bytes,
                crc.into(),
            ],
        );
        self.write(&out)?;
        self.open.clear();
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.len += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    /// Returns the size of the group's sets: the smallest one at which half of the bits are not set on average.
    fn bits(&self) -> u32 {
        let count_of = |bits: u32| -> u64 {
            self.open
                .iter()
                .map(|(_, grams)| u64::from(grams.count(bits)))
                .sum()
        };
        let mut bits = BITS_MAX;
        while bits > BITS_MIN
            && count_of(bits / 2) * 2 <= u64::from(bits / 2) * self.open.len() as u64
        {
            bits /= 2;
        }
        bits
    }

    fn pages(&self, bits: u32) -> Vec<u8> {
        let blocks = self.open.len();
        let mut rows = vec![0_u8; (bits as usize * blocks).div_ceil(8)];
        for (block, (_, grams)) in self.open.iter().enumerate() {
            grams.each_of(bits, |bit| {
                let at = bit as usize * blocks + block;
                if let Some(byte) = rows.get_mut(at / 8) {
                    *byte |= 1 << (at % 8);
                }
            });
        }
        let mut out = Vec::with_capacity(rows.len() + rows.len() / 1000 + PAGE_BYTES);
        for (page, data) in rows.chunks(PAGE_DATA_BYTES).enumerate() {
            let start = out.len();
            out.extend_from_slice(data);
            out.resize(start + PAGE_DATA_BYTES, 0);
            let crc = page_checksum(page, out.get(start..).unwrap_or_default());
            out.extend_from_slice(&crc.to_le_bytes());
        }
        out
    }

    /// Completes the filter of a log file in this state.
    pub(super) fn finish(&mut self, state: LogState) -> io::Result<()> {
        self.write_group()?;
        let directory = std::mem::take(&mut self.groups);
        let start = self.len;
        self.write(&directory)?;
        let mut footer = Vec::with_capacity(FOOTER_BYTES);
        push(&mut footer, [FORMAT, self.block_bytes]);
        push(&mut footer, state.0);
        let groups = (directory.len() / GROUP_BYTES) as u64;
        push(&mut footer, [start, groups, checksum(&[&directory]).into()]);
        let crc = checksum(&[&footer]);
        push(&mut footer, [crc.into()]);
        self.write(&footer)
    }
}

/// Returns the checksum of a page, which is another one elsewhere.
fn page_checksum(page: usize, data: &[u8]) -> u32 {
    checksum(&[&(page as u64).to_le_bytes(), data])
}

/// The marks of an outline: that there is one, that its times and its last time are known.
const IS_OUTLINED: u64 = 1;
const HAS_TIMES: u64 = 2;
const HAS_LAST: u64 = 4;

fn push_block(out: &mut Vec<u8>, block: &PlannedBlock) {
    let empty = Outline::default();
    let outline = block.outline.as_ref();
    let marks = match outline {
        None => 0,
        Some(outline) => {
            let times = if outline.times.is_some() {
                HAS_TIMES
            } else {
                0
            };
            let last = if outline.last.is_some() { HAS_LAST } else { 0 };
            IS_OUTLINED | times | last
        }
    };
    let outline = outline.unwrap_or(&empty);
    push(out, [marks, block.offset, block.bytes, block.member_end]);
    let times = outline
        .times
        .into_iter()
        .flat_map(|(first, last)| [first, last]);
    push(
        out,
        times
            .chain(outline.last)
            .map(|ts| ts.micros().cast_unsigned()),
    );
    push(out, [outline.numbers.len() as u64]);
    for span in &outline.numbers {
        let ts = span.ts.micros().cast_unsigned();
        push(out, [span.first, span.last, span.lines, span.offset, ts]);
        // One more than the length, or 0 without a header.
        push(
            out,
            [span.header.as_ref().map_or(0, |id| id.len() as u64 + 1)],
        );
        out.extend_from_slice(span.header.as_ref().map_or(b"", |id| id.as_bytes()));
    }
}

impl Numbers<'_> {
    fn block(&mut self) -> Option<PlannedBlock> {
        let [marks, offset, bytes, member_end] = self.array()?;
        let mut time = || self.signed().map(Timestamp::from_micros);
        let mut outline = Outline::default();
        if marks & HAS_TIMES != 0 {
            outline.times = Some((time()?, time()?));
        }
        if marks & HAS_LAST != 0 {
            outline.last = Some(time()?);
        }
        for _ in 0..self.next()? {
            outline.numbers.push(self.span()?);
        }
        Some(PlannedBlock {
            offset,
            bytes,
            member_end,
            outline: (marks & IS_OUTLINED != 0).then_some(outline),
        })
    }

    fn span(&mut self) -> Option<NumberSpan> {
        let [first, last, lines, offset, ts, id_bytes] = self.array()?;
        let mut header = None;
        if let Some(len) = id_bytes.checked_sub(1) {
            let (id, rest) = self.0.split_at_checked(usize::try_from(len).ok()?)?;
            self.0 = rest;
            header = Some(std::str::from_utf8(id).ok()?.into());
        }
        Some(NumberSpan {
            first,
            last,
            lines,
            offset,
            ts: Timestamp::from_micros(ts.cast_signed()),
            header,
        })
    }
}

/// The filter of a log file.
#[derive(Debug)]
pub(in crate::history::read) struct FilterFile {
    file: File,
    groups: Vec<Group>,
    /// The size of a block of an uncompressed file.
    pub(in crate::history::read) block_bytes: u64,
}

impl FilterFile {
    /// Reads the directory of a filter; `None` if it is damaged, or not that of the log file in its present state.
    pub(in crate::history::read) fn of(file: File, log: &File) -> io::Result<Option<Self>> {
        let len = file.metadata()?.len();
        let mut footer = [0; FOOTER_BYTES];
        let Some(footer_start) = len.checked_sub(FOOTER_BYTES as u64) else {
            return Ok(None);
        };
        file.read_exact_at(&mut footer, footer_start)?;
        let mut numbers = Numbers(&footer);
        let Some([format, block_bytes]) = numbers.array() else {
            return Ok(None);
        };
        let state = numbers.array().map(LogState);
        let rest = numbers.array();
        let Some([start, groups, directory_crc, footer_crc]) = rest else {
            return Ok(None);
        };
        let own = checksum(&[footer.get(..FOOTER_BYTES - 8).unwrap_or_default()]);
        let is_whole = format == FORMAT && footer_crc == u64::from(own) && block_bytes > 0;
        let is_placed = groups <= GROUPS_MAX
            && start.checked_add(groups * GROUP_BYTES as u64) == Some(footer_start);
        if !is_whole || !is_placed || state != Some(LogState::of(log)?) {
            return Ok(None);
        }
        let mut directory = vec![0; groups as usize * GROUP_BYTES];
        file.read_exact_at(&mut directory, start)?;
        if directory_crc != u64::from(checksum(&[&directory])) {
            return Ok(None);
        }
        let groups = directory.chunks(GROUP_BYTES).map(|bytes| {
            let [start, bits, blocks, outlines, outlines_bytes, crc] = Numbers(bytes).array()?;
            let is_valid = bits > 0
                && bits <= u64::from(BITS_MAX)
                && blocks <= GROUP_BLOCKS as u64
                && outlines_bytes <= blocks * OUTLINE_BYTES_MAX;
            is_valid.then_some(Group {
                start,
                bits: bits as u32,
                blocks: blocks as usize,
                outlines,
                outlines_bytes,
                crc,
            })
        });
        let groups = groups.collect::<Option<Vec<_>>>();
        Ok(groups.map(|groups| Self {
            file,
            groups,
            block_bytes,
        }))
    }

    /// Returns `true` if it is of a log file whose blocks cannot be chosen.
    pub(in crate::history::read) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns the blocks of a group, and leaves the outlines of those that need not be read; `None` after the last
    /// group.
    ///
    /// # Errors
    /// If the filter cannot be read, or is damaged.
    pub(in crate::history::read) fn plan(
        &self,
        group: usize,
        choice: &BlockChoice,
    ) -> io::Result<Option<Vec<PlannedBlock>>> {
        let Some(group) = self.groups.get(group) else {
            return Ok(None);
        };
        let mut blocks = self.blocks(group)?;
        let (wanted, context) = choice.of_texts(|bit| self.row(group, bit % group.bits))?;
        for (at, block) in blocks.iter_mut().enumerate() {
            block.outline = block.outline.take().filter(|outline| {
                let is_timely = outline.times.is_none_or(|times| choice.admits(times));
                let is_wanted = wanted.has(at) && is_timely;
                !is_wanted && !context.has(at)
            });
        }
        Ok(Some(blocks))
    }

    fn blocks(&self, group: &Group) -> io::Result<Vec<PlannedBlock>> {
        let mut bytes = vec![0; group.outlines_bytes as usize];
        self.file.read_exact_at(&mut bytes, group.outlines)?;
        let mut numbers = Numbers(&bytes);
        let blocks = (0..group.blocks).map(|_| numbers.block()).collect();
        let is_whole = group.crc == u64::from(checksum(&[&bytes]));
        is_whole.then_some(blocks).flatten().ok_or_else(damaged)
    }

    /// Returns the blocks that have a bit.
    fn row(&self, group: &Group, bit: u32) -> io::Result<Blocks> {
        let bits = bit as usize * group.blocks;
        let mut bytes = [0; GROUP_BLOCKS / 8 + 8];
        let (first, last) = (bits / 8, (bits + group.blocks).div_ceil(8));
        let mut at = first;
        while at < last {
            let page = at / PAGE_DATA_BYTES;
            let end = last.min((page + 1) * PAGE_DATA_BYTES);
            let data = self.page(group, page)?;
            let from = at - page * PAGE_DATA_BYTES;
            let row = data.get(from..from + end - at).ok_or_else(damaged)?;
            bytes
                .get_mut(at - first..end - first)
                .ok_or_else(damaged)?
                .copy_from_slice(row);
            at = end;
        }
        let mut blocks = Blocks::default();
        let shift = bits % 8;
        for (at, word) in blocks.0.iter_mut().enumerate() {
            let bytes = bytes.get(at * 8..).and_then(<[u8]>::first_chunk::<16>);
            let value = bytes.map_or(0, |bytes| u128::from_le_bytes(*bytes) >> shift) as u64;
            // What follows is of the next row.
            let left = group.blocks.saturating_sub(at * 64).min(64) as u32;
            *word = value & 1_u64.checked_shl(left).map_or(u64::MAX, |end| end - 1);
        }
        Ok(blocks)
    }

    fn page(&self, group: &Group, page: usize) -> io::Result<[u8; PAGE_BYTES]> {
        let mut bytes = [0; PAGE_BYTES];
        self.file
            .read_exact_at(&mut bytes, group.start + (page * PAGE_BYTES) as u64)?;
        let (data, crc) = bytes.split_at(PAGE_DATA_BYTES);
        if page_checksum(page, data).to_le_bytes() != crc {
            return Err(damaged());
        }
        Ok(bytes)
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the filter is damaged")
}
