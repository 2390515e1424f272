//! External ends: a reader that closes the output, Ctrl-C once and twice, kill -9.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use std::time::Duration;

use rustix::process::{Pid, Signal};

use super::program::{Arriving, command, event, events, script};
use super::{Group, end_of, group_in, kept, text_of};
use crate::cli::{assert_code, run, text};
use crate::support::{CEILING, wait_for, within};

/// Starts a script that first prints the number of its process group, and reads lines until one contains
/// the text.
#[track_caller]
fn started(
    options: &[&str],
    script: &str,
    until: &str,
    data: &std::path::Path,
) -> (Arriving, Group) {
    let args = [&["--json"], options, &["--", "sh", "-c", script]].concat();
    let mut running = Arriving::start(command(&args, data));
    // The first event contains the script, and therefore every text in it.
    running.until("ExecutionStarted");
    let line = running.until("ExecutionOutput");
    let group = group_in(&text_of(&[event(&line)], "stdout"));
    if !line.contains(until) {
        running.until(until);
    }
    (running, group)
}

#[test]
fn a_closed_output_ends_the_command_quietly() {
    let data = tempfile::tempdir().unwrap();
    let script = "echo $$; exec yes";
    let mut command = command(&["--", "sh", "-c", script], data.path());
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let number = (&mut lines)
        .map(Result::unwrap)
        .find(|line| line.parse::<i32>().is_ok());
    let group = group_in(&number.unwrap());
    drop(lines);
    wait_for("the program's end", CEILING, || {
        child.try_wait().unwrap().ok_or("it still runs")
    });
    assert!(group.members().is_empty(), "{:?}", group.members());
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stderr), "");
    // `yes` got the signal of a closed pipe.
    assert_code(&output, 141);
    assert_eq!(end_of(&kept(data.path())), (None, Some(13)));
}

/// A program that ignores the signal of a closed pipe gets the error instead.
#[test]
fn a_command_that_ignores_sigpipe_sees_the_closed_output() {
    let data = tempfile::tempdir().unwrap();
    let script = "trap '' PIPE; while echo more; do sleep 0.01; done; echo gone >&2; exit 7";
    let mut child = command(&["--", "sh", "-c", script], data.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    reader.read_line(&mut first).unwrap();
    drop(reader);
    assert_eq!(first, "more\n");
    let output = child.wait_with_output().unwrap();
    assert_code(&output, 7);
    // The other output is still forwarded.
    assert!(text(&output.stderr).ends_with("gone\n"), "{output:?}");
    assert_eq!(end_of(&kept(data.path())), (Some(7), None));
}

#[test]
fn the_first_signal_is_passed_to_the_command() {
    for (signal, name) in [
        (Signal::INT, "INT"),
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
    ] {
        let data = tempfile::tempdir().unwrap();
        let script =
            format!("trap 'echo got {name}; exit 9' {name}; echo $$; while :; do sleep 0.05; done");
        let (running, group) = started(&[], &script, "", data.path());
        running.running.signal(signal);
        let (output, _) = running.end();
        assert_code(&output, 9);
        assert!(group.members().is_empty());
        let events = events(&output.stdout);
        assert!(
            text_of(&events, "stdout").ends_with(&format!("got {name}\n")),
            "{events:#?}"
        );
        assert_eq!(kept(data.path()), events);
    }
    let data = tempfile::tempdir().unwrap();
    let (running, _group) = started(&[], "echo $$; exec sleep 1000", "", data.path());
    running.running.signal(Signal::INT);
    assert_code(&running.end().0, 130);
}

#[test]
fn a_command_that_does_not_end_is_killed_after_the_grace_period() {
    let data = tempfile::tempdir().unwrap();
    let script = "trap 'echo got INT' INT; echo $$; while :; do sleep 0.05; done";
    let (running, group) = started(&["--grace", "500ms"], script, "", data.path());
    running.running.signal(Signal::INT);
    let (output, _) = running.end();
    assert_code(&output, 137);
    assert!(group.members().is_empty());
    assert!(text_of(&events(&output.stdout), "stdout").ends_with("got INT\n"));
}

#[test]
fn the_second_signal_ends_everything_at_once() {
    let children = "sh -c 'trap \"\" INT TERM; while :; do sleep 1000; done' &";
    for leader in [
        // The command continues and holds its children.
        "trap 'echo got INT' INT; echo $$; while :; do sleep 0.05; done",
        // The command ends and its children stay.
        "trap 'echo got INT; exit 9' INT; echo $$; while :; do sleep 0.05; done",
    ] {
        let data = tempfile::tempdir().unwrap();
        let script = format!("{children} {leader}");
        let (mut running, group) = started(&["--grace", "1m"], &script, "", data.path());
        running.running.signal(Signal::INT);
        running.until(r#""text":"got INT"#);
        wait_for("the leader's choice", CEILING, || {
            let members = group.members();
            let is_there = members
                .iter()
                .any(|stat| stat.starts_with(&format!("{} ", group.0.as_raw_nonzero())));
            if is_there != leader.contains("exit") {
                Ok(())
            } else {
                Err(members)
            }
        });
        // A signal that comes at once counts as the same as the first.
        let _ = within(Duration::from_millis(350), || Err::<(), ()>(()));
        running.running.signal(Signal::INT);
        let (output, _) = running.end();
        assert_code(&output, 130);
        group.until_empty();
    }
}

#[test]
fn the_run_of_a_killed_observer_is_cut_off_and_the_next_one_works() {
    let data = tempfile::tempdir().unwrap();
    let script_ = "echo $$; echo before; exec sleep 1000";
    let id = ["--execution-id", "the-run"];
    let (mut running, group) = started(&id, script_, "before", data.path());
    // The shown events may be ahead of the disk.
    let log = data.path().join("runs/the-run/events.jsonl");
    wait_for("the line in the log", CEILING, || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        if text.contains("before\\n") {
            Ok(())
        } else {
            Err(text)
        }
    });
    running.running.signal(Signal::KILL);
    running.running.child.wait().unwrap();
    let listed = || text(&run(&["runs"], data.path()).stdout);
    wait_for("the run to be cut off", CEILING, || {
        let listed = listed();
        if listed.contains("cut off") {
            Ok(())
        } else {
            Err(listed)
        }
    });
    let pid = Pid::from_child(&running.running.child);
    assert_ne!(group.0, pid);
    drop(group);
    // Another run, and a continuation of the same one.
    assert_code(&script(&[], "echo other", data.path()), 0);
    assert_code(&script(&id, "echo after", data.path()), 0);
    let kept = super::kept_of(data.path(), "the-run");
    let printed = text_of(&kept, "stdout");
    assert!(printed.ends_with("\nbefore\nafter\n"), "{printed}");
    assert!(!listed().contains("cut off"), "{}", listed());
    let log = run(&["log", "the-run"], data.path());
    assert!(text(&log.stdout).contains("after"), "{log:#?}");
}
