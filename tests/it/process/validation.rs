//! Validations: their lines are events while they run, their end is a result.

use std::path::Path;
use std::time::Duration;

use td_observe::process::{Command, ValidationResult, run_validation, validate};
use td_observe::{Envelope, EventBus, TdEvent};

use super::warnings;
use crate::support::CEILING;

/// Runs a validation; returns its result and its events.
#[track_caller]
fn observed(
    check: impl FnOnce(&td_observe::EventEmitter) -> ValidationResult,
) -> (ValidationResult, Vec<Envelope>) {
    let bus = EventBus::new(100_000);
    let mut events = bus.subscribe();
    let result = check(&bus.emitter_for("loop"));
    let mut seen: Vec<Envelope> = Vec::new();
    loop {
        seen.extend(events.recv_timeout(CEILING).unwrap().into_envelope());
        if matches!(
            seen[seen.len() - 1].event,
            TdEvent::ValidationCompleted { .. }
        ) {
            return (result, seen);
        }
    }
}

fn lines(events: &[Envelope]) -> Vec<(&str, bool)> {
    let lines = events.iter().filter_map(|envelope| match &envelope.event {
        TdEvent::ValidationOutput {
            line, is_stderr, ..
        } => Some((line.as_str(), *is_stderr)),
        _ => None,
    });
    lines.collect()
}

#[test]
fn a_validation_is_reported_from_its_start_to_its_result() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("here"), "").unwrap();
    let script = "ls; sleep 0.1; echo problem >&2; sleep 0.1; printf 'cut'; exit 3";
    let run =
        |emitter: Option<&_>| run_validation(script, place.path(), CEILING, emitter, 7).unwrap();
    let (result, events) = observed(|emitter| run(Some(emitter)));
    assert_eq!(result.exit_code, 3);
    assert_eq!(
        (result.stdout.as_str(), result.stderr.as_str()),
        ("here\ncut", "problem\n")
    );
    assert!(
        !result.timed_out && !result.passed() && result.lost_lines == 0,
        "{result:?}"
    );
    assert!(
        result.duration_ms >= 200 && result.duration_ms < 10_000,
        "{result:?}"
    );
    assert_eq!(
        lines(&events),
        [("here", false), ("problem", true), ("cut", false)]
    );
    let TdEvent::ValidationStarted {
        iteration: 7,
        command,
        ..
    } = &events[0].event
    else {
        panic!("{events:#?}");
    };
    assert_eq!(command, script);
    let TdEvent::ValidationCompleted {
        iteration: 7,
        exit_code: 3,
        duration_ms,
        ..
    } = events[events.len() - 1].event
    else {
        panic!("{events:#?}");
    };
    assert_eq!(duration_ms, result.duration_ms);
    assert_eq!(events.len(), 5);

    // The result is the same without an emitter.
    let alone = run(None);
    assert_eq!(alone.exit_code, 3);
    assert_eq!((alone.stdout, alone.stderr), (result.stdout, result.stderr));
    assert!(
        run_validation("true", place.path(), CEILING, None, 1)
            .unwrap()
            .passed()
    );
}

#[test]
fn lines_are_emitted_while_the_validation_runs() {
    let bus = EventBus::new(1000);
    let mut events = bus.subscribe();
    let emitter = bus.emitter_for("loop");
    let place = tempfile::tempdir().unwrap();
    let go = place.path().join("go");
    let at = place.path().to_owned();
    let script = "echo first; while [ ! -e go ]; do sleep 0.02; done; echo second";
    let running =
        std::thread::spawn(move || run_validation(script, &at, CEILING, Some(&emitter), 1));
    let mut seen: Vec<Envelope> = Vec::new();
    while lines(&seen) != [("first", false)] {
        seen.extend(events.recv_timeout(CEILING).unwrap().into_envelope());
    }
    // The validation waits for this file, so its first line was emitted before its end.
    std::fs::write(go, "").unwrap();
    assert_eq!(running.join().unwrap().unwrap().stdout, "first\nsecond\n");
}

#[test]
fn a_validation_that_times_out_has_a_result() {
    let timeout = Duration::from_millis(400);
    let script = "echo $$; echo begun; while :; do sleep 1000; done";
    let (result, events) = observed(|emitter| {
        run_validation(script, Path::new("/"), timeout, Some(emitter), 1).unwrap()
    });
    assert!(result.timed_out && result.exit_code == 124, "{result:?}");
    assert!(result.stdout.ends_with("\nbegun\n"), "{result:?}");
    super::group_in(&result.stdout).until_empty();
    let TdEvent::ValidationCompleted { exit_code: 124, .. } = events[events.len() - 1].event else {
        panic!("{events:#?}");
    };
}

#[test]
fn lines_beyond_the_limit_are_counted() {
    let command = Command::shell("seq 1 100; echo e >&2; exit 3").line_limit(10);
    let (result, events) =
        observed(|emitter| validate(command, "counting", Some(emitter), 1).unwrap());
    assert_eq!((result.exit_code, result.lost_lines), (3, 90));
    // The limit applies to events, except for the reason of the failure.
    assert_eq!(result.stdout.lines().count(), 100);
    assert_eq!(result.stderr, "e\n");
    assert_eq!(lines(&events).len(), 11, "{events:#?}");
    assert_eq!(lines(&events)[10], ("e", true));
    assert_eq!(warnings(&events).len(), 1, "{events:#?}");
    let TdEvent::ValidationStarted { command, .. } = &events[0].event else {
        panic!("{events:#?}");
    };
    assert_eq!(command, "counting");
}

#[test]
fn lines_are_complete_and_in_their_final_state() {
    let script = r"printf 'in '; sleep 0.3; printf 'pieces\n1%%\r50%%\r'; sleep 0.2; printf '100%%\nwindows\r\n\n'";
    let (_, events) = observed(|emitter| {
        run_validation(script, Path::new("/"), CEILING, Some(emitter), 1).unwrap()
    });
    let expected = ["in pieces", "100%", "windows", ""].map(|line| (line, false));
    assert_eq!(lines(&events), expected);
}

#[test]
fn a_validation_that_cannot_be_started_is_an_error() {
    let place = Path::new("/no/such/place");
    let error = run_validation("true", place, CEILING, None, 1).unwrap_err();
    assert!(format!("{error:?}").contains("/no/such/place"), "{error:?}");
}
