//! The stream of events over a WebSocket, whose client can change its subscription.
//!
//! The connection's thread waits for events. Between two turns it reads messages of the client without
//! blocking. Writes have the same timeout as for other clients.

use std::io::{self, Read, Write};
use std::time::Duration;

use rustix::net::{RecvFlags, recv};
use tungstenite::handshake::derive_accept_key;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tungstenite::{Error, Message, WebSocket};

use super::client_message;
use super::events;
use super::http::Request;
use super::http::{Response, problem};
use super::liveness::{Liveness, Step};
use super::panes::ApiContext;
use super::stream::Stream;
use crate::clock::Clock;
use crate::event::StreamEvent;
use crate::feed::{Next, Reader, StreamCursor};
use crate::thread::{Stop, is_stopped};

/// The supported protocol version.
const VERSION: &str = "13";

/// The largest message of a client.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// The time within which a message of the client is answered.
const TURN: Duration = Duration::from_millis(100);

/// Accepts a WebSocket and sends events until the client disconnects or the observer ends.
pub(super) fn serve(
    context: &ApiContext,
    request: &Request,
    mut stream: &Stream,
    stop: &Stop,
) -> io::Result<()> {
    let clock = &context.clock;
    let opened = accept_key(request).and_then(|key| Ok((key, events::open(context, request)?)));
    let (key, events) = match opened {
        Ok(opened) => opened,
        Err(response) => return response.write(&mut stream, request.method != "HEAD"),
    };
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {key}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    let config = WebSocketConfig::default()
        .read_buffer_size(4 * 1024)
        .write_buffer_size(32 * 1024)
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX));
    let connection = Connection {
        socket: WebSocket::from_raw_socket(Duplex(stream), Role::Server, Some(config)),
        events,
        clock,
        liveness: Liveness::new(clock.now()),
        is_flushed: false,
    };
    match connection.run(stop) {
        Ok(()) | Err(Error::ConnectionClosed | Error::AlreadyClosed) => Ok(()),
        Err(Error::Io(cause)) => Err(cause),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Checks the handshake; returns the key that accepts it.
fn accept_key(request: &Request) -> Result<String, Response> {
    let has = |header: &str, token: &str| {
        let value = request.header(header).unwrap_or_default();
        value
            .split(',')
            .any(|value| value.trim().eq_ignore_ascii_case(token))
    };
    let is_upgrade = has("connection", "upgrade") && has("upgrade", "websocket");
    if request.method != "GET" || !is_upgrade || !has("sec-websocket-version", VERSION) {
        let why = "this path is a WebSocket, version 13: send the handshake of RFC 6455";
        return Err(Response::problem(426, why)
            .header("Upgrade", "websocket".to_owned())
            .header("Sec-WebSocket-Version", VERSION.to_owned()));
    }
    // 16 bytes in Base64.
    let is_key = |key: &&str| {
        let bytes = key.as_bytes();
        let is_of_alphabet = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/".contains(byte);
        bytes.len() == 24 && bytes.ends_with(b"==") && bytes[..22].iter().all(is_of_alphabet)
    };
    let key = request.header("sec-websocket-key").filter(is_key);
    key.map(|key| derive_accept_key(key.as_bytes()))
        .ok_or_else(|| Response::problem(400, "Sec-WebSocket-Key is not 16 bytes in Base64"))
}

/// Reads without blocking, and writes with the timeout of the connection.
struct Duplex<'a>(&'a Stream);

impl Read for Duplex<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (count, _) = recv(self.0, buffer, RecvFlags::DONTWAIT)?;
        Ok(count)
    }
}

impl Write for Duplex<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // At its timeout, a socket returns `WouldBlock`, after which tungstenite would retry.
        let mut stream = self.0;
        stream.write(bytes).map_err(|cause| match cause.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => cause,
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut stream = self.0;
        stream.flush()
    }
}

struct Connection<'a> {
    socket: WebSocket<Duplex<'a>>,
    events: Reader,
    clock: &'a Clock,
    liveness: Liveness,
    /// Frames are flushed before the thread waits.
    is_flushed: bool,
}

impl Connection<'_> {
    fn run(mut self, stop: &Stop) -> Result<(), Error> {
        self.opened()?;
        loop {
            if let Err(error) = self.receive() {
                return self.end(error);
            }
            match self.liveness.take_due(self.clock.now()) {
                Some(Step::Close) => {
                    return self.close(CloseCode::Away, "the client answers no ping");
                }
                Some(Step::Ping) => {
                    self.is_flushed = false;
                    self.socket.write(Message::Ping(Vec::new().into()))?;
                }
                None => {}
            }
            // The most events between two reads of the client's messages.
            for _ in 0..64 {
                if is_stopped(stop) {
                    return self.close(CloseCode::Away, "the observer ends");
                }
                let wait = if self.is_flushed {
                    TURN
                } else {
                    Duration::ZERO
                };
                match self.events.next(Some(self.clock.now() + wait)) {
                    Next::Event(envelope) => {
                        let line = serde_json::to_string(&*envelope).map_err(io::Error::other)?;
                        self.send(framed(&self.events.cursor(), line))?;
                    }
                    Next::Missed(missed) => {
                        let cursor = self.events.cursor();
                        self.send_stream_event(&cursor, &StreamEvent::Lagged { missed })?;
                    }
                    Next::Timeout => {
                        self.socket.flush()?;
                        self.is_flushed = true;
                        break;
                    }
                    Next::End => return self.close(CloseCode::Away, "the observer ends"),
                }
            }
        }
    }

    /// Reads and handles messages of the client.
    fn receive(&mut self) -> Result<(), Error> {
        for _ in 0..16 {
            let message = self.socket.read();
            if message.is_ok() {
                self.liveness.received(self.clock.now());
            }
            let answered = match message {
                Ok(Message::Text(text)) => self.change(&text),
                Ok(Message::Binary(_)) => Err(problem(400, "messages are JSON in text frames")),
                // tungstenite answers pings and closes.
                Ok(_) => continue,
                Err(Error::Io(cause)) if cause.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            match answered {
                Ok(()) => self.opened()?,
                Err(problem) => self.send(problem)?,
            }
        }
        Ok(())
    }

    /// Changes the client's subscription; the error is the problem to send.
    fn change(&mut self, text: &str) -> Result<(), String> {
        let (selection, from) =
            client_message::apply(text, self.events.selection(), self.clock.wall())
                .map_err(|why| problem(400, &why))?;
        let from = from.unwrap_or_else(|| self.events.point());
        let reopened = self.events.reopen(selection, from);
        reopened.map_err(|error| problem(500, &error.to_string()))
    }

    /// Sends the event that precedes the events of a new selection.
    fn opened(&mut self) -> Result<(), Error> {
        let cursor = self.events.cursor();
        self.send_stream_event(&cursor, &StreamEvent::opened())
    }

    fn send_stream_event(
        &mut self,
        cursor: &StreamCursor,
        event: &StreamEvent,
    ) -> Result<(), Error> {
        let line = serde_json::to_string(&event.at(self.clock.wall())).map_err(io::Error::other)?;
        self.send(framed(cursor, line))
    }

    fn send(&mut self, text: String) -> Result<(), Error> {
        self.is_flushed = false;
        self.socket.write(Message::Text(text.into()))
    }

    /// Ends a connection whose client has closed it, or has broken the protocol.
    fn end(self, error: Error) -> Result<(), Error> {
        match error {
            Error::Capacity(_) => self.close(CloseCode::Size, "a message has at most 64 KiB"),
            Error::Utf8(_) => self.close(CloseCode::Invalid, "a text is not UTF-8"),
            Error::Protocol(_) | Error::AttackAttempt => {
                self.close(CloseCode::Protocol, "the protocol of RFC 6455 is broken")
            }
            other => Err(other),
        }
    }

    fn close(mut self, code: CloseCode, reason: &'static str) -> Result<(), Error> {
        let reason = reason.into();
        self.socket.close(Some(CloseFrame { code, reason }))
    }
}

/// Adds the cursor to an envelope, as its first field.
fn framed(cursor: &StreamCursor, envelope: String) -> String {
    match envelope.strip_prefix('{') {
        Some(fields) => format!("{{\"id\":\"{cursor}\",{fields}"),
        None => envelope,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::http::Head;
    use super::super::panes::Panes;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::agent::StateRules;
    use crate::board::Board;
    use crate::bus::{BusOptions, EventBus};
    use crate::clock::FakeClock;
    use crate::feed::{Feed, Numbers};
    use crate::history::DataDir;
    use crate::redact::Rules;
    use crate::thread::{self, stop_pair};

    fn accepted(headers: &str) -> Result<String, String> {
        let head = format!("GET /api/v1/ws HTTP/1.1\r\n{headers}\r\n");
        let Head::Complete(request, _) = Request::read(head.as_bytes()) else {
            panic!("{head}")
        };
        accept_key(&request).map_err(|response| {
            let mut out = Vec::new();
            response.write(&mut out, true).unwrap();
            String::from_utf8(out).unwrap()
        })
    }

    #[test]
    fn the_handshake_is_that_of_the_rfc() {
        let good = "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\n\
                    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        assert_eq!(accepted(good).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        for (bad, status) in [
            (String::new(), "426"),
            (good.replace("13", "8"), "426"),
            (good.replace("Upgrade: WebSocket", "Upgrade: h2c"), "426"),
            (good.replace("ZQ==", ""), "400"),
            (good.replace("ZQ==", "Z!=="), "400"),
        ] {
            let answer = accepted(&bad).unwrap_err();
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{answer}"
            );
        }
    }

    /// Reads one frame of the server: its opcode and its payload.
    fn frame(stream: &mut UnixStream) -> (u8, Vec<u8>) {
        let mut head = [0; 2];
        stream.read_exact(&mut head).unwrap();
        let mut length = usize::from(head[1]);
        if length == 126 {
            let mut long = [0; 2];
            stream.read_exact(&mut long).unwrap();
            length = usize::from(u16::from_be_bytes(long));
        }
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).unwrap();
        (head[0] & 0xf, payload)
    }

    #[test]
    fn a_client_that_answers_no_ping_is_closed() {
        const TEXT: u8 = 1;
        const CLOSE: u8 = 8;
        const PING: u8 = 9;
        let fake = FakeClock::new();
        let clock = fake.clock();
        let options = BusOptions {
            clock: clock.clone(),
            ..BusOptions::default()
        };
        let bus = Arc::new(EventBus::with_options(options).unwrap());
        let board = Board::new(StateRules::builtin());
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::new(temp.path().to_owned());
        let (feed, _feed_thread) =
            Feed::start(bus.subscribe(), board, &Numbers::new(), data, clock.clone()).unwrap();
        let (server, mut client) = UnixStream::pair().unwrap();
        client
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let head = "GET /api/v1/ws HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        let Head::Complete(request, _) = Request::read(head.as_bytes()) else {
            panic!("{head}")
        };
        let (_running, stop) = stop_pair();
        let panes = Panes {
            servers: Vec::new(),
            rules: Rules::builtin(),
            allows_input: false,
        };
        let context = ApiContext {
            feed,
            bus: Arc::clone(&bus),
            clock,
            panes,
            sessions: Default::default(),
            log_troubles: Default::default(),
            runs: None,
        };
        let serving = thread::spawn("test-ws", move || {
            serve(&context, &request, &Stream::Unix(server), &stop)
        });
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            client.read_exact(&mut byte).unwrap();
            answer.extend(byte);
        }
        assert_eq!(frame(&mut client).0, TEXT);
        // Advance the time in steps, because the server may not be waiting for the next deadline yet.
        let frame_later = |client: &mut UnixStream| loop {
            let mut polled = [PollFd::new(&*client, PollFlags::IN)];
            let pause = Timespec {
                tv_sec: 0,
                tv_nsec: 20_000_000,
            };
            if poll(&mut polled, Some(&pause)).unwrap() > 0 {
                return frame(client);
            }
            fake.advance(Duration::from_secs(1));
        };
        assert_eq!(frame_later(&mut client).0, PING);
        // The server reads this pong before it answers the next message. The client answers no further pings.
        client.write_all(&[0x8a, 0x80, 0, 0, 0, 0]).unwrap();
        client.write_all(&[0x81, 0x81, 0, 0, 0, 0, b'x']).unwrap();
        while frame_later(&mut client).0 != TEXT {}
        let mut pings = 0;
        let payload = loop {
            match frame_later(&mut client) {
                (PING, _) => pings += 1,
                (opcode, payload) => {
                    assert_eq!(opcode, CLOSE);
                    break payload;
                }
            }
        };
        assert!(pings > 0);
        assert_eq!(&payload[..2], &1001_u16.to_be_bytes()[..]);
        serving.unwrap().join().unwrap().unwrap();
    }
}
