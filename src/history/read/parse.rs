//! Parses a block of lines into the selected events, and counts invalid lines (pure).

#[cfg(any(
    feature = "mcp",
    feature = "report",
    feature = "serve",
    feature = "tui"
))]
use std::ops::Range;
use std::sync::Arc;

use super::block::{BLOCK_BYTES, Block};
use super::filter::{BlockChoice, Outline};
use super::numbers::BlockNumbers;
use super::query::{LineFilter, Query};
use crate::event::{Envelope, LineDecoder, TdEvent};
use crate::history::line::{seq_of, stamp_of, type_of};
use crate::timestamp::Timestamp;

/// The bytes of lines, as text if they are known to be UTF-8.
#[derive(Debug)]
pub(super) enum LineBytes {
    Unchecked(Vec<u8>),
    Text(String),
}

impl LineBytes {
    /// Checks the lines of a block.
    pub(super) fn checked(mut block: Block) -> Self {
        // The end of an earlier line may begin within a character.
        block
            .bytes
            .iter_mut()
            .take(block.skip)
            .for_each(|byte| *byte = b' ');
        match String::from_utf8(block.bytes) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Unchecked(error.into_bytes()),
        }
    }

    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Unchecked(bytes) => bytes,
            Self::Text(text) => text.as_bytes(),
        }
    }
}

/// An event from a log, with its line.
#[derive(Clone, Debug)]
pub struct LogRecord {
    /// The event.
    pub envelope: Envelope,
    /// True if the event matches the query; otherwise it is context ([`Query::context`]).
    pub is_wanted: bool,
    line: Vec<u8>,
}

impl LogRecord {
    /// Returns the line as it is in the log, without its line feed. Empty unless the reader keeps lines.
    pub fn line(&self) -> &[u8] {
        &self.line
    }
}

/// The content of a block.
#[derive(Debug, Default)]
pub(super) struct ParsedBlock {
    pub(super) records: Vec<LogRecord>,
    /// The number of parsed lines that are not events.
    pub(super) invalid: u64,
    /// The position of the first of them, in bytes from the start of the file.
    pub(super) first_invalid: Option<u64>,
    /// True if the last line is incomplete and not an event.
    pub(super) is_torn: bool,
    pub(super) numbers: BlockNumbers,
    /// The time of the last line, if the line is in this crate's format; only with a query that selects some events.
    pub(super) last: Option<Timestamp>,
}

impl ParsedBlock {
    /// Returns the counts for lines that were too long for the block.
    pub(super) fn too_long(block: &Block) -> Self {
        Self {
            invalid: block.too_long,
            first_invalid: (block.too_long > 0).then_some(block.offset),
            numbers: BlockNumbers {
                follows_skipped: block.follows_skipped,
                ..BlockNumbers::default()
            },
            ..Self::default()
        }
    }

    /// Returns what is known of lines that are not read, because they cannot match.
    pub(super) fn skipped(outline: Outline) -> Self {
        Self {
            numbers: BlockNumbers {
                spans: outline.numbers,
                follows_skipped: false,
            },
            last: outline.last,
            ..Self::default()
        }
    }

    /// Counts an invalid line, unless it is blank.
    fn add_invalid(&mut self, line: &[u8], offset: u64) {
        if !line.trim_ascii().is_empty() {
            self.invalid += 1;
            let before = self.first_invalid.unwrap_or(u64::MAX);
            self.first_invalid = Some(before.min(offset));
        }
    }
}

/// Parses the lines of a block on demand. If all events are wanted, each event is then used while it is in
/// the core's cache.
#[derive(Debug)]
pub(super) struct BlockLines {
    lines: LineBytes,
    next: usize,
    /// The start of the last event's line.
    start: usize,
    /// The position of the first byte in the file.
    offset: u64,
    /// The counts of lines that are not in the block, and the numbers of the lines so far.
    pub(super) parsed: ParsedBlock,
    is_torn: bool,
    keeps_lines: bool,
}

impl BlockLines {
    pub(super) fn unchecked(block: Block, keeps_lines: bool) -> Self {
        let bytes = |block: Block| LineBytes::Unchecked(block.bytes);
        Self::new(block, keeps_lines, bytes)
    }

    /// Checks that all lines are UTF-8 at once, which makes parsing them cheaper.
    pub(super) fn checked(block: Block, keeps_lines: bool) -> Self {
        Self::new(block, keeps_lines, LineBytes::checked)
    }

    fn new(block: Block, keeps_lines: bool, lines: fn(Block) -> LineBytes) -> Self {
        let next = block.bytes.len() - block.lines().len();
        Self {
            next,
            start: next,
            offset: block.offset.saturating_sub(next as u64),
            parsed: ParsedBlock::too_long(&block),
            is_torn: block.is_torn,
            lines: lines(block),
            keeps_lines,
        }
    }

    /// Returns the range in the file of the last event's line, including its line feed.
    #[cfg(any(
        feature = "mcp",
        feature = "report",
        feature = "serve",
        feature = "tui"
    ))]
    pub(super) fn place(&self) -> Range<u64> {
        self.offset + self.start as u64..self.offset + self.next as u64
    }

    /// Returns the memory for the next block. Large memory, which was needed for a long line, is freed.
    pub(super) fn into_memory(self) -> Vec<u8> {
        let memory = match self.lines {
            LineBytes::Unchecked(bytes) => bytes,
            LineBytes::Text(text) => text.into_bytes(),
        };
        // A block and its last line, for which the memory has doubled.
        if memory.capacity() <= 4 * BLOCK_BYTES {
            memory
        } else {
            Vec::new()
        }
    }

    /// Returns the next event. Counts lines that are not events.
    pub(super) fn next(&mut self, decoder: &mut LineDecoder) -> Option<LogRecord> {
        let bytes = self.lines.as_bytes();
        while let Some(rest) = bytes.get(self.next..).filter(|rest| !rest.is_empty()) {
            let start = self.next;
            let len = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            self.next = start + len + 1;
            let end = start + len;
            let line = rest.get(..len).unwrap_or_default();
            let decoded = match &self.lines {
                // Line feeds are whole characters.
                LineBytes::Text(text) => {
                    decoder.decode_text(text.get(start..end).unwrap_or_default())
                }
                LineBytes::Unchecked(_) => decoder.decode(line),
            };
            match decoded {
                Ok(envelope) => {
                    let parsed = &mut self.parsed;
                    parsed.numbers.note(&envelope, self.offset + start as u64);
                    if matches!(envelope.event, TdEvent::LogOpened { .. }) {
                        continue;
                    }
                    self.start = start;
                    let line = if self.keeps_lines { line } else { &[] };
                    return Some(LogRecord {
                        envelope,
                        is_wanted: true,
                        line: line.to_vec(),
                    });
                }
                Err(_) if self.is_torn && end == bytes.len() => self.parsed.is_torn = true,
                Err(_) => self.parsed.add_invalid(line, self.offset + start as u64),
            }
        }
        None
    }
}

/// Parses blocks for a query.
#[derive(Clone, Debug)]
pub(super) struct BlockParser {
    pub(super) query: Query,
    filter: LineFilter,
    /// What blocks that may match have; `None` if all blocks are read.
    pub(super) choice: Option<Arc<BlockChoice>>,
    /// True if the query matches all events.
    pub(super) wants_all: bool,
    /// True if records keep their lines.
    pub(super) keeps_lines: bool,
}

impl BlockParser {
    pub(super) fn new(query: Query, keeps_lines: bool) -> Self {
        Self {
            filter: LineFilter::of(&query),
            choice: query.block_choice().map(Arc::new),
            wants_all: query.wants_all(),
            query,
            keeps_lines,
        }
    }

    /// Parses the lines that may match. Omits the headers of files.
    pub(super) fn parse(&self, block: &Block) -> ParsedBlock {
        let mut parsed = ParsedBlock::too_long(block);
        let mut decoder = LineDecoder::default();
        let mut broken = Vec::new();
        self.filter.each(block.lines(), |at, line| {
            let Ok(envelope) = decoder.decode(line) else {
                if block.is_torn && at + line.len() == block.lines().len() {
                    parsed.is_torn = true;
                } else {
                    parsed.add_invalid(line, block.offset + at as u64);
                    broken.push(at);
                }
                return;
            };
            if self.wants_all {
                parsed.numbers.note(&envelope, block.offset + at as u64);
            }
            let is_header = matches!(envelope.event, TdEvent::LogOpened { .. });
            let is_wanted = !is_header && (self.wants_all || self.query.wants(&envelope));
            if is_wanted || self.query.is_context(&envelope) {
                let line = if self.keeps_lines { line } else { &[] };
                parsed.records.push(LogRecord {
                    envelope,
                    is_wanted,
                    line: line.to_vec(),
                });
            }
        });
        if !self.wants_all {
            note_numbers(block, &broken, &mut parsed);
            parsed.last = last_time(block.lines());
        }
        parsed
    }
}

/// Returns the time of the last whole line, if the line is in this crate's format.
pub(super) fn last_time(lines: &[u8]) -> Option<Timestamp> {
    let whole = lines.get(..memchr::memrchr(b'\n', lines)?)?;
    let start = memchr::memrchr(b'\n', whole).map_or(0, |at| at + 1);
    let stamp = stamp_of(whole.get(start..)?)?;
    std::str::from_utf8(stamp).ok()?.parse().ok()
}

/// Notes the numbers of all lines, parsing few of them: a line counts if it begins as one of this crate with the number
/// that follows, ends as an event does, and is text. Others are parsed, and counted as invalid if they are no events. `broken` has the positions of
/// the lines that are known to be no events.
pub(super) fn note_numbers(block: &Block, broken: &[usize], parsed: &mut ParsedBlock) {
    let (lines, mut broken) = (block.lines(), broken.iter().peekable());
    // Most blocks are text as a whole, which is cheaper to check than line by line.
    let is_all_text = is_text_but_line_ends(lines);
    let mut decoder = LineDecoder::default();
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', lines).chain([lines.len()]) {
        let line = lines.get(start..end).unwrap_or_default();
        let at = std::mem::replace(&mut start, end + 1);
        if broken.next_if(|broken| **broken == at).is_some() || line.is_empty() {
            continue;
        }
        let offset = block.offset + at as u64;
        let is_whole = line.ends_with(b"}") && (is_all_text || is_text(line));
        let is_torn = block.is_torn && end == lines.len();
        let numbers = &mut parsed.numbers;
        let is_ours = is_whole && !is_torn && type_of(line).is_some();
        if is_ours && seq_of(line).is_some_and(|seq| numbers.continues(seq)) {
            continue;
        }
        match decoder.decode(line) {
            Ok(envelope) => numbers.note(&envelope, offset),
            Err(_) if is_torn => parsed.is_torn = true,
            Err(_) => parsed.add_invalid(line, offset),
        }
    }
}

/// Returns `true` if each line of a block may be JSON without line ends.
fn is_text_but_line_ends(lines: &[u8]) -> bool {
    let has_control = lines
        .iter()
        .fold(false, |any, byte| any | (*byte < b' ' && *byte != b'\n'));
    !has_control && simdutf8::basic::from_utf8(lines).is_ok()
}

/// Returns `true` if a line may be JSON without line ends: UTF-8 without control characters.
fn is_text(line: &[u8]) -> bool {
    // Without an early end, many bytes are compared at once.
    let has_control = line.iter().fold(false, |any, byte| any | (*byte < b' '));
    !has_control && std::str::from_utf8(line).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_lines_are_counted() {
        let text = "{\"seq\":0,\"ts\":\"2026-01-21T10:00:01Z\",\"event\":{\"type\":\"LogOpened\",\"execution_id\":\"a\",\"schema\":1,\"version\":\"0\",\"host\":\"h\",\"pid\":1,\"first_seq\":1}}\n\
            {\"seq\":1,\"ts\":\"2026-01-21T10:00:01Z\",\"event\":{\"type\":\"X\",\"execution_id\":\"a\"}}\n\
            \0\0\0\n\n \r\nbroken\n{\"seq\":2,\"ts\":\"20";
        let block = Block {
            bytes: text.as_bytes().to_vec(),
            offset: 1000,
            is_torn: true,
            ..Block::default()
        };
        let parsed = BlockParser::new(Query::all(), true).parse(&block);
        assert_eq!(parsed.invalid, 2);
        assert_eq!(
            parsed.first_invalid,
            Some(1000 + text.find('\0').unwrap() as u64)
        );
        assert!(parsed.is_torn);
        assert_eq!(parsed.records.len(), 1);
        assert_eq!(
            parsed.records[0].line(),
            text.lines().nth(1).unwrap().as_bytes()
        );
    }
}
