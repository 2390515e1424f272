//! Gemini CLI: stream-json and session files. Also JSON of an unknown agent.

use super::*;

#[test]
fn a_run() {
    let text = r#"{"type":"init","timestamp":"2026-11-21T21:12:29.000Z","session_id":"s","model":"m"}
{"type":"message","timestamp":"2026-11-21T21:12:29.000Z","role":"user","content":"go"}
{"type":"message","timestamp":"2026-11-21T21:12:29.000Z","role":"assistant","content":"one ","delta":true}
{"type":"message","timestamp":"2026-11-21T21:12:29.000Z","role":"assistant","content":"two","delta":true}
{"type":"message","timestamp":"2026-11-21T21:12:29.000Z","role":"assistant","content":"one two"}
{"type":"tool_use","timestamp":"2026-11-21T21:12:29.000Z","tool_name":"ls","tool_id":"t","parameters":{}}
{"type":"tool_result","timestamp":"2026-11-21T21:12:29.063Z","tool_id":"t","status":"error","error":{"message":"no"}}
{"type":"result","timestamp":"2026-11-21T21:12:30.000Z","status":"success","stats":{"input_tokens":7,"output_tokens":2}}
{"type":"init","timestamp":"2026-11-21T21:12:31.000Z","session_id":"s","model":"m"}
{"type":"result","timestamp":"2026-11-21T21:12:32.000Z","status":"error","error":{"message":"quota"}}
{"type":"init","timestamp":"2026-11-21T21:12:31.000Z","session_id":"s","model":"m"}
"#;
    assert_eq!(
        events_of(Format::Auto, text),
        [
            "prompt go",
            "token one ",
            "token two",
            "tool ls {}",
            "failed ls no 63ms",
            "response 7/2 tools",
            "turn result",
            "completed one two",
            "failed quota",
            "failed the run was cut off before its end",
        ]
    );
}

#[test]
fn a_session_with_rewritten_messages() {
    let text = r#"{"sessionId":"s","projectHash":"h","startTime":"2026-06-11T21:05:11.000Z","kind":"main"}
{"$set":{"messages":[{"id":"0","type":"user","content":[{"text":"context"}]}]}}
{"id":"1","timestamp":"2026-06-11T21:05:24.000Z","type":"user","content":[{"text":"go"}]}
{"id":"2","timestamp":"2026-06-11T21:05:29.000Z","type":"gemini","content":"I run it","tokens":{"input":7,"output":1}}
{"id":"2","timestamp":"2026-06-11T21:05:29.000Z","type":"gemini","content":"I run it.","toolCalls":[{"id":"t","name":"ls","args":{},"status":"success","timestamp":"2026-06-11T21:05:29.500Z","result":[{"functionResponse":{"response":{"output":"x"}}}]}],"tokens":{"input":7,"output":2}}
{"id":"3","timestamp":"2026-06-11T21:05:29.000Z","type":"user","content":[{"functionResponse":{"id":"t"}}]}
{"id":"4","timestamp":"2026-06-11T21:05:31.000Z","type":"gemini","content":"done","tokens":{"input":8,"output":1}}
{"$set":{"lastUpdated":"2026-06-11T21:05:31.000Z"}}
"#;
    assert_eq!(status_of(text), StreamStatus::MaybeDone);
    assert_eq!(
        events_of(Format::Auto, text),
        [
            "prompt go",
            "token I run it",
            "token .",
            "tool ls {}",
            "ok ls x 500ms",
            "response 7/2 tools",
            "token done",
            "response 8/1",
            "turn inferred: the stream ended after an answer",
            "completed done",
        ]
    );
    let failed = r#"{"id":"5","type":"error","content":"[API Error]","timestamp":"2026-06-11T21:05:31.000Z"}"#;
    assert_eq!(status_of(&[text, failed].concat()), StreamStatus::Failed);
    // Gemini's records after an error change nothing.
    let after_error = r#"
{"$set":{"lastUpdated":"2026-06-11T21:05:31.000Z"}}
{"id":"6","type":"info","content":"This request failed. Press F12 for diagnostics","timestamp":"2026-06-11T21:05:31.000Z"}
"#;
    let with_hint = [text, failed, after_error].concat();
    assert_eq!(status_of(&with_hint), StreamStatus::Failed);
    let events = events_of(Format::Gemini, &with_hint);
    assert_eq!(
        events.last().map(String::as_str),
        Some("failed [API Error]")
    );
    let cancelled = r#"{"id":"7","type":"info","content":"Request cancelled.","timestamp":"2026-06-11T21:05:31.000Z"}
"#;
    assert_eq!(
        status_of(&[text, cancelled].concat()),
        StreamStatus::Interrupted
    );
    let again = r#"{"id":"8","type":"user","content":[{"text":"once more"}],"timestamp":"2026-06-11T21:05:32.000Z"}
"#;
    assert_eq!(
        status_of(&[text, cancelled, again].concat()),
        StreamStatus::Working
    );
}

#[test]
fn json_of_an_unknown_agent() {
    let text = r#"{"what":"\"type\":\"result\""}
{"message":{"content":"hi","stop_reason":"end_turn"}}
{"type":"result","result":"ok"}
{"type":"result","error":{"message":"no"}}
"#;
    assert_eq!(
        events_of(Format::Auto, text),
        ["turn end_turn", "turn result", "completed ok", "failed no"]
    );
    assert!(events_of(Format::Auto, "{\"a\":1}\n").is_empty());
    assert!(events_of(Format::Auto, "plain text\n{\"a\":1}\nmore\n").is_empty());
    assert!(events_of(Format::Text, text).is_empty());
}

#[test]
fn messages_rewritten_after_an_interruption_are_not_reported_again() {
    let text = r#"{"sessionId":"s","projectHash":"h","startTime":"2026-11-24T03:06:14.000Z","kind":"main"}
{"id":"1","timestamp":"2026-11-24T03:06:16.000Z","type":"user","content":[{"text":"go"}]}
{"id":"2","timestamp":"2026-11-24T03:06:16.000Z","type":"info","content":"Request cancelled."}
{"id":"3","timestamp":"2026-11-24T03:06:25.000Z","type":"user","content":[{"text":"<session_context>\nThis is the Gemini CLI."}]}
{"$set":{"lastUpdated":"2026-11-24T03:06:25.000Z"}}
{"id":"4","timestamp":"2026-11-24T03:06:25.000Z","type":"gemini","content":[{"text":"Done before."}]}
{"$set":{"messages":[{"id":"3","type":"user","content":[{"text":"<session_context>"}]}]}}
{"id":"5","timestamp":"2026-11-24T03:06:31.000Z","type":"user","content":[{"text":"again"}]}
{"id":"6","timestamp":"2026-11-24T03:06:32.000Z","type":"gemini","content":"Now.","tokens":{"input":7,"output":2}}
{"id":"7","timestamp":"2026-11-24T03:06:33.000Z","type":"user","content":[{"text":"more"}]}
"#;
    let events = events_of(Format::Auto, text);
    let prompts = ["prompt go", "prompt again", "token Now."];
    let is_reported = |prompt: &&str| events.iter().any(|event| event == prompt);
    assert!(prompts.iter().all(is_reported), "{events:?}");
    let is_old =
        |event: &String| event.contains("Done before") || event.contains("session_context");
    assert!(!events.iter().any(is_old), "{events:?}");
}
