//! Qwen Code: session files, as 0.24 writes them.

use super::*;
use crate::agent::StreamFormat;

const PROMPT: &str = r#"{"timestamp":"2026-11-23T22:46:30.419Z","type":"user","message":{"role":"user","parts":[{"text":"do it"}]}}
"#;
const RESPONSE: &str = r#"{"timestamp":"2026-11-23T22:46:31.621Z","type":"system","subtype":"ui_telemetry","systemPayload":{"uiEvent":{"event.name":"qwen-code.api_response"}}}
"#;
const CALL: &str = r#"{"timestamp":"2026-11-23T22:46:31.622Z","type":"assistant","message":{"role":"model","parts":[{"text":"I do."},{"functionCall":{"id":"c1","name":"run_shell_command","args":{"command":"ls"}}}]},"usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":50}}
"#;
const RESULT: &str = r#"{"timestamp":"2026-11-23T22:46:33.161Z","type":"tool_result","message":{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"run_shell_command","response":{"output":"a"}}}]},"toolCallResult":{"callId":"c1","status":"success"}}
"#;
const ANSWER: &str = r#"{"timestamp":"2026-11-23T22:46:36.325Z","type":"assistant","message":{"role":"model","parts":[{"text":"It is."}]},"usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":50}}
"#;

fn parser(text: &str) -> (StreamParser, Vec<AgentEvent>) {
    let (mut parser, mut events) = (StreamParser::of(StreamFormat::QwenSession), Vec::new());
    parser.push(text.as_bytes(), Timestamp::default(), &mut events);
    (parser, events)
}

fn turns(events: &[AgentEvent]) -> usize {
    let is_turn = |event: &&AgentEvent| matches!(event, AgentEvent::TurnCompleted { .. });
    events.iter().filter(is_turn).count()
}

#[test]
fn a_late_answer_ends_its_turn_on_arrival() {
    let (mut parser, mut events) = parser(&[PROMPT, RESPONSE, CALL, RESULT, RESPONSE].concat());
    assert_eq!(parser.status(), StreamStatus::MaybeDone);
    parser.end_turn(Timestamp::default(), &mut events);
    assert_eq!(turns(&events), 0, "the answer stands before the end");
    events.clear();
    parser.push(ANSWER.as_bytes(), Timestamp::default(), &mut events);
    assert!(
        matches!(events.last(), Some(AgentEvent::TurnCompleted { summary, .. }) if summary == "It is."),
        "{events:?}"
    );
    parser.end_turn(Timestamp::default(), &mut events);
    assert_eq!(turns(&events), 1);
    assert_eq!(parser.status(), StreamStatus::Done);
}

#[test]
fn an_answer_without_the_response_of_the_api_was_stopped() {
    let stopped = ANSWER.replace(
        r#","usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":50}"#,
        "",
    );
    let first = [PROMPT, RESPONSE, ANSWER, PROMPT].concat();
    let (stopped_parser, _) = parser(&(first.clone() + &stopped));
    assert_eq!(stopped_parser.status(), StreamStatus::Interrupted);
    // Providers that do not count tokens still answer.
    let (answered, _) = parser(&(first + RESPONSE + &stopped));
    assert_eq!(answered.status(), StreamStatus::MaybeDone);
    // Without recorded responses, a stop is not detected.
    let (unknown, _) = parser(&(PROMPT.to_owned() + &stopped));
    assert_eq!(unknown.status(), StreamStatus::MaybeDone);
}

#[test]
fn requests_for_other_purposes_are_not_of_the_turn() {
    let of = |id: &str| {
        RESPONSE.replace(
            r#"qwen-code.api_response""#,
            &format!(r#"qwen-code.api_response","prompt_id":"{id}""#),
        )
    };
    let memory = of("5e61-9a#managed-auto-memory-extractor-c552ac0c#0");
    let (read, _) = parser(&(PROMPT.to_owned() + &memory));
    assert_eq!(read.status(), StreamStatus::Working);
    let failed = memory.replace("api_response", "api_error");
    let (read, events) = parser(&(PROMPT.to_owned() + &failed));
    assert_eq!(read.status(), StreamStatus::Working);
    let is_failure = |event: &AgentEvent| matches!(event, AgentEvent::AgentFailed { .. });
    assert!(!events.iter().any(is_failure), "{events:?}");
    let (read, _) = parser(&(PROMPT.to_owned() + &of("5e61-9a########4")));
    assert_eq!(read.status(), StreamStatus::MaybeDone);
}

#[test]
fn a_turn_that_is_over_before_its_answer_is_written_ends_with_the_answer() {
    let (mut parser, mut events) = parser(&[PROMPT, RESPONSE, CALL, RESULT].concat());
    parser.end_turn(Timestamp::default(), &mut events);
    assert_eq!(turns(&events), 0, "the answer stands before the end");
    parser.push(
        [RESPONSE, ANSWER].concat().as_bytes(),
        Timestamp::default(),
        &mut events,
    );
    assert_eq!(turns(&events), 1);
    assert_eq!(parser.status(), StreamStatus::Done);
    // The next turn is another one.
    events.clear();
    parser.push(
        [PROMPT, RESPONSE, ANSWER].concat().as_bytes(),
        Timestamp::default(),
        &mut events,
    );
    assert_eq!(turns(&events), 0, "nothing shows its end yet");
}
