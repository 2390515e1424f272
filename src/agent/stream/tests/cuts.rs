//! Any bytes, cut anywhere, give the same events in bounded memory and without a panic.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// Records of all formats, which random bytes would never contain.
const RECORDS: &[&str] = &[
    r#"{"type":"system","subtype":"init","session_id":"s"}"#,
    r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"m","type":"message"}},"session_id":"s"}"#,
    r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"text":"é\ud83d"}},"session_id":"s"}"#,
    r#"{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"t","name":"n","input":{}}]},"session_id":"s"}"#,
    r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"r"}]},"session_id":"s"}"#,
    r#"{"is_error":false,"subtype":"success","result":"x","type":"result"}"#,
    r#"{"type":"user","isSidechain":false,"message":{"content":"p"},"sessionId":"s","version":"2.1.12"}"#,
    r#"{"type":"assistant","isSidechain":false,"message":{"id":"m","content":[{"type":"text","text":"a"}],"stop_reason":null},"sessionId":"s"}"#,
    r#"{"type":"assistant","isSidechain":true,"message":{"id":"n","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn"},"sessionId":"s"}"#,
    r#"{"type":"system","subtype":"turn_duration","pendingBackgroundAgentCount":2,"sessionId":"s"}"#,
    r#"{"type":"thread.started"}"#,
    r#"{"type":"turn.started"}"#,
    r#"{"type":"item.started","item":{"id":"i","type":"command_execution","command":"ls"}}"#,
    r#"{"type":"item.completed","item":{"id":"i","type":"command_execution","exit_code":-1,"status":"failed"}}"#,
    r#"{"type":"turn.completed","usage":{"input_tokens":18446744073709551615,"output_tokens":-1}}"#,
    r#"{"timestamp":"2026-05-16T20:57:12.5Z","type":"event_msg","payload":{"type":"task_started","turn_id":"a"}}"#,
    r#"{"timestamp":1e300,"type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":{"success":false,"content":[]}}}"#,
    r#"{"type":"init","timestamp":"x","session_id":"s","model":"m"}"#,
    r#"{"type":"tool_use","tool_id":"t","tool_name":"n","parameters":[1,{"a":null}]}"#,
    r#"{"sessionId":"s","projectHash":"h"}"#,
    r#"{"id":"2","type":"gemini","content":"x","toolCalls":[{"id":"t","status":"success"}]}"#,
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\"}}\r\n",
    "data: {\"type\":\"message_stop\"}\r",
    "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n",
    "data: [DONE]\n",
    "data: {\"type\":\"response.created\",\n data: x\ndata: \"response\":{}}\n",
    "not json",
    "\0\0\0",
    "[1,2]",
    "{",
    "",
];

fn events(format: Format, pieces: &[&[u8]], bytes_max: usize) -> (Vec<AgentEvent>, StreamStatus) {
    let mut parser = StreamParser::with_record_bytes_max(format, bytes_max);
    let (now, mut events) = (Timestamp::from_micros(5), Vec::new());
    for piece in pieces {
        parser.push(piece, now, &mut events);
    }
    parser.finish(now, &mut events);
    (events, parser.status())
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let ends = select(vec!["\n", "\r\n", "", "\n\n"]);
    let hurt = (any::<prop::sample::Index>(), any::<u8>(), 0..4u8);
    let records = proptest::collection::vec((select(RECORDS), ends), 0..12);
    (records, proptest::collection::vec(hurt, 0..3)).prop_map(|(records, hurts)| {
        let mut bytes: Vec<u8> = records
            .into_iter()
            .flat_map(|(record, end)| [record, end])
            .flat_map(str::bytes)
            .collect();
        for (at, byte, how) in hurts {
            let at = at.index(bytes.len().max(1)).min(bytes.len());
            match how {
                0 if at < bytes.len() => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => drop(bytes.drain(at..(at + usize::from(byte)).min(bytes.len()))),
                _ => {}
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cuts_do_not_matter(
        bytes in stream(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
        format in select(Format::ALL),
        bytes_max in select(vec![20, 90, 10_000]),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in cuts.into_iter().chain([bytes.len()]) {
            pieces.push(&bytes[from..cut]);
            from = cut;
        }
        prop_assert_eq!(
            events(format, &pieces, bytes_max),
            events(format, &[&bytes], bytes_max)
        );
    }

    #[test]
    fn single_bytes_give_the_same_events(bytes in stream(), format in select(Format::ALL)) {
        let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(
            events(format, &pieces, 10_000),
            events(format, &[&bytes], 10_000)
        );
    }

    #[test]
    fn any_bytes_are_accepted(bytes in any::<Vec<u8>>(), format in select(Format::ALL)) {
        events(format, &[&bytes], 100);
    }
}

#[test]
fn an_oversized_record_is_reported_and_the_next_is_read() {
    let begun = r#"{"type":"turn.started"}"#;
    let long = format!(
        r#"{{"type":"item.completed","item":{{"text":"{}"}}}}"#,
        "x".repeat(200)
    );
    let text = format!("{begun}\n{long}\n{begun}\n");
    let (events, _) = events(Format::Codex, &[text.as_bytes()], 100);
    let events: Vec<String> = events.iter().map(short).collect();
    assert_eq!(
        events[0],
        format!("! a record is too long: {} bytes skipped", long.len())
    );
    assert_eq!(events.len(), 3, "{events:?}");
}
