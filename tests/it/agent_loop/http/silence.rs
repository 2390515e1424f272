//! Servers that stop answering, and calls that are cancelled.

use super::*;

/// A server that sends these bytes and then nothing.
fn silent_after(bytes: impl Into<Vec<u8>>) -> Server {
    let bytes = bytes.into();
    Server::once(move |connection| {
        connection.send(&bytes);
        connection.hold();
    })
}

fn half() -> String {
    let at = HELLO.find("data: {\"type\":\"message_delta").unwrap();
    format!("{STREAM}{}", &HELLO[..at])
}

#[test]
fn a_silent_server_is_given_up_after_its_timeout() {
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
    // The client may begin to wait only after the server has its request.
    let error = wait_for("the end", CEILING, || {
        fake.advance(Duration::from_secs(1));
        asking.answer.try_recv()
    });
    let error = error.0.unwrap_err();
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
fn a_cancel_ends_every_kind_of_wait_at_once() {
    // Waiting for the first byte.
    let server = silent_after("");
    let asking = Asking::begin(anthropic(&server), prompt());
    server.got.recv_timeout(CEILING).unwrap();
    asking.cancelled();

    // In the middle of an answer.
    let server = silent_after(half());
    let asking = Asking::begin(anthropic(&server), prompt());
    assert_eq!([asking.text(), asking.text()].concat(), "Hello");
    assert_eq!(asking.cancelled().partial(), "Hello");

    // Waiting to retry.
    let server = Server::answering([status(429, "retry-after: 9\r\n", "")]);
    let asking = Asking::begin(anthropic(&server), prompt());
    assert_eq!(warnings_of(&[asking.next()]).len(), 1);
    asking.cancelled();

    // Waiting for a caller to take the partial answer.
    let server = Server::once(|connection| {
        connection.send(STREAM.as_bytes());
        let delta = HELLO.split_inclusive("\n\n").nth(1).unwrap();
        connection.send(delta.repeat(1_000).as_bytes());
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

    // Connecting to an address that never answers (RFC 5737), if there is a network.
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
