//! Raw recordings on a disk that is full for a while, without secrets, and as the source of an
//! export.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use td_observe::history::{DataDir, RunDirectory, RunInfo};
use td_observe::internals::history::open_run;
use td_observe::internals::recording::{RecordingWriter, RunRecorder};
use td_observe::recording::{RecordingFile, RecordingReport};
use td_observe::redact::Rules;
use td_observe::{Clock, PaneId, Timestamp};

use super::{assert_wrong_usage, record};
use crate::cli::{assert_code, run, text};
use crate::support::CEILING;
use crate::writer::SmallDisk;

fn at(millis: i64) -> Timestamp {
    super::at(millis)
}

/// Returns a writer and its warnings.
fn writer(rules: Rules) -> (RecordingWriter, Receiver<String>) {
    let (sender, warnings) = sync_channel(100);
    let on_warning =
        move |_: &td_observe::ExecutionId, warning: &str| sender.send(warning.to_owned()).unwrap();
    let writer = RecordingWriter::new(rules, Clock::system(), on_warning);
    (writer, warnings)
}

fn finish(writer: RecordingWriter) -> RecordingReport {
    let report = writer.finish(Clock::system().now() + CEILING).unwrap();
    assert!(!report.timed_out && report.panicked.is_none(), "{report:?}");
    report
}

fn files(run: &RunDirectory) -> Vec<RecordingFile> {
    run.recordings().unwrap()
}

type Event = (f64, char, String);

/// Returns the events of a recording, each line of which must be whole.
#[track_caller]
fn events(cast: &str) -> Vec<Event> {
    assert!(
        cast.ends_with('\n'),
        "torn: {:?}",
        &cast[cast.len().saturating_sub(200)..]
    );
    let mut lines = cast.lines();
    let header: serde_json::Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(header["version"], 3);
    let read =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"));
    lines.map(read).collect()
}

/// Returns the header and the events of a recording in version 2 of the format.
#[track_caller]
fn version_2(cast: &str) -> (serde_json::Value, Vec<Event>) {
    assert!(cast.ends_with('\n'), "torn");
    let mut lines = cast.lines();
    let header = serde_json::from_str(lines.next().unwrap()).unwrap();
    let events: Vec<Event> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(events.is_sorted_by_key(|(time, ..)| *time), "{events:?}");
    (header, events)
}

/// Returns the events with their times from the beginning, as version 2 has them: an exit is no event.
fn absolute(events: &[Event]) -> Vec<Event> {
    let mut time = 0.0;
    let in_version_2 = |(interval, code, data): &Event| {
        time += interval;
        match code {
            'x' => (time, 'o', String::new()),
            code => (time, *code, data.clone()),
        }
    };
    events.iter().map(in_version_2).collect()
}

fn output(events: &[Event]) -> String {
    let output = events.iter().filter(|(_, code, _)| *code == 'o');
    output.map(|(.., data)| data.as_str()).collect()
}

fn assert_warning(warnings: &Receiver<String>, part: &str) {
    let warning = warnings.recv_timeout(CEILING).unwrap();
    assert!(warning.contains(part), "{warning}");
}

/// Returns a run on a small disk, and the file that fills the disk.
fn full(disk: &Path) -> (RunDirectory, std::path::PathBuf) {
    let directory = DataDir::new(disk).run(&"job".into());
    drop(open_run(&directory, RunInfo::default(), at(0)).unwrap());
    let path = disk.join("filler");
    let mut filler = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .unwrap();
    let room = 64 * 1024;
    for chunk in [1 << 16, 1 << 12, 1] {
        while filler.write_all(&vec![b'x'; chunk]).is_ok() {}
    }
    let len = filler.metadata().unwrap().len();
    filler.set_len(len - room).unwrap();
    (directory, path)
}

#[test]
fn a_full_disk_warns_once_and_lost_output_has_a_marker() {
    let temp = tempfile::tempdir().unwrap();
    let mount = temp.path().join("disk");
    let Some(_disk) = SmallDisk::mount(&mount, "size=1m") else {
        return;
    };
    let (directory, filler) = full(&mount);
    let (writer, warnings) = writer(Rules::none());
    let recorder = writer.record(&directory, "").unwrap();
    let pane = PaneId::from("%1");
    recorder.begin(&pane, (80, 24), b"", at(0));
    // The disk has room for the first of these only; 16 MiB are queued, and the rest has no room.
    let line = format!("{}\r\n", "x".repeat(998));
    let piece = line.repeat(100);
    writer.begin_shutdown();
    let (mut given, mut dropped) = (0, 0);
    for n in 0..250 {
        given += 1;
        if !recorder.bytes(&pane, piece.as_bytes(), at(n * 20)) {
            dropped += 1;
        }
    }
    assert!((40..150).contains(&dropped), "{dropped}");
    assert_warning(&warnings, "wait for room");
    fs::remove_file(filler).unwrap();
    let remounted = Command::new("mount")
        .args(["-o", "remount,size=60m"])
        .arg(&mount)
        .status();
    assert!(remounted.unwrap().success());
    assert_warning(&warnings, "written again");
    recorder.bytes(&pane, b"the end", at(6000));
    drop(recorder);
    assert_eq!(finish(writer).lost, []);
    assert!(warnings.try_recv().is_err());
    let cast = fs::read_to_string(&files(&directory)[0].path).unwrap();
    let events = events(&cast);
    let text = output(&events);
    let kept = (given - dropped) * piece.len() + "the end".len();
    assert_eq!(text.len(), kept);
    assert!(text.ends_with("\r\nthe end"));
    let markers: Vec<&str> = events
        .iter()
        .filter(|(_, code, _)| *code == 'm')
        .map(|(.., data)| data.as_str())
        .collect();
    let (bytes, ends) = (dropped * piece.len(), dropped * 100);
    assert_eq!(
        markers,
        [format!(
            "{bytes} bytes are missing here, {ends} line ends among them"
        )]
    );
}

#[test]
fn the_end_does_not_wait_for_a_disk_that_stays_full() {
    let temp = tempfile::tempdir().unwrap();
    let mount = temp.path().join("disk");
    let Some(_disk) = SmallDisk::mount(&mount, "size=1m") else {
        return;
    };
    let (directory, _) = full(&mount);
    let (writer, warnings) = writer(Rules::none());
    let recorder = writer.record(&directory, "").unwrap();
    let panes = ["%1", "%2"].map(PaneId::from);
    for n in 0..40 {
        for pane in &panes {
            recorder.bytes(pane, &[b'x'; 10_000], at(n * 20));
        }
    }
    assert_warning(&warnings, "wait for room");
    drop(recorder);
    let before = Clock::system().now();
    let report = finish(writer);
    assert!(Clock::system().now() - before < Duration::from_secs(5));
    assert!(
        !report.lost.is_empty() && report.lost.len() <= 2,
        "{report:?}"
    );
    assert!(report.lost[0].cause.contains("No space left"), "{report:?}");
    // The written lines are whole.
    for file in files(&directory) {
        let cast = fs::read_to_string(&file.path).unwrap();
        if !cast.is_empty() {
            events(&cast);
        }
    }
}

#[test]
fn keys_in_pieces_do_not_reach_the_disk() {
    let temp = tempfile::tempdir().unwrap();
    let directory = DataDir::new(temp.path()).run(&"job".into());
    drop(open_run(&directory, RunInfo::default(), at(0)).unwrap());
    let (writer, _warnings) = writer(Rules::builtin());
    let recorder = writer.record(&directory, "").unwrap();
    let key = format!("gh{}_{}", "p", "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6");
    let (mut now, pane) = (0, PaneId::from("%1"));
    let mut print = |pieces: &[&str]| {
        for piece in pieces {
            now += 100;
            recorder.bytes(&pane, piece.as_bytes(), at(now));
        }
    };
    print(&["in two writes: ", &key[..13], &key[13..], "\r\n"]);
    print(&[
        "with colours: \x1b[1m",
        &key[..20],
        "\x1b[32m",
        &key[20..],
        "\x1b[0m\r\n",
    ]);
    let bytes: Vec<String> = key.chars().map(String::from).collect();
    let bytes: Vec<&str> = bytes.iter().map(String::as_str).collect();
    print(&["typed: "]);
    print(&bytes);
    print(&["\r\nthe end\r\n"]);
    recorder.begin(
        &pane,
        (80, 24),
        format!("\x1b[H{key}").as_bytes(),
        at(90_000),
    );
    drop(recorder);
    assert_eq!(finish(writer).lost, []);
    let cast = fs::read_to_string(&files(&directory)[0].path).unwrap();
    let shown = output(&events(&cast)).replace("\x1b[32m", "");
    for part in key.as_bytes().windows(12) {
        let part = std::str::from_utf8(part).unwrap();
        assert!(
            !shown.contains(part) && !cast.contains(part),
            "{part}: {shown}"
        );
    }
    assert_eq!(
        shown.matches("[redacted:github-token]").count(),
        4,
        "{shown}"
    );
    assert!(shown.contains("\r\nthe end\r\n"), "{shown}");
}

/// Records a pane twice, as by two consecutive observers.
fn record_twice(directory: &RunDirectory, pane: &str, write: impl Fn(&RunRecorder, &PaneId, i64)) {
    for begin in [0, 60_000] {
        let (writer, _warnings) = writer(Rules::none());
        let recorder = writer.record(directory, "").unwrap();
        write(&recorder, &pane.into(), begin);
        drop(recorder);
        assert_eq!(finish(writer).lost, []);
    }
}

#[test]
fn an_export_uses_the_raw_recordings_if_there_are_any() {
    let temp = tempfile::tempdir().unwrap();
    let directory = record(temp.path(), "job", &[(0, "a"), (1000, "b")]);
    let cast = &["export", "job", "--format", "cast"][..];
    let with = |more: &[&str]| {
        let output = run(&[cast, more].concat(), temp.path());
        assert_code(&output, 0);
        (
            text(&output.stdout).to_owned(),
            text(&output.stderr).to_owned(),
        )
    };
    let (of_log, silent) = with(&[]);
    assert_eq!(silent, "");
    record_twice(&directory, "%1", |recorder, pane, begin| {
        recorder.begin(pane, (70, 20), b"\x1b[2J$ ", at(begin));
        recorder.bytes(
            pane,
            "\x1b[31mrot \u{e9}\x1b[0m\r\n".as_bytes(),
            at(begin + 1000),
        );
        recorder.resized(pane, (71, 21), at(begin + 2000));
        recorder.ended(pane, Some(7), at(begin + 3000));
    });
    let (from_bytes, message) = with(&[]);
    assert!(
        message.contains("raw recording of %1 (2 files)"),
        "{message}"
    );
    let header: serde_json::Value =
        serde_json::from_str(from_bytes.lines().next().unwrap()).unwrap();
    assert_eq!(header["term"], serde_json::json!({"cols": 70, "rows": 20}));
    let red = "\x1b[31mrot \u{e9}\x1b[0m\r\n";
    let expected = [
        (0.0, 'o', "\x1b[2J$ "),
        (1.0, 'o', red),
        (1.0, 'r', "71x21"),
        (58.0, 'm', "exited: 7; recorded anew from here"),
        (0.0, 'r', "70x20"),
        (0.0, 'o', "\x1b[2J$ "),
        (1.0, 'o', red),
        (1.0, 'r', "71x21"),
        (1.0, 'x', "7"),
    ];
    let expected = expected.map(|(seconds, code, data)| (seconds, code, data.to_owned()));
    assert_eq!(events(&from_bytes), expected);
    let header_2 = serde_json::json!({
        "version": 2, "width": 70, "height": 20, "timestamp": header["timestamp"], "title": "job",
    });
    assert_eq!(
        version_2(&with(&["--cast-version", "2"]).0),
        (header_2, absolute(&expected))
    );
    let (of_log_2, silent) = with(&["--from-log", "--cast-version", "2"]);
    assert_eq!(silent, "");
    assert_eq!(version_2(&of_log_2).1, absolute(&events(&of_log)));
    assert_eq!(with(&["--cast-version", "3"]).0, from_bytes);
    let limited_2 = version_2(&with(&["--cast-version", "2", "--idle-limit", "2s"]).0).1;
    assert_eq!(limited_2[limited_2.len() - 1].0, 7.0);
    let (limited, _) = with(&["--idle-limit", "2s"]);
    let seconds: f64 = events(&limited).iter().map(|(seconds, ..)| seconds).sum();
    assert!((seconds - 7.0).abs() < 1e-9, "{seconds}");
    assert_eq!(with(&["--from-log"]), (of_log.clone(), String::new()));
    assert_eq!(with(&["--pane", "%1"]).0, from_bytes);
    // An incomplete line, as a killed writer leaves it, is skipped; another recording follows.
    let path = &files(&directory)[1].path;
    let mut torn = OpenOptions::new().append(true).open(path).unwrap();
    torn.write_all(b"[1.0,\"o\",\"ha").unwrap();
    assert_eq!(with(&[]).0, from_bytes);
    // Two panes: the export cannot choose.
    record_twice(&directory, "%2", |recorder, pane, begin| {
        recorder.bytes(pane, b"other", at(begin));
    });
    let (of_both, message) = with(&[]);
    assert_eq!(of_both, of_log);
    assert!(message.contains("--pane %1, --pane %2"), "{message}");
    assert_eq!(output(&events(&with(&["--pane", "%2"]).0)), "otherother");
    let output = run(&[cast, &["--pane", "%7"]].concat(), temp.path());
    assert_code(&output, 2);
}

#[test]
fn raw_needs_streamed_panes_and_a_log() {
    let temp = tempfile::tempdir().unwrap();
    for (args, message) in [
        (&["watch", "--raw", "--source", "poll"][..], "--source poll"),
        (&["watch", "--raw", "--no-log"], "--no-log"),
    ] {
        assert_wrong_usage(&run(args, temp.path()), message);
    }
}
