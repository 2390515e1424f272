//! A search with filters finds and reports what a search without them does, whatever the log and the filter contain.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;
use crate::event::{Envelope, ExecutionId, TdEvent};
use crate::history::background::compress;
use crate::history::dir_handle::{DirHandle, EVENTS};
use crate::history::line::{LineWriter, header};
use crate::history::read::{LogReader, Query};
use crate::history::rotate::{ClosedFile, filter_name};
use crate::history::{DataDir, RunDirectory};
use crate::timestamp::Timestamp;

/// Small blocks, so that small logs have many.
const BLOCK: u64 = 512;

fn at(seq: u64) -> Timestamp {
    Timestamp::from_micros(1_768_989_600_000_000 + seq.cast_signed() * 1_000_000)
}

/// Returns the line of an event; a text tells its type.
fn line(seq: u64, text: &str) -> Vec<u8> {
    let execution_id = ExecutionId::from("a");
    let event = match text.len() % 5 {
        0 => TdEvent::Warning {
            execution_id,
            context: "c".into(),
            message: text.into(),
        },
        _ => TdEvent::TokenReceived {
            execution_id,
            iteration: 1,
            token: text.into(),
            pane: None,
        },
    };
    let mut out = Vec::new();
    let envelope = Envelope::new(Some(seq), at(seq), event);
    LineWriter::default().push(&mut out, &envelope).unwrap();
    out
}

/// Returns a log with a line for each text, and a header.
fn log_of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    let mut out = Vec::new();
    let head = header(&"a".into(), at(0), ("h", 1), 1);
    LineWriter::default().push(&mut out, &head).unwrap();
    for (seq, text) in (1..).zip(texts) {
        out.extend(line(seq, text));
    }
    out
}

/// Returns a log that is long enough for a filter, with a word in one line.
fn log_with(word: &str) -> Vec<u8> {
    let texts: Vec<String> = (0..400)
        .map(|number| match number {
            222 => format!("here is a {word}\n"),
            _ => format!("line {number} of the log\n"),
        })
        .collect();
    log_of(texts.iter().map(String::as_str))
}

struct Log {
    _temp: tempfile::TempDir,
    run: RunDirectory,
    dir: DirHandle,
    name: String,
}

impl Log {
    /// Writes a log with its filter, as `events.jsonl` or as a compressed file.
    fn new(bytes: &[u8], is_packed: bool) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let run = DataDir::new(temp.path()).run(&"a".into());
        let dir = run.create().unwrap();
        let mut log = Self {
            _temp: temp,
            run,
            dir,
            name: EVENTS.to_owned(),
        };
        if is_packed {
            log.name = ClosedFile::gzip(1).name();
            fs::write(log.path(&ClosedFile::plain(1).name()), bytes).unwrap();
            compress(&log.dir, 1, BLOCK, &AtomicBool::new(false)).unwrap();
        } else {
            fs::write(log.path(EVENTS), bytes).unwrap();
            log.write_filter();
        }
        log
    }

    fn path(&self, name: &str) -> PathBuf {
        self.run.path().join(name)
    }

    fn filter(&self) -> PathBuf {
        self.path(&filter_name(&self.name).unwrap())
    }

    fn write_filter(&self) {
        write_filter(&self.dir, &self.name, BLOCK, &AtomicBool::new(false)).unwrap();
    }

    /// Returns the number of blocks, and of those that are read for a query; `None` without a valid filter.
    fn read_of(&self, query: &Query) -> Option<(usize, usize)> {
        let log = fs::File::open(self.path(&self.name)).unwrap();
        let filter = FilterFile::of(fs::File::open(self.filter()).ok()?, &log).unwrap()?;
        let (mut all, mut read) = (0, 0);
        for group in 0.. {
            let Some(blocks) = filter.plan(group, &query.block_choice().unwrap()).unwrap() else {
                break;
            };
            all += blocks.len();
            read += blocks
                .iter()
                .filter(|block| block.outline.is_none())
                .count();
        }
        Some((all, read))
    }

    /// Returns what a search finds and reports.
    fn search(&self, query: &Query, in_this_thread: bool) -> Vec<String> {
        let mut log = LogReader::open_lines(&self.run, query.clone()).unwrap();
        if in_this_thread {
            log = log.in_this_thread();
        }
        let mut found: Vec<String> = (&mut log)
            .map(|record| {
                format!(
                    "{} {}",
                    record.is_wanted,
                    String::from_utf8_lossy(record.line())
                )
            })
            .collect();
        let report = log.report();
        let (invalid, first) = (report.invalid, &report.first_invalid);
        found.push(format!(
            "{invalid} {first:?} {} {:?}",
            report.torn, report.problems
        ));
        // The time of what is missing is told by the times of blocks, which are smaller with these filters.
        if query.until.is_none() {
            found.push(format!(
                "{} {:?}",
                report.missing(),
                report.missing_places()
            ));
        }
        found
    }

    /// Returns the time of the last line, which a search reports of blocks that end with a line of this crate.
    fn last(&self, query: &Query) -> Option<Timestamp> {
        let mut log = LogReader::open(&self.run, query.clone()).unwrap();
        log.by_ref().for_each(drop);
        log.report().last
    }

    fn found(&self, query: &Query) -> usize {
        LogReader::open(&self.run, query.clone()).unwrap().count()
    }

    /// Searches with the filter and without.
    fn compare(&self, query: &Query) -> (Vec<Vec<String>>, Vec<String>) {
        let with = [false, true].map(|here| self.search(query, here));
        let kept = fs::read(self.filter()).ok();
        let _ = fs::remove_file(self.filter());
        let without = self.search(query, false);
        if let Some(kept) = kept {
            fs::write(self.filter(), kept).unwrap();
        }
        (with.into(), without)
    }

    #[track_caller]
    fn assert_same(&self, query: &Query) {
        let (with, without) = self.compare(query);
        for with in with {
            assert_eq!(with, without);
        }
    }
}

fn text(pattern: &str) -> Query {
    Query::all().text(pattern).unwrap()
}

/// Lines of other writers, and damaged ones.
const STRANGE: &[&str] = &[
    r#"{"seq":7,"ts":"2026-01-21T10:00:01.000000Z","event":{"type":"Warning","execution_id":"a","context":"c","message":"caf\u00e9 \u006eeedle"}}"#,
    r#"{"seq": 7, "ts": "2026-01-21T10:00:06+00:00", "event": {"execution_id": "b", "type": "Warning", "context": "c", "message": "one\/two"}}"#,
    r#"{"seq":9,"ts":"2026-01-21T10:00:01.000000Z","event":{"type":"OutputGap","execution_id":"a","pane":"%1","first_line":3,"reason":"cleared"}}"#,
    r#"{"seq":3,"ts":"2026-01-21T10:00:01.000000Z","event":{"type":"Warning","execution_id":"a","message":"needle \u001b"}}"#,
    r#"{"ts":"2026-01-21T10:00:05Z","event":{"type":"LoopStarted","execution_id":"abc","loop_type":"Phase","task":"needle"}}"#,
    r#"{"seq":0,"ts":"2026-01-21T10:00:01Z","event":{"type":"LogOpened","execution_id":"a","schema":1,"version":"0","host":"h","pid":1,"first_seq":40}}"#,
    r#"{"seq":12,"ts":"2026-01-21T10:00:01.000000Z","n":3,"event":{"type":"TokenReceived","execution_id":"a","iteration":1,"token":"needle"},"more":"words"}"#,
    "broken needle",
    "{\"seq\":5,\"ts\":\"2026-01-21T10:00:01.000000Z\",\"event\":{\"type\":\"X\",\"execution_id\":\"a\"",
    "",
    "  ",
    "\0\0\0",
];

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => select(vec![
            "needle ", "error: ", "src/main.rs ", "Kelvin ", "mask ", "Été ", "漢字 ", "\"quoted\" ", "back\\slash ", "\x1b[31m", "tab\t", "\n", "\u{212a}elvin ", "maſk ", "warning ", "a", "é",
        ])
        .prop_map(str::to_owned),
        1 => "[a-zA-Z0-9 /]{0,12}",
    ]
}

fn patterns() -> impl Strategy<Value = String> {
    prop_oneof![
        words().prop_map(|word| regex::escape(word.trim_end_matches(' '))),
        words().prop_map(|word| format!("(?i){}", regex::escape(&word))),
        (words(), words()).prop_map(|(one, other)| format!(
            "{}.*{}",
            regex::escape(&one),
            regex::escape(&other)
        )),
        (words(), words()).prop_map(|(one, other)| format!(
            "{}|(?i:{})",
            regex::escape(&one),
            regex::escape(&other)
        )),
        select(vec![
            "^needle",
            "rs $",
            r"\bmask\b",
            "colou?r",
            "[nN]eed[lx]e",
            "(error: )+",
            r"\x1b\[\d+m",
            "e{2}dle",
            ".",
            "",
            "[^a-z]rror",
            r"\w+ \w+"
        ])
        .prop_map(str::to_owned),
    ]
}

fn queries() -> impl Strategy<Value = Query> {
    let times = (prop::option::of(0..300_u64), prop::option::of(0..300_u64));
    let kinds = prop::collection::vec(
        select(vec![
            "Warning",
            "OutputGap",
            "TokenReceived",
            "Nothing",
            "a b",
        ]),
        0..3,
    );
    let contexts = prop::collection::vec(
        select(vec!["OutputGap", "Warning", "Nothing", "a\"b"]),
        0..2,
    );
    (
        prop::option::of(patterns()),
        times,
        kinds,
        contexts,
        prop::option::weighted(0.2, select(vec!["a", "b", "abc", "x"])),
    )
        .prop_map(|(pattern, (since, until), kinds, contexts, execution)| {
            let mut query = match pattern.map(|pattern| Query::all().text(&pattern)) {
                Some(Ok(query)) => query,
                _ => Query::all().kind("Warning"),
            };
            query = kinds.into_iter().fold(query, Query::kind);
            query = contexts.into_iter().fold(query, Query::context);
            query = execution.into_iter().fold(query, Query::execution);
            query = since
                .into_iter()
                .fold(query, |query, seq| query.since(at(seq)));
            until
                .into_iter()
                .fold(query, |query, seq| query.until(at(seq)))
        })
}

/// Returns logs of many texts, between which are some strange lines; cut anywhere.
fn logs() -> impl Strategy<Value = Vec<u8>> {
    let texts = prop::collection::vec(prop::collection::vec(words(), 0..5), 120..260);
    let strange = prop::collection::vec((any::<Index>(), select(STRANGE.to_vec())), 0..4);
    let long = prop::option::weighted(0.2, (any::<Index>(), 500..5_000_usize));
    (
        texts,
        strange,
        long,
        prop::option::weighted(0.2, any::<Index>()),
    )
        .prop_map(|(texts, strange, long, cut)| {
            let texts: Vec<String> = texts.into_iter().map(|words| words.concat()).collect();
            let log = log_of(texts.iter().map(String::as_str));
            let mut lines: Vec<Vec<u8>> = log
                .split_inclusive(|byte| *byte == b'\n')
                .map(<[u8]>::to_vec)
                .collect();
            if let Some((at, len)) = long {
                let at = at.index(lines.len());
                lines[at] = line(at as u64, &"long words ".repeat(len / 11));
            }
            for (at, strange) in strange {
                let line = format!("{strange}\n").into_bytes();
                lines.insert(at.index(lines.len() + 1), line);
            }
            let mut log = lines.concat();
            if let Some(cut) = cut {
                log.truncate(log.len() - cut.index(log.len().min(300)));
            }
            log
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_search_with_a_filter_is_one_without(log in logs(), queries in prop::collection::vec(queries(), 1..6), is_packed: bool) {
        let log = Log::new(&log, is_packed);
        for query in queries {
            let (with, without) = log.compare(&query);
            for with in with {
                prop_assert_eq!(&with, &without, "{:?}", query);
            }
        }
    }

    /// A filter is never believed that is damaged, or of another file.
    #[test]
    fn damage_to_a_filter_is_harmless(at in any::<Index>(), byte: u8, cut in prop::option::of(any::<Index>()), is_packed: bool) {
        let log = Log::new(&log_with("needle"), is_packed);
        let mut filter = fs::read(log.filter()).unwrap();
        let at = at.index(filter.len());
        filter[at] = byte;
        if let Some(cut) = cut {
            filter.truncate(cut.index(filter.len()));
        }
        fs::write(log.filter(), filter).unwrap();
        for query in [text("needle"), text("nowhere"), Query::all().kind("Warning")] {
            let (with, without) = log.compare(&query);
            for with in with {
                prop_assert_eq!(&with, &without);
            }
        }
    }
}

#[test]
fn blocks_that_cannot_match_are_skipped() {
    for is_packed in [false, true] {
        let log = Log::new(&log_with("needle"), is_packed);
        let about = fs::metadata(log.filter()).unwrap();
        assert_eq!(about.permissions().mode() & 0o777, 0o600);
        for (query, most) in [
            (text("needle"), 2),
            (text("(?i)NEEDLE"), 2),
            (text("nee.*dle|nowhere"), 2),
            (text("nowhere"), 0),
            (Query::all().kind("OutputGap"), 0),
            (Query::all().execution("other"), 0),
            (text("line").since(at(399)), 2),
            (text("line").until(at(2)), 2),
            (text("needle").context("Nothing"), 2),
        ] {
            let (all, read) = log.read_of(&query).unwrap();
            assert!(all > 60 && read <= most, "{read} of {all}: {query:?}");
            log.assert_same(&query);
            assert_eq!(log.last(&query), Some(at(400)));
        }
        assert_eq!(log.found(&text("needle")), 1);
    }
}

#[test]
fn a_filter_of_another_state_of_the_log_is_not_used() {
    let needle = text("needle");
    // The log grows.
    let log = Log::new(&log_with("stone"), false);
    assert!(log.read_of(&needle).is_some());
    let mut file = fs::File::options()
        .append(true)
        .open(log.path(EVENTS))
        .unwrap();
    file.write_all(&line(401, "needle")).unwrap();
    assert_eq!(log.read_of(&needle), None);
    assert_eq!(log.found(&needle), 1);
    log.assert_same(&needle);
    // It is written again.
    log.write_filter();
    assert_eq!(log.read_of(&needle).unwrap().1, 1);
    // Another program changes a byte and sets back the time.
    let written = file.metadata().unwrap().modified().unwrap();
    let mut bytes = log_with("stone");
    bytes.extend(line(401, "noodle"));
    fs::write(log.path(EVENTS), &bytes).unwrap();
    file.set_modified(written).unwrap();
    assert_eq!(log.read_of(&text("noodle")), None);
    assert_eq!(log.found(&text("noodle")), 1);
    // A file of the same name and length.
    let log = Log::new(&log_with("stone"), true);
    let other = Log::new(&log_with("spoon"), true);
    fs::copy(other.filter(), log.filter()).unwrap();
    assert_eq!(log.read_of(&text("stone")), None);
    assert_eq!(log.found(&text("stone")), 1);
    log.write_filter();
    assert_eq!(log.read_of(&text("stone")).unwrap().1, 1);
    assert_eq!(log.found(&text("stone")), 1);
}

#[test]
fn a_compressed_file_gets_the_same_filter_again() {
    let log = Log::new(&log_with("needle"), true);
    let before = fs::read(log.filter()).unwrap();
    fs::remove_file(log.filter()).unwrap();
    assert_eq!(log.read_of(&text("needle")), None);
    log.write_filter();
    assert_eq!(fs::read(log.filter()).unwrap(), before);
}

#[test]
fn a_file_that_another_program_has_compressed_is_read_as_a_whole() {
    let log = Log::new(&log_with("needle"), false);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    // One member, longer than a line.
    let long = log_of([
        "one",
        "needle",
        &"long ".repeat(5_000_000),
        &"long ".repeat(5_000_000),
    ]);
    encoder.write_all(&long).unwrap();
    let packed = Log {
        name: ClosedFile::gzip(1).name(),
        ..log
    };
    fs::remove_file(packed.path(EVENTS)).unwrap();
    fs::write(packed.path(&packed.name), encoder.finish().unwrap()).unwrap();
    packed.write_filter();
    assert_eq!(packed.read_of(&text("needle")), Some((0, 0)));
    packed.assert_same(&text("needle"));
}

#[test]
fn a_log_of_many_groups_is_searched() {
    let texts: Vec<String> = (0..5_000)
        .map(|number| match number {
            4_321 => "needle".to_owned(),
            _ => format!("line {number} of a long log"),
        })
        .collect();
    let log = Log::new(&log_of(texts.iter().map(String::as_str)), false);
    let (all, read) = log.read_of(&text("needle")).unwrap();
    assert!(
        all > 3 * choice::GROUP_BLOCKS && read == 1,
        "{read} of {all}"
    );
    log.assert_same(&text("needle"));
    log.assert_same(&text("line 4[0-9]{3} of"));
}

#[test]
fn a_filter_takes_three_percent_of_the_log_at_most() {
    let temp = tempfile::tempdir().unwrap();
    let run = DataDir::new(temp.path()).run(&"a".into());
    let dir = run.create().unwrap();
    // No sequence occurs twice.
    let (mut state, mut seq, mut log) = (1_u64, 0, Vec::new());
    while log.len() < 9_000_000 {
        let mut words = String::new();
        for _ in 0..40 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            words.push_str(&format!("{:x}-{:X} ", state, state.rotate_left(7)));
        }
        seq += 1;
        log.extend(line(seq, &words));
    }
    fs::write(run.path().join(EVENTS), &log).unwrap();
    let block_bytes = crate::history::read::BLOCK_BYTES as u64;
    write_filter(&dir, EVENTS, block_bytes, &AtomicBool::new(false)).unwrap();
    let len = fs::metadata(run.path().join("events.filter"))
        .unwrap()
        .len();
    assert!(len * 100 <= log.len() as u64 * 3, "{len} of {}", log.len());
}

#[test]
fn a_directory_that_cannot_be_written_is_searched_without_a_filter() {
    let log = Log::new(&log_with("needle"), false);
    fs::remove_file(log.filter()).unwrap();
    let set = |mode| fs::set_permissions(log.run.path(), fs::Permissions::from_mode(mode)).unwrap();
    set(0o500);
    // Root may write anywhere.
    let written = write_filter(&log.dir, EVENTS, BLOCK, &AtomicBool::new(false));
    assert_eq!(written.is_ok(), log.filter().exists());
    set(0o700);
    log.assert_same(&text("needle"));
}

#[test]
fn a_file_is_compressed_also_without_its_filter() {
    let log = Log::new(&log_with("needle"), false);
    let packed = Log {
        name: ClosedFile::gzip(1).name(),
        ..log
    };
    fs::rename(
        packed.path(EVENTS),
        packed.path(&ClosedFile::plain(1).name()),
    )
    .unwrap();
    // As on a full disk, no filter can be written.
    let temporary = packed.filter().with_extension("filter.tmp");
    fs::create_dir(&temporary).unwrap();
    compress(&packed.dir, 1, BLOCK, &AtomicBool::new(false)).unwrap();
    assert!(packed.path(&packed.name).exists() && !packed.filter().exists());
    assert_eq!(packed.found(&text("needle")), 1);
    fs::remove_dir(&temporary).unwrap();
    packed.write_filter();
    assert_eq!(packed.read_of(&text("needle")).unwrap().1, 1);
}

#[test]
fn a_cancelled_filter_leaves_nothing() {
    let log = Log::new(&log_with("needle"), false);
    fs::remove_file(log.filter()).unwrap();
    write_filter(&log.dir, EVENTS, BLOCK, &AtomicBool::new(true)).unwrap();
    assert_eq!(fs::read_dir(log.run.path()).unwrap().count(), 1);
}
