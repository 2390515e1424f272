//! The matches of a search and of a filter in a history and in live events (pure).

use super::layout::Focus;
use crate::board::{Row, RowKey};
use crate::event::Envelope;
use crate::face::local_time::LocalTime;
use crate::face::pattern::Pattern;
use crate::face::view_lines::{
    Change, Content, LineView, Lines, Position, ViewLine, belongs_to_row,
};

/// The maximum number of matches of a search. Beyond it the first ones are dropped, but still counted.
const MATCHES_MAX: usize = 100_000;

/// The maximum number of lines that a filter holds.
pub(super) const LINES_MAX: usize = 2_000;

/// The progress of reading the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanState {
    /// The number of events read so far.
    Reading(u64),
    Done,
    /// The history could not be read.
    Failed,
}

/// A search in the lines of a view.
#[derive(Debug)]
pub(super) struct Search {
    /// Identifies its scan; 0 before the first one.
    pub id: u64,
    pub pattern: Pattern,
    /// The row in which the search began.
    pub row: Option<RowKey>,
    /// The focus before the search.
    pub opened_from: Focus,
    /// The positions of matching lines, in order.
    pub matches: Vec<Position>,
    /// The number of matching lines.
    pub count: u64,
    pub state: ScanState,
    /// True if the view moves to the first match once it is known.
    pub is_jump_pending: bool,
}

impl Search {
    pub fn new(pattern: Pattern, row: Option<RowKey>, opened_from: Focus) -> Self {
        Self {
            id: 0,
            pattern,
            row,
            opened_from,
            matches: Vec::new(),
            count: 0,
            state: ScanState::Reading(0),
            is_jump_pending: true,
        }
    }

    /// Returns the same search before its first line.
    pub fn emptied(&self) -> Self {
        Self {
            id: self.id,
            is_jump_pending: self.is_jump_pending,
            ..Self::new(self.pattern.clone(), self.row.clone(), self.opened_from)
        }
    }

    /// Searches a line that follows all others.
    pub fn take(&mut self, line: &ViewLine) {
        let is_known = self.matches.last().is_some_and(|last| *last >= line.at);
        if !is_known && self.pattern.matches(&line.text.text) {
            self.count += 1;
            if self.matches.len() >= MATCHES_MAX {
                self.matches.drain(..MATCHES_MAX / 2);
            }
            self.matches.push(line.at);
        }
    }

    /// Returns the index of the match at or before a position.
    pub fn index_of(&self, at: Position) -> Option<usize> {
        self.matches
            .partition_point(|found| *found <= at)
            .checked_sub(1)
    }

    /// Returns the match after or before a position; wraps around at the end.
    pub fn next(&self, at: Position, is_forward: bool) -> Option<Position> {
        let (index, wrapped) = if is_forward {
            let after = self.matches.partition_point(|found| *found <= at);
            (Some(after), self.matches.first())
        } else {
            let before = self.matches.partition_point(|found| *found < at);
            (before.checked_sub(1), self.matches.last())
        };
        let found = index.and_then(|index| self.matches.get(index));
        found.or(wrapped).copied()
    }

    /// Returns the index of the current match and their number: `3 of 17`.
    pub fn progress(&self, at: Position) -> String {
        let forgotten = self.count - self.matches.len() as u64;
        let index = self.index_of(at);
        let index = index.map_or(0, |index| index as u64 + 1 + forgotten);
        let is_reading = matches!(self.state, ScanState::Reading(_));
        let more = if is_reading { "…" } else { "" };
        format!("{index} of {}{more}", self.count)
    }
}

/// The lines that match a filter.
#[derive(Debug)]
pub(super) struct Filtered {
    /// Identifies its scan.
    pub id: u64,
    pub pattern: Pattern,
    pub lines: Lines,
    /// The number of matching lines, including dropped ones.
    pub count: u64,
    pub state: ScanState,
    /// The number of the last event that was filtered.
    pub last_seq: u64,
    content: Content,
}

impl Filtered {
    pub fn new(id: u64, pattern: Pattern, view: LineView, local: LocalTime) -> Self {
        Self {
            id,
            pattern,
            lines: Lines::default(),
            count: 0,
            state: ScanState::Reading(0),
            last_seq: 0,
            content: Content::new(view, local),
        }
    }

    /// Filters the next event of the row; returns the number of new lines.
    pub fn take(&mut self, envelope: &Envelope, bound: usize) -> u64 {
        if let Some(seq) = envelope.seq {
            self.last_seq = self.last_seq.max(seq);
        }
        let (lines, pattern) = (&mut self.lines, &self.pattern);
        let before = self.count;
        let count = &mut self.count;
        self.content.push(envelope, &mut |change| match change {
            Change::Line(line) => {
                if pattern.matches(&line.text.text) {
                    *count += 1;
                    lines.push(line);
                }
            }
            revised => {
                lines.apply(revised);
            }
        });
        self.lines.keep_last(bound);
        self.count - before
    }
}

/// The result of a scan through the history.
#[derive(Debug)]
pub(super) enum ScanResult {
    Search(Search),
    Filter(Box<Filtered>),
}

/// Searches or filters the events of a row's run.
#[derive(Debug)]
pub(super) struct Scan {
    pub row: Row,
    pub result: ScanResult,
    content: Content,
    /// The filter of the view; the search skips other lines.
    within: Option<Pattern>,
    pub last_seq: u64,
    pub read: u64,
}

impl Scan {
    pub fn new(
        row: Row,
        result: ScanResult,
        within: Option<Pattern>,
        (view, local): (LineView, LocalTime),
    ) -> Self {
        Self {
            row,
            result,
            content: Content::new(view, local),
            within,
            last_seq: 0,
            read: 0,
        }
    }

    pub fn id(&self) -> u64 {
        match &self.result {
            ScanResult::Search(search) => search.id,
            ScanResult::Filter(filter) => filter.id,
        }
    }

    /// Processes the next event of the run.
    pub fn take(&mut self, envelope: &Envelope) {
        self.read += 1;
        self.last_seq = self.last_seq.max(envelope.seq.unwrap_or(0));
        if !belongs_to_row(&self.row, &envelope.event) {
            return;
        }
        match &mut self.result {
            ScanResult::Filter(filter) => {
                filter.take(envelope, LINES_MAX);
            }
            ScanResult::Search(search) => {
                let within = &self.within;
                self.content.push(envelope, &mut |change| {
                    let Change::Line(line) = change else {
                        return;
                    };
                    let within = within.as_ref();
                    if within.is_none_or(|filter| filter.matches(&line.text.text)) {
                        search.take(&line);
                    }
                });
            }
        }
    }

    /// Sets the final state: the scan has read all or a part of the history.
    pub fn end(&mut self, state: ScanState) {
        match &mut self.result {
            ScanResult::Search(search) => search.state = state,
            ScanResult::Filter(filter) => filter.state = state,
        }
    }
}
