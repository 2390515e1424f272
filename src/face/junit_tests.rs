//! Tests JUnit reports of commands and loops.

use super::*;
use crate::face::samples::{check, checked, completed, log, output, started};

fn report(events: Vec<TdEvent>, problem: Option<&str>) -> String {
    let mut report = JunitReport::default();
    for envelope in log(events) {
        report.push(&envelope);
    }
    report.finish(problem)
}

fn validation(iteration: u32) -> TdEvent {
    TdEvent::ValidationStarted {
        execution_id: "l".into(),
        iteration,
        command: "cargo test".into(),
    }
}

#[test]
fn a_command_is_one_case_with_its_output() {
    let text = report(
        vec![
            started("make <all>"),
            output("stdout", "10%\r50%\r\u{1b}[32m100%\u{1b}[0m\nopen"),
            output("stderr", "oh\u{7} \"no\"\n"),
            completed(Some(2), None),
        ],
        None,
    );
    let expected = "<testcase name=\"make &lt;all&gt;\" classname=\"run\" time=\"1.500\">";
    assert!(text.contains(expected), "{text}");
    for part in [
        " tests=\"1\" failures=\"1\" errors=\"0\" skipped=\"0\"",
        "<failure message=\"exit code 2\" type=\"failure\">exit code 2\noh",
        "<system-out>100%\nopen\n</system-out>",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
}

#[test]
fn each_check_of_a_loop_is_a_case_and_a_failed_agent_is_an_error() {
    let loop_started = TdEvent::LoopStarted {
        execution_id: "l".into(),
        loop_type: "ralph".into(),
        task_description: "t".into(),
    };
    let failed = TdEvent::IterationCompleted {
        execution_id: "l".into(),
        iteration: 2,
        outcome: IterationOutcome::LlmError {
            error: "529".into(),
        },
    };
    let text = report(
        vec![
            loop_started,
            output("stderr", "of the agent\n"),
            validation(1),
            check("test a failed", true),
            checked(101, 2_000),
            failed,
            validation(3),
            check("ok", false),
            checked(0, 1),
        ],
        None,
    );
    assert!(
        text.contains("tests=\"3\" failures=\"1\" errors=\"1\""),
        "{text}"
    );
    assert!(text.contains("name=\"iteration 1: cargo test\" classname=\"loop\" time=\"2.000\""));
    assert!(
        text.contains("<system-err>test a failed\n</system-err>"),
        "{text}"
    );
    assert!(text.contains("<error message=\"529\""), "{text}");
    assert!(!text.contains("of the agent"), "{text}");
}

#[test]
fn incomplete_cases_are_errors() {
    let text = report(vec![started("sleep 9")], None);
    assert!(
        text.contains("errors=\"1\"") && text.contains("ended before it was done"),
        "{text}"
    );
    let text = report(Vec::new(), Some("no such program"));
    assert!(
        text.contains("<error message=\"no such program\""),
        "{text}"
    );
}

#[test]
fn both_ends_of_a_long_output_are_kept() {
    let mut events = vec![started("flood")];
    events.extend((0..20_000).map(|n| output("stdout", &format!("line {n} é\n"))));
    events.push(completed(Some(0), None));
    let text = report(events, None);
    assert!(text.len() < 4 * HALF_BYTES, "{}", text.len());
    for part in ["line 0 é\n", "line 19999 é\n", "bytes are left out here"] {
        assert!(text.contains(part), "{part}");
    }
}
