//! Pages of logs that grow, are closed, compressed, damaged, removed or large.

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
