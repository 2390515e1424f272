//! Reads the log of a run in pages, in both directions, from any place, without reading the whole log.

use super::place::{Indexes, PagedFiles, Place, Position, SeekFile, Stopped};
use crate::error::Result;
use crate::event::Envelope;
use crate::history::dir::RunDirectory;
use crate::timestamp::Timestamp;
use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};

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

impl RunDirectory {
    /// Returns the time of the last event before this number; `None` if there is none, or the log cannot be read.
    #[cfg(any(feature = "report", feature = "serve", feature = "tui"))]
    pub(crate) fn last_before(&self, seq: u64) -> Option<Timestamp> {
        let query = PageQuery {
            records_max: 1,
            bytes_max: 1,
            selects: &|_| true,
            is_stopped: &|| false,
        };
        let page = LogPages::new(self).before(seq, &query).ok()?;
        page.events.last().map(|envelope| envelope.ts)
    }
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
    #[cfg_attr(
        not(any(feature = "mcp", feature = "serve", feature = "tui")),
        allow(dead_code)
    )]
    pub fn last(&mut self, query: &PageQuery<'_>) -> Result<Page> {
        let files = PagedFiles::list(&self.run)?;
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
    #[cfg_attr(
        not(any(feature = "mcp", feature = "serve", feature = "tui")),
        allow(dead_code)
    )]
    pub fn after(&mut self, seq: u64, query: &PageQuery<'_>) -> Result<Page> {
        self.read_from(Place::After(seq), query)
    }

    /// Returns the last records at or before this time. If the clock was set back, several places have this
    /// time, and the page ends at one of them.
    ///
    /// # Errors
    /// The same as [`LogPages::last`].
    #[cfg_attr(not(feature = "tui"), allow(dead_code))]
    pub fn until(&mut self, ts: Timestamp, query: &PageQuery<'_>) -> Result<Page> {
        self.read_from(Place::Until(ts), query)
    }

    fn read_from(&mut self, place: Place, query: &PageQuery<'_>) -> Result<Page> {
        let files = PagedFiles::list(&self.run)?;
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
        files: &'a PagedFiles,
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
    files: &'a PagedFiles,
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
            let mut until = file.len();
            if number == end.file {
                until = until.min(end.offset);
            }
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
            let from = if number == start.file {
                start.offset
            } else {
                0
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
    fn is_full(&self, records: usize) -> bool {
        records >= self.records_max.max(1)
    }

    /// Returns `true` if a page may contain this number of records and bytes.
    fn has_room(&self, records: usize, bytes: u64) -> bool {
        records <= 1 || (records <= self.records_max && bytes <= self.bytes_max as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs::{self, File};
    use std::io::Write;
    use std::path::{Path, PathBuf};

    use flate2::write::GzEncoder;

    use super::*;
    use crate::event::TdEvent;
    use crate::history::dir::DataDir;
    use crate::history::line::{LineWriter, header};
    use crate::history::read::{LogReader, Query};
    use crate::history::rotate::ClosedFile;

    /// A line of a file.
    #[derive(Clone, Debug)]
    pub(super) enum Line {
        /// A record, with the differences of number and time from the previous one, and its padding in bytes.
        Record(u64, i64, usize),
        /// A record of a type that this version does not know.
        Unknown,
        /// A record without a number.
        Unnumbered,
        Header,
        Broken(String),
    }

    pub(super) struct Writer {
        pub(super) seq: u64,
        ts: i64,
        lines: LineWriter,
    }

    impl Writer {
        fn push(&mut self, line: &Line, out: &mut Vec<u8>) {
            let text = |pad: usize| TdEvent::TokenReceived {
                execution_id: "a".into(),
                iteration: 1,
                token: "x".repeat(pad),
                pane: None,
            };
            let envelope = match line {
                Line::Record(step, later, pad) => {
                    self.seq += step;
                    self.ts += later;
                    Envelope::new(Some(self.seq), self.now(), text(*pad))
                }
                Line::Unknown => {
                    self.seq += 1;
                    let (seq, ts) = (self.seq, self.now());
                    let event = r#"{"type":"Future","execution_id":"a","new":[1,{}]}"#;
                    writeln!(out, r#"{{"seq":{seq},"ts":"{ts}","event":{event}}}"#).unwrap();
                    return;
                }
                Line::Unnumbered => Envelope::new(None, self.now(), text(3)),
                Line::Header => header(&"a".into(), self.now(), ("host", 1), self.seq + 1),
                Line::Broken(text) => {
                    writeln!(out, "{text}").unwrap();
                    return;
                }
            };
            self.lines.push(out, &envelope).unwrap();
        }

        fn now(&self) -> Timestamp {
            Timestamp::from_micros(self.ts)
        }
    }

    pub(super) struct Run {
        directory: RunDirectory,
        path: PathBuf,
        pub(super) writer: Writer,
        _temp: tempfile::TempDir,
    }

    impl Run {
        pub(super) fn new() -> Self {
            let temp = tempfile::tempdir().unwrap();
            let data = DataDir::new(temp.path());
            data.prepare().unwrap();
            let directory = data.run(&"a".into());
            let path = directory.path().to_owned();
            fs::create_dir(&path).unwrap();
            let writer = Writer {
                seq: 0,
                ts: 1_700_000_000_000_000,
                lines: LineWriter::default(),
            };
            Self {
                directory,
                path,
                writer,
                _temp: temp,
            }
        }

        /// Appends lines to the newest file.
        pub(super) fn append(&mut self, lines: &[Line]) {
            let mut bytes = Vec::new();
            for line in lines {
                self.writer.push(line, &mut bytes);
            }
            self.append_bytes(&bytes);
        }

        pub(super) fn append_bytes(&self, bytes: &[u8]) {
            let mut file = File::options();
            let file = file.create(true).append(true);
            let path = self.path.join("events.jsonl");
            file.open(path).unwrap().write_all(bytes).unwrap();
        }

        pub(super) fn close(&self, number: u32) {
            let closed = self.path.join(ClosedFile::plain(number).name());
            fs::rename(self.path.join("events.jsonl"), closed).unwrap();
        }

        pub(super) fn compress(&self, number: u32) {
            let plain = self.path.join(ClosedFile::plain(number).name());
            let bytes = fs::read(&plain).unwrap();
            write_gzip(&self.path.join(ClosedFile::gzip(number).name()), &bytes);
            fs::remove_file(plain).unwrap();
        }

        pub(super) fn all(&self) -> Vec<(Envelope, usize)> {
            let reader = LogReader::open_lines(&self.directory, Query::all()).unwrap();
            let records = reader.map(|record| (record.envelope.clone(), record.line().len() + 1));
            records.collect()
        }

        pub(super) fn pages(&self) -> LogPages {
            LogPages::new(&self.directory)
        }
    }

    fn write_gzip(path: &Path, bytes: &[u8]) {
        let mut file = GzEncoder::new(File::create(path).unwrap(), flate2::Compression::fast());
        file.write_all(bytes).unwrap();
        file.finish().unwrap();
    }

    fn records(count: usize) -> Vec<Line> {
        vec![Line::Record(1, 1000, 100); count]
    }

    pub(super) fn query(records_max: usize) -> PageQuery<'static> {
        PageQuery {
            records_max,
            bytes_max: usize::MAX,
            selects: &|_| true,
            is_stopped: &|| false,
        }
    }

    pub(super) fn seqs(page: &Page) -> Vec<u64> {
        page.events.iter().filter_map(|event| event.seq).collect()
    }

    #[derive(Clone, Copy, Debug)]
    pub(super) enum Ask {
        Last,
        Before(u64),
        After(u64),
        Until(i64),
    }

    pub(super) fn read(pages: &mut LogPages, ask: Ask, query: &PageQuery<'_>) -> Page {
        match ask {
            Ask::Last => pages.last(query),
            Ask::Before(seq) => pages.before(seq, query),
            Ask::After(seq) => pages.after(seq, query),
            Ask::Until(ts) => pages.until(Timestamp::from_micros(ts), query),
        }
        .unwrap()
    }

    /// Reads all pages backwards and forwards.
    #[track_caller]
    fn assert_all_pages(run: &Run, records_max: usize) {
        let all: Vec<u64> = run
            .all()
            .iter()
            .filter_map(|(event, _)| event.seq)
            .collect();
        let mut pages = run.pages();
        let mut page = pages.last(&query(records_max)).unwrap();
        assert!(page.is_last);
        let mut found = seqs(&page);
        while !page.is_first {
            page = pages.before(found[0], &query(records_max)).unwrap();
            found.splice(0..0, seqs(&page));
        }
        assert_eq!(found, all);
        let mut page = pages.after(0, &query(records_max)).unwrap();
        assert!(page.is_first);
        let mut found = seqs(&page);
        while !page.is_last {
            page = pages
                .after(page.last_seq.unwrap(), &query(records_max))
                .unwrap();
            found.extend(seqs(&page));
        }
        assert_eq!(found, all);
    }

    #[test]
    fn large_compressed_files_are_read_in_pages() {
        let mut run = Run::new();
        for number in 1..4 {
            run.append(&[Line::Header]);
            run.append(&records(30_000));
            run.close(number);
            if number < 3 {
                run.compress(number);
            }
        }
        assert_all_pages(&run, 7001);
        // The only selected record is far from both places.
        let query = PageQuery {
            selects: &|event| event.seq == Some(40_000),
            ..query(1)
        };
        let mut pages = run.pages();
        assert_eq!(seqs(&pages.last(&query).unwrap()), [40_000]);
        assert_eq!(seqs(&pages.after(5, &query).unwrap()), [40_000]);
    }

    #[test]
    fn a_damaged_compressed_file_is_read_up_to_the_damage() {
        let mut run = Run::new();
        run.append(&records(30_000));
        run.close(1);
        run.compress(1);
        run.append(&records(10));
        let path = run.path.join(ClosedFile::gzip(1).name());
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let count = run.all().len();
        assert!((1000..29_000).contains(&count), "{count}");
        assert_all_pages(&run, 5000);
    }

    #[test]
    fn files_change_between_two_calls() {
        let mut run = Run::new();
        let mut pages = run.pages();
        let empty = pages.last(&query(3)).unwrap();
        assert!(empty.events.is_empty() && empty.is_first && empty.is_last);
        assert_eq!((empty.first_seq, empty.last_seq), (None, None));
        run.append(&records(100));
        assert_eq!(seqs(&pages.last(&query(3)).unwrap()), [98, 99, 100]);
        // The log grows, also by an incomplete line.
        run.append_bytes(b"{\"seq\":101,\"ts");
        let page = pages.after(99, &query(3)).unwrap();
        assert_eq!((seqs(&page), page.is_last), (vec![100], true));
        run.append_bytes(b"\":0}\n");
        run.append(&records(2));
        let page = pages.after(100, &query(3)).unwrap();
        assert_eq!((seqs(&page), page.is_last), (vec![101, 102], true));
        // The file is closed; the next file does not exist at first.
        run.close(1);
        assert_eq!(seqs(&pages.before(102, &query(2)).unwrap()), [100, 101]);
        run.append(&records(5));
        assert_eq!(seqs(&pages.after(101, &query(3)).unwrap()), [102, 103, 104]);
        run.compress(1);
        assert_eq!(
            seqs(&pages.before(104, &query(3)).unwrap()),
            [101, 102, 103]
        );
        assert_eq!(seqs(&pages.after(100, &query(3)).unwrap()), [101, 102, 103]);
        // Another file replaces the file under its name.
        run.close(2);
        fs::remove_file(run.path.join(ClosedFile::gzip(1).name())).unwrap();
        fs::rename(
            run.path.join(ClosedFile::plain(2).name()),
            run.path.join(ClosedFile::plain(1).name()),
        )
        .unwrap();
        run.compress(1);
        let page = pages.before(105, &query(3)).unwrap();
        assert_eq!((seqs(&page), page.is_first), (vec![103, 104], true));
        // The run is removed.
        fs::remove_dir_all(&run.path).unwrap();
        assert!(pages.last(&query(3)).is_err());
    }

    #[test]
    fn a_file_that_vanishes_during_a_call_is_skipped() {
        let mut run = Run::new();
        for number in 1..3 {
            run.append(&records(10));
            run.close(number);
        }
        run.append(&records(10));
        let path = run.path.clone();
        let is_removed = Cell::new(false);
        let query = PageQuery {
            selects: &|_| {
                if !is_removed.replace(true) {
                    fs::remove_file(path.join(ClosedFile::plain(2).name())).unwrap();
                }
                true
            },
            ..query(15)
        };
        let page = run.pages().last(&query).unwrap();
        assert_eq!(seqs(&page), (6..=10).chain(21..=30).collect::<Vec<u64>>());
    }

    #[test]
    fn a_stopped_reading_is_continued() {
        let mut run = Run::new();
        run.append(&records(40_000));
        run.close(1);
        run.append(&records(1));
        for is_packed in [false, true] {
            if is_packed {
                run.compress(1);
            }
            let left = Cell::new(0_u32);
            let query = PageQuery {
                selects: &|event| event.seq == Some(7),
                is_stopped: &|| left.replace(left.get().saturating_sub(1)) == 0,
                ..query(5)
            };
            let mut pages = run.pages();
            let page = pages.last(&query).unwrap();
            assert!(page.events.is_empty() && page.is_last && !page.is_first);
            // A compressed file is read to its end before any record is found in it.
            let (mut place, mut calls, budget) = (u64::MAX, 0, if is_packed { 100 } else { 30 });
            let page = loop {
                left.set(budget);
                calls += 1;
                let page = pages.before(place, &query).unwrap();
                if page.is_first {
                    break page;
                }
                let first = page.first_seq.unwrap();
                assert!(first < place && calls < 30);
                place = first;
            };
            assert_eq!(seqs(&page), [7]);
            assert!(calls > 1 || is_packed, "{calls}");
        }
    }

    /// Returns the number of bytes that this thread has read.
    fn bytes_read() -> u64 {
        let io = fs::read_to_string("/proc/thread-self/io").unwrap();
        let line = io.lines().find_map(|line| line.strip_prefix("rchar: "));
        line.unwrap().parse().unwrap()
    }

    #[test]
    fn little_is_read_of_a_large_log() {
        let mut run = Run::new();
        let lines = records(250_000);
        run.append(&lines);
        let len = fs::metadata(run.path.join("events.jsonl")).unwrap().len();
        assert!(len > 50_000_000, "{len}");
        let mut pages = run.pages();
        let ts = run.writer.now().micros() - 1000 * 100_000;
        for ask in [
            Ask::Last,
            Ask::Before(100_000),
            Ask::After(200_000),
            Ask::Until(ts),
        ] {
            let before = bytes_read();
            let page = read(&mut pages, ask, &query(200));
            let bytes = bytes_read() - before;
            assert_eq!(page.events.len(), 200);
            assert!(bytes < 1_000_000, "{ask:?}: {bytes} bytes");
        }
    }
}

#[cfg(test)]
mod property_tests {
    use proptest::prelude::*;

    use super::tests::{Ask, Line, Run, query, read, seqs};
    use super::*;

    /// Returns the page by definition, taken from all records of the log.
    fn expected(
        all: &[(Envelope, usize)],
        ask: Ask,
        query: &PageQuery<'_>,
    ) -> (Vec<Envelope>, bool, bool) {
        let split = match ask {
            Ask::Last => None,
            Ask::Before(seq) => all.iter().position(|(event, _)| event.seq >= Some(seq)),
            Ask::Until(ts) => all.iter().position(|(event, _)| event.ts.micros() > ts),
            Ask::After(seq) => Some(
                all.iter()
                    .rposition(|(event, _)| event.seq.is_some_and(|found| found <= seq))
                    .map_or(0, |at| at + 1),
            ),
        };
        let (behind, ahead) = all.split_at(split.unwrap_or(all.len()));
        let selected = |part: &[(Envelope, usize)]| -> Vec<(Envelope, usize)> {
            let found = part.iter().filter(|(event, _)| (query.selects)(event));
            found.cloned().collect()
        };
        let (mut behind, mut ahead) = (selected(behind), selected(ahead));
        let is_forwards = matches!(ask, Ask::After(_));
        if !is_forwards {
            behind.reverse();
        }
        let from = if is_forwards { &mut ahead } else { &mut behind };
        let (mut count, mut bytes) = (0, 0);
        for (_, len) in from.iter() {
            bytes += len;
            if count > 0 && (count == query.records_max || bytes > query.bytes_max) {
                break;
            }
            count += 1;
        }
        let is_more = count < from.len();
        let mut page: Vec<Envelope> = from.drain(..count).map(|(event, _)| event).collect();
        if !is_forwards {
            page.reverse();
        }
        if is_forwards {
            (page, behind.is_empty(), !is_more)
        } else {
            (page, !is_more, ahead.is_empty())
        }
    }

    fn line() -> impl Strategy<Value = Line> {
        let pad = prop_oneof![
            20 => 0..300_usize,
            4 => 3_000..20_000_usize,
            1 => Just(70_000_usize),
            1 => Just(300_000_usize),
        ];
        prop_oneof![
            20 => (1..4_u64, 0..3_i64, pad).prop_map(|(seq, ts, pad)| Line::Record(seq, ts, pad)),
            1 => Just(Line::Unknown),
            1 => Just(Line::Unnumbered),
            1 => Just(Line::Header),
            1 => "[a-z{\" ]{0,40}".prop_map(Line::Broken),
            1 => Just(Line::Broken("y".repeat(100_000))),
        ]
    }

    fn ask() -> impl Strategy<Value = Ask> {
        prop_oneof![
            Just(Ask::Last),
            (0..300_u64).prop_map(Ask::Before),
            (0..300_u64).prop_map(Ask::After),
            (-2..150_i64).prop_map(|later| Ask::Until(1_700_000_000_000_000 + later)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_page_is_that_of_a_full_read(
            files in proptest::collection::vec((proptest::collection::vec(line(), 0..40), any::<bool>()), 0..5),
            torn in prop_oneof![Just(""), Just("{\"seq\":9999,\"ts\":\"20"), Just("\n\n ")],
            is_whole: bool,
            asks in proptest::collection::vec(
                (ask(), 1..60_usize, prop_oneof![Just(usize::MAX), 1..100_000_usize], 1..6_u64), 1..30),
        ) {
            let mut run = Run::new();
            for (number, (lines, is_packed)) in (1..).zip(&files) {
                run.append(lines);
                if (number as usize) < files.len() || is_whole {
                    run.close(number);
                    if *is_packed {
                        run.compress(number);
                    }
                }
            }
            if !is_whole {
                run.append_bytes(torn.as_bytes());
            }
            let all = run.all();
            let mut pages = run.pages();
            for (ask, records_max, bytes_max, every) in asks {
                let query = PageQuery {
                    bytes_max,
                    selects: &|event| event.seq.is_none_or(|seq| seq % every == 0),
                    ..query(records_max)
                };
                let page = read(&mut pages, ask, &query);
                let (events, is_first, is_last) = expected(&all, ask, &query);
                prop_assert_eq!(&page.events, &events, "{:?}", ask);
                // True means that there are no further records. In the reading direction, this is known if the
                // page has room; on the other side, at the end of the log.
                prop_assert!(is_first || !page.is_first, "{ask:?}");
                prop_assert!(is_last || !page.is_last, "{ask:?}");
                let is_full = events.len() == records_max;
                match ask {
                    Ask::After(_) => prop_assert!(page.is_last == is_last || is_full, "{ask:?}"),
                    _ => prop_assert!(page.is_first == is_first || is_full, "{ask:?}"),
                }
                if matches!(ask, Ask::Last | Ask::Before(1000..)) {
                    prop_assert!(page.is_last);
                }
            }
        }

        /// The log contains numbers twice and in any order.
        #[test]
        fn turning_pages_ends(numbers in proptest::collection::vec(1..12_u64, 0..60), records_max in 1..8_usize) {
            let mut run = Run::new();
            for (at, seq) in numbers.iter().enumerate() {
                run.writer.seq = *seq;
                run.append(&[Line::Record(0, 1, 5000)]);
                if at == 20 {
                    run.close(1);
                }
            }
            let order = |page: &Page| page.events.windows(2).all(|two| two[0].ts < two[1].ts);
            let mut pages = run.pages();
            let mut page = pages.last(&query(records_max)).unwrap();
            prop_assert!(order(&page));
            for turn in 0.. {
                let Some(first) = page.events.first() else { break };
                prop_assert!(turn < 13);
                let seq = first.seq.unwrap();
                page = pages.before(seq, &query(records_max)).unwrap();
                prop_assert!(order(&page) && seqs(&page).iter().all(|&found| found < seq));
            }
            let mut seq = 0;
            for turn in 0.. {
                page = pages.after(seq, &query(records_max)).unwrap();
                prop_assert!(order(&page) && seqs(&page).iter().all(|&found| found > seq));
                let Some(last) = page.events.last() else { break };
                prop_assert!(turn < 13);
                seq = last.seq.unwrap();
            }
        }
    }
}
