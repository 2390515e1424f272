//! Recorded answers, parsed by the reader of live ones, whole and cut anywhere.

use std::fs;

use serde_json::json;
use td_observe::agent::Format;
use td_observe::agent_loop::{
    Cancel, LlmClient, RecordedClient, Request, Response, StopReason, StreamChunk, Usage,
};

use super::{streamed, text_of};
use crate::recordings::recordings;
use crate::support::Dice;

/// A message of Anthropic's API with text and two tools, one of which has a broken input.
pub const TOOLS: &str = concat!(
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    "data: {\"type\": \"ping\"}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"I'll \\u00e9\"}}\n\n",
    "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"read\",\"input\":{}}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"\"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"path\\\": \\\"a\"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\".rs\\\"}\"}}\n\n",
    "data: {\"type\":\"content_block_stop\",\"index\":1}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t2\",\"name\":\"write\",\"input\":{}}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"path\\\": \"}}\n\n",
    "data: {\"type\":\"content_block_stop\",\"index\":2}\n\n",
    "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":20}}\n\n",
    "data: {\"type\":\"message_stop\"   }\n\n",
);

/// The same message of OpenAI's API.
const CHAT_TOOLS: &str = concat!(
    ": OPENROUTER PROCESSING\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"I'll \"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\u00e9\",\"tool_calls\":[{\"index\":0,\"id\":\"t1\",\"function\":{\"name\":\"read\",\"arguments\":\"\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"path\\\": \\\"a\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"another answer\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\".rs\\\"}\"}},{\"index\":1,\"id\":\"t2\",\"function\":{\"name\":\"write\",\"arguments\":\"{\\\"path\\\": \"}}]}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":20}}\n\n",
    "data: [DONE]\n\n",
);

fn playing(
    bytes: &[u8],
    piece: usize,
) -> (
    Result<Response, td_observe::agent_loop::LlmError>,
    Vec<StreamChunk>,
) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("answer");
    fs::write(&path, bytes).unwrap();
    let mut model = RecordedClient::new(Format::Sse, [path]).read_bytes(piece);
    streamed(&mut model, &Request::prompt(""))
}

#[test]
fn tool_calls_arrive_whole_from_every_provider_at_every_split() {
    for stream in [TOOLS, CHAT_TOOLS] {
        for piece in [1, 2, 3, 7, 100, 4_096] {
            let (answer, chunks) = playing(stream.as_bytes(), piece);
            let response = answer.unwrap();
            assert_eq!(response.text, "I'll é");
            assert_eq!(text_of(&chunks), "I'll é");
            let used = Usage {
                input_tokens: 9,
                output_tokens: 20,
            };
            assert_eq!(response.usage, used);
            assert_eq!(response.stop_reason, StopReason::ToolUse);
            let [read, write] = &response.tool_calls[..] else {
                panic!("{response:?}");
            };
            assert_eq!((&*read.id, &*read.name), ("t1", "read"));
            assert_eq!(read.input, Ok(json!({"path": "a.rs"})));
            let broken = write.input.as_ref().unwrap_err();
            assert_eq!(broken.text, "{\"path\": ");
            let pieces: String = chunks
                .iter()
                .filter_map(|chunk| match chunk {
                    StreamChunk::ToolUseDelta { id, json } if id == "t1" => Some(json.as_str()),
                    _ => None,
                })
                .collect();
            assert_eq!(pieces, "{\"path\": \"a.rs\"}");
            let ends = chunks
                .iter()
                .filter(|chunk| matches!(chunk, StreamChunk::ToolUseEnd { .. }));
            assert_eq!(ends.count(), 2);
            assert!(matches!(
                chunks.last(),
                Some(StreamChunk::MessageDone { .. })
            ));
        }
    }
}

#[test]
fn a_cut_recording_is_an_error_with_the_beginning_of_the_text() {
    for stream in [TOOLS, CHAT_TOOLS] {
        let end = stream.len() - "data: [DONE]\n\n".len();
        let mut dice = Dice(7);
        for _ in 0..60 {
            let at = usize::try_from(dice.roll(end as u64 - 20)).unwrap();
            let (answer, chunks) = playing(&stream.as_bytes()[..at], 5);
            let error = answer.unwrap_err();
            assert!("I'll é".starts_with(error.partial()), "{error:?}");
            assert_eq!(text_of(&chunks), error.partial());
            assert!(
                !chunks
                    .iter()
                    .any(|chunk| matches!(chunk, StreamChunk::MessageDone { .. }))
            );
        }
    }
}

#[test]
fn data_that_is_not_a_stream_is_an_error() {
    for (bytes, expected) in [
        (&b"<html>\n<body>Sign in</body>"[..], "invalid event: <html>"),
        (b"", "the answer is empty"),
        (b"data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n", "overloaded_error: Overloaded"),
        (b"data: {\"error\":{\"code\":\"server_error\",\"message\":\"went away\"}}\n\n", "server_error: went away"),
        (b"data: {\"type\":\"message_start\"}\n\ndata: {\"typ\n\n", "invalid event: {\"typ"),
        (b"data: [DONE]\n\n", "ended before the answer was complete"),
    ] {
        let (answer, _) = playing(bytes, 3);
        let error = answer.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn real_recordings_are_read() {
    let Some(root) = recordings() else {
        return;
    };
    for (file, text, output_tokens) in [
        ("anthropic-stream_events_text.0.sse", "Hello", 4),
        ("openai-chat-tools.1.sse", "The capital of the UK is", 9),
        ("openai-responses.1.sse", "", 1),
        ("anthropic-sdk-stream-b-fallback.sse", "", 1),
    ] {
        let path = root.join("sse-raw").join(file);
        let mut whole = None;
        for piece in [1, 13, 4_096] {
            let mut model = RecordedClient::new(Format::Sse, [&path]).read_bytes(piece);
            let (answer, chunks) = streamed(&mut model, &Request::prompt(""));
            let response = answer.unwrap_or_else(|error| panic!("{file}: {error}"));
            assert!(response.text.starts_with(text), "{file}: {response:?}");
            assert!(
                response.usage.output_tokens >= output_tokens,
                "{file}: {response:?}"
            );
            assert_eq!(text_of(&chunks), response.text, "{file}");
            assert_eq!(*whole.get_or_insert(response.clone()), response, "{file}");
            assert_eq!(model.remaining(), 0);
        }
    }
    let path = root.join("sse-raw/openrouter-error.0.sse");
    let mut model = RecordedClient::new(Format::Sse, [path]);
    let error = model
        .complete(&Request::prompt(""), &Cancel::new())
        .unwrap_err();
    eprintln!("openrouter: {error}");
    let none = model
        .complete(&Request::prompt(""), &Cancel::new())
        .unwrap_err();
    assert!(
        none.to_string().contains("no recorded answer remains"),
        "{none}"
    );
}
