//! Parses a block of lines into the selected events, and counts invalid lines (pure).

use std::ops::Range;
use std::sync::Arc;
use std::vec;

use super::block::{BLOCK_BYTES, Block};
use super::query::{LineFilter, Query};
use crate::event::{Envelope, LineDecoder, TdEvent};
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

    /// Returns the memory for the next block. Large memory, which was needed for a long line, is freed.
    fn into_memory(self) -> Vec<u8> {
        let memory = match self {
            Self::Unchecked(bytes) => bytes,
            Self::Text(text) => text.into_bytes(),
        };
        // A block and its last line, for which the memory has doubled.
        if memory.capacity() <= 4 * BLOCK_BYTES {
            memory
        } else {
            Vec::new()
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
    lines: Option<Arc<LineBytes>>,
    place: Range<usize>,
}

impl LogRecord {
    /// Returns the line as it is in the log, without its line feed. Empty unless the reader keeps lines.
    pub fn line(&self) -> &[u8] {
        let lines = self.lines.as_deref();
        lines
            .and_then(|lines| lines.as_bytes().get(self.place.clone()))
            .unwrap_or_default()
    }
}

/// The content of a block.
#[derive(Debug, Default)]
pub(super) struct ParsedBlock {
    pub(super) found: Vec<(Envelope, bool, Range<usize>)>,
    /// The lines of the records, if they are kept.
    pub(super) lines: Option<Arc<LineBytes>>,
    /// The number of parsed lines that are not events.
    pub(super) invalid: u64,
    /// The position of the first of them, in bytes from the start of the file.
    pub(super) first_invalid: Option<u64>,
    /// True if the last line is incomplete and not an event.
    pub(super) is_torn: bool,
}

impl ParsedBlock {
    /// Returns the counts for lines that were too long for the block.
    pub(super) fn too_long(block: &Block) -> Self {
        Self {
            invalid: block.too_long,
            first_invalid: (block.too_long > 0).then_some(block.offset),
            ..Self::default()
        }
    }

    /// Counts an invalid line, unless it is blank.
    fn add_invalid(&mut self, line: &[u8], offset: u64) {
        if !line.trim_ascii().is_empty() {
            self.invalid += 1;
            self.first_invalid.get_or_insert(offset);
        }
    }

    pub(super) fn into_records(self) -> ParsedRecords {
        ParsedRecords {
            found: self.found.into_iter(),
            lines: self.lines,
        }
    }
}

/// Iterates over the events of a block.
#[derive(Debug, Default)]
pub(super) struct ParsedRecords {
    found: vec::IntoIter<(Envelope, bool, Range<usize>)>,
    lines: Option<Arc<LineBytes>>,
}

impl Iterator for ParsedRecords {
    type Item = LogRecord;

    fn next(&mut self) -> Option<LogRecord> {
        let (envelope, is_wanted, place) = self.found.next()?;
        Some(LogRecord {
            envelope,
            is_wanted,
            lines: self.lines.clone(),
            place,
        })
    }
}

/// Parses the lines of a block on demand. If all events are wanted, each event is then used while it is in
/// the core's cache.
#[derive(Debug)]
pub(super) struct BlockLines {
    lines: Arc<LineBytes>,
    next: usize,
    /// The position of the first byte in the file.
    offset: u64,
    /// The counts of lines that are not in the block.
    pub(super) too_long: ParsedBlock,
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
            offset: block.offset.saturating_sub(next as u64),
            too_long: ParsedBlock::too_long(&block),
            is_torn: block.is_torn,
            lines: Arc::new(lines(block)),
            keeps_lines,
        }
    }

    /// Returns the range in the file of a record's line, including its line feed. The record must be from
    /// this block.
    #[cfg(feature = "tui")]
    pub(super) fn place_of(&self, record: &LogRecord) -> Range<u64> {
        let Range { start, end } = record.place;
        self.offset + start as u64..self.offset + end as u64 + 1
    }

    /// Returns the memory of the block, unless records keep their lines in it.
    pub(super) fn into_memory(self) -> Vec<u8> {
        let lines = Arc::into_inner(self.lines);
        lines.map(LineBytes::into_memory).unwrap_or_default()
    }

    /// Returns the next event. Counts lines that are not events.
    pub(super) fn next(
        &mut self,
        decoder: &mut LineDecoder,
        noted: &mut Option<ParsedBlock>,
    ) -> Option<LogRecord> {
        let bytes = self.lines.as_bytes();
        while let Some(rest) = bytes.get(self.next..).filter(|rest| !rest.is_empty()) {
            let start = self.next;
            let len = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            self.next = start + len + 1;
            let place = start..start + len;
            let line = rest.get(..len).unwrap_or_default();
            let decoded = match &*self.lines {
                // Line feeds are whole characters.
                LineBytes::Text(text) => {
                    decoder.decode_text(text.get(place.clone()).unwrap_or_default())
                }
                LineBytes::Unchecked(_) => decoder.decode(line),
            };
            match decoded {
                Ok(envelope) if matches!(envelope.event, TdEvent::LogOpened { .. }) => {}
                Ok(envelope) => {
                    return Some(LogRecord {
                        envelope,
                        is_wanted: true,
                        lines: self.keeps_lines.then(|| Arc::clone(&self.lines)),
                        place,
                    });
                }
                Err(_) => {
                    let noted = noted.get_or_insert_default();
                    if self.is_torn && place.end == bytes.len() {
                        noted.is_torn = true;
                    } else {
                        noted.add_invalid(line, self.offset + start as u64);
                    }
                }
            }
        }
        None
    }
}

/// Parses blocks for a query.
#[derive(Clone, Debug)]
pub(super) struct BlockParser {
    query: Query,
    filter: LineFilter,
    wants_all: bool,
    keeps_lines: bool,
}

impl BlockParser {
    pub(super) fn new(query: Query, keeps_lines: bool) -> Self {
        Self {
            filter: LineFilter::of(&query),
            wants_all: query.wants_all(),
            query,
            keeps_lines,
        }
    }

    /// Returns `true` if records keep their lines.
    pub(super) fn keeps_lines(&self) -> bool {
        self.keeps_lines
    }

    /// Returns `true` if the query matches all events.
    pub(super) fn wants_all(&self) -> bool {
        self.wants_all
    }

    /// Returns the time before which no event is wanted.
    pub(super) fn since(&self) -> Option<Timestamp> {
        self.query.since
    }

    /// Parses the lines that may match. Omits the headers of files.
    pub(super) fn parse(&self, block: &Block) -> ParsedBlock {
        let mut parsed = ParsedBlock::too_long(block);
        let (mut decoder, mut lines) = (LineDecoder::default(), Vec::new());
        self.filter.each(block.lines(), |at, line| {
            let Ok(envelope) = decoder.decode(line) else {
                if block.is_torn && at + line.len() == block.lines().len() {
                    parsed.is_torn = true;
                } else {
                    parsed.add_invalid(line, block.offset + at as u64);
                }
                return;
            };
            let is_header = matches!(envelope.event, TdEvent::LogOpened { .. });
            let is_wanted = self.wants_all || self.query.wants(&envelope);
            if !is_header && (is_wanted || self.query.is_context(&envelope)) {
                let start = lines.len();
                if self.keeps_lines {
                    lines.extend_from_slice(line);
                }
                parsed.found.push((envelope, is_wanted, start..lines.len()));
            }
        });
        parsed.lines = self
            .keeps_lines
            .then(|| Arc::new(LineBytes::Unchecked(lines)));
        parsed
    }
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
        let records: Vec<LogRecord> = parsed.into_records().collect();
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].line(), text.lines().nth(1).unwrap().as_bytes());
    }
}
