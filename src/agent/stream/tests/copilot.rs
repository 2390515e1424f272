//! Copilot CLI: session files.

use super::*;

fn events_and_status(lines: &[&str]) -> (Vec<String>, StreamStatus) {
    let mut parser = StreamParser::of(StreamFormat::CopilotSession);
    let (now, mut events) = (Timestamp::from_micros(0), Vec::new());
    for line in lines {
        parser.push(format!("{line}\n").as_bytes(), now, &mut events);
    }
    (events.iter().map(short).collect(), parser.status())
}

const PROMPT: &str = r#"{"type":"user.message","data":{"content":"do it","transformedContent":"<x>do it"},"timestamp":"2026-11-23T23:08:38.000Z"}"#;
const START: &str = r#"{"type":"assistant.turn_start","data":{"turnId":"0"}}"#;
const CALLS: &str = r#"{"type":"assistant.message","data":{"content":"I will.","toolRequests":[{"toolCallId":"c1","name":"bash"}]}}"#;
const TOOL: &str = r#"{"type":"tool.execution_start","data":{"toolCallId":"c1","toolName":"bash","arguments":{"command":"ls"}},"timestamp":"2026-11-23T23:08:39.000Z"}"#;
const RESULT: &str = r#"{"type":"tool.execution_complete","data":{"toolCallId":"c1","success":true,"result":{"content":"README.md"}},"timestamp":"2026-11-23T23:08:39.500Z"}"#;
const USAGE: &str =
    r#"{"type":"session.usage_record","data":{"usage":{"inputTokens":7,"outputTokens":2}}}"#;
const ANSWER: &str = r#"{"type":"assistant.message","data":{"content":"Done.","toolRequests":[]}}"#;
const END: &str = r#"{"type":"assistant.turn_end","data":{"turnId":"0"}}"#;
const ERROR: &str = r#"{"type":"session.error","data":{"errorType":"authentication","message":"Authentication failed"}}"#;

#[test]
fn the_round_without_tools_ends_the_turn() {
    let lines = [
        PROMPT, START, CALLS, TOOL, RESULT, END, START, USAGE, ANSWER, END,
    ];
    let (events, status) = events_and_status(&lines);
    assert_eq!(
        events,
        [
            "prompt do it",
            "token I will.",
            "response 0/0 tools",
            r#"tool bash {"command":"ls"}"#,
            "ok bash README.md 500ms",
            "token Done.",
            "response 7/2",
            "turn assistant.turn_end",
        ]
    );
    assert_eq!(status, StreamStatus::Done);
    assert_eq!(events_and_status(&lines[..6]).1, StreamStatus::Working);
}

#[test]
fn a_round_without_a_message_has_failed() {
    let (events, status) = events_and_status(&[PROMPT, START, END, ERROR]);
    assert_eq!(events, ["prompt do it", "failed Authentication failed"]);
    assert_eq!(status, StreamStatus::Failed);
}
