//! The WebSocket of the API: events, subscriptions, resuming, and malicious clients.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Error, Message, WebSocket};

use super::{Home, request};
use crate::cli::assert_code;
use crate::support::{CEILING, wait_for};

struct Client(WebSocket<UnixStream>);

impl Client {
    #[track_caller]
    fn connect(socket: &Path, query: &str) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(CEILING)).unwrap();
        let url = format!("ws://localhost/api/v1/ws{query}");
        Self(tungstenite::client(url, stream).unwrap().0)
    }

    /// Connects, and reads the first frame.
    #[track_caller]
    fn open(socket: &Path, query: &str) -> Self {
        let mut client = Self::connect(socket, query);
        assert_eq!(client.next()["event"]["type"], "StreamOpened");
        client
    }

    #[track_caller]
    fn next(&mut self) -> Value {
        loop {
            match self.0.read().unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Reads frames up to and including the first that satisfies the predicate.
    #[track_caller]
    fn until(&mut self, is_met: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut frames = Vec::new();
        loop {
            frames.push(self.next());
            if is_met(frames.last().unwrap()) {
                return frames;
            }
        }
    }

    #[track_caller]
    fn send(&mut self, message: &Value) {
        self.0.send(Message::text(message.to_string())).unwrap();
    }

    /// Sends a change, and reads up to its reply.
    #[track_caller]
    fn change(&mut self, message: &Value) {
        self.send(message);
        self.until(|frame| frame["event"]["type"] == "StreamOpened");
    }

    /// Sends a message that is refused; returns the reply.
    #[track_caller]
    fn refused(&mut self, message: &Value) -> String {
        self.send(message);
        let problem = self.until(|frame| frame["status"].is_u64()).pop().unwrap();
        assert_eq!(problem["status"], 400, "{problem}");
        problem["detail"].as_str().unwrap().to_owned()
    }

    /// Reads to the close frame of the server.
    #[track_caller]
    fn close_code(&mut self) -> CloseCode {
        loop {
            if let Message::Close(frame) = self.0.read().unwrap() {
                return frame.unwrap().code;
            }
        }
    }
}

fn prints(text: &str) -> impl Fn(&Value) -> bool {
    move |frame| {
        let chunk = frame["event"]["chunk"].as_str().unwrap_or_default();
        chunk.contains(text)
    }
}

/// Returns the identity of a recorded event.
fn identity(frame: &Value) -> (String, u64) {
    let id = frame["event"]["execution_id"].as_str().unwrap();
    (id.to_owned(), frame["seq"].as_u64().unwrap())
}

/// Returns the id of a session's execution.
fn execution(home: &Home, session: &str) -> String {
    let row = home.wait_for_row(session, |_| true);
    row["execution_id"].as_str().unwrap().to_owned()
}

#[test]
fn events_arrive_and_a_client_that_reconnects_gets_the_rest() {
    let home = Home::new();
    let lines = "while read -r line; do echo \"got $line\"; done";
    home.server.new_session("a", 80, 24, lines);
    home.server.new_session("b", 80, 24, lines);
    home.start();
    let socket = home.socket();
    let mut client = Client::open(&socket, "?since=1h");
    home.server.tmux(&["send-keys", "-t", "a", "one", "Enter"]);
    let mut frames = client.until(prints("got one"));
    home.server.tmux(&["send-keys", "-t", "b", "two", "Enter"]);
    frames.extend(client.until(prints("got two")));
    // The events of the logs, each once and with its position.
    for session in ["a", "b"] {
        let id = execution(&home, session);
        let seqs: Vec<u64> = frames
            .iter()
            .map(identity)
            .filter_map(|(of, seq)| (of == id).then_some(seq))
            .collect();
        let whole: Vec<u64> = (1..=seqs.len() as u64).collect();
        assert_eq!(seqs, whole, "{session}");
    }
    for frame in &frames {
        let mut envelope = frame.clone();
        let id = envelope.as_object_mut().unwrap().remove("id");
        assert!(id.is_some_and(|id| id.is_string()), "{frame}");
        crate::schema::check(&envelope).unwrap();
    }
    // From each position, exactly the rest follows.
    for (at, frame) in frames.iter().enumerate() {
        let query = format!("?cursor={}", frame["id"].as_str().unwrap());
        let mut again = Client::open(&socket, &query);
        for expected in &frames[at + 1..] {
            assert_eq!(identity(&again.next()), identity(expected), "after {frame}");
        }
    }
    client.0.close(None).unwrap();
    let end = loop {
        if let Err(end) = client.0.read() {
            break end;
        }
    };
    assert!(matches!(end, Error::ConnectionClosed), "{end:?}");
    let mut last = Client::open(&socket, "");
    assert_code(&home.run(&["stop"]), 0);
    assert_eq!(last.close_code(), CloseCode::Away);
}

#[test]
fn a_client_changes_its_subscription() {
    let home = Home::new();
    let lines = "while read -r line; do echo \"got $line\"; done";
    for session in ["a", "b"] {
        home.server.new_session(session, 80, 24, lines);
    }
    home.start();
    let (a, b) = (execution(&home, "a"), execution(&home, "b"));
    let print = |session: &str, text: &str| {
        let tmux = |args: &[&str]| home.server.tmux(args);
        tmux(&["send-keys", "-t", session, text, "Enter"]);
        home.wait_for_row(session, |row| row["last_line"] == format!("got {text}"));
    };
    let mut client = Client::open(&home.socket(), "?type=OutputUpdate");
    client.change(&json!({"subscribe": {"executions": [a]}}));
    print("b", "no-1");
    print("a", "yes-1");
    let chunks = |frames: Vec<Value>| {
        let chunks = frames
            .into_iter()
            .map(|frame| frame["event"]["chunk"].to_string());
        chunks.collect::<String>()
    };
    let seen = chunks(client.until(prints("got yes-1")));
    assert!(!seen.contains("no-1"), "{seen}");
    // From now on also the other session: its earlier output is not sent.
    client.change(&json!({"subscribe": {"executions": [b]}}));
    print("b", "yes-2");
    let seen = chunks(client.until(prints("got yes-2")));
    assert!(!seen.contains("no-1"), "{seen}");
    client.change(&json!({"unsubscribe": {"executions": [a]}}));
    print("a", "no-3");
    print("b", "yes-3");
    let seen = chunks(client.until(prints("got yes-3")));
    assert!(!seen.contains("no-3"), "{seen}");
    // From a time on: first the history, then new events.
    client.change(&json!({"subscribe": {"since": "1h", "types": ["PaneOpened"]}}));
    let frames = client.until(prints("got yes-3"));
    assert_eq!(frames[0]["event"]["type"], "PaneOpened");
    assert_eq!(chunks(frames).matches("got ").count(), 3);
    // A refused change has no effect, and the connection continues.
    for (message, why) in [
        (
            json!({"subscribe": {"executions": [a], "colour": 1}}),
            "colour",
        ),
        (
            json!({"unsubscribe": {"executions": [b]}}),
            "at least one must remain",
        ),
        (json!({"publish": {}}), "publish"),
        (json!([1]), "refused"),
    ] {
        let refused = client.refused(&message);
        assert!(refused.contains(why), "{message}: {refused}");
    }
    client.0.send(Message::binary(vec![1])).unwrap();
    client.until(|frame| frame["title"] == "Bad Request");
    print("a", "no-4");
    print("b", "yes-4");
    let seen = chunks(client.until(prints("got yes-4")));
    assert!(!seen.contains("no-4"), "{seen}");
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn a_client_that_does_not_read_is_dropped() {
    let home = Home::new();
    let count = "read -r go; seq 1 100000; exec cat";
    home.server.new_session("a", 80, 24, count);
    home.start();
    let idle = Client::open(&home.socket(), "");
    home.server.tmux(&["send-keys", "-t", "a", "Enter"]);
    home.wait_for_row("a", |row| row["last_line"] == "100000");
    // Its buffers are full; the server waits for 10 s.
    let mut fds = [PollFd::new(idle.0.get_ref(), PollFlags::RDHUP)];
    let most = Timespec {
        tv_sec: 60,
        tv_nsec: 0,
    };
    assert_eq!(poll(&mut fds, Some(&most)).unwrap(), 1);
    assert!(fds[0].revents().contains(PollFlags::RDHUP));
    Client::open(&home.socket(), "");
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn malicious_clients_are_dropped_without_effect_on_others() {
    let home = Home::new();
    let lines = "while read -r line; do echo \"got $line\"; done";
    home.server.new_session("a", 80, 24, lines);
    home.start();
    let socket = home.socket();
    let plain = request(&socket, "GET /api/v1/ws HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(
        plain.starts_with("HTTP/1.1 426 ") && plain.contains("problem+json"),
        "{plain}"
    );

    let mut large = Client::open(&socket, "");
    // The server closes before it has read all of it.
    let _ = large.0.send(Message::text("x".repeat(65 * 1024)));
    assert_eq!(large.close_code(), CloseCode::Size);
    for (bytes, code) in [
        // A text without a mask, reserved bits, an unknown opcode, a fragment without a start, a long
        // ping.
        (&b"\x81\x02hi"[..], CloseCode::Protocol),
        (b"\xf1\x80\0\0\0\0", CloseCode::Protocol),
        (b"\x83\x80\0\0\0\0", CloseCode::Protocol),
        (b"\x80\x80\0\0\0\0", CloseCode::Protocol),
        (b"\x89\xfe\x01\x00\0\0\0\0", CloseCode::Protocol),
        (b"\x81\x81\0\0\0\0\xff", CloseCode::Invalid),
        (
            b"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0",
            CloseCode::Size,
        ),
    ] {
        let mut client = Client::open(&socket, "");
        let mut padded = bytes.to_vec();
        // A frame with a valid header is read to its end.
        if bytes[0] == 0x89 {
            padded.extend([0; 256]);
        }
        client.0.get_mut().write_all(&padded).unwrap();
        assert_eq!(client.close_code(), code, "{bytes:?}");
    }

    // A client that stops within a frame still gets events, and its pings are answered later.
    let mut stalled = Client::open(&socket, "?type=OutputUpdate");
    stalled.0.get_mut().write_all(b"\x89").unwrap();
    home.server.tmux(&["send-keys", "-t", "a", "x", "Enter"]);
    stalled.until(prints("got x"));
    stalled.0.get_mut().write_all(b"\x80\0\0\0\0").unwrap();
    assert!(matches!(stalled.0.read().unwrap(), Message::Pong(_)));

    // Half-open connections are closed, which makes room for others.
    for _ in 0..70 {
        let half = wait_for("room for a connection", CEILING, || {
            let stream = UnixStream::connect(&socket).unwrap();
            stream.set_read_timeout(Some(CEILING)).unwrap();
            match tungstenite::client("ws://localhost/api/v1/ws", stream) {
                Ok((client, _)) => Ok(client),
                Err(error) => Err(error.to_string()),
            }
        });
        half.get_ref().shutdown(Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        let mut stream = half.get_ref();
        stream.read_to_end(&mut rest).unwrap();
    }
    // A flood of messages delays no other client.
    let mut flood = Client::open(&socket, "");
    for _ in 0..500 {
        // The client does not read, and may be dropped.
        let message = json!({"subscribe": {}}).to_string();
        let _ = flood.0.send(Message::text(message));
    }
    home.server.tmux(&["send-keys", "-t", "a", "y", "Enter"]);
    stalled.until(prints("got y"));
    assert_code(&home.run(&["stop"]), 0);
}
