//! The HTTP client against a local server: complete and truncated streams, errors, silence, and keys
//! that must not leak.

mod refusals;
mod silence;

use std::fs;
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use serde_json::{Value, json};
use td_observe::FakeClock;
use td_observe::agent::Format;
use td_observe::agent_loop::{
    Api, Cancel, HttpClient, LlmClient, RecordedClient, Request, Response, Secret, StreamChunk,
    ToolSpec,
};

use super::recorded::TOOLS;
use super::server::{CHUNKED, STREAM, Server, status};
use super::{Asking, streamed, text_of, warnings_of};
use crate::logger::add_hook;
use crate::recordings::recordings;
use crate::support::{CEILING, Dice, wait_for};

/// A key of no known form, so that no built-in rule redacts it.
const KEY: &str = "Hush-0123456789-this-one-is-secret";

/// An answer of Anthropic's API.
const HELLO: &str = concat!(
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3}}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hel\"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"lo\"}}\n\n",
    "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n",
    "data: {\"type\":\"message_stop\"}\n\n",
);

fn client(api: Api, server: &Server) -> HttpClient {
    collect_leaks();
    HttpClient::new(api, "some-model")
        .base_url(&server.url)
        .key(Secret::new(KEY))
        .retry_delay(Duration::from_millis(1), Duration::from_secs(10))
}

fn anthropic(server: &Server) -> HttpClient {
    client(Api::Anthropic, server)
}

fn prompt() -> Request {
    Request::prompt("hello")
}

fn hello() -> String {
    format!("{STREAM}{HELLO}")
}

/// All log records that contain a part of the key.
static LEAKS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Collects leaks from the records of all tests from now on.
fn collect_leaks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        add_hook(|record| {
            let text = record.args().to_string();
            // The HTTP library logs rows of 16 bytes.
            let mut parts = KEY.as_bytes().windows(12);
            if parts.any(|part| text.contains(std::str::from_utf8(part).unwrap())) {
                let leak = format!("{}: {text}", record.target());
                LEAKS.lock().unwrap().push(leak);
            }
        });
    });
}

#[test]
fn recorded_streams_are_answered_as_recorded() {
    let Some(root) = recordings() else {
        return;
    };
    for (api, file) in [
        (Api::Anthropic, "anthropic-stream_events_text.0.sse"),
        (Api::Anthropic, "anthropic-sdk-stream-b-fallback.sse"),
        (Api::OpenAi, "openai-chat-tools.1.sse"),
    ] {
        let path = root.join("sse-raw").join(file);
        let bytes = fs::read(&path).unwrap();
        let mut recorded = RecordedClient::new(Format::Sse, [&path]);
        let expected = recorded.complete(&prompt(), &Cancel::new()).unwrap();
        for (piece, is_chunked) in [
            (1, false),
            (1, true),
            (17, false),
            (1_000, true),
            (1 << 20, true),
        ] {
            let bytes = bytes.clone();
            let server = Server::once(move |connection| {
                connection.send(if is_chunked { CHUNKED } else { STREAM }.as_bytes());
                for piece in bytes.chunks(piece) {
                    if is_chunked {
                        connection.chunk(piece)
                    } else {
                        connection.send(piece)
                    }
                }
                if is_chunked {
                    connection.chunk(b"");
                }
            });
            let (answer, chunks) = streamed(&mut client(api, &server), &prompt());
            assert_eq!(answer.unwrap(), expected, "{file} in pieces of {piece}");
            assert_eq!(text_of(&chunks), expected.text);
        }
    }
}

#[test]
fn a_cut_answer_is_an_error_with_the_partial_answer() {
    let mut dice = Dice(11);
    let end = TOOLS.len() - "data: {\"type\":\"message_stop\"   }\n\n".len();
    for round in 0..40 {
        let at = usize::try_from(dice.roll(end as u64)).unwrap();
        let server = Server::once(move |connection| {
            // Closed without an end, within a chunk, or with a premature end marker.
            match round % 3 {
                0 => connection.send(format!("{STREAM}{}", &TOOLS[..at]).as_bytes()),
                1 => {
                    connection.send(CHUNKED.as_bytes());
                    connection.send(format!("ffff\r\n{}", &TOOLS[..at]).as_bytes());
                }
                _ => {
                    connection.send(CHUNKED.as_bytes());
                    connection.chunk(&TOOLS.as_bytes()[..at]);
                    connection.chunk(b"");
                }
            }
        });
        let (answer, chunks) = streamed(&mut anthropic(&server), &prompt());
        let error = answer.unwrap_err();
        assert!(
            error
                .to_string()
                .contains("ended before the answer was complete"),
            "{at}: {error}"
        );
        assert_eq!(error.partial(), text_of(&chunks));
        let text_at = TOOLS.find("\\u00e9\"}}").unwrap() + "\\u00e9\"}}".len();
        assert_eq!(
            error.partial() == "I'll é",
            at >= text_at,
            "{at}: {error:?}"
        );
        // An incomplete call must not be run.
        let calls = error.partial_response().tool_calls.len();
        assert!(
            calls <= TOOLS[..at].matches("content_block_stop").count(),
            "{error:?}"
        );
    }
}

#[test]
fn tokens_arrive_one_by_one() {
    let (go, gone) = bounded::<()>(0);
    let server = Server::once(move |connection| {
        connection.send(CHUNKED.as_bytes());
        let mut rest = HELLO;
        while let Some(at) = rest.find("\n\n") {
            connection.chunk(&rest.as_bytes()[..at + 2]);
            rest = &rest[at + 2..];
            // Send the next token only after the test has received this one.
            if gone.recv_timeout(CEILING).is_err() {
                return;
            }
        }
        connection.chunk(b"");
    });
    let asking = Asking::begin(anthropic(&server), prompt());
    go.send(()).unwrap();
    for text in ["Hel", "lo"] {
        assert_eq!(asking.text(), text);
        go.send(()).unwrap();
    }
    go.send(()).unwrap();
    assert!(matches!(asking.next(), StreamChunk::MessageDone { .. }));
    assert_eq!(asking.end().unwrap().text, "Hello");
}

#[test]
fn the_request_contains_all_messages_and_the_key_once() {
    let mut request = prompt().system("s");
    request.tools.push(ToolSpec {
        name: "read".into(),
        description: "Reads.".into(),
        input_schema: json!({"type": "object"}),
    });
    for (api, path, header) in [
        (Api::Anthropic, "/v1/messages", format!("x-api-key: {KEY}")),
        (
            Api::OpenAi,
            "/chat/completions",
            format!("authorization: Bearer {KEY}"),
        ),
    ] {
        let server = Server::answering([hello()]);
        let _ = client(api, &server).complete(&request, &Cancel::new());
        let got = server.got.recv_timeout(CEILING).unwrap();
        assert!(
            got.head.starts_with(&format!("POST {path} HTTP/1.1\r\n")),
            "{got:?}"
        );
        assert!(
            got.head.to_lowercase().contains(&header.to_lowercase()),
            "{got:?}"
        );
        assert!(got.head.contains(KEY) && !got.body.contains(KEY), "{got:?}");
        let body: Value = serde_json::from_str(&got.body).unwrap();
        assert_eq!(
            (&body["stream"], &body["model"]),
            (&json!(true), &json!("some-model"))
        );
        assert_eq!(body["tools"].as_array().unwrap().len(), 1);
    }
    // Long texts are sent in several writes.
    let server = Server::answering([hello()]);
    let long = "POST é ".repeat(100_000);
    let answer = anthropic(&server).complete(&Request::prompt(&long), &Cancel::new());
    assert_eq!(answer.unwrap().text, "Hello");
    let got = server.got.recv_timeout(CEILING).unwrap();
    let body: Value = serde_json::from_str(&got.body).unwrap();
    assert!(body["messages"][0]["content"][0]["text"] == long);
    assert_eq!(got.head.matches(KEY).count(), 1);
}

#[test]
fn an_oversized_answer_is_not_read_to_its_end() {
    let server = Server::once(|connection| {
        connection.send(b"HTTP/1.1 400 X\r\n\r\n");
        // The body has no end; the client stops reading.
        for _ in 0..100_000 {
            connection.send(&[b'x'; 4096]);
        }
    });
    let began = Instant::now();
    let error = anthropic(&server)
        .complete(&prompt(), &Cancel::new())
        .unwrap_err();
    assert!(
        error.to_string().len() < 3_000,
        "{} bytes",
        error.to_string().len()
    );
    assert!(began.elapsed() < CEILING);

    let long = format!("{STREAM}{}{HELLO}", ": ping\n".repeat(1_000));
    let server = Server::answering([long]);
    let error = anthropic(&server)
        .response_bytes_max(4_000)
        .complete(&prompt(), &Cancel::new());
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("more than 4000 bytes")
    );
}

#[test]
fn a_conversation_over_http_with_a_tool() {
    use td_observe::agent_loop::{ConversationEnd, Converse, Tool, ToolError, Toolbox, converse};

    struct Read;

    impl Tool for Read {
        fn name(&self) -> &str {
            "read"
        }

        fn description(&self) -> &str {
            "Reads."
        }

        fn input_schema(&self) -> Value {
            json!({"type": "object"})
        }

        fn call(&mut self, input: &Value, _: &Cancel) -> Result<String, ToolError> {
            Ok(format!("{} is empty", input["path"]))
        }
    }

    let server = Server::answering([format!("{STREAM}{TOOLS}"), hello()]);
    let conversation = converse(
        &mut anthropic(&server),
        &mut Toolbox::new().with(Read),
        prompt(),
        Converse::new(),
        &Cancel::new(),
    );
    assert!(
        matches!(conversation.end, ConversationEnd::Ended),
        "{conversation:?}"
    );
    assert_eq!(conversation.text, "I'll é\n\nHello");
    let bodies: Vec<Value> = server
        .got
        .try_iter()
        .map(|got| serde_json::from_str(&got.body).unwrap())
        .collect();
    let results = &bodies[1]["messages"][2]["content"];
    assert_eq!(results[0]["content"], "\"a.rs\" is empty");
    assert_eq!(results[1]["is_error"], true);
    // A broken input is sent back as an object.
    assert_eq!(bodies[1]["messages"][1]["content"][2]["input"], json!({}));
    let _: Response = Response::default();
}
