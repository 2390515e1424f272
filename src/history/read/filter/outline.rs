//! What a reader reports of a block that it skips: the numbers and the times of its lines (pure).

use crate::history::read::numbers::NumberSpan;
use crate::timestamp::Timestamp;

/// The outline of a block of whole, valid lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::history::read) struct Outline {
    pub(in crate::history::read) numbers: Vec<NumberSpan>,
    /// The first and the last time, if all lines are in this crate's format.
    pub(super) times: Option<(Timestamp, Timestamp)>,
    /// The time of the last line, if the line is in this crate's format.
    pub(in crate::history::read) last: Option<Timestamp>,
}

impl Outline {
    /// Appends the outline of the next block. Spans stay apart: what is missing at a time is told by their beginnings.
    pub(in crate::history::read) fn append(&mut self, next: Self) {
        self.numbers.extend(next.numbers);
        self.last = next.last.or(self.last);
    }
}
