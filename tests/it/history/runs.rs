//! Listing and removing runs: correct states, and no other file touched.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Output;

use serde::Deserialize;
use td_observe::history::{DataDir, Retention, Rotation, RunInfo, RunState};
use td_observe::internals::history::encode_name;
use td_observe::{Builder, Timestamp};

use super::{assert_wrong_usage, at, record};
use crate::bench::{Bench, token};
use crate::cli::{assert_code, run, text};
use crate::support::{CEILING, wait_for};

/// A line of `runs --json`, declared again: the contract with other programs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    execution_id: String,
    kind: String,
    label: String,
    state: String,
    started: Timestamp,
    last_event: Timestamp,
    duration_ms: u64,
    events: u64,
    size_bytes: u64,
    exit_status: Option<i32>,
    path: String,
}

#[track_caller]
fn read(output: &Output) -> Vec<Listed> {
    assert_code(output, 0);
    assert!(output.stderr.is_empty(), "{output:#?}");
    let read =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"));
    text(&output.stdout).lines().map(read).collect()
}

#[track_caller]
fn listed(data: &Path) -> Vec<Listed> {
    read(&run(&["runs", "--json"], data))
}

fn ids(runs: &[Listed]) -> Vec<&str> {
    runs.iter().map(|run| run.execution_id.as_str()).collect()
}

#[track_caller]
fn prune(data: &Path, more: &[&str]) -> Vec<String> {
    let args: Vec<&str> = ["runs", "prune", "--json"]
        .iter()
        .chain(more)
        .copied()
        .collect();
    let removed = read(&run(&args, data));
    removed.into_iter().map(|run| run.execution_id).collect()
}

/// Creates runs in each state, oldest first. One of them is open as long as the returned value lives.
#[track_caller]
fn in_each_state(data: &Path) -> Bench {
    let mut bench = Bench::rotating(data, Rotation::NEVER);
    let states = [
        ("done", RunState::Completed, Some(3)),
        ("failed", RunState::Failed, None),
    ];
    for (id, state, exit_status) in states {
        bench.open(id);
        bench.fill(id, 1..11);
        let now = bench.now();
        bench.log.close_run(id, state, exit_status, now);
        bench.advance(std::time::Duration::from_secs(10));
    }
    bench.open("left");
    bench.fill("left", 1..4);
    let fake = bench.fake.clone();
    bench.finish();
    fake.advance(std::time::Duration::from_secs(10));
    let mut dies = Bench::rotating_by(data, Rotation::NEVER, fake.clone());
    dies.open("killed");
    dies.fill("killed", 1..6);
    drop(dies);
    fake.advance(std::time::Duration::from_secs(10));
    let mut bench = Bench::rotating_by(data, Rotation::NEVER, fake);
    bench.open("live");
    bench.fill("live", 1..8);
    bench
}

#[test]
fn runs_are_listed_in_order_with_their_state() {
    let temp = tempfile::tempdir().unwrap();
    assert!(listed(temp.path()).is_empty());
    assert_eq!(run(&["runs"], temp.path()).stdout, b"");
    let bench = in_each_state(temp.path());
    let runs = listed(temp.path());
    let states: Vec<_> = runs
        .iter()
        .map(|run| (run.execution_id.as_str(), run.state.as_str(), run.events))
        .collect();
    let expected = [
        ("done", "completed", 10),
        ("failed", "failed", 10),
        ("left", "detached", 3),
        ("killed", "cut off", 5),
        ("live", "running", 7),
    ];
    assert_eq!(states, expected);
    for (number, run) in runs.iter().enumerate() {
        assert_eq!(
            (run.kind.as_str(), run.label.as_str()),
            ("test", run.execution_id.as_str())
        );
        assert_eq!(run.started, at(10_000 * number as i64));
        assert_eq!(run.last_event, run.started);
        assert_eq!(run.exit_status, (number == 0).then_some(3));
        let files = fs::read_dir(&run.path).unwrap();
        let size: u64 = files
            .map(|file| file.unwrap().metadata().unwrap().len())
            .sum();
        assert_eq!(run.size_bytes, size, "{}", run.execution_id);
        // The duration of an open run counts until now, others until their last event.
        assert_eq!(run.duration_ms > 0, run.state == "running", "{run:?}");
    }
    let table = text(&run(&["runs"], temp.path()).stdout);
    let mut lines = table.lines();
    assert!(lines.next().unwrap().starts_with("RUN "), "{table}");
    for ((id, state, events), line) in expected.iter().zip(lines) {
        assert!(line.starts_with(id) && line.contains(state), "{table}");
        assert!(line.contains(&format!(" {events} ")), "{table}");
    }
    bench.finish();
    assert_eq!(listed(temp.path())[4].state, "detached");
    assert_wrong_usage(&run(&["runs", "--no-log"], temp.path()), "--no-log");
}

#[test]
fn logs_of_the_seed_are_listed_and_other_files_ignored() {
    let temp = tempfile::tempdir().unwrap();
    let runs = temp.path().join("runs");
    // An early log: no numbers, whole seconds, no metadata.
    let seed = runs.join("abc123");
    fs::create_dir_all(&seed).unwrap();
    let lines = concat!(
        r#"{"ts":"2026-01-21T10:00:00Z","event":{"type":"LoopStarted","execution_id":"abc123","loop_type":"Phase","task":"Add auth"}}"#,
        "\n",
        r#"{"ts":"2026-01-21T10:00:01Z","event":{"type":"IterationStarted","execution_id":"abc123","iteration":1}}"#,
        "\n",
        r#"{"ts":"2026-01-21T10:00:30Z","event":{"type":"LoopCompleted","execution_id":"abc123","success":true,"total_iterations":1,"total_duration_ms":30000}}"#,
        "\n"
    );
    fs::write(seed.join("events.jsonl"), lines).unwrap();
    let foreign = runs.join("notes");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("README"), "mine").unwrap();
    fs::write(runs.join("a file"), "mine").unwrap();
    let elsewhere = temp.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("events.jsonl"), lines).unwrap();
    symlink(&elsewhere, runs.join("link")).unwrap();
    symlink(elsewhere.join("nowhere"), runs.join("dangling")).unwrap();

    let found = listed(temp.path());
    assert_eq!(ids(&found), ["abc123"]);
    assert_eq!((found[0].events, found[0].state.as_str()), (3, "unknown"));
    assert_eq!((found[0].started, found[0].last_event), (at(0), at(30_000)));
    assert_eq!(found[0].duration_ms, 30_000);
    let printed = run(&["log", "abc123", "--json"], temp.path());
    assert_code(&printed, 0);
    assert_eq!(text(&printed.stdout), lines);
    assert_wrong_usage(&run(&["log", "nobody"], temp.path()), "nobody");

    assert_eq!(prune(temp.path(), &["--keep-runs", "0"]), ["abc123"]);
    assert!(!seed.exists());
    assert!(foreign.join("README").exists() && runs.join("a file").exists());
    assert!(elsewhere.join("events.jsonl").exists() && runs.join("link").is_symlink());
}

#[test]
fn pruning_removes_the_oldest_and_never_an_open_run() {
    let temp = tempfile::tempdir().unwrap();
    let data = temp.path();
    let bench = in_each_state(data);
    let all = ids(&listed(data)).join(" ");
    for limits in [
        &["--keep-runs", "0", "--dry-run"][..],
        &["--keep-age", "1ms", "-n"],
        &["--keep-size", "0", "-n"],
    ] {
        assert_eq!(
            prune(data, limits),
            ["done", "failed", "left", "killed"],
            "{limits:?}"
        );
        assert_eq!(
            ids(&listed(data)).join(" "),
            all,
            "{limits:?} is only a question"
        );
    }
    assert_eq!(prune(data, &["--keep-runs", "5"]), [""; 0]);
    assert_eq!(prune(data, &["--keep-size", "none"]), [""; 0]);
    // The default is 10 GiB.
    assert_eq!(prune(data, &[]), [""; 0]);
    assert_eq!(prune(data, &["--keep-runs", "4"]), ["done"]);
    let sizes: Vec<u64> = listed(data).iter().map(|run| run.size_bytes).collect();
    let keep = (sizes.iter().sum::<u64>() - sizes[0]).to_string();
    assert_eq!(prune(data, &["--keep-size", &keep]), ["failed"]);
    // Symbolic links in a run lead out of it: only the links are removed.
    let outside = data.join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "").unwrap();
    symlink(&outside, data.join("runs/left/iterations")).unwrap();
    let pruned = run(&["runs", "prune", "--keep-age", "1ms"], data);
    assert_code(&pruned, 0);
    assert!(
        text(&pruned.stdout).ends_with("2 runs removed, 0B\n")
            || text(&pruned.stdout).contains("2 runs removed"),
        "{pruned:#?}"
    );
    assert!(outside.join("kept").exists());
    assert_eq!(ids(&listed(data)), ["live"]);
    assert_eq!(fs::read_dir(data.join("runs")).unwrap().count(), 1);
    bench.finish();
    assert_eq!(prune(data, &["--keep-runs", "0"]), ["live"]);
    assert_wrong_usage(
        &run(&["runs", "prune", "--keep-age", "soon"], data),
        "--keep-age",
    );
}

#[test]
fn a_recent_run_is_kept_by_age() {
    let temp = tempfile::tempdir().unwrap();
    record(temp.path(), "old", &[(0, "a line")]);
    let mut bench = Bench::rotating(temp.path(), Rotation::NEVER);
    bench.open("young");
    bench.append(&[token("young", 1, td_observe::Clock::system().wall())]);
    bench.finish();
    assert_eq!(prune(temp.path(), &["--keep-age", "1d"]), ["old"]);
    assert_eq!(ids(&listed(temp.path())), ["young"]);
}

#[test]
fn names_are_shown_unchanged_and_find_their_runs() {
    let temp = tempfile::tempdir().unwrap();
    let long = "a long name ".repeat(40);
    let names = [
        "..",
        "a\u{1b}[2Jb",
        "a\nb",
        "100%",
        "漢字 job",
        &long,
        "back\\slash",
        "\u{9b}31m",
    ];
    for (number, name) in names.iter().enumerate() {
        record(temp.path(), name, &[(number as i64 * 1000, "said once")]);
    }
    let mut runs = listed(temp.path());
    // They were created at the same time, so only their last events give their order.
    runs.sort_by_key(|run| run.last_event);
    assert_eq!(ids(&runs), names);
    for (listed, name) in runs.iter().zip(names) {
        let encoded = encode_name(name);
        assert_eq!(
            Path::new(&listed.path).file_name().unwrap().to_str(),
            Some(&*encoded)
        );
        let printed = run(&["log", name, "--json"], temp.path());
        assert_code(&printed, 0);
        assert_eq!(
            text(&printed.stdout).matches("said once").count(),
            1,
            "{name:?}"
        );
        // The path names the run, too.
        let by_path = run(&["log", &listed.path, "--json"], temp.path());
        assert_eq!(by_path.stdout, printed.stdout, "{name:?}");
    }
    // Names are printed without control characters and line ends.
    let table = text(&run(&["runs"], temp.path()).stdout);
    assert_eq!(table.lines().count(), names.len() + 1, "{table}");
    let plain = text(&run(&["runs", "--json"], temp.path()).stdout);
    for shown in [&table, &plain] {
        assert!(
            !shown.contains(|c: char| c.is_control() && c != '\n'),
            "{shown:?}"
        );
    }
    let removed = prune(temp.path(), &["--keep-runs", "0"]);
    assert_eq!(removed, names);
    assert_eq!(fs::read_dir(temp.path().join("runs")).unwrap().count(), 0);
}

#[test]
fn retention_is_applied_when_a_run_begins() {
    let temp = tempfile::tempdir().unwrap();
    for number in 0..5 {
        record(
            temp.path(),
            &format!("old-{number}"),
            &[(number * 1000, "a line")],
        );
    }
    let retention = Retention {
        runs_max: Some(3),
        ..Retention::EVERYTHING
    };
    let builder = Builder::new().data_dir(temp.path()).retention(retention);
    let engine = builder.start().unwrap();
    let first = engine.emitter_for("new", RunInfo::default()).unwrap();
    first.token_received(1, "a token");
    let existing = || {
        let now = td_observe::Clock::system().wall();
        let list = DataDir::new(temp.path()).runs(now).unwrap();
        list.runs
            .iter()
            .map(|run| run.execution_id.to_string())
            .collect::<Vec<_>>()
    };
    wait_for("the oldest to go", CEILING, || match existing() {
        runs if runs == ["old-3", "old-4", "new"] => Ok(()),
        runs => Err(runs),
    });
    engine.shutdown();
}

#[test]
fn unknown_arguments_of_runs_are_a_one_line_error() {
    let temp = tempfile::tempdir().unwrap();
    for (args, expected) in [
        (&["runs", "build"][..], "\"build\" is not known here"),
        (&["runs", "--json", "pune"], "runs prune"),
        (&["runs", "-L", "work"], "leave them out"),
        (&["-S", "/tmp/socket", "runs", "prune"], "leave them out"),
    ] {
        assert_wrong_usage(&run(args, temp.path()), expected);
    }
}
