//! Live output of a command: events while it prints, separate streams, exact to the last byte.

use td_observe::TdEvent;

use super::program::{Arriving, command, events};
use super::{end_of, kept, printing, seconds_between, text_of};
use crate::cli::assert_code;

const SCRIPT: &str = r#"echo first; sleep 1.5; echo problem >&2; printf "no newline"; exit 7"#;

#[test]
fn events_are_emitted_while_the_command_prints() {
    let data = tempfile::tempdir().unwrap();
    let args = ["--json", "--", "sh", "-c", SCRIPT];
    let (output, lines) = Arriving::start(command(&args, data.path())).end();
    assert_code(&output, 7);
    let events = events(&output.stdout);
    let (first, problem) = (printing(&events, "first"), printing(&events, "problem"));
    let apart = seconds_between(first, problem);
    assert!(apart > 1.0, "{apart} s");
    let arrived = |text: &str| {
        lines
            .iter()
            .find(|(_, line)| line.contains(text))
            .unwrap()
            .0
    };
    // The first event contains the command line, and therefore all of its text.
    let apart = arrived(r#""text":"problem"#) - arrived(r#""text":"first"#);
    assert!(apart.as_secs_f64() > 1.0, "{apart:?}: {lines:#?}");

    assert_eq!(text_of(&events, "stdout"), "first\nno newline");
    assert_eq!(text_of(&events, "stderr"), "problem\n");
    assert_eq!(end_of(&events), (Some(7), None));
    let TdEvent::ExecutionStarted { command, cwd, .. } = &events[0].event else {
        panic!("{events:#?}");
    };
    assert!(command.starts_with("sh -c "), "{command}");
    assert_eq!(cwd, std::env::current_dir().unwrap().to_str().unwrap());
    // The log contains the same events.
    assert_eq!(kept(data.path()), events);
}

#[test]
fn quiet_prints_nothing_and_stores_everything() {
    let data = tempfile::tempdir().unwrap();
    let output = super::program::script(&["-q"], "echo kept; echo too >&2; exit 3", data.path());
    assert_code(&output, 3);
    assert!(
        output.stdout.is_empty() && output.stderr.is_empty(),
        "{output:#?}"
    );
    let events = kept(data.path());
    assert_eq!(text_of(&events, "stdout"), "kept\n");
    assert_eq!(text_of(&events, "stderr"), "too\n");
}

#[test]
fn output_is_shown_without_a_log() {
    let data = tempfile::tempdir().unwrap();
    let output = super::program::script(&["--no-log"], "echo shown; exit 3", data.path());
    assert_code(&output, 3);
    assert!(
        crate::cli::text(&output.stdout).contains("shown"),
        "{output:#?}"
    );
    assert!(!data.path().join("runs").exists());
}
