//! `td-observe run --as`: an agent's output becomes events.

use std::fs;

use td_observe::agent::Format;
use td_observe::process::Command;
use td_observe::{Envelope, TdEvent};

use super::pane::Typed;
use super::program::{command, events};
use super::{observed, text_of, warnings};
use crate::agent::files;
use crate::cli::{Running, assert_code, run, text};
use crate::recordings::recordings;

/// A turn of Codex, between text; its last line is [`END`].
const TURN: &str = "note\n{\"type\":\"thread.started\"}\n{\"type\":\"turn.started\"}\n{\"type\":\"item.started\",\"item\":{\"id\":\"i\",\"type\":\"command_execution\",\"command\":\"ls\",\"status\":\"in_progress\"}}\n{\"type\":\"item.completed\",\"item\":{\"id\":\"i\",\"type\":\"command_execution\",\"command\":\"ls\",\"aggregated_output\":\"a\",\"exit_code\":0,\"status\":\"completed\"}}\n{\"type\":\"item.completed\",\"item\":{\"id\":\"j\",\"type\":\"agent_message\",\"text\":\"It has \\u001b[2J one file.\"}}\n";
const END: &str =
    "{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":7,\"output_tokens\":2}}\n";

fn names(events: &[Envelope]) -> Vec<&str> {
    let names = events.iter().map(|envelope| envelope.event.type_name());
    names.collect()
}

fn printing(output: &str) -> Command {
    let script = "printf %s \"$0\"; echo oops >&2; exit 3";
    Command::new("sh").args(["-c", script, output])
}

#[test]
fn records_become_events_and_other_lines_stay_text() {
    for format in [Format::Codex, Format::Auto] {
        let (outcome, events) = observed(printing(&[TURN, END].concat()).format(format));
        assert_eq!(outcome.code(), 3);
        assert_eq!(text_of(&events, "stdout"), "note\n");
        assert_eq!(text_of(&events, "stderr"), "oops\n");
        let mut names = names(&events);
        names.retain(|name| *name != "ExecutionOutput");
        assert_eq!(
            names,
            [
                "ExecutionStarted",
                "ToolCallStarted",
                "ToolCallCompleted",
                "TokenReceived",
                "ResponseCompleted",
                "TurnCompleted",
                "AgentCompleted",
                "ExecutionCompleted",
            ]
        );
        let is_of_sh = |envelope: &Envelope| matches!(&envelope.event, TdEvent::AgentCompleted { agent_id, .. } if agent_id == "sh");
        assert!(events.iter().any(is_of_sh), "{events:#?}");
    }
}

#[test]
fn a_stream_that_breaks_off_is_reported_as_cut() {
    let (_, events) = observed(printing(TURN).format(Format::Codex));
    let error = events.iter().find_map(|envelope| match &envelope.event {
        TdEvent::AgentFailed { error, .. } => Some(error.as_str()),
        _ => None,
    });
    assert_eq!(error, Some("the run was cut off before its end"));
}

#[test]
fn a_wrong_format_causes_a_warning_and_loses_nothing() {
    let (_, events) = observed(printing("plain\n").format(Format::Claude));
    assert_eq!(text_of(&events, "stdout"), "plain\n");
    assert!(warnings(&events)[0].contains("claude"), "{events:#?}");
    let (_, events) = observed(printing(TURN));
    assert_eq!(text_of(&events, "stdout"), TURN);
}

#[test]
fn a_program_that_ends_without_a_record_has_failed() {
    for (format, script, evidence) in [
        (Format::Claude, "exit 3", Some("exit status: 3, ")),
        (Format::Codex, "echo text; exit 3", Some("exit status: 3, ")),
        (Format::Gemini, "true", Some("it printed nothing, ")),
        (Format::Claude, "echo text", None),
        (Format::Auto, "exit 3", None),
    ] {
        let command = Command::new("sh").args(["-c", script]).format(format);
        let (_, events) = observed(command);
        let found = events.iter().find_map(|envelope| match &envelope.event {
            TdEvent::AgentFailed { evidence, .. } => Some(evidence.as_str()),
            _ => None,
        });
        match (found, evidence) {
            (None, None) => {}
            (Some(found), Some(evidence)) => assert!(found.starts_with(evidence), "{found}"),
            _ => panic!("{format} {script}: {found:?}"),
        }
    }
}

#[test]
fn comments_of_a_server_are_not_output() {
    let text = ": WAIT\n\n: WAIT\n\ndata: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\n: WAIT\n\ndata: [DONE]\n\n";
    for format in [Format::Sse, Format::Auto] {
        let (_, events) = observed(printing(text).format(format));
        assert_eq!(text_of(&events, "stdout"), "", "{format}");
        assert!(names(&events).contains(&"TurnCompleted"), "{format}");
    }
}

#[test]
fn the_console_shows_answers_and_tools() {
    let typed = Typed::new(100, 30);
    fs::write(typed.data.path().join("records"), [TURN, END].concat()).unwrap();
    typed.line("td-observe run --as auto -- cat records; echo code=$?");
    typed.shows("code=0");
    let shown = typed.screen();
    for row in [
        "│   note\n ├─► [tool] command_execution: ls\n ├─► [tool] command_execution done after ",
        "│   It has  one file.\n",
        "[turn] ended: turn.completed\n ├─► [agent] cat COMPLETED (",
    ] {
        assert!(shown.contains(row), "no {row:?} in {shown}");
    }
    assert!(!shown.contains('{'), "records are printed as text: {shown}");
}

#[test]
fn every_recording_can_be_run() {
    let Some(root) = recordings() else { return };
    let files = files(&root);
    assert!(files.len() > 50, "recordings are missing: {files:?}");
    let data = tempfile::tempdir().unwrap();
    for (path, number) in files.iter().zip(0..) {
        let path = path.to_str().unwrap();
        let family = ["claude", "codex", "gemini", "sse"]
            .into_iter()
            .find(|family| path.rsplit('/').nth(1).unwrap().starts_with(family));
        // Half of them with their format, half with `auto`, like those without a family.
        let format = family.filter(|_| number % 2 == 0).unwrap_or("auto");
        let args = ["--json", "--no-log", "--as", format, "--", "cat", path];
        let output = Running::start(command(&args, data.path())).end();
        assert_code(&output, 0);
        assert_eq!(text(&output.stderr), "", "{path}");
        // Panics when a line is not an event.
        let events = events(&output.stdout);
        let names = names(&events);
        assert_eq!(names.first(), Some(&"ExecutionStarted"), "{path}");
        assert_eq!(names.last(), Some(&"ExecutionCompleted"), "{path}");
        let expected = ["TokenReceived", "ToolCallStarted", "AgentFailed"];
        assert!(
            expected.iter().any(|name| names.contains(name)),
            "{path} as {format}: {names:?}"
        );
        let raw = text_of(&events, "stdout");
        let records = raw.lines().filter(|line| line.starts_with("{\"")).count();
        assert_eq!(records, 0, "{path} as {format}: {raw:.300}");
        // Both without a terminal and as shown on a terminal.
        let kept = tempfile::tempdir().unwrap();
        let args = ["--execution-id", "it", "--as", format, "--", "cat", path];
        let passed = command(&args, kept.path()).output().unwrap();
        assert_code(&passed, 0);
        assert!(passed.stdout == fs::read(path).unwrap(), "{path}");
        let shown = run(&["log", "it"], kept.path());
        assert_code(&shown, 0);
        let is_control = |c: char| c.is_control() && c != '\n';
        assert!(!text(&shown.stdout).contains(is_control), "{path}");
    }
    assert!(fs::read_dir(data.path().join("runs")).is_err(), "kept");
}
