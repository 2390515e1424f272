//! Progress lines and line limits: few events, and the last state.

use td_observe::{Envelope, TdEvent};

use super::program::{events_of, script};
use super::{end_of, kept, lines_of, text_of, warnings};
use crate::cli::{assert_code, text};

fn outputs(events: &[Envelope]) -> usize {
    let is_output =
        |envelope: &&Envelope| matches!(envelope.event, TdEvent::ExecutionOutput { .. });
    events.iter().filter(is_output).count()
}

/// A spinner of about 3 s.
const SPINNER: &str = r"for i in $(seq 1 300); do printf '\r%d%%' $i; sleep 0.01; done; echo";

#[test]
fn a_spinner_causes_few_events_and_keeps_its_last_state() {
    let data = tempfile::tempdir().unwrap();
    let (output, live) = events_of(&[], SPINNER, data.path());
    assert_code(&output, 0);
    let TdEvent::ExecutionCompleted { duration_ms, .. } = live[live.len() - 1].event else {
        panic!("{live:#?}");
    };
    // One per second, the first and the last.
    let most = 2 + duration_ms.div_ceil(1000) as usize;
    let kept = kept(data.path());
    assert!(outputs(&kept) <= most, "{most}: {kept:#?}");
    assert_eq!(lines_of(&text_of(&kept, "stdout")), ["300%"]);
    // A live reader gets ten states per second.
    let (numbered, passing): (Vec<_>, Vec<_>) = live
        .into_iter()
        .partition(|envelope| envelope.seq.is_some());
    assert!(passing.len() > 10, "{}", passing.len());
    assert_eq!(outputs(&passing), passing.len());
    assert_eq!(numbered, kept);
}

#[test]
fn fast_progress_is_reduced_to_its_last_state() {
    let data = tempfile::tempdir().unwrap();
    let (output, _) = events_of(
        &[],
        r"seq -s '%\r' 1 300000 | sed 's/$/% done/'",
        data.path(),
    );
    assert_code(&output, 0);
    let data = tempfile::tempdir().unwrap();
    let fast = r#"awk 'BEGIN { for (i = 1; i <= 300000; i++) printf "\r%d%%", i; print "" }'"#;
    let (output, _) = events_of(&[], fast, data.path());
    assert_code(&output, 0);
    let kept = kept(data.path());
    assert!(outputs(&kept) < 10, "{}", outputs(&kept));
    assert_eq!(lines_of(&text_of(&kept, "stdout")), ["300000%"]);
    // A pipe gets every state, as from the command itself.
    let plain = script(&[], fast, data.path());
    assert_eq!(text(&plain.stdout).matches('\r').count(), 300_000);
}

#[test]
fn lines_beyond_the_limit_are_cut_with_one_warning() {
    let data = tempfile::tempdir().unwrap();
    let many = "seq 1 100000; echo problem >&2; exit 3";
    let (output, events) = events_of(&["--max-lines", "5"], many, data.path());
    assert_code(&output, 3);
    let kept = kept(data.path());
    assert_eq!(events, kept);
    assert_eq!(text_of(&kept, "stdout"), "1\n2\n3\n4\n5\n");
    assert_eq!(text_of(&kept, "stderr"), "problem\n");
    let warned = warnings(&kept);
    assert!(
        warned.len() == 1 && warned[0].contains("5 lines"),
        "{warned:?}"
    );
    assert_eq!(end_of(&kept), (Some(3), None));
}

#[test]
fn an_output_at_the_limit_is_not_cut() {
    let data = tempfile::tempdir().unwrap();
    let (output, events) = events_of(&["--max-lines", "5"], "seq 1 5", data.path());
    assert_code(&output, 0);
    assert!(warnings(&events).is_empty(), "{events:#?}");
    let output = script(&["--max-lines", "2"], "seq 1 5; exit 4", data.path());
    assert_code(&output, 4);
    assert_eq!(text(&output.stdout), "1\n2\n");
    let reported = text(&output.stderr);
    assert_eq!(
        reported.matches("cut after 2 lines").count(),
        1,
        "{reported}"
    );
    let reported = text(&script(&["--max-lines", "1"], "seq 1 5", data.path()).stderr);
    assert!(reported.contains("cut after 1 line;"), "{reported}");
}

/// Whatever was printed before, the last lines of standard error tell why a command failed.
#[test]
fn the_limit_leaves_the_explanation_of_a_failure() {
    let data = tempfile::tempdir().unwrap();
    let noise = "seq 1 50; for i in $(seq 1 3000); do echo noise $i >&2; done";
    let failing = format!("{noise}; printf 'Traceback\\nfatal: broken' >&2; exit 3");
    let (_, events) = events_of(&["--max-lines", "5"], &failing, data.path());
    let errors = text_of(&events, "stderr");
    assert!(
        errors.ends_with("noise 3000\nTraceback\nfatal: broken"),
        "{errors}"
    );
    assert_eq!(errors.lines().count(), 100);
    let kinds: Vec<&str> = events.iter().map(|event| event.event.type_name()).collect();
    let ends = ["Warning", "ExecutionOutput", "ExecutionCompleted"];
    assert!(kinds.ends_with(&ends), "{kinds:?}");
    // As they are, where the outputs are passed on.
    let passed = script(&["--max-lines", "5"], &failing, data.path());
    assert_code(&passed, 3);
    assert_eq!(text(&passed.stdout), "1\n2\n3\n4\n5\n");
    let passed = text(&passed.stderr);
    assert!(
        passed.starts_with("noise 2903\n") && passed.contains("\nfatal: broken"),
        "{passed}"
    );
    assert!(
        passed.contains("2947 more lines were neither shown nor kept"),
        "{passed}"
    );
    // A success needs no explanation.
    let passed = script(&["--max-lines", "5"], noise, data.path());
    assert!(
        !text(&passed.stderr).contains("noise"),
        "{}",
        text(&passed.stderr)
    );
}

#[test]
fn lost_lines_are_counted() {
    let command = td_observe::process::Command::shell("seq 1 100; printf end").line_limit(7);
    let (outcome, events) = super::observed(command);
    assert_eq!(outcome.lost_lines, 94);
    assert_eq!(text_of(&events, "stdout").lines().count(), 7);
}

/// The terminal of a command joins both outputs: its last lines explain a failure.
#[test]
fn the_limit_leaves_the_explanation_of_a_failure_on_a_terminal() {
    let data = tempfile::tempdir().unwrap();
    let options = ["--pty", "--max-lines", "3"];
    let failing = "seq 1 500; echo 'fatal: WHY' >&2; exit 4";
    let (output, events) = events_of(&options, failing, data.path());
    assert_code(&output, 4);
    let shown = text_of(&events, "stdout");
    assert!(
        shown.starts_with("1\n2\n3\n402\n") && shown.ends_with("\n500\nfatal: WHY\n"),
        "{shown}"
    );
    let passed = script(&options, failing, data.path());
    assert_code(&passed, 4);
    let shown = text(&passed.stdout);
    assert!(
        shown.starts_with("1\n2\n3\n402\n") && shown.ends_with("\n500\nfatal: WHY\n"),
        "{shown}"
    );
    let reported = text(&passed.stderr);
    assert!(reported.contains("398 more lines were"), "{reported}");
}
