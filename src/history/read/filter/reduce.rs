//! Reduces a block to what a filter has of it (pure).

use super::grams::Grams;
use super::needles::has_only_own_escapes;
use super::outline::Outline;
use crate::event::LineDecoder;
use crate::history::line::{after_stamp, stamp_of};
use crate::history::read::block::Block;
use crate::history::read::parse::{ParsedBlock, last_time, note_numbers};
use crate::timestamp::Timestamp;

/// The maximum number of spans of an outline; a block in more pieces is always read. It bounds the size of outlines.
const SPANS_MAX: usize = 3;
/// The longest id of an execution in an outline; most have some dozens of bytes.
const ID_BYTES_MAX: usize = 255;

/// Returns the outline; `None` for a block that must always be read: it has lines that are reported, or whose
/// text is in another form than this crate writes.
pub(super) fn outline_of(block: &Block) -> Option<Outline> {
    let mut parsed = ParsedBlock::too_long(block);
    note_numbers(block, &[], &mut parsed);
    let is_plain = !block.is_torn && parsed.invalid == 0 && !parsed.is_torn;
    let spans = &parsed.numbers.spans;
    let is_short = spans.len() <= SPANS_MAX
        && (spans.iter().filter_map(|span| span.header.as_ref()))
            .all(|id| id.len() <= ID_BYTES_MAX);
    if !is_plain || !is_short || !has_own_form(block.lines()) {
        return None;
    }
    Some(Outline {
        numbers: parsed.numbers.spans,
        times: times_of(block.lines()),
        last: last_time(block.lines()),
    })
}

/// Adds what can be searched of each line: all but its number and its time, whose digits would fill the set.
pub(super) fn add_grams(lines: &[u8], grams: &mut Grams) {
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', lines).chain([lines.len()]) {
        let line = lines.get(start..end).unwrap_or_default();
        grams.add(after_stamp(line).unwrap_or(line));
        start = end + 1;
    }
}

/// Returns `true` if each line with an escaped character is valid, and all such characters are in the form that this
/// crate writes.
fn has_own_form(lines: &[u8]) -> bool {
    let mut decoder = LineDecoder::default();
    let mut from = 0;
    while let Some(at) = memchr::memmem::find(lines.get(from..).unwrap_or_default(), b"\\u") {
        let at = from + at;
        let start =
            memchr::memrchr(b'\n', lines.get(..at).unwrap_or_default()).map_or(0, |at| at + 1);
        let rest = lines.get(start..).unwrap_or_default();
        let len = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = rest.get(..len).unwrap_or_default();
        if !has_only_own_escapes(line) || decoder.decode(line).is_err() {
            return false;
        }
        from = start + len + 1;
    }
    true
}

fn times_of(lines: &[u8]) -> Option<(Timestamp, Timestamp)> {
    let mut times: Option<(&[u8], &[u8])> = None;
    for line in lines
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let stamp = stamp_of(line)?;
        let (first, last) = times.unwrap_or((stamp, stamp));
        times = Some((first.min(stamp), last.max(stamp)));
    }
    let parse = |stamp: &[u8]| std::str::from_utf8(stamp).ok()?.parse().ok();
    let (first, last) = times?;
    parse(first).zip(parse(last))
}
