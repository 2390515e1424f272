//! Commands that exceed their time or are terminated: the whole group ends in time, by TERM first.

use std::time::{Duration, Instant};

use rustix::process::{Signal, test_kill_process};
use td_observe::process::{Command, CommandControl};
use td_observe::{Builder, Envelope, TdEvent};

use super::{Group, end_of, group_in, observed, text_of, warnings};
use crate::support::CEILING;

/// A command that ignores signals, with a grandchild that ignores them, too, and holds the output.
const STUBBORN: &str = r#"
    trap '' TERM INT HUP
    sh -c 'while :; do sleep 1000; done' &
    echo $$
    while :; do sleep 1000; done"#;

fn timeouts(events: &[Envelope]) -> usize {
    let is_one = |envelope: &&Envelope| matches!(&envelope.event, TdEvent::Error { context, .. } if context == "timeout");
    events.iter().filter(is_one).count()
}

const TIMEOUT: Duration = Duration::from_millis(500);
const GRACE: Duration = Duration::from_millis(700);

#[track_caller]
fn assert_terminated_in_time(script: &str, signal: i32) -> (Group, Vec<Envelope>) {
    let command = Command::shell(script).timeout(TIMEOUT).grace(GRACE);
    let (outcome, events) = observed(command);
    let group = group_in(&text_of(&events, "stdout"));
    assert!(outcome.timed_out && outcome.code() == 124, "{outcome:?}");
    assert_eq!(outcome.signal, Some(signal), "{outcome:?}");
    let ceiling = TIMEOUT + GRACE + Duration::from_secs(1);
    assert!(outcome.duration < ceiling, "{outcome:?}");
    assert_eq!(timeouts(&events), 1, "{events:#?}");
    assert_eq!(end_of(&events), (None, Some(signal)));
    group.until_empty();
    (group, events)
}

#[test]
fn a_group_that_ignores_signals_is_killed_after_the_grace_period() {
    let (_, events) = assert_terminated_in_time(STUBBORN, 9);
    assert!(warnings(&events).is_empty(), "{events:#?}");
}

#[test]
fn a_grandchild_that_ignores_signals_is_killed_after_the_end_of_the_child() {
    let script = r#"
        sh -c 'trap "" TERM; while :; do sleep 1000; done' &
        echo $$; while :; do sleep 1000; done"#;
    assert_terminated_in_time(script, 15);
}

#[test]
fn a_stopped_command_is_terminated() {
    let (_, events) = assert_terminated_in_time("echo $$; kill -STOP $$; echo went on", 15);
    let warned = warnings(&events);
    assert_eq!(warned.len(), 1, "{events:#?}");
    assert!(warned[0].contains("stopped"), "{warned:?}");
    assert_terminated_in_time("trap '' TERM; echo $$; kill -STOP $$; sleep 1000; :", 9);
}

#[test]
fn a_command_without_grace_period_is_killed_at_once() {
    let script = "trap 'echo asked' TERM; echo $$; while :; do sleep 0.01; done";
    let command = Command::shell(script)
        .timeout(TIMEOUT)
        .grace(Duration::ZERO);
    let (outcome, events) = observed(command);
    let text = text_of(&events, "stdout");
    group_in(&text).until_empty();
    assert!(
        outcome.timed_out && outcome.signal == Some(9),
        "{outcome:?}"
    );
    assert!(!text.contains("asked"), "{text}");
}

#[test]
fn a_command_that_ends_within_the_grace_period_is_not_killed() {
    let script = "trap 'sleep 0.3; echo last words; exit 5' TERM
        echo $$; while :; do sleep 0.05; done";
    let command = Command::shell(script).timeout(TIMEOUT).grace(CEILING);
    let (outcome, events) = observed(command);
    assert_eq!((outcome.code(), outcome.exit_code), (124, Some(5)));
    assert!(outcome.duration < CEILING / 2, "{outcome:?}");
    let text = text_of(&events, "stdout");
    assert!(text.ends_with("\nlast words\n"), "{text}");
    group_in(&text).until_empty();
    assert_eq!(timeouts(&events), 1);
    assert_eq!(end_of(&events), (Some(5), None));
}

#[test]
fn an_unlimited_grace_period_is_valid() {
    let script = "trap 'exit 5' TERM; while :; do sleep 0.05; done";
    let command = Command::shell(script).timeout(TIMEOUT).grace(Duration::MAX);
    assert_eq!(observed(command).0.exit_code, Some(5));
    let (outcome, _) = observed(Command::new("true").timeout(Duration::MAX));
    assert!(outcome.is_success());
}

#[test]
fn a_command_with_closed_outputs_is_awaited() {
    let script = "echo first; exec > /dev/null 2>&1; sleep 0.5; exit 6";
    let (outcome, events) = observed(Command::shell(script));
    assert_eq!(outcome.code(), 6);
    assert!(outcome.duration >= TIMEOUT, "{outcome:?}");
    assert!(warnings(&events).is_empty(), "{events:#?}");
}

#[test]
fn a_command_in_time_has_no_timeout() {
    let command = Command::shell("sleep 0.2; echo done; exit 4").timeout(CEILING);
    let (outcome, events) = observed(command);
    assert_eq!((outcome.code(), outcome.timed_out), (4, false));
    assert_eq!(timeouts(&events), 0);
    assert!(outcome.duration < CEILING / 2, "{outcome:?}");
}

#[test]
fn another_thread_ends_a_command() {
    for (how, code) in [("asks", 5), ("kills", 137)] {
        let control = CommandControl::new();
        let (sender, receiver) = std::sync::mpsc::channel();
        let script = "trap 'echo asked; exit 5' USR1; echo $$; while :; do sleep 0.05; done";
        let command = Command::shell(script).grace(CEILING).control(&control);
        // The first line shows that the trap is set.
        let command = command.on_output(move |_, _| {
            // Only the first message is received.
            let _ = sender.send(());
        });
        let running = std::thread::spawn(|| command.output().unwrap());
        receiver.recv_timeout(CEILING).unwrap();
        match how {
            "asks" => control.end(Signal::USR1.as_raw()),
            _ => control.kill(),
        }
        let output = running.join().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        group_in(&text).until_empty();
        assert_eq!(output.outcome.code(), code, "{text}");
        assert_eq!(output.outcome.was_ended, how == "asks");
        assert_eq!(text.contains("asked"), how == "asks");
        // The command has ended: no other process is killed.
        control.end(Signal::TERM.as_raw());
        control.kill();
    }
}

#[test]
fn an_engine_that_stops_terminates_its_commands_and_reports_it() {
    let mut engine = Builder::new().start().unwrap();
    let mut events = engine.subscribe();
    let script = "trap 'echo bye; exit 6' TERM; echo $$; while :; do sleep 0.05; done";
    let execution = engine.execute(Command::shell(script)).unwrap();
    let mut seen = Vec::new();
    while text_of(&seen, "stdout").is_empty() {
        let delivery = events.recv_timeout(CEILING).unwrap();
        seen.extend(delivery.into_envelope());
    }
    let began = Instant::now();
    let report = engine.shutdown();
    assert!(began.elapsed() < Duration::from_secs(3));
    assert!(
        report.left.is_empty() && report.panicked.is_empty(),
        "{report:?}"
    );
    while let Ok(delivery) = events.recv() {
        seen.extend(delivery.into_envelope());
    }
    let text = text_of(&seen, "stdout");
    assert!(text.ends_with("\nbye\n"), "{text}");
    assert_eq!(end_of(&seen), (Some(6), None));
    assert_eq!(execution.wait().unwrap().code(), 6);
    assert!(
        test_kill_process(group_in(&text).0).is_err(),
        "it is not reaped"
    );
}
