//! Missing numbers: logs that were damaged in random ways, and logs that were not.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use td_observe::history::{
    DataDir, Follower, LogReader, MissingEvents, Query, ReadReport, Rotation, RunDirectory,
    RunState, RunSummary,
};
use td_observe::{Envelope, FakeClock, TdEvent, Timestamp};

use super::{at, paths};
use crate::bench::{Bench, token};
use crate::cli::{assert_code, run, text};
use crate::support::Dice;

/// The number after the last event of a whole log.
const NEXT_SEQ: u64 = 401;

/// Starts a writer at some time after the first one.
fn later(data: &Path, after: Duration, rotation: Rotation) -> Bench {
    let fake = FakeClock::new();
    fake.advance(after);
    Bench::rotating_by(data, rotation, fake)
}

/// Writes a run with several files, `LogGap`s and three writers. Returns its directory.
fn write_log(data: &Path, is_ended: bool) -> PathBuf {
    let rotation = Rotation {
        bytes_max: 20_000,
        age_max: None,
    };
    for (first, last) in [(1, 150), (151, 300), (301, NEXT_SEQ - 1)] {
        let mut bench = later(data, Duration::from_secs(first), rotation);
        assert_eq!(bench.open("job"), first);
        let is_gap = |seq: &u64| seq % 50 == 7;
        for seq in first..=last {
            let wall = bench.fake.clock().wall();
            let event = match seq {
                // Two numbers of a gap are in one line.
                seq if is_gap(&seq) => continue,
                seq if is_gap(&(seq - 1)) => {
                    let gap = format!(
                        r#"{{"seq":{seq},"ts":"{wall}","event":{{"type":"LogGap","execution_id":"job","first_seq":{},"last_seq":{seq}}}}}"#,
                        seq - 1
                    );
                    serde_json::from_str(&gap).unwrap()
                }
                seq if seq % 90 == 0 => long(seq, wall),
                seq => token("job", seq, wall),
            };
            bench.append(&[event]);
            bench.advance(Duration::from_millis(100));
        }
        if last == NEXT_SEQ - 1 && is_ended {
            let now = bench.now();
            (bench.log).close_run("job", RunState::Completed, Some(0), now);
        }
        let now = bench.now();
        let report = bench.log.finish(now);
        assert!(report.problems.is_empty(), "{report:?}");
    }
    data.join("runs/job")
}

fn long(seq: u64, ts: Timestamp) -> Envelope {
    let event = TdEvent::token_received("job", 1, &"long ".repeat(2000));
    Envelope::new(Some(seq), ts, event)
}

/// Changes the files of a run in one of several ways; returns what was done.
fn damage(run: &Path, dice: &mut Dice) -> String {
    let files = paths(run);
    let path = &files[dice.roll(files.len() as u64) as usize];
    let is_packed = path.extension().is_some_and(|ending| ending == "gz");
    let mut bytes = fs::read(path).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    let kind = dice.roll(6);
    if kind == 5 {
        fs::remove_file(path).unwrap();
        return format!("{name} removed");
    }
    if is_packed && kind < 2 {
        // Lines are changed in the lines, not in the compressed data.
        bytes.clear();
        MultiGzDecoder::new(File::open(path).unwrap())
            .read_to_end(&mut bytes)
            .unwrap();
    }
    let any = dice.roll(bytes.len() as u64) as usize;
    let more = (1 + dice.roll(3000) as usize).min(bytes.len() - any);
    let what = match kind {
        0 => {
            let starts: Vec<usize> = std::iter::once(0)
                .chain(memchr::memchr_iter(b'\n', &bytes).map(|at| at + 1))
                .collect();
            let line = dice.roll(starts.len() as u64 - 1) as usize;
            bytes.drain(starts[line]..starts[line + 1]);
            format!("line {line} cut out")
        }
        1 => {
            // Most bytes of a line are its text, so half of them are at its start.
            let start = memchr::memrchr(b'\n', &bytes[..any]).map_or(0, |at| at + 1);
            let at = if dice.roll(2) == 0 {
                any
            } else {
                start + dice.roll(12) as usize
            };
            let at = at.min(bytes.len() - 1);
            let byte = if dice.roll(2) == 0 {
                b'0' + dice.roll(10) as u8
            } else {
                dice.roll(256) as u8
            };
            let before = std::mem::replace(&mut bytes[at], byte);
            format!("byte {at}: {before:#x} becomes {byte:#x}")
        }
        2 => {
            let of = |dice: &mut Dice| dice.roll(256) as u8;
            let is_zero = dice.roll(2) == 0;
            bytes[any..any + more].fill_with(|| if is_zero { 0 } else { of(dice) });
            format!("{more} bytes at {any} overwritten")
        }
        3 => {
            bytes.truncate(any);
            format!("cut off at {any}")
        }
        _ => {
            bytes.drain(..any);
            format!("without its first {any} bytes")
        }
    };
    if is_packed && kind < 2 {
        let file = File::create(path).unwrap();
        let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, &bytes).unwrap();
        encoder.finish().unwrap();
    } else {
        fs::write(path, &bytes).unwrap();
    }
    format!("{name}: {what}")
}

fn of_places(places: &[MissingEvents]) -> BTreeSet<u64> {
    let mut numbers = BTreeSet::new();
    for place in places {
        for seq in place.first_seq..=place.last_seq {
            assert!(numbers.insert(seq), "{seq} is missing twice: {places:?}");
        }
    }
    numbers
}

#[track_caller]
fn of_report(report: &ReadReport) -> BTreeSet<u64> {
    let numbers = of_places(report.missing_places());
    assert_eq!(report.missing(), numbers.len() as u64);
    numbers
}

/// Returns the numbers up to `last` that these events do not account for.
fn not_in<'a>(events: impl IntoIterator<Item = &'a Envelope>, last: u64) -> BTreeSet<u64> {
    let mut numbers: BTreeSet<u64> = (1..=last).collect();
    for envelope in events {
        let Some(seq) = envelope.seq else { continue };
        let first = match envelope.event {
            TdEvent::LogGap { first_seq, .. } => first_seq.min(seq),
            _ => seq,
        };
        numbers.retain(|number| !(first..=seq).contains(number));
    }
    numbers
}

fn summary(data: &Path) -> RunSummary {
    let mut list = DataDir::new(data).runs(at(0)).unwrap();
    assert_eq!(list.runs.len(), 1, "{list:?}");
    list.runs.remove(0)
}

fn reader(run: &RunDirectory, query: Query) -> (Vec<Envelope>, ReadReport) {
    let mut log = LogReader::open(run, query).unwrap();
    let events = log.by_ref().map(|record| record.envelope).collect();
    (events, log.into_report())
}

fn follower(run: &RunDirectory) -> ReadReport {
    let mut log = Follower::open(run, Query::all()).unwrap();
    while log.next().unwrap().is_some() {}
    log.into_report()
}

/// Queries of whose lines most are not parsed.
fn filters() -> [Query; 3] {
    [
        Query::all().kind("Warning"),
        Query::all().text("no line has this").unwrap(),
        Query::all().kind("TokenReceived").execution("job"),
    ]
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn each_reader_reports_each_loss_of_a_damaged_log() {
    let (whole, mut lossy) = (tempfile::tempdir().unwrap(), 0);
    let original = write_log(whole.path(), true);
    assert!(paths(&original).len() > 4, "{:?}", paths(&original));
    for seed in 0..200 {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("runs/job");
        copy(&original, &path);
        let what = damage(&path, &mut Dice(seed));
        let directory = DataDir::new(temp.path()).run(&"job".into());
        // What is printed is what is not missing: the count of the reader against that of its events.
        let (events, report) = reader(&directory, Query::all());
        let expected = not_in(&events, NEXT_SEQ - 1);
        lossy += usize::from(!expected.is_empty());
        let context = format!("seed {seed}, {what}");
        assert_eq!(of_report(&report), expected, "{context}");
        assert_eq!(of_report(&follower(&directory)), expected, "{context}");
        for query in filters() {
            let (_, filtered) = reader(&directory, query);
            let found = of_report(&filtered);
            // A line that is damaged within is only found where it is parsed.
            assert!(found.is_subset(&expected), "{context}");
            let is_within = what.contains("becomes") || what.contains("overwritten");
            let within_max = if is_within { 3 } else { 0 };
            let unseen = expected.len() - found.len();
            assert!(unseen <= within_max, "{context}: {found:?}");
        }
        let mut listed = summary(temp.path());
        let at_ends = of_places(&listed.missing);
        assert!(at_ends.is_subset(&expected), "{context}: {listed:?}");
        assert_eq!(listed.is_incomplete, !at_ends.is_empty(), "{context}");
        let is_at_end = expected.first() == Some(&1) || expected.contains(&(NEXT_SEQ - 1));
        let is_found = listed.is_incomplete || what.contains("becomes");
        assert!(!is_at_end || is_found, "{context}: {expected:?}");
        let is_removed = what.contains("removed");
        assert!(!is_removed || at_ends == expected, "{context}: {listed:?}");
        let report = listed.verify().unwrap();
        assert_eq!(of_report(&report), expected, "{context}");
        assert_eq!(of_places(&listed.missing), expected, "{context}");
        if seed % 20 == 0 {
            programs_report(temp.path(), &expected, &context);
        }
    }
    // Some damaged bytes are in a text, or the same as before.
    assert!(lossy > 150, "{lossy} of 200 damages lost an event");
}

/// Changes the places of two neighbouring lines of one file, and perhaps removes a line; returns what was done.
fn exchange(run: &Path, dice: &mut Dice) -> String {
    let files = paths(run);
    let path = &files[dice.roll(files.len() as u64) as usize];
    let is_packed = path.extension().is_some_and(|ending| ending == "gz");
    let mut text = Vec::new();
    let mut file = File::open(path).unwrap();
    if is_packed {
        MultiGzDecoder::new(file).read_to_end(&mut text).unwrap();
    } else {
        file.read_to_end(&mut text).unwrap();
    }
    let mut lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    // The ends of a file are read by themselves.
    let line = match dice.roll(4) {
        0 => 0,
        1 => lines.len() - 2,
        _ => dice.roll(lines.len() as u64 - 1) as usize,
    };
    lines.swap(line, line + 1);
    let mut what = format!("{:?}: line {line} after the next one", path.file_name());
    if dice.roll(3) == 0 {
        let gone = dice.roll(lines.len() as u64) as usize;
        lines.remove(gone);
        what += &format!(", line {gone} cut out");
    }
    let text = lines.concat();
    if is_packed {
        let file = File::create(path).unwrap();
        let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, &text).unwrap();
        encoder.finish().unwrap();
    } else {
        fs::write(path, &text).unwrap();
    }
    what
}

#[test]
fn exchanged_lines_are_no_loss_and_hide_none() {
    let (whole, mut lossy) = (tempfile::tempdir().unwrap(), 0);
    let original = write_log(whole.path(), true);
    for seed in 0..200 {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("runs/job");
        copy(&original, &path);
        let what = exchange(&path, &mut Dice(seed));
        let context = format!("seed {seed}, {what}");
        let directory = DataDir::new(temp.path()).run(&"job".into());
        let (events, report) = reader(&directory, Query::all());
        let expected = not_in(&events, NEXT_SEQ - 1);
        lossy += usize::from(!expected.is_empty());
        assert!(expected.is_empty() || what.contains("cut out"), "{context}");
        assert_eq!(of_report(&report), expected, "{context}");
        assert_eq!(of_report(&follower(&directory)), expected, "{context}");
        for query in filters() {
            let (_, filtered) = reader(&directory, query);
            assert_eq!(of_report(&filtered), expected, "{context}");
        }
        let mut listed = summary(temp.path());
        let at_ends = of_places(&listed.missing);
        assert!(at_ends.is_subset(&expected), "{context}: {listed:?}");
        let report = listed.verify().unwrap();
        assert_eq!(of_report(&report), expected, "{context}");
        assert_eq!(of_places(&listed.missing), expected, "{context}");
        if seed % 40 == 0 {
            programs_report(temp.path(), &expected, &context);
        }
    }
    assert!((20..80).contains(&lossy), "{lossy} lost an event");
}

/// Checks the messages of all commands that read a log.
#[track_caller]
fn programs_report(data: &Path, expected: &BTreeSet<u64>, context: &str) {
    for args in [
        &["log", "job"][..],
        &["log", "job", "--json"],
        &["log"],
        &["log", "job", "-f"],
        &["replay", "job", "--speed", "100000"],
        &["export", "job", "--format", "text"],
        &["export", "job", "--format", "cast"],
        &["runs", "--verify"],
    ] {
        let output = run(args, data);
        let stderr = text(&output.stderr);
        let message = stderr.lines().find(|line| line.contains(" missing in "));
        let count = message.and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let context = format!("{args:?} after {context}: {output:#?}");
        assert_eq!(count.unwrap_or(0), expected.len(), "{context}");
        if let (Some(first), Some(message)) = (expected.first(), message) {
            assert!(message.contains(&format!(": {first}")), "{context}");
        }
        if args[0] == "runs" {
            assert_code(&output, i32::from(!stderr.is_empty()));
            let stdout = text(&output.stdout);
            let is_marked = stdout.contains("completed, incomplete");
            assert!(is_marked || expected.is_empty(), "{context}");
        }
    }
}

/// Checks that no reader finds a loss.
#[track_caller]
fn assert_whole(data: &Path, id: &str) {
    let directory = DataDir::new(data).run(&id.into());
    let (_, report) = reader(&directory, Query::all());
    assert_eq!(of_report(&report), BTreeSet::new());
    assert!(report.problems.is_empty(), "{report:?}");
    for query in filters() {
        assert_eq!(of_report(&reader(&directory, query).1), BTreeSet::new());
    }
    let report = follower(&directory);
    assert_eq!(of_report(&report), BTreeSet::new());
    assert!(report.problems.is_empty(), "{report:?}");
    let mut listed = summary(data);
    for _ in 0..2 {
        assert!(!listed.is_incomplete, "{listed:?}");
        assert_eq!(listed.missing, []);
        let report = listed.verify().unwrap();
        assert_eq!(report.missing(), 0);
    }
    for args in [&["runs"][..], &["runs", "--verify"], &["log"]] {
        let output = run(args, data);
        assert_code(&output, 0);
        assert!(!text(&output.stderr).contains("missing"), "{output:#?}");
        assert!(!text(&output.stdout).contains("incomplete"), "{output:#?}");
    }
}

#[test]
fn a_whole_log_has_no_loss() {
    // Ended, detached, and with a writer that was killed: at each byte of its last line.
    let temp = tempfile::tempdir().unwrap();
    let run_path = write_log(temp.path(), true);
    assert_whole(temp.path(), "job");
    let killed = tempfile::tempdir().unwrap();
    copy(&run_path, &killed.path().join("runs/job"));
    let metadata = killed.path().join("runs/job/metadata.json");
    let mut known: serde_json::Value =
        serde_json::from_slice(&fs::read(&metadata).unwrap()).unwrap();
    known["state"] = "running".into();
    // The end of the second writer.
    known["next_seq"] = 301.into();
    fs::write(&metadata, known.to_string()).unwrap();
    assert_whole(killed.path(), "job");
    let newest = killed.path().join("runs/job/events.jsonl");
    let bytes = fs::read(&newest).unwrap();
    let len = bytes.len() - 100;
    fs::write(&newest, &bytes[..len]).unwrap();
    assert_whole(killed.path(), "job");
    // Killed between two files.
    let closed = killed.path().join("runs/job/events.000099.jsonl");
    let files = paths(newest.parent().unwrap()).len() as u32;
    fs::rename(
        &newest,
        closed.with_file_name(format!("events.{files:06}.jsonl")),
    )
    .unwrap();
    assert_whole(killed.path(), "job");
    fs::write(&newest, "").unwrap();
    assert_whole(killed.path(), "job");

    let detached = tempfile::tempdir().unwrap();
    write_log(detached.path(), false);
    assert_whole(detached.path(), "job");
    let hour = Duration::from_secs(3600);
    let mut bench = later(detached.path(), hour, Rotation::NEVER);
    bench.open("job");
    assert_whole(detached.path(), "job");
    bench.fill("job", NEXT_SEQ..NEXT_SEQ + 10);
    assert_whole(detached.path(), "job");
    bench.finish();
    assert_whole(detached.path(), "job");
}

#[test]
fn a_log_without_numbers_has_no_loss() {
    let temp = tempfile::tempdir().unwrap();
    let run_path = temp.path().join("runs/job");
    fs::create_dir_all(&run_path).unwrap();
    let seed = concat!(
        r#"{"ts":"2026-01-21T10:00:00Z","event":{"type":"LoopStarted","execution_id":"job","loop_type":"Phase","task":"Add auth"}}"#,
        "\n",
        r#"{"ts":"2026-01-21T10:00:01Z","event":{"type":"IterationStarted","execution_id":"job","iteration":1}}"#,
        "\n"
    );
    fs::write(run_path.join("events.jsonl"), seed).unwrap();
    assert_whole(temp.path(), "job");
    // This version continues it.
    let hour = Duration::from_secs(3600);
    let mut bench = later(temp.path(), hour, Rotation::NEVER);
    assert_eq!(bench.open("job"), 1);
    bench.fill("job", 1..20);
    bench.finish();
    assert_whole(temp.path(), "job");
}

#[test]
fn a_part_of_a_log_lacks_nothing_outside_of_it() {
    let temp = tempfile::tempdir().unwrap();
    let run_path = write_log(temp.path(), true);
    let files = paths(&run_path);
    // An extract, a closed file, and events of a time span.
    let extract = temp.path().join("extract.jsonl");
    let output = run(&["log", "job", "--json", "--type", "LogGap"], temp.path());
    fs::write(&extract, &output.stdout).unwrap();
    for file in [extract.to_str().unwrap(), files[2].to_str().unwrap()] {
        let output = run(&["log", file], temp.path());
        assert_code(&output, 0);
        assert!(output.stderr.is_empty(), "{output:#?}");
    }
    fs::remove_file(&files[0]).unwrap();
    let directory = DataDir::new(temp.path()).run(&"job".into());
    let missing = |query: Query| of_report(&reader(&directory, query).1).len();
    let all = missing(Query::all());
    assert!(all > 10, "{all}");
    let (events, _) = reader(&directory, Query::all());
    let after = events[0].ts.micros() + 1;
    assert_eq!(
        missing(Query::all().since(Timestamp::from_micros(after))),
        0
    );
    assert_eq!(missing(Query::all().since(events[0].ts)), all);
    // The next writer states where the removed file ended.
    let hour = Duration::from_secs(3600);
    let mut bench = later(temp.path(), hour, Rotation::NEVER);
    bench.open("job");
    bench.finish();
    assert_eq!(missing(Query::all()), all);
}

#[test]
fn a_lost_end_stays_missing_when_the_run_is_resumed() {
    let temp = tempfile::tempdir().unwrap();
    let mut seconds = 0;
    let mut write = |count: u64| {
        seconds += 1;
        let mut bench = later(temp.path(), Duration::from_secs(seconds), Rotation::NEVER);
        let first = bench.open("job");
        bench.fill("job", first..first + count);
        let now = bench.now();
        (bench.log).close_run("job", RunState::Completed, Some(0), now);
        bench.finish();
    };
    write(17);
    let directory = DataDir::new(temp.path()).run(&"job".into());
    let newest = temp.path().join("runs/job/events.jsonl");
    let file = File::options().write(true).open(&newest).unwrap();
    let last_of = |events: &[Envelope]| events.iter().filter_map(|one| one.seq).max().unwrap();
    let last = last_of(&reader(&directory, Query::all()).0);
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let mut lost = not_in(&reader(&directory, Query::all()).0, last);
    assert!(lost.len() > 3 && !lost.contains(&1), "{lost:?}");
    for context in ["resumed", "resumed again", "and cut again"] {
        write(3);
        let (events, report) = reader(&directory, Query::all());
        assert_eq!(of_report(&report), lost, "{context}: {events:#?}");
        let is_gap = |one: &&Envelope| matches!(one.event, TdEvent::LogGap { .. });
        assert_eq!(events.iter().find(is_gap), None, "{context}");
        assert_eq!(of_report(&follower(&directory)), lost, "{context}");
        let listed = summary(temp.path());
        assert!(listed.is_incomplete, "{context}: {listed:?}");
        assert_eq!(of_places(&listed.missing), lost, "{context}");
        programs_report(temp.path(), &lost, context);
        if context == "resumed again" {
            let file = File::options().write(true).open(&newest).unwrap();
            file.set_len(file.metadata().unwrap().len() - 100).unwrap();
            let last = last_of(&events);
            lost.append(&mut not_in(&reader(&directory, Query::all()).0, last));
            assert!(lost.contains(&last), "{lost:?}");
        }
    }
}

#[test]
fn what_was_never_written_becomes_a_gap_when_the_run_is_resumed() {
    let temp = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(temp.path());
    bench.open("job");
    bench.fill("job", 1..20);
    let newest = temp.path().join("runs/job/events.jsonl");
    let aside = temp.path().join("aside");
    fs::rename(&newest, &aside).unwrap();
    fs::create_dir(&newest).unwrap();
    bench.advance(Duration::from_secs(2));
    bench.fill("job", 20..30);
    let now = bench.now();
    let report = bench.log.finish(now);
    assert_eq!(report.lost[0].first_seq, 20, "{report:?}");
    fs::remove_dir(&newest).unwrap();
    fs::rename(&aside, &newest).unwrap();
    // Of what was written, the last lines are lost, too.
    let lines = fs::read(&newest).unwrap();
    fs::write(&newest, &lines[..lines.len() - 400]).unwrap();
    let mut bench = later(temp.path(), Duration::from_secs(9), Rotation::NEVER);
    assert_eq!(bench.open("job"), 30);
    bench.fill("job", 30..40);
    bench.finish();
    let directory = DataDir::new(temp.path()).run(&"job".into());
    let (events, report) = reader(&directory, Query::all());
    let lost = of_report(&report);
    assert!(lost.len() < 4 && lost.last() == Some(&19), "{lost:?}");
    assert_eq!(not_in(&events, 39), lost);
    let is_gap = |one: &&Envelope| {
        matches!(
            one.event,
            TdEvent::LogGap {
                first_seq: 20,
                last_seq: 29,
                ..
            }
        )
    };
    assert_eq!(events.iter().filter(is_gap).count(), 1, "{events:#?}");
}

#[test]
fn a_log_that_was_removed_is_a_loss_of_unknown_size() {
    let temp = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(temp.path());
    bench.open("job");
    bench.fill("job", 1..20);
    // As after a kill: nothing states the number of events.
    drop(bench);
    let newest = temp.path().join("runs/job/events.jsonl");
    for is_there in [true, false] {
        if is_there {
            fs::write(&newest, "").unwrap();
        } else {
            fs::remove_file(&newest).unwrap();
        }
        let output = run(&["log", "job"], temp.path());
        assert_code(&output, 1);
        assert!(text(&output.stderr).contains("not known"), "{output:#?}");
        let output = run(&["log", "job", "-f"], temp.path());
        assert_code(&output, 1);
        for args in [&["runs"][..], &["runs", "--verify"]] {
            let output = run(args, temp.path());
            let stdout = text(&output.stdout);
            assert!(stdout.contains("cut off, incomplete"), "{output:#?}");
            assert!(text(&output.stderr).contains("removed"), "{output:#?}");
        }
    }
}
