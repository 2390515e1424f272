//! Servers that refuse, delay, or send the key back.

use super::*;
use crate::logger::RECORDS_SECRETS;

#[test]
fn too_many_requests_are_retried_after_the_requested_delay() {
    // A fake clock begins at 2026-01-21T10:00:00Z.
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
        let server = Server::answering([refusal, hello()]);
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
        // The wait may not have begun when the clock was advanced.
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
    let server = Server::answering(refusals.into_iter().chain([hello()]));
    let (answer, chunks) = streamed(&mut anthropic(&server), &prompt());
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

    let server = Server::answering((0..9).map(|_| status(429, "", "")));
    let (answer, chunks) = streamed(&mut anthropic(&server).retries(2), &prompt());
    let error = answer.unwrap_err();
    assert!(error.is_limited(), "{error:?}");
    assert!(
        error.to_string().contains("status 429") && error.to_string().contains("after 3 attempts"),
        "{error}"
    );
    assert_eq!(warnings_of(&chunks).len(), 2);
    assert_eq!(server.got.len(), 3);

    let server = Server::answering([status(429, "retry-after: 3600\r\n", "")]);
    let (answer, chunks) = streamed(&mut anthropic(&server), &prompt());
    let error = answer.unwrap_err();
    assert!(
        error.is_limited() && error.to_string().contains("3600"),
        "{error}"
    );
    assert!(chunks.is_empty(), "{chunks:?}");
}

#[test]
fn a_server_that_does_not_stream_is_named() {
    let body = r#"{"content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn"}"#;
    let batch = status(200, "content-type: application/json\r\n", body);
    let server = Server::answering([batch]);
    let (answer, _) = streamed(&mut anthropic(&server).retries(0), &prompt());
    let error = answer.unwrap_err().to_string();
    assert!(error.contains("application/json"), "{error}");
}

#[test]
fn the_key_does_not_leak_when_the_server_echoes_it() {
    collect_leaks();
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
        let server = Server::answering([answer.clone(), answer]);
        let mut client = anthropic(&server).retries(1);
        let (answer, chunks) = streamed(&mut client, &prompt());
        let shown = match &answer {
            Ok(response) => format!("{response:?}"),
            Err(error) => format!("{error} {error:?} {:?}", error.partial_response()),
        };
        let all = format!("{client:?} {shown} {chunks:?}");
        assert!(!all.contains("Hush"), "{all}");
        eprintln!("{shown}");
    }
    assert_eq!(*LEAKS.lock().unwrap(), Vec::<String>::new());
}

#[test]
fn a_key_that_the_server_sends_back_in_two_pieces_is_redacted() {
    for at in [4, 12, 20, 30] {
        let (beginning, rest) = KEY.split_at(at);
        let answer = HELLO
            .replace("Hel", beginning)
            .replace("\"lo", &format!("\"{rest}"));
        let server = Server::answering([format!("{STREAM}{answer}")]);
        let (answer, chunks) = streamed(&mut anthropic(&server), &prompt());
        let text = answer.unwrap().text;
        assert_eq!(text, text_of(&chunks));
        // The beginning is shown if it arrives alone.
        let rest = text.strip_prefix(beginning).unwrap_or(&text);
        assert!(!rest.contains("secret") && text.len() < KEY.len(), "{text}");
    }
}

/// A key is not sent while the application's logger would record it.
#[test]
fn a_logger_that_would_record_the_key_prevents_the_request() {
    collect_leaks();
    let server = Server::answering([hello()]);
    RECORDS_SECRETS.set(true);
    let answer = anthropic(&server).complete(&prompt(), &Cancel::new());
    RECORDS_SECRETS.set(false);
    let error = answer.unwrap_err().to_string();
    assert!(
        error.contains("ureq::util") && !error.contains("Hush"),
        "{error}"
    );
    assert_eq!(server.got.len(), 0);
}

#[test]
fn other_refusals_are_not_retried() {
    let other = Server::answering([hello()]);
    let redirect = status(308, &format!("location: {}/v1/messages\r\n", other.url), "");
    for (answer, expected) in [
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
        let server = Server::answering([answer, hello()]);
        let (answer, chunks) = streamed(&mut anthropic(&server), &prompt());
        let error = answer.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(chunks.is_empty(), "{chunks:?}");
        assert!(server.got.len() <= 1, "the request was retried");
    }
    assert!(other.got.is_empty(), "the redirect was followed");
    // Nothing listens at this address.
    let nobody = Server::answering(Vec::<String>::new());
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
