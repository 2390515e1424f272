//! Replaying a run: the same lines as its log, at the original or another speed.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{assert_wrong_usage, record};
use crate::cli::{Running, assert_code, program, run, text};

/// Records a run of four seconds with a line each tenth of a second.
fn recorded(data: &Path) {
    let lines: Vec<(i64, String)> = (0..=40).map(|n| (n * 100, format!("line {n}."))).collect();
    let lines: Vec<(i64, &str)> = lines
        .iter()
        .map(|(at, text)| (*at, text.as_str()))
        .collect();
    record(data, "job", &lines);
}

/// Runs to the end; returns the output and the time it took.
#[track_caller]
fn timed(args: &[&str], data: &Path) -> (String, Duration) {
    let began = Instant::now();
    let output = run(args, data);
    assert_code(&output, 0);
    assert!(output.stderr.is_empty(), "{output:#?}");
    (text(&output.stdout), began.elapsed())
}

#[test]
fn replay_prints_what_log_prints() {
    let temp = tempfile::tempdir().unwrap();
    recorded(temp.path());
    for format in [&[][..], &["--json"], &["--color", "always"]] {
        let log: Vec<&str> = ["log", "job"].iter().chain(format).copied().collect();
        let replay: Vec<&str> = ["replay", "job", "--speed", "1000"]
            .iter()
            .chain(format)
            .copied()
            .collect();
        let (log, _) = timed(&log, temp.path());
        let (replay, _) = timed(&replay, temp.path());
        assert_eq!(replay, log);
        assert_eq!(log.matches("line ").count(), 41);
    }
    let (nothing, _) = timed(&["replay", "job", "-q", "--speed", "1000"], temp.path());
    assert_eq!(nothing, "");
}

#[test]
fn replay_keeps_time_and_speed() {
    let temp = tempfile::tempdir().unwrap();
    recorded(temp.path());
    // Never faster; slower only because other tests use the machine.
    let (_, took) = timed(&["replay", "job"], temp.path());
    assert!(took >= Duration::from_secs(4), "{took:?}");
    assert!(took < Duration::from_secs(8), "{took:?}");
    let (_, took) = timed(&["replay", "job", "--speed", "20"], temp.path());
    assert!(took >= Duration::from_millis(200), "{took:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    let (_, took) = timed(&["replay", "job", "--idle-limit", "10ms"], temp.path());
    assert!(took >= Duration::from_millis(400), "{took:?}");
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn a_filtered_replay_begins_at_once() {
    let temp = tempfile::tempdir().unwrap();
    recorded(temp.path());
    let numbers = |shown: &str| -> Vec<u32> {
        let of = |line: &str| line.split("line ").nth(1)?.strip_suffix('.')?.parse().ok();
        shown.lines().filter_map(of).collect()
    };
    for (more, expected) in [
        (&["--from", "1s", "--to", "1500ms"][..], 10..15),
        (&["--from", "3s"], 30..41),
        (&["--to", "200ms"], 0..2),
        (
            &[
                "--from",
                "2026-01-21T10:00:02Z",
                "--to",
                "2026-01-21T10:00:02.250Z",
            ],
            20..23,
        ),
        (&["--from", "0", "--to", "100ms"], 0..1),
        (&["--from", "10s"], 0..0),
    ] {
        let args: Vec<&str> = ["replay", "job"].iter().chain(more).copied().collect();
        let (shown, took) = timed(&args, temp.path());
        assert_eq!(
            numbers(&shown),
            expected.collect::<Vec<_>>(),
            "{more:?}: {shown}"
        );
        // Lines have labels although the session's start is filtered out.
        assert!(shown.lines().all(|line| line.contains("job")), "{shown}");
        assert!(took < Duration::from_secs(3), "{more:?}: {took:?}");
        let json: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let (json, _) = timed(&json, temp.path());
        let chunks = super::values(json.as_bytes());
        let chunks = chunks
            .iter()
            .filter(|line| line["event"]["type"] == "OutputUpdate");
        assert_eq!(chunks.count(), numbers(&shown).len(), "{more:?}");
    }
}

#[test]
fn a_signal_ends_a_replay_and_wrong_usage_is_a_one_line_error() {
    let temp = tempfile::tempdir().unwrap();
    record(
        temp.path(),
        "slow",
        &[(0, "the first"), (3_600_000, "an hour later")],
    );
    let mut replay = Running::start(program(&["replay", "slow"], temp.path()));
    // The replay waits, and has printed the lines that are due.
    replay.wait_for("the first");
    replay.signal(Signal::INT);
    let output = replay.end();
    assert_code(&output, 0);
    assert!(!text(&output.stdout).contains("an hour later"));
    for (args, expected) in [
        (&["replay", "nobody"][..], "nobody"),
        (&["replay", "slow", "--speed", "0"], "speed"),
        (&["replay", "slow", "--from", "tomorrow"], "--from"),
        (&["replay", "./nothing.jsonl"], "nothing.jsonl"),
    ] {
        assert_wrong_usage(&run(args, temp.path()), expected);
    }
}
