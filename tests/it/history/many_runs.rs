//! `log` of several runs, merged by time; its last lines, its context, its times.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

use flate2::Compression;
use flate2::write::GzEncoder;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{assert_wrong_usage, values};
use crate::cli::{Running, after_opening, assert_code, program, run, text};
use crate::resources::peak_kb;
use crate::support::{CEILING, wait_for};

/// Returns the samples' time plus this many milliseconds.
fn at(millis: u64) -> String {
    let (s, ms) = (millis / 1000, millis % 1000);
    format!(
        "2026-01-21T{:02}:{:02}:{:02}.{ms:03}000Z",
        10 + s / 3600,
        s / 60 % 60,
        s % 60
    )
}

/// Writes a run of a command with these lines, each with its time.
fn write_run(data: &Path, id: &str, label: &str, lines: &[(u64, &str)]) {
    let directory = data.join("runs").join(id);
    fs::create_dir_all(&directory).unwrap();
    let created = lines
        .first()
        .map_or_else(|| at(0), |(millis, _)| at(*millis));
    let metadata = json!({"schema": 1, "execution_id": id, "kind": "process", "label": label,
        "created": created, "updated": created, "state": "completed"});
    fs::write(directory.join("metadata.json"), metadata.to_string()).unwrap();
    let lines: Vec<String> = lines
        .iter()
        .zip(1..)
        .map(|((millis, text), seq)| {
            json!({"seq": seq, "ts": at(*millis), "event": {"type": "ExecutionOutput",
            "execution_id": id, "stream": "stdout", "text": format!("{text}\n")}})
            .to_string()
                + "\n"
        })
        .collect();
    fs::write(directory.join("events.jsonl"), lines.concat()).unwrap();
}

fn three_runs() -> tempfile::TempDir {
    let data = tempfile::tempdir().unwrap();
    write_run(
        data.path(),
        "agent-1@1",
        "agent-1",
        &[(0, "one a"), (2000, "one b"), (9000, "one c")],
    );
    write_run(
        data.path(),
        "agent-2@2",
        "agent-2",
        &[(1000, "two a"), (3000, "two b"), (4000, "two error")],
    );
    write_run(
        data.path(),
        "build@3",
        "build",
        &[(2500, "build x"), (5000, "build error"), (6000, "build y")],
    );
    data
}

#[track_caller]
fn log(data: &Path, args: &[&str]) -> Output {
    run(&[&["log"], args].concat(), data)
}

/// Returns the printed lines, each after its label.
fn shown(output: &Output) -> Vec<String> {
    let lines = text(&output.stdout);
    lines
        .lines()
        .map(|line| line.rsplit(" | ").next().unwrap().to_owned())
        .collect()
}

#[test]
fn several_runs_are_merged_by_time_and_labelled() {
    let data = three_runs();
    let all = [
        "one a",
        "two a",
        "one b",
        "build x",
        "two b",
        "two error",
        "build error",
        "build y",
        "one c",
    ];
    let output = log(data.path(), &[]);
    assert_code(&output, 0);
    assert_eq!(shown(&output), all);
    let text = text(&output.stdout);
    assert!(
        text.contains("agent-1@1") && text.contains("build@3"),
        "{text}"
    );
    let agents = ["one a", "two a", "one b", "two b", "two error", "one c"];
    assert_eq!(shown(&log(data.path(), &["agent-*"])), agents);
    assert_eq!(shown(&log(data.path(), &["agent-?@*"])), agents);
    // Each run once, however often it is named.
    assert_eq!(
        shown(&log(data.path(), &["agent-1", "agent-*", "agent-2@2"])),
        agents
    );
    let json = log(data.path(), &["--json", "build", "agent-2"]);
    let lines = values(&json.stdout);
    assert_eq!(lines.len(), 6);
    assert!(lines.is_sorted_by_key(|line| line["ts"].as_str().unwrap().to_owned()));
    for of in ["build@3", "agent-2@2"] {
        let path = data.path().join("runs").join(of).join("events.jsonl");
        for line in fs::read_to_string(path).unwrap().lines() {
            assert!(self::text(&json.stdout).contains(line), "{line}");
        }
    }
    assert_wrong_usage(&log(data.path(), &["nothing-*"]), "no run matches");
    assert_wrong_usage(
        &log(data.path(), &["agent-1", "nothing"]),
        "no run is called",
    );
}

#[test]
fn without_runs_there_is_nothing_to_merge() {
    let data = tempfile::tempdir().unwrap();
    let output = log(data.path(), &[]);
    assert_code(&output, 0);
    assert!(text(&output.stderr).contains("no runs"), "{output:?}");
    assert_code(&log(data.path(), &["--grep", "x"]), 1);
}

#[test]
fn a_search_without_a_match_exits_with_1() {
    let data = three_runs();
    for (args, code) in [
        (&["--grep", "error"][..], 0),
        (&["--grep", "nowhere"], 1),
        (&["build", "--grep", "error"], 0),
        (&["build", "--grep", "nowhere"], 1),
        (&["build", "--grep", "nowhere", "--json"], 1),
        (&["build", "--grep", "nowhere", "-C", "3"], 1),
        (&["build", "--grep", "error", "-q"], 0),
        (&["build", "--grep", "nowhere", "-q"], 1),
        (
            &[
                "build",
                "--grep",
                "error",
                "--until",
                "2026-01-21T10:00:01Z",
            ],
            1,
        ),
        (&["build", "--type", "Warning"], 0),
    ] {
        let output = log(data.path(), args);
        assert_code(&output, code);
        assert_eq!(
            output.stdout.is_empty(),
            code == 1 || args.contains(&"-q") || args.contains(&"--type"),
            "{args:?}"
        );
    }
}

#[test]
fn the_last_lines_are_those_that_would_be_printed_last() {
    let data = three_runs();
    assert_eq!(shown(&log(data.path(), &["-n", "2"])), ["build y", "one c"]);
    assert_eq!(shown(&log(data.path(), &["-n", "1", "build"])), ["build y"]);
    assert_eq!(shown(&log(data.path(), &["-n", "0"])), [""; 0]);
    assert_eq!(shown(&log(data.path(), &["-n", "99", "build"])).len(), 3);
    let json = log(data.path(), &["-n", "1", "--json"]);
    assert_eq!(values(&json.stdout).len(), 1);
    assert_wrong_usage(&log(data.path(), &["-n", "-1"]), "-1");
}

#[test]
fn lines_around_a_match_are_shown() {
    let data = tempfile::tempdir().unwrap();
    let lines: Vec<(u64, String)> = (1..=40).map(|n| (n, format!("line {n}"))).collect();
    let lines: Vec<(u64, &str)> = lines
        .iter()
        .map(|(at, text)| (*at, text.as_str()))
        .collect();
    write_run(data.path(), "a@1", "a", &lines);
    // Each line of a multi-line event counts.
    let chunk: Vec<String> = (1..=9).map(|n| format!("text {n}")).collect();
    write_run(data.path(), "b@2", "b", &[(50, &chunk.join("\n"))]);
    let around = |args: &[&str]| shown(&log(data.path(), args));
    assert_eq!(
        around(&["a", "--grep", "^line (7|30)$", "-C", "1"]),
        [
            "line 6", "line 7", "line 8", "--", "line 29", "line 30", "line 31"
        ]
    );
    assert_eq!(
        around(&["a", "--grep", "^line (7|9)$", "-C", "1"]),
        ["line 6", "line 7", "line 8", "line 9", "line 10"]
    );
    assert_eq!(
        around(&["a", "--grep", "^line 1$", "-C", "2"]),
        ["line 1", "line 2", "line 3"]
    );
    assert_eq!(
        around(&["b", "--grep", "text 5", "-C", "1"]),
        ["text 4", "text 5", "text 6"]
    );
    assert_eq!(around(&["b", "--grep", "text 5"]), ["text 5"]);
    assert_eq!(
        around(&["a", "--grep", "^line (7|30)$", "-C", "0"]),
        ["line 7", "line 30"]
    );
    let json = log(
        data.path(),
        &["a", "--grep", "^line 7$", "-C", "1", "--json"],
    );
    assert_eq!(values(&json.stdout).len(), 3);
    assert_wrong_usage(&log(data.path(), &["a", "-C", "1"]), "--grep");
}

#[test]
fn times_are_local() {
    let data = three_runs();
    let with_zone = |args: &[&str]| {
        let mut command = program(args, data.path());
        command.env("TZ", "Asia/Kolkata");
        let output = Running::start(command).end();
        assert_code(&output, 0);
        text(&output.stdout)
    };
    let shown = with_zone(&["log", "build", "--timestamps"]);
    assert!(
        shown.starts_with("2026-01-21 15:30:02.500 build@3"),
        "{shown}"
    );
    let listed = with_zone(&["runs"]);
    assert!(listed.contains("2026-01-21T15:30:02 "), "{listed}");
    let listed = with_zone(&["runs", "--timestamps"]);
    assert!(
        listed.contains("LAST-EVENT") && listed.contains("2026-01-21T15:30:06.000"),
        "{listed}"
    );
    // A printed time is accepted as an argument.
    for since in [
        "2026-01-21 15:30:05",
        "2026-01-21T15:30:05",
        "2026-01-21T10:00:05Z",
        "2026-01-21 15:30:05.000",
    ] {
        let shown = with_zone(&["log", "build", "--since", since]);
        assert_eq!(shown.lines().count(), 2, "{since}: {shown}");
    }
    for since in ["2026-01-21 15:30", "2026-01-21", "1000d"] {
        let since = if since == "1000d" { "360d" } else { since };
        let shown = with_zone(&["log", "build", "--since", since]);
        assert!(
            shown.lines().count() == 3 || since == "360d",
            "{since}: {shown}"
        );
    }
    for wrong in ["13", "tomorrow", "25:00", "2026-02-30"] {
        assert_wrong_usage(&log(data.path(), &["--since", wrong]), "write a time as");
    }
}

#[test]
fn since_finds_recent_events() {
    let data = tempfile::tempdir().unwrap();
    assert_code(&run(&["run", "-q", "echo", "fresh"], data.path()), 0);
    for since in ["10m", "yesterday", "today"] {
        let output = log(
            data.path(),
            &["--since", since, "--type", "ExecutionOutput"],
        );
        // Just after midnight, today has just begun.
        assert!(
            since == "today" || shown(&output) == ["fresh"],
            "{since}: {output:?}"
        );
    }
    let minute = Command::new("date")
        .args(["-d", "1 minute ago", "+%H:%M"])
        .output()
        .unwrap();
    let minute = text(&minute.stdout);
    let output = log(
        data.path(),
        &["--since", minute.trim(), "--type", "ExecutionOutput"],
    );
    assert_eq!(shown(&output), ["fresh"], "{minute}");
}

#[test]
fn memory_does_not_grow_with_the_number_and_size_of_runs() {
    let peak_of = |runs: u64, events: u64, is_packed: bool| {
        let data = tempfile::tempdir().unwrap();
        let filler = "x".repeat(200);
        for number in 0..runs {
            let id = format!("r{number}@1");
            let lines: Vec<(u64, String)> = (0..events)
                .map(|n| (n * runs + number, format!("{filler} {n}")))
                .collect();
            let lines: Vec<(u64, &str)> = lines
                .iter()
                .map(|(at, text)| (*at, text.as_str()))
                .collect();
            write_run(data.path(), &id, &format!("r{number}"), &lines);
            if is_packed {
                let directory = data.path().join("runs").join(&id);
                let events = fs::read(directory.join("events.jsonl")).unwrap();
                let file = fs::File::create(directory.join("events.000001.jsonl.gz")).unwrap();
                let mut packed = GzEncoder::new(file, Compression::fast());
                packed.write_all(&events).unwrap();
                packed.finish().unwrap();
                fs::write(directory.join("events.jsonl"), "").unwrap();
            }
        }
        let out = fs::File::create(data.path().join("out")).unwrap();
        let mut child = program(&["log"], data.path()).stdout(out).spawn().unwrap();
        let mut peak = 0;
        let status = wait_for("the end", CEILING, || {
            peak = peak_kb(child.id()).unwrap_or(peak);
            child.try_wait().unwrap().ok_or(peak)
        });
        assert!(status.success());
        let printed = fs::read_to_string(data.path().join("out")).unwrap();
        assert_eq!(printed.lines().count() as u64, runs * events);
        assert!(peak > 1000);
        peak
    };
    let one = peak_of(1, 40_000, false);
    let many = peak_of(200, 200, false);
    let packed = peak_of(200, 200, true);
    assert!(many < one + 25 * 1024, "{one} kB, {many} kB");
    assert!(packed < one + 60 * 1024, "{one} kB, {packed} kB");
}

#[test]
fn runs_with_odd_names_are_found() {
    let data = tempfile::tempdir().unwrap();
    for name in ["a b", "ü*", "x/y", "-q"] {
        let id = format!("--execution-id={name}");
        let args = ["run", "-q", &id, "echo", "text"];
        assert_code(&run(&args, data.path()), 0);
    }
    for name in ["a b", "ü*", "x/y"] {
        let output = log(data.path(), &[name, "--type", "ExecutionOutput"]);
        assert_eq!(shown(&output), ["text"], "{name}");
    }
    let output = log(data.path(), &["--type", "ExecutionOutput", "--", "-q"]);
    assert_eq!(shown(&output), ["text"]);
    assert_eq!(
        shown(&log(data.path(), &["*", "--type", "ExecutionOutput"])).len(),
        4
    );
}

#[test]
fn several_runs_are_followed_including_later_ones() {
    let data = tempfile::tempdir().unwrap();
    let go = data.path().join("go");
    let script = format!(
        "echo early; while ! test -e {}; do sleep 0.02; done; echo late",
        go.display()
    );
    let start = |id: &str| {
        let args = [
            "run",
            "--json",
            "--execution-id",
            id,
            "--",
            "sh",
            "-c",
            &script,
        ];
        let mut running = Running::start(program(&args, data.path()));
        running.wait_for("early");
        running
    };
    let (a, b) = (start("job-a"), start("job-b"));
    let mut named = Running::start(program(
        &[
            "log",
            "-f",
            "job-a",
            "job-b",
            "--type",
            "ExecutionOutput",
            "--json",
        ],
        data.path(),
    ));
    let mut all = Running::start(program(&["log", "-f", "job-*", "-n", "1"], data.path()));
    named.until("both", |lines| {
        lines.iter().filter(|line| line.contains("early")).count() == 2
    });
    all.until("a line", |lines| !lines.is_empty());
    let c = start("job-c");
    all.wait_for_all(&["job-c", "early"]);
    fs::write(&go, "").unwrap();
    for running in [a, b, c] {
        assert_code(&running.end(), 0);
    }
    let output = named.end();
    assert_code(&output, 0);
    let texts: Vec<Value> = values(after_opening(&output.stdout))
        .iter()
        .map(|line| line["event"]["text"].clone())
        .collect();
    assert_eq!(texts.len(), 4, "{texts:?}");
    for name in ["job-a", "job-b", "job-c"] {
        all.wait_for_all(&[name, "late"]);
    }
    all.signal(Signal::INT);
    let output = all.end();
    assert_code(&output, 0);
    let printed = text(&output.stdout);
    for name in ["job-a", "job-b", "job-c"] {
        let late = printed
            .lines()
            .filter(|line| line.contains(name) && line.ends_with("| late"));
        assert_eq!(late.count(), 1, "{printed}");
    }
}

#[test]
fn a_closed_pipe_ends_the_log_quietly() {
    let data = tempfile::tempdir().unwrap();
    for id in ["a@1", "b@1"] {
        let lines: Vec<(u64, &str)> = (0..20_000).map(|n| (n, "a line of text")).collect();
        write_run(data.path(), id, &id[..1], &lines);
    }
    crate::cli::ends_quietly_unread(program(&["log"], data.path()));
    crate::cli::ends_quietly_unread(program(&["log", "-n", "9999"], data.path()));
}
