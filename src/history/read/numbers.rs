//! Finds the numbers that a log lacks, from the numbers of its lines (pure).
//!
//! Each block of lines is reduced to its spans of consecutive numbers, on any thread. The reader then passes the
//! spans of all blocks in order to one [`NumberCheck`].

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::query::Query;
use crate::event::{Envelope, ExecutionId, LogGapRange, TdEvent};
use crate::history::metadata::{RunMetadata, RunState};
use crate::history::tail::SEQ_MAX;
use crate::timestamp::Timestamp;

/// The maximum number of places in a report; the number of events is exact beyond it.
const PLACES_MAX: usize = 1024;

/// Events that were logged and are no longer in the log. Events of a [`LogGap`](TdEvent::LogGap) never were, and
/// are not among them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MissingEvents {
    /// The number of the first missing event.
    pub first_seq: u64,
    /// The number of the last missing event.
    pub last_seq: u64,
    /// The file that has the next line after them, or the last file of the log.
    pub file: PathBuf,
    /// The position of that line in bytes of the uncompressed file; `None` if they are missing at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
}

impl MissingEvents {
    pub(in crate::history) fn new(
        (first_seq, last_seq): (u64, u64),
        file: PathBuf,
        offset: Option<u64>,
    ) -> Self {
        Self {
            first_seq,
            last_seq,
            file,
            offset,
        }
    }

    /// Returns the number of missing events.
    pub fn count(&self) -> u64 {
        self.last_seq - self.first_seq + 1
    }
}

/// The number at which a log ends according to the run's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::history) struct PromisedEnd {
    pub(in crate::history) next_seq: u64,
    /// True if the log may not have more; false for a run that was resumed and not closed since.
    is_exact: bool,
}

impl PromisedEnd {
    pub(in crate::history) fn of(metadata: &RunMetadata) -> Option<Self> {
        let next_seq = metadata.next_seq.filter(|seq| (1..SEQ_MAX).contains(seq))?;
        let is_exact = metadata.state != RunState::Running;
        Some(Self { next_seq, is_exact })
    }
}

/// A part of a file whose lines have consecutive numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NumberSpan {
    pub(super) first: u64,
    /// The last number; the one before the first for a header, whose number is that of the next event.
    pub(super) last: u64,
    /// The number of lines; more than one line with consecutive numbers cannot be a damaged number.
    pub(super) lines: u64,
    /// The position of the first line in the file, and its time.
    pub(super) offset: u64,
    pub(super) ts: Timestamp,
    /// The execution in a header.
    pub(super) header: Option<ExecutionId>,
}

impl NumberSpan {
    /// Returns `true` for a header that another number than its own follows.
    pub(super) fn is_header_alone(&self) -> bool {
        self.last < self.first
    }

    /// Returns `true` if its numbers precede those of a line, with which it has changed places.
    pub(super) fn is_before(&self, line: &Self) -> bool {
        line.lines == 1 && self.last + 1 == line.first
    }
}

/// The numbers of a block's lines.
#[derive(Debug, Default)]
pub(super) struct BlockNumbers {
    pub(super) spans: Vec<NumberSpan>,
    /// True if files before the block were not read.
    pub(super) follows_skipped: bool,
}

impl BlockNumbers {
    /// Adds the line at a position.
    pub(super) fn note(&mut self, envelope: &Envelope, offset: u64) {
        let (first, last, header) = match (&envelope.event, LogGapRange::of(envelope)) {
            (
                TdEvent::LogOpened {
                    first_seq,
                    execution_id,
                    ..
                },
                _,
            ) if *first_seq > 0 => (*first_seq, first_seq - 1, Some(execution_id.clone())),
            (_, Some(numbers)) => (numbers.first, numbers.last, None),
            _ => return,
        };
        if last >= SEQ_MAX {
            return;
        }
        match self.spans.last_mut() {
            Some(span) if first == span.last + 1 && header.is_none() => {
                (span.last, span.lines) = (last, span.lines + 1);
            }
            _ => self.spans.push(NumberSpan {
                first,
                last,
                lines: 1,
                offset,
                ts: envelope.ts,
                header,
            }),
        }
    }

    /// Adds a line with this number if it follows the previous line's; returns `false` otherwise.
    pub(super) fn continues(&mut self, seq: u64) -> bool {
        let span = self.spans.last_mut().filter(|span| seq == span.last + 1);
        span.map(|span| (span.last, span.lines) = (seq, span.lines + 1))
            .is_some()
    }
}

/// The number that the next line must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextNumber {
    Is(u64),
    /// The reading begins within a log.
    AnyLine,
    /// A file that may be an extract: only after a header must numbers be consecutive.
    AnyHeader,
}

/// Compares the numbers of a log's lines, in order.
#[derive(Debug)]
pub(super) struct NumberCheck {
    next: NextNumber,
    is_single_file: bool,
    execution: Option<ExecutionId>,
    /// A span whose number is too high. If the next number is lower, this one was damaged, or its line was moved.
    held: Option<(NumberSpan, PathBuf)>,
    /// Numbers of such lines, which are not missing where they are skipped.
    early: Vec<(u64, u64)>,
    /// The first place of the present execution.
    own_places: usize,
    /// The time of the previous span.
    before: Timestamp,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    pub(super) missing: u64,
    pub(super) places: Vec<MissingEvents>,
}

impl Default for NumberCheck {
    fn default() -> Self {
        Self::new(NextNumber::AnyLine, &Query::all())
    }
}

impl NumberCheck {
    /// Checks numbers from `next` on. Counts only events that may be in the time span of the query.
    pub(super) fn new(next: NextNumber, query: &Query) -> Self {
        Self {
            next,
            is_single_file: next == NextNumber::AnyHeader,
            execution: None,
            held: None,
            early: Vec::new(),
            own_places: 0,
            before: Timestamp::from_micros(i64::MIN),
            since: query.since,
            until: query.until,
            missing: 0,
            places: Vec::new(),
        }
    }

    /// Begins within the log.
    pub(super) fn begin_anywhere(&mut self) {
        self.next = NextNumber::AnyLine;
    }

    /// Takes the numbers of the next block.
    pub(super) fn take(&mut self, numbers: &BlockNumbers, path: &Path) {
        if numbers.follows_skipped {
            self.accept_held();
            self.begin_anywhere();
        }
        for span in &numbers.spans {
            self.take_span(span, path);
        }
    }

    fn take_span(&mut self, span: &NumberSpan, path: &Path) {
        match self.held.take() {
            Some((held, _)) if held.lines == 1 && span.first <= held.first => {
                if self.early.len() < PLACES_MAX {
                    self.early.push((held.first, held.last));
                }
            }
            held => {
                self.held = held;
                self.accept_held();
            }
        }
        let is_other = self.is_single_file
            && span.header.is_some()
            && (self.execution.is_some() && self.execution != span.header);
        if is_other {
            self.early.clear();
            self.own_places = self.places.len();
        }
        // A line that was moved behind later ones.
        self.find(span.first, span.last);
        self.next = match self.next {
            NextNumber::Is(next) if is_other || span.first <= next => {
                NextNumber::Is(if is_other { 0 } else { next }.max(span.last + 1))
            }
            NextNumber::Is(next) => {
                self.held = Some((span.clone(), path.to_owned()));
                NextNumber::Is(next)
            }
            NextNumber::AnyHeader if span.header.is_none() => NextNumber::AnyHeader,
            NextNumber::AnyHeader | NextNumber::AnyLine => NextNumber::Is(span.last + 1),
        };
        if span.header.is_some() {
            self.execution.clone_from(&span.header);
        }
        if self.held.is_none() {
            self.before = span.ts;
        }
    }

    /// Counts the numbers before the held span as missing.
    fn accept_held(&mut self) {
        let Some((held, path)) = self.held.take() else {
            return;
        };
        if let NextNumber::Is(next) = self.next {
            let is_early = self.since.is_some_and(|since| held.ts < since);
            let is_late = self.until.is_some_and(|until| self.before >= until);
            if !is_early && !is_late {
                self.add(next, held.first - 1, path, Some(held.offset));
                for (first, last) in std::mem::take(&mut self.early) {
                    self.find(first, last);
                    if last > held.last {
                        self.early.push((first, last));
                    }
                }
            }
        }
        self.next = NextNumber::Is(held.last + 1);
        self.before = held.ts;
    }

    /// Ends the log.
    pub(super) fn finish(&mut self, end: Option<PromisedEnd>, path: &Path) {
        let is_damaged = |held: &NumberSpan, end: PromisedEnd| {
            end.is_exact && held.lines == 1 && held.last >= end.next_seq
        };
        if let (Some((held, _)), Some(end)) = (&self.held, end)
            && is_damaged(held, end)
        {
            self.held = None;
        }
        self.accept_held();
        if let (NextNumber::Is(next), Some(end)) = (self.next, end)
            && next < end.next_seq
        {
            self.add(next, end.next_seq - 1, path.to_owned(), None);
            for (first, last) in std::mem::take(&mut self.early) {
                self.find(first, last);
            }
            self.next = NextNumber::Is(end.next_seq);
        }
    }

    /// Removes numbers that are there from the missing ones.
    fn find(&mut self, first: u64, last: u64) {
        let own = self.places.get(self.own_places..).unwrap_or_default();
        let mut at = self.own_places + own.partition_point(|place| place.last_seq < first);
        while let Some(place) = self.places.get(at).filter(|place| place.first_seq <= last) {
            let (from, to) = (place.first_seq.max(first), place.last_seq.min(last));
            let whole = self.places.remove(at);
            self.missing -= to + 1 - from;
            for (first_seq, last_seq) in [(whole.first_seq, from - 1), (to + 1, whole.last_seq)] {
                if first_seq <= last_seq {
                    let part = MissingEvents {
                        first_seq,
                        last_seq,
                        ..whole.clone()
                    };
                    self.places.insert(at, part);
                    at += 1;
                }
            }
        }
    }

    fn add(&mut self, first_seq: u64, last_seq: u64, file: PathBuf, offset: Option<u64>) {
        let place = MissingEvents::new((first_seq, last_seq), file, offset);
        self.missing += place.count();
        if self.places.len() < PLACES_MAX {
            self.places.push(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seq: u64) -> Envelope {
        let event = TdEvent::IterationStarted {
            execution_id: "a".into(),
            iteration: 1,
        };
        Envelope::new(Some(seq), Timestamp::from_micros(seq as i64), event)
    }

    fn gap(first: u64, last: u64) -> Envelope {
        let ts = Timestamp::default();
        LogGapRange { first, last, ts }.envelope("a".into())
    }

    fn header(id: &str, first_seq: u64) -> Envelope {
        let ts = Timestamp::default();
        crate::history::line::header(&id.into(), ts, ("h", 1), first_seq)
    }

    fn end(next_seq: u64, is_exact: bool) -> Option<PromisedEnd> {
        Some(PromisedEnd { next_seq, is_exact })
    }

    /// Returns the missing ranges, whatever the blocks.
    #[track_caller]
    fn missing(next: NextNumber, lines: &[Envelope], end: Option<PromisedEnd>) -> Vec<(u64, u64)> {
        let of_blocks_of = |size: usize| {
            let mut check = NumberCheck::new(next, &Query::all());
            for block in lines.chunks(size) {
                let mut numbers = BlockNumbers::default();
                for (at, envelope) in block.iter().enumerate() {
                    if !(envelope.seq.is_some_and(|seq| numbers.continues(seq))) {
                        numbers.note(envelope, at as u64);
                    }
                }
                check.take(&numbers, Path::new("f"));
            }
            check.finish(end, Path::new("f"));
            let places = check.places.iter();
            let places: Vec<_> = places.map(|at| (at.first_seq, at.last_seq)).collect();
            let count: u64 = check.places.iter().map(MissingEvents::count).sum();
            assert_eq!(check.missing, count);
            places
        };
        let all = of_blocks_of(usize::MAX);
        for size in 1..5 {
            assert_eq!(of_blocks_of(size), all, "blocks of {size}");
        }
        all
    }

    #[test]
    fn missing_numbers_are_found_and_gaps_of_the_log_are_not() {
        let run = |lines: &[Envelope], end| missing(NextNumber::Is(1), lines, end);
        let five = [line(1), line(2), line(3), line(4), line(5)];
        assert_eq!(run(&five, None), []);
        assert_eq!(run(&five, end(6, true)), []);
        assert_eq!(run(&five, end(4, false)), []);
        assert_eq!(run(&five, end(9, false)), [(6, 8)]);
        assert_eq!(run(&five[2..], None), [(1, 2)]);
        assert_eq!(run(&[], end(6, true)), [(1, 5)]);
        assert_eq!(run(&[], None), []);
        assert_eq!(run(&[line(1), gap(2, 4), line(5), gap(6, 6)], None), []);
        assert_eq!(run(&[line(1), gap(3, 4), line(7)], None), [(2, 2), (5, 6)]);
        // A deleted file, whose successor states its number.
        assert_eq!(run(&[header("a", 9), line(9)], None), [(1, 8)]);
        assert_eq!(run(&[line(1), header("a", 2)], None), []);
        assert_eq!(run(&[line(1), header("a", 4)], None), [(2, 3)]);
        // Numbers that are assigned again.
        let again = [line(1), line(2), header("a", 2), line(2), line(3)];
        assert_eq!(run(&again, end(4, true)), []);
    }

    #[test]
    fn a_damaged_number_is_one_missing_event() {
        let run = |lines: &[Envelope], end| missing(NextNumber::Is(1), lines, end);
        for damaged in [0, 1, 2, 4, 5, 7, 90, SEQ_MAX, u64::MAX] {
            let lines = [line(1), line(2), line(damaged), line(4), line(5), line(6)];
            assert_eq!(run(&lines, end(7, true)), [(3, 3)], "{damaged}");
        }
        let last = [line(1), line(2), line(90)];
        assert_eq!(run(&last, end(4, true)), [(3, 3)]);
        let first = [header("a", 90), line(1), line(2)];
        assert_eq!(run(&first, None), []);
    }

    #[test]
    fn moved_lines_are_not_missing() {
        let run = |seqs: &[u64], end| {
            let lines: Vec<_> = seqs.iter().map(|seq| line(*seq)).collect();
            missing(NextNumber::Is(1), &lines, end)
        };
        assert_eq!(run(&[2, 1, 3], end(4, true)), []);
        assert_eq!(run(&[1, 2, 4, 3, 5], end(6, true)), []);
        assert_eq!(run(&[1, 3, 2], end(4, true)), []);
        assert_eq!(run(&[1, 3, 2], end(5, true)), [(4, 4)]);
        assert_eq!(run(&[1, 3, 2, 5, 4, 6], end(7, true)), []);
        assert_eq!(run(&[1, 2, 5, 4, 6], end(7, true)), [(3, 3)]);
        assert_eq!(run(&[1, 2, 4, 3, 6], end(7, true)), [(5, 5)]);
        // Further than beside each other.
        assert_eq!(run(&[1, 3, 4, 5, 2, 6], end(7, true)), []);
        assert_eq!(run(&[1, 4, 2, 3, 5], end(6, true)), []);
        let gaps = [line(1), gap(3, 5), line(2), line(7), gap(6, 6), line(8)];
        assert_eq!(missing(NextNumber::Is(1), &gaps, end(9, true)), []);
        let headers = [line(1), header("a", 1), line(3), header("a", 3), line(2)];
        assert_eq!(missing(NextNumber::Is(1), &headers, end(4, true)), []);
    }

    #[test]
    fn an_extract_of_a_log_has_no_missing_numbers() {
        let file = |lines: &[Envelope]| missing(NextNumber::AnyHeader, lines, None);
        assert_eq!(file(&[line(7), line(9)]), []);
        assert_eq!(file(&[header("a", 7), line(7), line(9)]), [(8, 8)]);
        let joined = [header("a", 7), line(7), header("b", 1), line(1), line(3)];
        assert_eq!(file(&joined), [(2, 2)]);
        assert_eq!(
            missing(NextNumber::AnyLine, &[line(7), line(9)], None),
            [(8, 8)]
        );
    }
}
