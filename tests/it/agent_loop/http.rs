//! The HTTP client against a local server: complete and truncated streams, errors, silence, and keys
//! that must not leak.

use std::cell::Cell;
use std::fs;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use log::{Level, Log, Metadata, Record};
use serde_json::{Value, json};
use td_observe::FakeClock;
use td_observe::agent::Format;
use td_observe::agent_loop::{
    Api, Cancel, HttpClient, LlmClient, RecordedClient, Request, Response, Secret, StreamChunk,
    ToolSpec,
};

use super::recorded::TOOLS;
use super::server::{CHUNKED, STREAM, Server, status};
use super::{Asking, asked, text_of, warnings_of};
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
    install_logger();
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

/// Targets of the HTTP library that record requests byte for byte; an application must disable them.
const SECRET_LOG_TARGETS: [&str; 2] = ["ureq::util", "ureq_proto::util"];

thread_local! {
    /// True if the logger accepts those targets on this thread.
    static RECORDS_SECRETS: Cell<bool> = const { Cell::new(false) };
}

struct LeakLogger;

impl Log for LeakLogger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        RECORDS_SECRETS.get() || !SECRET_LOG_TARGETS.contains(&metadata.target())
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let text = record.args().to_string();
        // The HTTP library logs rows of 16 bytes.
        if KEY
            .as_bytes()
            .windows(12)
            .any(|part| text.contains(std::str::from_utf8(part).unwrap()))
        {
            LEAKS
                .lock()
                .unwrap()
                .push(format!("{}: {text}", record.target()));
        }
    }

    fn flush(&self) {}
}

/// Installs the logger at the level trace; returns false if another one is installed.
fn install_logger() -> bool {
    static IS_INSTALLED: OnceLock<bool> = OnceLock::new();
    *IS_INSTALLED.get_or_init(|| {
        let is_ours = log::set_boxed_logger(Box::new(LeakLogger)).is_ok();
        log::set_max_level(Level::Trace.to_level_filter());
        is_ours
    })
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
                connection.say(if is_chunked { CHUNKED } else { STREAM }.as_bytes());
                for piece in bytes.chunks(piece) {
                    match is_chunked {
                        true => connection.chunk(piece),
                        false => connection.say(piece),
                    }
                }
                if is_chunked {
                    connection.chunk(b"");
                }
            });
            let (answer, chunks) = asked(&mut client(api, &server), &prompt());
            assert_eq!(answer.unwrap(), expected, "{file} in pieces of {piece}");
            assert_eq!(text_of(&chunks), expected.text);
        }
    }
}

#[test]
fn cut_anywhere_it_is_an_error_with_what_had_come() {
    let mut dice = Dice(11);
    let end = TOOLS.len() - "data: {\"type\":\"message_stop\"   }\n\n".len();
    for round in 0..40 {
        let at = usize::try_from(dice.roll(end as u64)).unwrap();
        let server = Server::once(move |connection| {
            // Closed without a word, in a chunk, or with an end that is a lie.
            match round % 3 {
                0 => connection.say(format!("{STREAM}{}", &TOOLS[..at]).as_bytes()),
                1 => {
                    connection.say(CHUNKED.as_bytes());
                    connection.say(format!("ffff\r\n{}", &TOOLS[..at]).as_bytes());
                }
                _ => {
                    connection.say(CHUNKED.as_bytes());
                    connection.chunk(&TOOLS.as_bytes()[..at]);
                    connection.chunk(b"");
                }
            }
        });
        let (answer, chunks) = asked(&mut anthropic(&server), &prompt());
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
        // A call that is not complete is not to be run.
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
        connection.say(CHUNKED.as_bytes());
        let mut rest = HELLO;
        while let Some(at) = rest.find("\n\n") {
            connection.chunk(&rest.as_bytes()[..at + 2]);
            rest = &rest[at + 2..];
            // The next one only when the test has seen this one.
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
        let server = Server::saying([hello()]);
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
    // Long texts go in several writes.
    let server = Server::saying([hello()]);
    let long = "POST é ".repeat(100_000);
    let answer = anthropic(&server).complete(&Request::prompt(&long), &Cancel::new());
    assert_eq!(answer.unwrap().text, "Hello");
    let got = server.got.recv_timeout(CEILING).unwrap();
    let body: Value = serde_json::from_str(&got.body).unwrap();
    assert!(body["messages"][0]["content"][0]["text"] == long);
    assert_eq!(got.head.matches(KEY).count(), 1);
}

#[test]
fn too_many_requests_are_retried_after_the_requested_delay() {
    // 2026-01-21T10:00:00Z is when a fake clock begins.
    for header in [
        "retry-after: 7",
        "retry-after: Wed, 21 Jan 2026 10:00:07 GMT",
        "retry-after-ms: 7000",
    ] {
        let refusal = status(
            429,
            &format!("{header}\r\n"),
            "{\"error\":{\"type\":\"rate_limit_error\",\"message\":\"slow down\"}}",
        );
        let server = Server::saying([refusal, hello()]);
        let fake = FakeClock::new();
        let asking = Asking::begin(anthropic(&server).clock(fake.clock()), prompt());
        let warning = asking.next();
        let warnings = warnings_of(std::slice::from_ref(&warning));
        assert_eq!(
            warnings,
            [
                "Anthropic: retrying in 7s, attempt 2 of 6, after status 429: rate_limit_error: slow down"
            ]
        );
        server.got.recv_timeout(CEILING).unwrap();
        assert!(server.got.try_recv().is_err(), "it did not wait");
        fake.advance(Duration::from_millis(6_900));
        assert!(server.got.try_recv().is_err(), "it did not wait");
        // The wait may not have begun when the clock was moved.
        wait_for("the second request", CEILING, || {
            fake.advance(Duration::from_millis(200));
            server.got.try_recv()
        });
        assert_eq!(asking.end().unwrap().text, "Hello");
    }
}

#[test]
fn overloaded_servers_are_retried_with_growing_delays() {
    let refusals = [529, 503, 500].map(|code| status(code, "", "overloaded"));
    let server = Server::saying(refusals.into_iter().chain([hello()]));
    let (answer, chunks) = asked(&mut anthropic(&server), &prompt());
    assert_eq!(answer.unwrap().text, "Hello");
    let warnings = warnings_of(&chunks);
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    for (warning, expected) in warnings.iter().zip([
        "in 1ms, attempt 2",
        "in 2ms, attempt 3",
        "in 4ms, attempt 4",
    ]) {
        assert!(warning.contains(expected), "{warning}");
    }

    let server = Server::saying((0..9).map(|_| status(429, "", "")));
    let (answer, chunks) = asked(&mut anthropic(&server).retries(2), &prompt());
    let error = answer.unwrap_err();
    assert!(error.is_limited(), "{error:?}");
    assert!(
        error.to_string().contains("status 429") && error.to_string().contains("after 3 attempts"),
        "{error}"
    );
    assert_eq!(warnings_of(&chunks).len(), 2);
    assert_eq!(server.got.len(), 3);

    let server = Server::saying([status(429, "retry-after: 3600\r\n", "")]);
    let (answer, chunks) = asked(&mut anthropic(&server), &prompt());
    let error = answer.unwrap_err();
    assert!(
        error.is_limited() && error.to_string().contains("3600"),
        "{error}"
    );
    assert!(chunks.is_empty(), "{chunks:?}");
}

#[test]
fn the_key_does_not_leak_even_when_it_is_sent_back() {
    let is_installed = install_logger();
    let echo = format!(
        "{{\"error\":{{\"type\":\"authentication_error\",\"message\":\"no such key: {KEY}\"}}}}"
    );
    let stream = format!("{STREAM}{}", HELLO.replace("Hel", KEY));
    let overloaded = status(529, "", &echo);
    let broken = format!("{STREAM}data: {{{KEY}\n\n");
    let failing = format!(
        "{STREAM}data: {{\"type\":\"error\",\"error\":{{\"type\":\"x\",\"message\":\"{KEY}\"}}}}\n\n"
    );
    let redirect = status(307, &format!("location: http://localhost:1/{KEY}\r\n"), "");
    for answer in [
        status(401, "", &echo),
        status(400, "", &format!("<html>{KEY}</html>")),
        stream,
        overloaded,
        broken,
        failing,
        redirect,
        format!("{KEY}\r\n\r\n"),
    ] {
        let server = Server::saying([answer.clone(), answer]);
        let mut client = anthropic(&server).retries(1);
        let (answer, chunks) = asked(&mut client, &prompt());
        let shown = match &answer {
            Ok(response) => format!("{response:?}"),
            Err(error) => format!("{error} {error:?} {:?}", error.partial_response()),
        };
        let all = format!("{client:?} {shown} {chunks:?}");
        assert!(!all.contains("Hush"), "{all}");
        eprintln!("{shown}");
    }
    match is_installed {
        true => assert_eq!(*LEAKS.lock().unwrap(), Vec::<String>::new()),
        false => eprintln!("NOT TESTED: another logger is installed"),
    }
}

/// A key is not sent while the application's logger would record it.
#[test]
fn a_logger_that_would_record_the_key_prevents_the_request() {
    let is_installed = install_logger();
    let server = Server::saying([hello()]);
    RECORDS_SECRETS.set(true);
    let answer = anthropic(&server).complete(&prompt(), &Cancel::new());
    RECORDS_SECRETS.set(false);
    if !is_installed {
        return eprintln!("NOT TESTED: another logger is installed");
    }
    let error = answer.unwrap_err().to_string();
    assert!(
        error.contains("ureq::util") && !error.contains("Hush"),
        "{error}"
    );
    assert_eq!(server.got.len(), 0);
}

#[test]
fn other_refusals_are_not_retried() {
    let other = Server::saying([hello()]);
    let redirect = status(308, &format!("location: {}/v1/messages\r\n", other.url), "");
    for (answer, says) in [
        (
            status(
                401,
                "",
                "{\"type\":\"error\",\"error\":{\"type\":\"authentication_error\",\"message\":\"invalid x-api-key\"}}",
            ),
            "status 401: authentication_error: invalid x-api-key",
        ),
        (
            status(404, "", "{\"error\":\"model not found\"}"),
            "status 404: model not found",
        ),
        (status(413, "", ""), "status 413"),
        (redirect, "redirects are not followed"),
        (
            "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<html>Sign in</html>".to_owned(),
            "text/html",
        ),
        ("garbage\r\n\r\n".to_owned(), "Anthropic: "),
        (String::new(), "Anthropic: "),
        (
            format!(
                "{STREAM}data: {{\"type\":\"error\",\"error\":{{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}}}\n\n"
            ),
            "overloaded_error: Overloaded",
        ),
    ] {
        let server = Server::saying([answer, hello()]);
        let (answer, chunks) = asked(&mut anthropic(&server), &prompt());
        let error = answer.unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert!(chunks.is_empty(), "{chunks:?}");
        assert!(server.got.len() <= 1, "the request was retried");
    }
    assert!(other.got.is_empty(), "the redirect was followed");
    // Nobody is there.
    let nobody = Server::saying(Vec::<String>::new());
    wait_for("a refusal", CEILING, || {
        let error = anthropic(&nobody)
            .complete(&prompt(), &Cancel::new())
            .unwrap_err();
        let text = error.to_string();
        text.contains("refused").then_some(()).ok_or(text)
    });
    let far = HttpClient::new(Api::OpenAi, "m")
        .base_url("http://192.0.2.1/v1")
        .key(Secret::new(KEY));
    let error = { far }.complete(&prompt(), &Cancel::new()).unwrap_err();
    assert!(error.to_string().contains("not encrypted"), "{error}");
}

#[test]
fn what_is_too_much_is_not_read() {
    let server = Server::once(|connection| {
        connection.say(b"HTTP/1.1 400 X\r\n\r\n");
        // Without end: until the client has had enough.
        for _ in 0..100_000 {
            connection.say(&[b'x'; 4096]);
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
    let server = Server::saying([long]);
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

/// A server that sends this and then nothing.
fn silent_after(bytes: impl Into<Vec<u8>>) -> Server {
    let bytes = bytes.into();
    Server::once(move |connection| {
        connection.say(&bytes);
        connection.hold();
    })
}

fn half() -> String {
    let at = HELLO.find("data: {\"type\":\"message_delta").unwrap();
    format!("{STREAM}{}", &HELLO[..at])
}

#[test]
fn silence_has_its_limits() {
    let server = silent_after("");
    let fake = FakeClock::new();
    let asking = Asking::begin(
        anthropic(&server)
            .clock(fake.clock())
            .first_byte_timeout(Duration::from_secs(100)),
        prompt(),
    );
    server.got.recv_timeout(CEILING).unwrap();
    fake.advance(Duration::from_secs(109));
    assert!(asking.answer.try_recv().is_err(), "too early");
    fake.advance(Duration::from_secs(1));
    let error = asking.end().unwrap_err();
    assert!(
        error.is_timeout() && error.to_string().contains("within 100s"),
        "{error:?}"
    );

    let server = silent_after(half());
    let fake = FakeClock::new();
    let asking = Asking::begin(
        anthropic(&server)
            .clock(fake.clock())
            .idle_timeout(Duration::from_secs(30)),
        prompt(),
    );
    assert_eq!([asking.text(), asking.text()].concat(), "Hello");
    let error = wait_for("the end", CEILING, || {
        fake.advance(Duration::from_secs(10));
        asking.answer.try_recv()
    });
    let error = error.0.unwrap_err();
    assert!(
        error.is_timeout() && error.to_string().contains("for 30s"),
        "{error:?}"
    );
    assert_eq!(error.partial(), "Hello");
}

#[test]
fn a_cancel_ends_it_at_once_wherever_it_waits() {
    // For the first byte.
    let server = silent_after("");
    let asking = Asking::begin(anthropic(&server), prompt());
    server.got.recv_timeout(CEILING).unwrap();
    asking.cancelled();

    // In the middle.
    let server = silent_after(half());
    let asking = Asking::begin(anthropic(&server), prompt());
    assert_eq!([asking.text(), asking.text()].concat(), "Hello");
    assert_eq!(asking.cancelled().partial(), "Hello");

    // For asking again.
    let server = Server::saying([status(429, "retry-after: 9\r\n", "")]);
    let asking = Asking::begin(anthropic(&server), prompt());
    assert_eq!(warnings_of(&[asking.next()]).len(), 1);
    asking.cancelled();

    // For a caller that takes the partial answer.
    let server = Server::once(|connection| {
        connection.say(STREAM.as_bytes());
        let delta = HELLO.split_inclusive("\n\n").nth(1).unwrap();
        connection.say(delta.repeat(1_000).as_bytes());
        connection.hold();
    });
    let asking = Asking::begin(anthropic(&server), prompt());
    wait_for("a full channel", CEILING, || {
        asking
            .chunks
            .is_full()
            .then_some(())
            .ok_or(asking.chunks.len())
    });
    asking.cancelled();

    // For a place that does not answer at all (RFC 5737), where there is a network.
    let far = HttpClient::new(Api::OpenAi, "m")
        .base_url("http://192.0.2.1:9/v1")
        .allow_plain_http()
        .key(Secret::new(KEY));
    let asking = Asking::begin(far, prompt());
    if asking
        .answer
        .recv_timeout(Duration::from_millis(300))
        .is_err()
    {
        asking.cancelled();
    }
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

    let server = Server::saying([format!("{STREAM}{TOOLS}"), hello()]);
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
    // A broken input goes back as an object.
    assert_eq!(bodies[1]["messages"][1]["content"][2]["input"], json!({}));
    let _: Response = Response::default();
}
