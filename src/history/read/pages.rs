//! Reads the log of a run in pages, in both directions, from any place, without reading the whole log.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};

use super::place::{LogFiles, Place, Position};
use super::seek::{Indexes, SeekFile, Stopped};
use crate::error::Result;
use crate::event::Envelope;
use crate::history::dir::RunDirectory;
use crate::timestamp::Timestamp;

/// Reads the log of a run in pages, in both directions, from any place.
///
/// Each call reads the files that currently exist, so a log may grow, and files may be closed, compressed or
/// removed between two calls. No file stays open between calls. Pages omit headers of files and lines that
/// are not events. A file that cannot be read is skipped with a warning.
///
/// Places are numbers, which grow along a log. If a damaged log contains some numbers twice, a place may be
/// found at either of them, and events between the two may be in no page. Pages are still in the order of the
/// log, and a caller that turns pages by the first or last event's number always terminates:
/// [`LogPages::before`] returns only lower numbers, [`LogPages::after`] only higher ones. Pages include
/// events without a number, from logs written before events had numbers, but no page can begin at them.
#[derive(Debug)]
pub(crate) struct LogPages {
    run: RunDirectory,
    indexes: Indexes,
}

/// Selects the records of a page, and bounds it.
pub(crate) struct PageQuery<'a> {
    /// The maximum number of records in the page; at least one.
    pub records_max: usize,
    /// The maximum size of their lines in bytes, which bounds memory; at least one record is returned.
    pub bytes_max: usize,
    /// Accepts a record.
    pub selects: &'a dyn Fn(&Envelope) -> bool,
    /// Returns true to stop early. The page then contains the records found so far, possibly none. Called
    /// once for each 256 KiB of lines.
    pub is_stopped: &'a dyn Fn() -> bool,
}

/// Consecutive selected records of a log.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// The events in the order of the log.
    pub events: Vec<Envelope>,
    /// True if no selected record precedes the page. `false` if one does, or if reading did not get that far:
    /// the page is full, or it begins on that side.
    pub is_first: bool,
    /// True if no selected record follows the page; `false` as above.
    pub is_last: bool,
    /// The number of the first record that was read, in the order of the log, selected or not; `None` if none
    /// was read. A stopped backward search continues before it.
    pub first_seq: Option<u64>,
    /// The number of the last record that was read, in the order of the log, selected or not; `None` if none
    /// was read. Later records of the log follow it.
    pub last_seq: Option<u64>,
}

impl LogPages {
    /// Creates a reader for a run. Reads nothing yet.
    pub fn new(run: &RunDirectory) -> Self {
        Self {
            run: run.clone(),
            indexes: Indexes::default(),
        }
    }

    /// Returns the last records.
    ///
    /// # Errors
    /// If there is no such run, or its directory cannot be read.
    pub fn last(&mut self, query: &PageQuery<'_>) -> Result<Page> {
        let files = LogFiles::list(&self.run)?;
        let end = files.end();
        Ok(self.reading(&files, query, None).backwards(end))
    }

    /// Returns the records right before this number, which the log need not contain.
    ///
    /// # Errors
    /// The same as [`LogPages::last`].
    pub fn before(&mut self, seq: u64, query: &PageQuery<'_>) -> Result<Page> {
        self.read_from(Place::Before(seq), query)
    }

    /// Returns the records right after this number, which the log need not contain.
    ///
    /// # Errors
    /// The same as [`LogPages::last`].
    pub fn after(&mut self, seq: u64, query: &PageQuery<'_>) -> Result<Page> {
        self.read_from(Place::After(seq), query)
    }

    /// Returns the last records at or before this time. If the clock was set back, several places have this
    /// time, and the page ends at one of them.
    ///
    /// # Errors
    /// The same as [`LogPages::last`].
    pub fn until(&mut self, ts: Timestamp, query: &PageQuery<'_>) -> Result<Page> {
        self.read_from(Place::Until(ts), query)
    }

    fn read_from(&mut self, place: Place, query: &PageQuery<'_>) -> Result<Page> {
        let files = LogFiles::list(&self.run)?;
        let Ok(position) = files.find(place, &mut self.indexes, query.is_stopped) else {
            return Ok(Page::default());
        };
        let reading = self.reading(&files, query, Some(place));
        Ok(match place {
            Place::After(_) => reading.forwards(position),
            Place::Before(_) | Place::Until(_) => reading.backwards(position),
        })
    }

    fn reading<'a>(
        &'a mut self,
        files: &'a LogFiles,
        query: &'a PageQuery<'a>,
        place: Option<Place>,
    ) -> Reading<'a> {
        Reading {
            files,
            indexes: &mut self.indexes,
            query,
            place,
            page: Page::default(),
            bytes: 0,
        }
    }
}

/// A page that is being read.
struct Reading<'a> {
    files: &'a LogFiles,
    indexes: &'a mut Indexes,
    query: &'a PageQuery<'a>,
    place: Option<Place>,
    page: Page,
    /// The bytes of the page's lines.
    bytes: u64,
}

/// A record and the length of its line in bytes.
type Measured = (Envelope, u64);

impl Reading<'_> {
    /// Fills the page with the records before a position, from the end of a file to its start in windows,
    /// then with those of the previous file.
    fn backwards(mut self, end: Position) -> Page {
        self.page.is_last = end == self.files.end();
        // Later windows come first.
        let mut windows: Vec<VecDeque<Measured>> = Vec::new();
        let outcome = self.each_file_backwards(end, &mut windows);
        self.page.is_first = outcome == Ok(Edge::Log);
        let events = windows.into_iter().rev().flatten();
        self.page.events = events.map(|(envelope, _)| envelope).collect();
        if outcome == Ok(Edge::Page) {
            // Records without room on the page do not count as read.
            let first = self.page.events.iter().find_map(|envelope| envelope.seq);
            self.page.first_seq = first.or(self.page.first_seq);
        }
        self.page
    }

    fn each_file_backwards(
        &mut self,
        end: Position,
        windows: &mut Vec<VecDeque<Measured>>,
    ) -> Result<Edge, Stopped> {
        let mut count = 0;
        for number in (0..=end.file).rev() {
            let file = (self.files).open_indexed(number, self.indexes, self.query.is_stopped)?;
            let Some(file) = file else {
                continue;
            };
            let mut until = match number == end.file {
                true => end.offset.min(file.len()),
                false => file.len(),
            };
            let (mut window, window_max) = file.windows();
            while until > 0 {
                let from = until.saturating_sub(window);
                window = window_max.min(window * 2);
                let (found, is_full) = self.window_backwards(&file, from..until, count)?;
                count += found.len();
                windows.push(found);
                until = from;
                let is_start = number == 0 && from == 0;
                if is_full || (self.query.is_full(count) && !is_start) {
                    return Ok(Edge::Page);
                }
            }
        }
        Ok(Edge::Log)
    }

    /// Returns the last records of a window that fit on the page, and `true` if the window has more.
    fn window_backwards(
        &mut self,
        file: &SeekFile,
        range: Range<u64>,
        count: usize,
    ) -> Result<(VecDeque<Measured>, bool), Stopped> {
        let (query, place) = (self.query, self.place);
        let (mut found, mut is_full) = (VecDeque::<Measured>::new(), false);
        let (mut first, mut last, mut bytes) = (None, None, self.bytes);
        file.each_record(range, query.is_stopped, &mut |envelope, at| {
            first = first.or(envelope.seq);
            last = envelope.seq.or(last);
            if place.is_none_or(|place| place.admits(&envelope, true)) && (query.selects)(&envelope)
            {
                bytes += at.end - at.start;
                found.push_back((envelope, at.end - at.start));
                while !query.has_room(count + found.len(), bytes)
                    && let Some((_, len)) = found.pop_front()
                {
                    bytes -= len;
                    is_full = true;
                }
            }
            ControlFlow::Continue(())
        })?;
        self.bytes = bytes;
        self.page.first_seq = first.or(self.page.first_seq);
        self.page.last_seq = self.page.last_seq.or(last);
        Ok((found, is_full))
    }

    /// Fills the page with the records after a position.
    fn forwards(mut self, start: Position) -> Page {
        self.page.is_first = start == Position::default();
        let outcome = self.each_file_forwards(start);
        self.page.is_last = outcome == Ok(Edge::Log);
        self.page
    }

    fn each_file_forwards(&mut self, start: Position) -> Result<Edge, Stopped> {
        let (query, place) = (self.query, self.place);
        let is_full = Cell::new(false);
        let is_stopped = || is_full.get() || (query.is_stopped)();
        for number in start.file..self.files.count() {
            let Some(file) = self.files.open(number) else {
                continue;
            };
            let from = match number == start.file {
                true => start.offset,
                false => 0,
            };
            let (page, mut edge) = (&mut self.page, Edge::Log);
            file.each_record(from..u64::MAX, &is_stopped, &mut |envelope, at| {
                let seq = envelope.seq;
                if place.is_none_or(|place| place.admits(&envelope, false))
                    && (query.selects)(&envelope)
                {
                    let bytes = self.bytes + (at.end - at.start);
                    if !query.has_room(page.events.len() + 1, bytes) {
                        edge = Edge::Page;
                        return ControlFlow::Break(());
                    }
                    self.bytes = bytes;
                    page.events.push(envelope);
                    // The block is in memory. The next block is not read for a record without room.
                    is_full.set(query.is_full(page.events.len()));
                }
                page.first_seq = page.first_seq.or(seq);
                page.last_seq = seq.or(page.last_seq);
                ControlFlow::Continue(())
            })?;
            if edge == Edge::Page {
                return Ok(edge);
            }
        }
        Ok(Edge::Log)
    }
}

/// The reason why reading stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    /// The page is full.
    Page,
    /// The beginning or the end of the log was reached.
    Log,
}

impl PageQuery<'_> {
    /// Returns `true` if a page with this number of records is full.
    fn is_full(&self, records: usize) -> bool {
        records >= self.records_max.max(1)
    }

    /// Returns `true` if a page may contain this number of records and bytes.
    fn has_room(&self, records: usize, bytes: u64) -> bool {
        records <= 1 || (records <= self.records_max && bytes <= self.bytes_max as u64)
    }
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "pages_property_tests.rs"]
mod property_tests;
