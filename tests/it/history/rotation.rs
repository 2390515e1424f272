//! Logs that continue in new files: the content of each file, the compression of closed ones, and
//! crashes and disk errors in between.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use td_observe::FakeClock;
use td_observe::history::{LogReader, Query, Rotation, RunState};
use td_observe::internals::history::LogNoticeKind;

use super::{accounted, events_of, files, plain_files, read};
use crate::bench::{Bench, token};
use crate::support::{CEILING, wait_for};

const SMALL: Rotation = Rotation {
    bytes_max: 64 * 1024,
    age_max: None,
};

#[track_caller]
fn until_packed(bench: &Bench, id: &str) {
    let run = bench.run(id);
    wait_for("the closed files to be packed", CEILING, || {
        let plain = plain_files(run.path());
        if plain.is_empty() { Ok(()) } else { Err(plain) }
    });
}

#[test]
fn every_number_exists_once_across_files_and_reopening() {
    let temp = tempfile::tempdir().unwrap();
    let mut next = 1;
    for round in 0..4 {
        let mut bench = Bench::rotating(temp.path(), SMALL);
        for id in ["a", "b"] {
            assert_eq!(bench.open(id), next, "round {round}");
        }
        // Both runs at once, so that each rotates between writes of the other.
        for from in (next..next + 600).step_by(50) {
            bench.fill("a", from..from + 50);
            bench.fill("b", from..from + 50);
        }
        next += 600;
        for id in ["a", "b"] {
            until_packed(&bench, id);
        }
        assert!(bench.notices().is_empty());
        bench.finish();
    }
    let bench = Bench::rotating(temp.path(), SMALL);
    for id in ["a", "b"] {
        let run = bench.run(id);
        let envelopes = read(&run);
        assert_eq!(accounted(&envelopes, 1), next);
        assert_eq!(envelopes.len() as u64, next - 1);

        let files = files(run.path());
        let (newest, closed) = files.split_last().unwrap();
        assert_eq!(newest.name, "events.jsonl");
        let names: Vec<&str> = closed.iter().map(|file| file.name.as_str()).collect();
        let expected: Vec<String> = (1..=closed.len())
            .map(|number| format!("events.{number:06}.jsonl.gz"))
            .collect();
        assert_eq!(names, expected);
        assert!(closed.len() > 8, "{names:?}");
        for file in &files {
            let mode = fs::metadata(&file.path).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o600, "{}", file.name);
            assert!(
                file.bytes.len() as u64 <= SMALL.bytes_max,
                "{} has {}",
                file.name,
                file.bytes.len()
            );
        }
        // Files are closed when the next write has no room, and earlier only at the end of a run.
        let full = |len: usize| len as u64 > SMALL.bytes_max - 8 * 1024;
        assert!(closed.iter().all(|file| full(file.bytes.len())));
        let (events, lines): (Vec<_>, Vec<_>) = events_of(&files).into_iter().unzip();
        assert_eq!(events, envelopes);
        let kept: Vec<Vec<u8>> = LogReader::open_lines(&run, Query::all())
            .unwrap()
            .map(|record| record.line().to_vec())
            .collect();
        assert_eq!(kept, lines);
    }
}

#[test]
fn files_are_compressed_when_their_writer_ends() {
    let temp = tempfile::tempdir().unwrap();
    let mut bench = Bench::rotating(temp.path(), SMALL);
    bench.open("a");
    bench.open("b");
    for from in (1..601).step_by(50) {
        bench.fill("a", from..from + 50);
        bench.fill("b", from..from + 50);
    }
    // One run ends before its writer.
    let now = bench.now();
    bench.log.close_run("a", RunState::Completed, None, now);
    let runs = [bench.run("a"), bench.run("b")];
    bench.finish();
    for run in &runs {
        assert_eq!(plain_files(run.path()), [] as [String; 0]);
        assert_eq!(accounted(&read(run), 1), 601);
    }
    // What a killed writer left is compressed by the next writer of any run, also by one that removes none.
    for start in [Bench::new, |root: &Path| Bench::rotating(root, SMALL)] {
        let packed = files(runs[0].path()).swap_remove(0);
        fs::write(packed.path.with_extension(""), &packed.bytes).unwrap();
        fs::remove_file(&packed.path).unwrap();
        assert_eq!(plain_files(runs[0].path()).len(), 1);
        let mut bench = start(temp.path());
        bench.open("c");
        until_packed(&bench, "a");
        bench.finish();
    }
    assert_eq!(accounted(&read(&runs[0]), 1), 601);
}

#[test]
fn an_old_file_is_closed_after_reopening() {
    let temp = tempfile::tempdir().unwrap();
    let rotation = Rotation {
        bytes_max: u64::MAX,
        age_max: Some(Duration::from_secs(10)),
    };
    let fake = FakeClock::new();
    let mut bench = Bench::rotating_by(temp.path(), rotation, fake);
    bench.open("a");
    let run = bench.run("a");
    let count = || files(run.path()).len();
    bench.fill("a", 1..3);
    bench.advance(Duration::from_secs(10));
    bench.fill("a", 3..5);
    assert_eq!(count(), 1, "not older than it may be");
    bench.advance(Duration::from_secs(100));
    assert_eq!(count(), 1, "nothing is written, nothing is closed");
    bench.fill("a", 5..7);
    assert_eq!(count(), 2);
    bench.advance(Duration::from_secs(6));
    bench.fill("a", 7..9);
    // Another writer continues the file, whose age counts from its first line.
    let Bench { log, fake, .. } = bench;
    let _ = log.finish(fake.clock().now());
    let mut bench = Bench::rotating_by(temp.path(), rotation, fake);
    assert_eq!(bench.open("a"), 9);
    assert_eq!(count(), 2);
    bench.advance(Duration::from_secs(5));
    bench.fill("a", 9..11);
    assert_eq!(count(), 3);
    until_packed(&bench, "a");
    bench.finish();
    let files = files(run.path());
    let seqs: Vec<Vec<u64>> = files
        .iter()
        .map(|file| {
            let events = events_of(std::slice::from_ref(file));
            events.iter().filter_map(|(event, _)| event.seq).collect()
        })
        .collect();
    assert_eq!(seqs, [vec![1, 2, 3, 4], vec![5, 6, 7, 8], vec![9, 10]]);
}

#[test]
fn a_crash_between_two_files_loses_no_number() {
    // The newest file may be missing or without a line.
    for newest in [None, Some("")] {
        let temp = tempfile::tempdir().unwrap();
        let mut bench = Bench::rotating(temp.path(), SMALL);
        bench.open("a");
        bench.fill("a", 1..31);
        let run = bench.run("a");
        let closed = run.path().join("events.000001.jsonl");
        fs::rename(run.events_path(), &closed).unwrap();
        // No final metadata: they contain no number.
        drop(bench);
        if let Some(text) = newest {
            fs::write(run.events_path(), text).unwrap();
        }
        let mut bench = Bench::rotating(temp.path(), SMALL);
        assert_eq!(bench.open("a"), 31, "{newest:?}");
        bench.fill("a", 31..36);
        until_packed(&bench, "a");
        assert!(!closed.exists());
        assert!(bench.notices().is_empty());
        bench.finish();
        let events = events_of(&files(run.path()));
        assert_eq!(accounted(events.iter().map(|(event, _)| event), 1), 36);
        assert_eq!(read(&run).len(), 35);
    }
}

#[test]
fn a_crash_after_compression_loses_no_number() {
    let temp = tempfile::tempdir().unwrap();
    let mut bench = Bench::rotating(temp.path(), SMALL);
    bench.open("a");
    bench.fill("a", 1..400);
    let run = bench.run("a");
    until_packed(&bench, "a");
    let newest = fs::read(run.events_path()).unwrap();
    drop(bench);
    // Only the header is left, as before any other write; then a part of the header.
    let header = newest.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let newest_file = files(run.path()).pop().unwrap();
    let (first, _) = &events_of(&[newest_file])[0];
    for cut in [header, header / 2, 0] {
        fs::write(run.events_path(), &newest[..cut]).unwrap();
        let mut bench = Bench::rotating(temp.path(), SMALL);
        assert_eq!(Some(bench.open("a")), first.seq, "cut at {cut}");
        drop(bench);
    }
}

#[test]
fn a_file_in_both_forms_is_read_once_and_kept_once() {
    let temp = tempfile::tempdir().unwrap();
    let mut bench = Bench::rotating(temp.path(), SMALL);
    bench.open("a");
    bench.fill("a", 1..400);
    until_packed(&bench, "a");
    let run = bench.run("a");
    bench.finish();
    // A crash after the compressed file got its name and before the plain one was removed; and one
    // during compression.
    let packed = files(run.path());
    let plain = run.path().join("events.000001.jsonl");
    fs::write(&plain, &packed[0].bytes).unwrap();
    let half = run.path().join("events.000001.jsonl.gz.tmp");
    fs::write(&half, &fs::read(&packed[0].path).unwrap()[..1000]).unwrap();
    assert_eq!(accounted(&read(&run), 1), 400);
    let mut bench = Bench::rotating(temp.path(), SMALL);
    assert_eq!(bench.open("a"), 400);
    wait_for("what was left to be gone", CEILING, || {
        let left: Vec<_> = [&plain, &half]
            .into_iter()
            .filter(|path| path.exists())
            .collect();
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    });
    assert_eq!(accounted(&read(&run), 1), 400);
    bench.finish();
}

#[test]
fn a_failed_rotation_is_reported_once_and_the_file_grows() {
    let temp = tempfile::tempdir().unwrap();
    let mut bench = Bench::rotating(temp.path(), SMALL);
    bench.open("a");
    let run = bench.run("a");
    bench.fill("a", 1..50);
    // The next name is taken: there is no higher number.
    let last = run.path().join(format!("events.{}.jsonl", u32::MAX));
    fs::create_dir(&last).unwrap();
    bench.fill("a", 50..1000);
    let kinds = bench.notices();
    assert_eq!(kinds, [LogNoticeKind::NotRotated]);
    let grown = fs::metadata(run.events_path()).unwrap().len();
    assert!(grown > 3 * SMALL.bytes_max, "{grown}");
    fs::remove_dir(&last).unwrap();
    bench.fill("a", 1000..1300);
    until_packed(&bench, "a");
    assert!(bench.notices().is_empty());
    // Reported again when rotation fails again.
    fs::create_dir(&last).unwrap();
    bench.fill("a", 1300..1800);
    let kinds = bench.notices();
    assert_eq!(kinds, [LogNoticeKind::NotRotated]);
    fs::remove_dir(&last).unwrap();
    bench.finish();
    assert_eq!(accounted(&read(&run), 1), 1800);
    let events = events_of(&files(run.path()));
    assert_eq!(accounted(events.iter().map(|(event, _)| event), 1), 1800);
}

#[test]
fn a_write_above_the_limit_has_its_own_file() {
    let temp = tempfile::tempdir().unwrap();
    let mut bench = Bench::rotating(temp.path(), SMALL);
    bench.open("a");
    let wall = bench.fake.clock().wall();
    for from in [1, 1001, 2001] {
        let batch: Vec<_> = (from..from + 1000)
            .map(|seq| token("a", seq, wall))
            .collect();
        bench.append(&batch);
    }
    until_packed(&bench, "a");
    let run = bench.run("a");
    bench.finish();
    let counts: Vec<usize> = files(run.path())
        .iter()
        .map(|file| events_of(std::slice::from_ref(file)).len())
        .collect();
    assert_eq!(counts.iter().sum::<usize>(), 3000);
    assert_eq!(
        counts.iter().filter(|count| **count == 1000).count(),
        3,
        "{counts:?}"
    );
    assert_eq!(accounted(&read(&run), 1), 3001);
}
