//! Kills a watching program repeatedly during a flood of one run: written lines are whole, and the
//! next program continues.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;
use td_observe::Envelope;
use td_observe::history::DataDir;

use super::{accounted, events_of, files, values};
use crate::cli::{Running, assert_code, on, program, run};
use crate::support::{CEILING, TmuxServer, wait_for};

/// Prints numbered lines, some thousand a second, until it is killed.
const FLOOD: &str =
    "i=1; while :; do seq -f 'line %.0f.' $i $((i+99)); i=$((i+100)); sleep 0.02; done";

const RUN: &str = "flood";

/// Starts watching as one run.
#[track_caller]
fn watch(server: &TmuxServer, data: &Path, more: &[&str]) -> Running {
    let socket = server.socket().display().to_string();
    let args = [
        "watch",
        "job",
        "--execution-id",
        RUN,
        "--json",
        "--interval",
        "20ms",
    ];
    let args: Vec<&str> = args.iter().chain(more).copied().collect();
    Running::start(program(&on(&socket, &args), data))
}

/// Waits for this many events of output.
#[track_caller]
fn until_output(watch: &Running, events: usize) {
    let mut seen = 0;
    while seen < events {
        let line = watch.lines.recv_timeout(CEILING).unwrap();
        seen += usize::from(line.contains("\"OutputUpdate\""));
    }
}

/// Returns what `runs --json` prints for the run.
#[track_caller]
fn listed(data: &Path) -> Value {
    let output = run(&["runs", "--json"], data);
    assert_code(&output, 0);
    let mut runs = values(&output.stdout);
    assert_eq!(runs.len(), 1);
    runs.remove(0)
}

/// Checks that all whole lines of the files are events with contiguous numbers from 1, and that
/// only the newest file may end within a line.
#[track_caller]
fn whole(directory: &Path) -> Vec<(Envelope, Vec<u8>)> {
    let files = files(directory);
    for file in &files {
        let is_newest = file.name == "events.jsonl";
        assert!(is_newest || file.bytes.ends_with(b"\n"), "{}", file.name);
    }
    let events = events_of(&files);
    accounted(events.iter().map(|(event, _)| event), 1);
    events
}

#[track_caller]
fn survives(kills: usize, more: &[&str]) -> usize {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    server.new_session("job", 80, 24, FLOOD);
    let directory = DataDir::new(data.path()).run(&RUN.into()).path().to_owned();
    let mut before = 0;
    for kill in 0..kills {
        let mut watch = watch(&server, data.path(), more);
        // Each kill is a little later than the previous one.
        until_output(&watch, 1 + kill * 3);
        watch.signal(Signal::KILL);
        watch.child.wait().unwrap();

        let events = whole(&directory);
        assert!(
            events.len() > before,
            "kill {kill}: nothing came to the log"
        );
        before = events.len();
        // A child that the observer had just forked holds its lock until it becomes tmux.
        let listed = wait_for("the lock to be free", CEILING, || {
            let listed = listed(data.path());
            if listed["state"] == "running" {
                Err(listed)
            } else {
                Ok(listed)
            }
        });
        assert_eq!(listed["state"], "cut off", "{listed}");
        assert_eq!(listed["execution_id"], RUN);
        let last = events[events.len() - 1].0.seq;
        assert_eq!(listed["events"].as_u64(), last, "kill {kill}");
        let table = run(&["runs"], data.path());
        assert!(String::from_utf8_lossy(&table.stdout).contains("cut off"));
    }
    let watch = watch(&server, data.path(), more);
    until_output(&watch, 3);
    assert_eq!(listed(data.path())["state"], "running");
    server.tmux(&["kill-session", "-t", "=job"]);
    let output = watch.end();
    assert_code(&output, 0);
    let last = values(&output.stdout).pop().unwrap();
    assert_eq!(last["event"]["type"], "SessionEnded", "{last}");

    let events = whole(&directory);
    let listed = listed(data.path());
    assert_eq!(listed["state"], "completed", "{listed}");
    assert_eq!(listed["events"], last["seq"], "{listed}");
    // `log` prints each whole line unchanged, and nothing else.
    let printed = run(&["log", RUN, "--json"], data.path());
    assert_code(&printed, 0);
    assert!(printed.stderr.is_empty(), "{printed:#?}");
    let lines: Vec<&[u8]> = printed
        .stdout
        .split_inclusive(|&byte| byte == b'\n')
        .collect();
    assert_eq!(lines.len(), events.len());
    for (line, (_, kept)) in lines.iter().zip(&events) {
        assert!(
            line.strip_suffix(b"\n") == Some(kept),
            "{}",
            String::from_utf8_lossy(kept)
        );
    }
    fs::read_dir(&directory).unwrap().count()
}

#[test]
fn kills_leave_whole_lines_with_contiguous_numbers() {
    survives(6, &[]);
}

#[test]
fn kills_during_rotation_leave_whole_lines() {
    let entries = survives(8, &["--rotate-size", "20k"]);
    assert!(entries > 6, "it was to rotate: {entries}");
}

#[test]
fn the_lock_of_a_killed_process_is_free() {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    server.new_session("job", 80, 24, FLOOD);
    let first = watch(&server, data.path(), &[]);
    until_output(&first, 1);
    // While it lives, another observer observes without a log and names the holder.
    let second = watch(&server, data.path(), &[]);
    until_output(&second, 1);
    second.signal(Signal::INT);
    let output = second.end();
    assert_code(&output, 0);
    let pid = first.child.id().to_string();
    assert!(
        String::from_utf8_lossy(&output.stderr).contains(&pid),
        "{output:#?}"
    );
    assert_eq!(listed(data.path())["state"], "running");
    first.signal(Signal::KILL);
    let mut first = first;
    first.child.wait().unwrap();
    wait_for("the run to be cut off", CEILING, || {
        let listed = listed(data.path());
        if listed["state"] == "cut off" {
            Ok(())
        } else {
            Err(listed)
        }
    });
}
