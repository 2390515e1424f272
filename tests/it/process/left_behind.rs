//! Processes that hold a command's output after its end: their last lines are read, without waiting for
//! their end.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use td_observe::Envelope;
use td_observe::process::Command;

use super::{end_of, group_in, observed, text_of, warnings};
use crate::support::{CEILING, wait_for};

fn warns_of_held_output(events: &[Envelope]) -> bool {
    let warnings = warnings(events);
    warnings
        .iter()
        .any(|warning| warning.contains("left behind"))
}

#[test]
fn a_grandchild_is_neither_awaited_nor_killed() {
    let (outcome, events) = observed(Command::shell(
        "sleep 1000 & echo $$; echo $!; echo done; exit 3",
    ));
    let text = text_of(&events, "stdout");
    let group = group_in(&text);
    assert!(warns_of_held_output(&events), "{events:#?}");
    assert_eq!(end_of(&events), (Some(3), None));
    assert!(text.ends_with("\ndone\n"), "{text}");
    assert!(
        outcome.duration < Duration::from_millis(1300),
        "{outcome:?}"
    );
    let grandchild = Pid::from_raw(text.lines().nth(1).unwrap().parse().unwrap()).unwrap();
    assert!(test_kill_process(grandchild).is_ok(), "it lives");
    kill_process(grandchild, Signal::KILL).unwrap();
    group.until_empty();
}

#[test]
fn a_grandchild_that_keeps_printing_is_not_awaited() {
    for script in [
        "echo $$; yes & exit 3",
        "echo $$; while sleep 0.02; do echo more; done & exit 3",
    ] {
        let (outcome, events) = observed(Command::shell(script).line_limit(1000));
        // Its next write fails, because the pipe is closed.
        let group = group_in(&text_of(&events, "stdout"));
        assert!(warns_of_held_output(&events));
        assert_eq!(outcome.code(), 3);
        assert!(outcome.duration < Duration::from_secs(4), "{outcome:?}");
        group.until_empty();
    }
}

#[test]
fn a_grandchild_with_its_own_output_causes_no_warning() {
    let (outcome, events) = observed(Command::shell(
        "sleep 1000 > /dev/null 2>&1 & echo $$; echo $!",
    ));
    let text = text_of(&events, "stdout");
    let group = group_in(&text);
    assert!(!warns_of_held_output(&events), "{events:#?}");
    assert!(outcome.duration < Duration::from_secs(1), "{outcome:?}");
    let grandchild = text.lines().nth(1).unwrap().parse().unwrap();
    kill_process(Pid::from_raw(grandchild).unwrap(), Signal::KILL).unwrap();
    group.until_empty();
}

#[test]
fn last_lines_of_another_process_are_read() {
    let place = tempfile::tempdir().unwrap();
    for script in [
        "exec > >(sleep 0.2; cat); echo one; echo last",
        "exec > >(tee build.log); echo one; echo last",
        "exec > >(tee build.log) 2>&1; echo one >&2; echo last",
        "{ echo one; sleep 0.2; echo last; } &",
    ] {
        let command = Command::new("bash").args(["-c", script]);
        let (outcome, events) = observed(command.directory(place.path()));
        assert_eq!(text_of(&events, "stdout"), "one\nlast\n", "{script}");
        assert!(!warns_of_held_output(&events), "{events:#?}");
        assert!(outcome.is_success(), "{outcome:?}");
    }
}

#[test]
fn collected_output_has_the_same_last_lines() {
    let command = Command::shell("sleep 1000 & echo $!; echo done");
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.ends_with("\ndone\n"), "{text}");
    assert!(output.outcome.duration < Duration::from_millis(1300));
    let grandchild = Pid::from_raw(text.lines().next().unwrap().parse().unwrap()).unwrap();
    kill_process(grandchild, Signal::KILL).unwrap();
    wait_for("its end", CEILING, || match test_kill_process(grandchild) {
        Ok(()) => Err("it lives"),
        Err(_) => Ok(()),
    });
}
