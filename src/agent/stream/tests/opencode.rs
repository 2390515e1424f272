//! opencode: `run --format json`.

use super::*;

const START: &str = r#"{"type":"step_start","timestamp":1767445000100,"sessionID":"ses_1","part":{"id":"p1","sessionID":"ses_1","messageID":"m1","type":"step-start","snapshot":"f3"}}
"#;
const TOOL: &str = r#"{"type":"tool_use","timestamp":1767445000450,"sessionID":"ses_1","part":{"type":"tool","callID":"c1","tool":"bash","state":{"status":"completed","input":{"command":"ls"},"output":"{\"type\":\"step_finish\"}","time":{"start":1767445000200,"end":1767445000350}}}}
"#;
const TEXT: &str = r#"{"type":"text","timestamp":1767445001100,"sessionID":"ses_1","part":{"type":"text","text":"Found it."}}
"#;
const ERROR: &str = r#"{"type":"error","timestamp":1767445002000,"sessionID":"ses_1","error":{"name":"APIError","data":{"message":"Rate limit exceeded","statusCode":429}}}
"#;

/// Returns the record that ends a step with this reason and these token counts.
fn finish(reason: &str, input: u64, output: u64) -> String {
    format!(
        r#"{{"type":"step_finish","timestamp":1767445001250,"sessionID":"ses_1","part":{{"type":"step-finish","reason":"{reason}","cost":0.01,"tokens":{{"input":{input},"output":{output},"reasoning":0}}}}}}"#
    ) + "\n"
}

#[test]
fn a_run_of_two_steps() {
    let failing = TOOL
        .replace("c1", "c2")
        .replace("completed", "error")
        .replace(
            r#""output":"{\"type\":\"step_finish\"}""#,
            r#""error":"no""#,
        );
    let text = [
        START,
        TOOL,
        &failing,
        &finish("tool-calls", 7, 2),
        START,
        TEXT,
        &finish("stop", 9, 3),
    ]
    .concat();
    let events = [
        r#"tool bash {"command":"ls"}"#,
        r#"ok bash {"type":"step_finish"} 150ms"#,
        r#"tool bash {"command":"ls"}"#,
        "failed bash no 150ms",
        "response 7/2 tools",
        "token Found it.",
        "response 9/3",
        "turn stop",
        "completed Found it.",
    ];
    assert_eq!(events_of(Format::Auto, &text), events);
    assert_eq!(events_of(Format::Opencode, &text), events);
    assert_eq!(status_of(&text), StreamStatus::Done);
}

#[test]
fn a_step_ends_for_its_reason() {
    for (lines, status) in [
        (vec![START], StreamStatus::Working),
        (vec![START, TOOL], StreamStatus::Working),
        (
            vec![START, TOOL, &finish("tool-calls", 1, 1)],
            StreamStatus::Working,
        ),
        // Another step follows, although the provider reports `stop`.
        (
            vec![START, TOOL, &finish("stop", 1, 1)],
            StreamStatus::Working,
        ),
        (
            vec![START, TOOL, TEXT, &finish("stop", 1, 1)],
            StreamStatus::Done,
        ),
        (
            vec![START, TEXT, &finish("length", 1, 1)],
            StreamStatus::Failed,
        ),
        (vec![START, &finish("unknown", 0, 0)], StreamStatus::Failed),
        (
            vec![START, TEXT, &finish("unknown", 1, 1)],
            StreamStatus::MaybeDone,
        ),
        (vec![START, ERROR], StreamStatus::Failed),
        (vec![ERROR], StreamStatus::Failed),
    ] {
        assert_eq!(status_of(&lines.concat()), status, "{lines:?}");
    }
    let aborted = ERROR.replace("APIError", "MessageAbortedError");
    assert_eq!(
        status_of(&[START, &aborted].concat()),
        StreamStatus::Interrupted
    );
}

#[test]
fn a_run_ends_once() {
    let stopped = [START, TEXT, &finish("stop", 1, 1)].concat();
    let ends = |text: &str| {
        let mut events = events_of(Format::Auto, text);
        events.retain(|event| event.starts_with("completed") || event.starts_with("failed"));
        events
    };
    assert_eq!(
        ends(&[stopped.as_str(), ERROR].concat()),
        ["failed Rate limit exceeded"]
    );
    assert_eq!(
        ends(&[START, TEXT].concat()),
        ["failed the run was cut off before its end"]
    );
    // Several runs in one file.
    let other = START.replace("ses_1", "ses_2");
    assert_eq!(
        ends(&[stopped.as_str(), other.as_str()].concat()),
        [
            "completed Found it.",
            "failed the run was cut off before its end"
        ]
    );
    assert_eq!(
        ends(&[START, &stopped.replace("ses_1", "ses_2")].concat()),
        [
            "failed the run was cut off before its end",
            "completed Found it."
        ]
    );
}
