//! Records that may follow the end of a turn: hooks, goals, wake-ups, the next prompt, the
//! remainder of a record.

use std::time::Duration;

use super::*;
use crate::agent::stream::status::FollowUp;

const LINE: &str = r#""isSidechain":false,"sessionId":"s","version":"2.1.143","entrypoint":"cli""#;

/// Returns lines of a transcript with their common fields.
fn lines(lines: &[&str]) -> String {
    let lines = lines.iter().map(|line| line.replace("LINE", LINE) + "\n");
    lines.collect()
}

fn parser(format: Format, text: &str) -> StreamParser {
    let mut parser = StreamParser::new(format);
    let (now, mut events) = (Timestamp::from_micros(0), Vec::new());
    parser.push(text.as_bytes(), now, &mut events);
    parser.flush_idle(now, &mut events);
    parser
}

const PROMPT: &str = r#"{"type":"user",LINE,"message":{"content":"go"}}"#;
const END: &str = r#"{"type":"assistant",LINE,"timestamp":"2026-05-18T20:53:01Z","message":{"id":"m1","content":[{"type":"text","text":"yes"}],"stop_reason":"end_turn"}}"#;
const FEEDBACK: &str = r#"{"type":"user",LINE,"isMeta":true,"message":{"content":"Stop hook feedback:\n[all tests]: not yet"}}"#;
const SUMMARY: &str =
    r#"{"type":"system",LINE,"subtype":"stop_hook_summary","preventedContinuation":false}"#;
const DURATION: &str = r#"{"type":"system",LINE,"subtype":"turn_duration"}"#;
const GOAL_SET: &str =
    r#"{"type":"attachment",LINE,"attachment":{"type":"goal_status","met":false,"sentinel":true}}"#;
const GOAL_UNMET: &str =
    r#"{"type":"attachment",LINE,"attachment":{"type":"goal_status","met":false}}"#;
const GOAL_MET: &str =
    r#"{"type":"attachment",LINE,"attachment":{"type":"goal_status","met":true,"sentinel":true}}"#;
const WAKE_UP: &str = r#"{"type":"user",LINE,"timestamp":"2026-05-18T20:52:59Z","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]},"toolUseResult":{"scheduledFor":1779137640000,"clampedDelaySeconds":60}}"#;
const INTERRUPTION: &str = r#"{"type":"user",LINE,"message":{"content":[{"type":"text","text":"[Request interrupted by user]"}]}}"#;
const LAST_PROMPT: &str = r#"{"type":"last-prompt","lastPrompt":"go","sessionId":"s"}"#;
const SNAPSHOT: &str = r#"{"type":"file-history-snapshot","messageId":"x"}"#;

#[test]
fn records_after_a_turn_may_make_the_agent_continue() {
    use FollowUp::{Confirmation, Goal, Nothing, Prompt};
    use StreamStatus::{Done, Interrupted, Working};
    let wake = FollowUp::Wake(Duration::from_secs(61));
    let wakes = StreamStatus::Background { tasks: 1 };
    let side = END.replace("LINE", r#""isSidechain":true,"entrypoint":"cli""#);
    let sdk = END.replace("LINE", &LINE.replace("cli", "sdk-cli"));
    for (records, status, expected) in [
        (&[PROMPT, END][..], Done, Confirmation),
        (&[PROMPT, END, SUMMARY], Done, Nothing),
        (&[PROMPT, END, DURATION], Done, Nothing),
        (&[PROMPT, &sdk], Done, Nothing),
        (&[side.as_str()], Done, Nothing),
        (&[PROMPT, END, FEEDBACK], Working, Nothing),
        (&[PROMPT, END, FEEDBACK, SUMMARY], Working, Nothing),
        (&[PROMPT, END, SUMMARY, FEEDBACK], Working, Nothing),
        (
            &[PROMPT, END, FEEDBACK, SUMMARY, END, SUMMARY],
            Done,
            Nothing,
        ),
        (&[GOAL_SET, PROMPT, END], Done, Goal),
        (&[GOAL_SET, PROMPT, END, GOAL_UNMET], Working, Nothing),
        (
            &[GOAL_SET, PROMPT, END, GOAL_UNMET, SUMMARY],
            Working,
            Nothing,
        ),
        (&[GOAL_SET, PROMPT, END, GOAL_MET], Done, Confirmation),
        (&[GOAL_SET, PROMPT, END, GOAL_MET, SUMMARY], Done, Nothing),
        (&[PROMPT, WAKE_UP, END, DURATION], wakes, wake),
        (&[PROMPT, WAKE_UP, END, GOAL_MET, DURATION], Done, Nothing),
        (&[PROMPT, INTERRUPTION], Interrupted, Prompt),
        (&[PROMPT, INTERRUPTION, SNAPSHOT], Interrupted, Prompt),
        (
            &[PROMPT, INTERRUPTION, LAST_PROMPT],
            Interrupted,
            Confirmation,
        ),
        (&[PROMPT, INTERRUPTION, PROMPT], Working, Nothing),
    ] {
        let text = lines(records);
        let parser = parser(Format::Claude, &text);
        let found = (parser.status(), parser.follow_up());
        assert_eq!(found, (status, expected), "{text}");
    }
}

#[test]
fn a_quoted_hook_message_does_not_count() {
    let quoted = FEEDBACK.replace("Stop hook", "He wrote: Stop hook");
    let text = lines(&[PROMPT, END, SUMMARY, &quoted]);
    assert_eq!(status_of(&text), StreamStatus::Done);
    let events = events_of(Format::Claude, &lines(&[PROMPT, END, FEEDBACK]));
    assert!(!events.contains(&"prompt Stop hook feedback".to_owned()));
    assert_eq!(
        events.last().unwrap(),
        "failed the run was cut off before its end"
    );
}

#[test]
fn a_stopped_turn_is_reported_in_order() {
    let text = lines(&[PROMPT, INTERRUPTION, PROMPT, END]);
    let reports_a_stop = |format, text: &str| {
        let events = events_of(format, text);
        events
            .iter()
            .any(|event| event.starts_with("! the turn was stopped: "))
    };
    assert!(reports_a_stop(Format::Claude, &text));
    let stream = text.replace("\"sessionId\"", "\"session_id\"");
    assert!(reports_a_stop(Format::Claude, &stream));
    let rollout = r#"{"type":"event_msg","payload":{"type":"task_started","turn_id":"a"}}
{"type":"event_msg","payload":{"type":"turn_aborted","turn_id":"a","reason":"interrupted"}}
"#;
    assert!(reports_a_stop(Format::Codex, rollout));
    assert_eq!(parser(Format::Codex, rollout).follow_up(), FollowUp::Prompt);
}

#[test]
fn tasks_that_began_before_the_middle_are_known() {
    let launch = r#"{"type":"user",LINE,"message":{"content":[]},"toolUseResult":{"status":"async_launched","agentId":"a1"}}"#;
    let ended = r#"{"type":"queue-operation","content":"<task-notification>\n<task-id>a1</task-id>\n<status>completed</status>\n</task-notification>","sessionId":"s"}"#;
    let mut parser = parser(Format::Claude, &lines(&[PROMPT, END, SUMMARY]));
    assert_eq!(parser.status(), StreamStatus::Done);
    parser.read_earlier(lines(&[launch]).as_bytes());
    assert_eq!(parser.status(), StreamStatus::Background { tasks: 1 });
    parser.read_earlier(lines(&[launch, ended]).as_bytes());
    assert_eq!(parser.status(), StreamStatus::Done);
    assert_eq!(parser.evidence(), "stop_reason end_turn");
}

#[test]
fn records_of_another_format_are_counted() {
    let text = r#"{"type":"thread.started"}
{"type":"turn.started"}
{"type":"turn.completed","usage":{}}
{"type":"newer.codex"}
{"type":"user","message":{"content":"go"},"session_id":"s"}
{"type":"result","subtype":"success","is_error":false,"session_id":"s"}
"#;
    let events = events_of(Format::Auto, text);
    let found = "! 2 records of another format (claude stream-json) were ignored";
    assert!(events.contains(&found.to_owned()), "{events:?}");
    // The fields distinguish record types that both formats have.
    let claude = lines(&[r#"{"type":"system","subtype":"init","session_id":"s"}"#]);
    let gemini =
        r#"{"type":"result","timestamp":"2026-05-18T20:52:59Z","status":"success","stats":{}}"#;
    assert_eq!(status_of(&(claude + gemini)), StreamStatus::Working);
}

#[test]
fn only_an_explicit_false_is_a_success() {
    let result = |is_error: &str| {
        let text = format!(
            "{{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\"}}\n{{\"type\":\"result\",\"subtype\":\"success\",{is_error}\"result\":\"r\"}}\n"
        );
        let parser = parser(Format::Claude, &text);
        (parser.status(), parser.evidence().to_owned())
    };
    for (is_error, status, shown) in [
        (
            "\"is_error\":false,",
            StreamStatus::Done,
            ", is_error false",
        ),
        ("\"is_error\":1,", StreamStatus::Failed, ", is_error 1"),
        (
            "\"is_error\":\"true\",",
            StreamStatus::Failed,
            ", is_error \"true\"",
        ),
        ("", StreamStatus::Done, ", without is_error"),
    ] {
        let (found, evidence) = result(is_error);
        assert_eq!(found, status, "{is_error}");
        assert_eq!(evidence, format!("result: subtype success{shown}"));
    }
    assert_eq!(
        events_of(
            Format::Json,
            "{\"type\":\"result\",\"is_error\":1,\"result\":\"r\"}\n"
        ),
        ["failed r"]
    );
}

#[test]
fn a_stream_of_events_settles_without_its_last_lines() {
    let message = r#"{"type":"message_start","message":{"id":"m","type":"message","usage":{}}}"#;
    let stop = r#"{"type":"message_stop"}"#;
    for (end, is_open) in [
        ("", false),
        ("\n", false),
        ("\n\n", false),
        ("\ndata: {\"ty", true),
    ] {
        for name in ["data: ", "data:", ""] {
            let text = format!("data: {message}\n\n{name}{stop}{end}");
            let parser = parser(Format::Sse, &text);
            if !is_open {
                assert_eq!(parser.status(), StreamStatus::Done, "{text:?}");
            }
            assert_eq!(parser.is_open(), is_open, "{text:?}");
        }
    }
    let chunk = |more: &str| {
        format!("data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",{more}}}\n\n")
    };
    let text = chunk(r#""choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]"#);
    assert_eq!(
        status_of(&text),
        StreamStatus::MaybeDone,
        "an error may come"
    );
    assert_eq!(
        status_of(&(text.clone() + "data: [DONE]")),
        StreamStatus::Done
    );
    let half = text + "data: [DO";
    assert!(parser(Format::Sse, &half).is_open());
    let response = "data: {\"type\":\"response.created\",\"response\":{}}\n\ndata: {\"type\":\"response.completed\",\"response\":{}}\n";
    assert_eq!(status_of(response), StreamStatus::Done);
}

#[test]
fn a_server_error_in_place_of_a_stream() {
    assert_eq!(
        events_of(
            Format::Sse,
            r#"{"error":{"type":"invalid_request_error","message":"no such model"}}"#
        ),
        ["failed invalid_request_error: no such model"]
    );
    // The usage counts although the answer failed.
    let text = ": WAIT\n\ndata: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: {\"id\":\"c\",\"error\":{\"message\":\"limit\"},\"choices\":[],\"usage\":{\"prompt_tokens\":43,\"completion_tokens\":10}}\n\ndata: [DONE]\n\n";
    assert_eq!(
        events_of(Format::Auto, text),
        ["token Hi", "response 43/10", "failed limit"]
    );
}
