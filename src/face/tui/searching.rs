//! The finds of a search and of a filter, in the history of the selected row and since (pure).

use super::content::Content;
use super::line::{Pattern, Position, ViewLine};
use super::lines::Lines;
use super::view::ViewKind;
use super::window::is_of_row;
use crate::board::{Row, RowKey};
use crate::event::Envelope;
use crate::face::local_time::LocalTime;

/// The most places of a search. Beyond it the first are forgotten, and the count says so.
const HITS_MAX: usize = 100_000;

/// The lines that a filter holds.
pub(super) const LINES_MAX: usize = 2_000;

/// The progress of reading the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanState {
    /// The number of events that have been read so far.
    Reading(u64),
    Done,
    /// It could not be read.
    Failed,
}

/// A search in the lines of a view.
#[derive(Debug)]
pub(super) struct Search {
    /// Tells its scan from others.
    pub id: u64,
    pub pattern: Pattern,
    /// The row in which the search began.
    pub row: Option<RowKey>,
    /// The places of matching lines, in order.
    pub hits: Vec<Position>,
    /// The number of matching lines.
    pub count: u64,
    pub state: ScanState,
    /// The first match is to be shown when it is known.
    pub is_wanted: bool,
}

impl Search {
    pub fn new(id: u64, pattern: Pattern, row: Option<RowKey>) -> Self {
        Self {
            id,
            pattern,
            row,
            hits: Vec::new(),
            count: 0,
            state: ScanState::Reading(0),
            is_wanted: true,
        }
    }

    /// Takes a line that follows all others.
    pub fn take(&mut self, line: &ViewLine) {
        let is_known = self.hits.last().is_some_and(|last| *last >= line.at);
        if !is_known && self.pattern.matches(&line.text.text) {
            self.count += 1;
            if self.hits.len() >= HITS_MAX {
                self.hits.drain(..HITS_MAX / 2);
            }
            self.hits.push(line.at);
        }
    }

    /// Returns the index of the hit at or before a place, if there is one.
    pub fn index_of(&self, at: Position) -> Option<usize> {
        self.hits.partition_point(|hit| *hit <= at).checked_sub(1)
    }

    /// Returns the hit after a place, or before it; from the other end where there is none.
    pub fn next(&self, at: Position, is_forward: bool) -> Option<Position> {
        let found = match is_forward {
            true => self.hits.get(self.hits.partition_point(|hit| *hit <= at)),
            false => {
                let before = self.hits.partition_point(|hit| *hit < at);
                before.checked_sub(1).and_then(|index| self.hits.get(index))
            }
        };
        let wrapped = match is_forward {
            true => self.hits.first(),
            false => self.hits.last(),
        };
        found.or(wrapped).copied()
    }

    /// Returns `3 of 17`: the place of the reader among the matches.
    pub fn progress(&self, at: Position) -> String {
        let forgotten = self.count - self.hits.len() as u64;
        let index = self
            .index_of(at)
            .map_or(0, |index| index as u64 + 1 + forgotten);
        let is_reading = matches!(self.state, ScanState::Reading(_));
        let more = if is_reading { "…" } else { "" };
        format!("{index} of {}{more}", self.count)
    }
}

/// The lines that a filter leaves.
#[derive(Debug)]
pub(super) struct Filtered {
    /// Tells its scan from others.
    pub id: u64,
    pub pattern: Pattern,
    pub lines: Lines,
    /// The number of matching lines, with those that are held no more.
    pub count: u64,
    pub state: ScanState,
    /// The number of the last event that was filtered.
    pub last_seq: u64,
    content: Content,
}

impl Filtered {
    pub fn new(id: u64, pattern: Pattern, view: ViewKind, local: LocalTime) -> Self {
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

    /// Takes the next event of the row; returns the number of lines that are new.
    pub fn take(&mut self, envelope: &Envelope, bound: usize) -> u64 {
        if let Some(seq) = envelope.seq {
            self.last_seq = self.last_seq.max(seq);
        }
        let (lines, pattern) = (&mut self.lines, &self.pattern);
        let before = self.count;
        let count = &mut self.count;
        self.content.push(envelope, &mut |change| match change {
            super::content::Change::Line(line) => {
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

/// The finds of a scan through the history.
#[derive(Debug)]
pub(super) enum Finds {
    Search(Search),
    Filter(Box<Filtered>),
}

/// Goes through the events of a row's run for a search or a filter.
#[derive(Debug)]
pub(super) struct Scan {
    pub row: Row,
    pub collected: Finds,
    content: Content,
    /// Lines that a filter leaves out are not searched.
    within: Option<Pattern>,
    pub last_seq: u64,
    pub read: u64,
}

impl Scan {
    pub fn new(
        row: Row,
        collected: Finds,
        within: Option<Pattern>,
        (view, local): (ViewKind, LocalTime),
    ) -> Self {
        Self {
            row,
            collected,
            content: Content::new(view, local),
            within,
            last_seq: 0,
            read: 0,
        }
    }

    pub fn id(&self) -> u64 {
        match &self.collected {
            Finds::Search(search) => search.id,
            Finds::Filter(filter) => filter.id,
        }
    }

    /// Takes the next event of the run.
    pub fn take(&mut self, envelope: &Envelope) {
        self.read += 1;
        self.last_seq = self.last_seq.max(envelope.seq.unwrap_or(0));
        if !is_of_row(&self.row, &envelope.event) {
            return;
        }
        match &mut self.collected {
            Finds::Filter(filter) => {
                filter.take(envelope, LINES_MAX);
            }
            Finds::Search(search) => {
                let within = &self.within;
                self.content.push(envelope, &mut |change| {
                    if let super::content::Change::Line(line) = change
                        && within.as_ref().is_none_or(|of| of.matches(&line.text.text))
                    {
                        search.take(&line);
                    }
                });
            }
        }
    }

    /// Ends, with all or with a part of the history read.
    pub fn end(&mut self, state: ScanState) {
        match &mut self.collected {
            Finds::Search(search) => search.state = state,
            Finds::Filter(filter) => filter.state = state,
        }
    }
}
