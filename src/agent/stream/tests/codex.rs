//! Codex: `exec --json` and rollouts.

use super::*;

#[test]
fn a_thread_of_turns() {
    let text = r#"{"type": "thread.started", "thread_id": "x"}
{"type": "turn.started"}
{"type":"item.started","item":{"id":"i1","type":"command_execution","command":"ls","exit_code":null,"status":"in_progress"}}
{"type":"error","message":"Reconnecting... 1/5"}
{"type":"item.completed","item":{"id":"i1","type":"command_execution","command":"ls","aggregated_output":"{\"type\":\"turn.completed\"}","exit_code":1,"status":"failed"}}
{"type":"item.started","item":{"id":"i2","type":"command_execution","command":"sleep","exit_code":null,"status":"in_progress"}}
{"type":"item.completed","item":{"id":"i2","type":"command_execution","command":"sleep","aggregated_output":"","exit_code":null,"status":"completed"}}
{"type":"item.completed","item":{"id":"i3","type":"web_search","query":"rust"}}
{"type":"item.completed","item":{"id":"i4","type":"mcp_tool_call","server":"s","tool":"t","arguments":{"a":1},"status":"completed","result":{"content":[{"text":"r"}]}}}
{"type":"item.completed","item":{"id":"i5","type":"agent_message","text":"all done"}}
{"type":"turn.completed","usage":{"input_tokens":7,"cached_input_tokens":3,"output_tokens":2}}
{"type":"turn.started"}
{"type":"turn.failed","error":{"message":"limit"}}
{"type":"thread.started"}
{"type":"turn.started"}
{"type":"item.started","item":{"id":"i1","type":"file_change","changes":[],"status":"in_progress"}}
"#;
    assert_eq!(
        events_of(Format::Auto, text),
        [
            "tool command_execution ls",
            "! codex reports: Reconnecting... 1/5",
            r#"failed command_execution {"type":"turn.completed"} 0ms"#,
            "tool command_execution sleep",
            "failed command_execution abandoned: no exit code 0ms",
            "tool web_search rust",
            "ok web_search rust 0ms",
            r#"tool s.t {"a":1}"#,
            "ok s.t  0ms",
            "token all done",
            "response 7/2 tools",
            "turn turn.completed",
            "completed all done",
            "failed limit",
            "tool file_change []",
            "failed the run was cut off before its end",
        ]
    );
}

#[test]
fn an_error_without_the_end_of_its_turn() {
    let text = r#"{"type":"turn.started"}
{"type":"error","message":"gone"}"#;
    assert_eq!(
        events_of(Format::Codex, text),
        ["! codex reports: gone", "failed gone"]
    );
}

#[test]
fn a_rollout_reports_each_message_once() {
    let text = r#"{"timestamp":"2026-05-16T20:57:12.000Z","type":"session_meta","payload":{"id":"x"}}
{"timestamp":"2026-05-16T20:57:12.000Z","type":"event_msg","payload":{"type":"task_started","turn_id":"a"}}
{"timestamp":"2026-05-16T20:57:12.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]}}
{"timestamp":"2026-05-16T20:57:12.000Z","type":"event_msg","payload":{"type":"user_message","message":"go"}}
{"timestamp":"2026-05-16T20:57:13.000Z","type":"response_item","payload":{"type":"function_call","name":"shell","arguments":"{\"command\":\"ls\"}","call_id":"c1"}}
{"timestamp":"2026-05-16T20:57:13.500Z","type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"Exit code: 2\nWall time: 0.5 seconds\nOutput:\nno"}}
{"timestamp":"2026-05-16T20:57:14.000Z","type":"event_msg","payload":{"type":"agent_message","message":"ok"}}
{"timestamp":"2026-05-16T20:57:14.000Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ok"}]}}
{"timestamp":"2026-05-16T20:57:14.000Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"total_tokens":9},"last_token_usage":{"input_tokens":8,"output_tokens":1}}}}
{"timestamp":"2026-05-16T20:57:14.000Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"total_tokens":9},"last_token_usage":{"input_tokens":8,"output_tokens":1}}}}
{"timestamp":"2026-05-16T20:57:14.000Z","type":"event_msg","payload":{"type":"task_complete","turn_id":"a","last_agent_message":"ok"}}
"#;
    let events = [
        "prompt go",
        r#"tool shell {"command":"ls"}"#,
        "failed shell Exit code: 2\nWall time: 0.5 seconds\nOutput:\nno 500ms",
        "token ok",
        "response 8/1 tools",
        "turn task_complete",
        "completed ok",
    ];
    assert_eq!(events_of(Format::Auto, text), events);
    // Newer versions record items instead.
    let items = text
        .replace(r#""type":"user_message","message":"go""#, r#""type":"item_completed","item":{"type":"UserMessage","content":[{"type":"text","text":"go"}]}"#)
        .replace(r#""type":"agent_message","message":"ok""#, r#""type":"item_completed","item":{"type":"AgentMessage","content":[{"type":"Text","text":"ok"}]}"#);
    assert_eq!(events_of(Format::Codex, &items), events);
}

#[test]
fn failed_turns_of_a_rollout() {
    let begun = r#"{"type":"event_msg","payload":{"type":"task_started","turn_id":"a"}}
"#;
    let aborted = r#"{"type":"event_msg","payload":{"type":"turn_aborted","reason":"interrupted"}}
"#;
    let failed = r#"{"type":"event_msg","payload":{"type":"error","message":"no"}}
{"type":"event_msg","payload":{"type":"task_complete","last_agent_message":null}}
"#;
    let with_error = r#"{"type":"event_msg","payload":{"type":"task_complete","last_agent_message":null,"error":{"message":"unexpected status 401"}}}
"#;
    let call = r#"{"type":"response_item","payload":{"type":"custom_tool_call","status":"completed","call_id":"c","name":"apply_patch","input":"p"}}
"#;
    assert_eq!(status_of(begun), StreamStatus::Working);
    assert_eq!(status_of(&[begun, call].concat()), StreamStatus::Working);
    assert_eq!(
        status_of(&[begun, aborted].concat()),
        StreamStatus::Interrupted
    );
    assert_eq!(status_of(&[begun, failed].concat()), StreamStatus::Failed);
    assert_eq!(
        status_of(&[begun, with_error].concat()),
        StreamStatus::Failed
    );
    assert_eq!(
        events_of(Format::Codex, &[begun, with_error].concat()),
        ["failed unexpected status 401"]
    );
    // An error of one turn does not affect the next turn.
    assert_eq!(
        status_of(&[begun, with_error, begun].concat()),
        StreamStatus::Working
    );
    assert_eq!(
        events_of(
            Format::Codex,
            &[begun, &begun.replace("\"a\"", "\"b\"")].concat()
        ),
        ["failed the run was cut off before its end"; 2]
    );
}

#[test]
fn an_old_rollout_has_no_envelope() {
    let text = r#"{"id":"x","timestamp":"2025-05-16T20:57:12.000Z","instructions":null}
{"record_type":"state"}
{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>"}]}
{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]}
{"type":"function_call","name":"shell","arguments":"{}","call_id":"c1"}
{"type":"function_call_output","call_id":"c1","output":"{\"output\":\"x\",\"metadata\":{\"exit_code\":0}}"}
{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ok"}]}
"#;
    assert_eq!(status_of(text), StreamStatus::MaybeDone);
    assert_eq!(
        events_of(Format::Auto, text),
        [
            "prompt go",
            "tool shell {}",
            "ok shell x 0ms",
            "token ok",
            "response 0/0 tools",
            "turn inferred: the stream ended after an answer",
            "completed ok",
        ]
    );
}
