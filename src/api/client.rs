//! The client of the API: a stream of events that reconnects by itself.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::chunked::Chunked;
use super::exchange::{Answer, open, read_head, send};
use super::seen::SeenNumbers;
use crate::clock::Clock;
use crate::event::TdEvent;
use crate::feed::{Next, Reader};
use crate::history::parse_line;

/// The longest accepted line of a stream, which fits the longest event.
const LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A source of an observer's events: a reader in this process, or a client of the API. A face does not know
/// which one it has.
pub(crate) trait EventSource: Send {
    /// Returns the next item; waits for it until the deadline.
    ///
    /// # Errors
    /// If the observer does not answer.
    fn next(&mut self, deadline: Instant) -> Result<Next, Unavailable>;
}

impl EventSource for Reader {
    fn next(&mut self, deadline: Instant) -> Result<Next, Unavailable> {
        Ok(Reader::next(self, Some(deadline)))
    }
}

/// Reads the stream of the observer's events. After a broken connection it continues at the same position,
/// also with the next observer.
pub(crate) struct EventReader {
    /// The socket to connect to after a broken connection.
    pub socket: PathBuf,
    path: String,
    clock: Clock,
    /// The position after the last item, or the one to begin at.
    pub cursor: Option<String>,
    lines: Option<BufReader<Chunked<BufReader<UnixStream>>>>,
    /// The received part of the current line.
    line: Vec<u8>,
    /// The current frame: its id and data.
    frame: Frame,
    seen: SeenNumbers,
}

#[derive(Default)]
struct Frame {
    id: Option<String>,
    data: Vec<u8>,
}

/// The reason that the observer does not answer.
#[derive(Debug)]
pub(crate) enum Unavailable {
    /// The connection broke; the next call reconnects.
    Broken(io::Error),
    /// The observer refused the request.
    Refused(String),
}

impl EventSource for EventReader {
    fn next(&mut self, deadline: Instant) -> Result<Next, Unavailable> {
        if self.lines.is_none() {
            self.connect()?;
        }
        loop {
            let Some(line) = self.next_line(deadline)? else {
                return Ok(Next::Timeout);
            };
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end_matches(['\r', '\n']);
            if text.is_empty() {
                if let Some(item) = self.ended_frame() {
                    return Ok(item);
                }
            } else if let Some(id) = text.strip_prefix("id: ") {
                self.frame.id = Some(id.to_owned());
            } else if let Some(data) = text.strip_prefix("data: ") {
                self.frame.data = data.as_bytes().to_vec();
            }
        }
    }
}

impl EventReader {
    /// Creates a reader of the stream at a path with its query.
    pub fn new(socket: &Path, path: String, clock: &Clock) -> Self {
        Self {
            socket: socket.to_owned(),
            path,
            clock: clock.clone(),
            cursor: None,
            lines: None,
            line: Vec::new(),
            frame: Frame::default(),
            seen: SeenNumbers::default(),
        }
    }

    fn connect(&mut self) -> Result<(), Unavailable> {
        let request = || {
            let stream = open(&self.socket)?;
            let cursor = self.cursor.as_deref();
            send(
                &stream,
                "GET",
                &self.path,
                cursor.map(|cursor| ("Last-Event-ID", cursor)),
            )?;
            Ok(stream)
        };
        let stream = request().map_err(Unavailable::Broken)?;
        self.begin(stream)
    }

    /// Reads the head of the response on a connection; `next` then returns its items.
    ///
    /// # Errors
    /// If the response is not a stream.
    pub fn begin(&mut self, stream: UnixStream) -> Result<(), Unavailable> {
        let mut reader = BufReader::new(stream);
        let head = read_head(&mut reader).map_err(Unavailable::Broken)?;
        if head.status != 200 {
            let mut body = Vec::new();
            // A partly read problem is still useful.
            let _ = reader.take(4096).read_to_end(&mut body);
            let answer = Answer {
                status: head.status,
                body,
                etag: None,
            };
            return Err(Unavailable::Refused(answer.problem()));
        }
        self.line.clear();
        self.frame = Frame::default();
        self.lines = Some(BufReader::new(Chunked::new(reader)));
        Ok(())
    }

    /// Returns the next line; `None` at the deadline.
    fn next_line(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, Unavailable> {
        let Some(lines) = &mut self.lines else {
            return Err(Unavailable::Broken(io::ErrorKind::NotConnected.into()));
        };
        let left = deadline.saturating_duration_since(self.clock.now());
        // A socket timeout of zero would mean no timeout.
        let left = left.max(Duration::from_millis(1));
        let stream = lines.get_ref().get_ref().get_ref();
        let room = LINE_BYTES_MAX.saturating_sub(self.line.len() as u64);
        let read = stream
            .set_read_timeout(Some(left))
            .and_then(|()| lines.take(room).read_until(b'\n', &mut self.line));
        let broken = match read {
            Ok(_) if self.line.ends_with(b"\n") => {
                return Ok(Some(std::mem::take(&mut self.line)));
            }
            Ok(_) => io::ErrorKind::UnexpectedEof.into(),
            Err(cause)
                if matches!(
                    cause.kind(),
                    io::ErrorKind::WouldBlock
                        | io::ErrorKind::TimedOut
                        | io::ErrorKind::Interrupted
                ) =>
            {
                return Ok(None);
            }
            Err(cause) => cause,
        };
        self.lines = None;
        Err(Unavailable::Broken(broken))
    }

    /// Ends a frame; returns its item, unless it has none or repeats an event.
    fn ended_frame(&mut self) -> Option<Next> {
        let frame = std::mem::take(&mut self.frame);
        if let Some(id) = frame.id {
            self.cursor = Some(id);
        }
        let envelope = parse_line(&frame.data).ok()?;
        // Events of the stream itself have no execution and no number.
        if let (None, TdEvent::Unknown(event)) = (envelope.seq, &envelope.event) {
            let missed = event.fields().get("missed").and_then(Value::as_u64);
            match (event.type_name(), missed) {
                ("Lagged", missed) => return missed.map(Next::Missed),
                ("StreamOpened", _) => return None,
                _ => {}
            }
        }
        if let Some(seq) = envelope.seq
            && !(self.seen).is_new(envelope.event.execution_id(), seq, envelope.ts)
        {
            return None;
        }
        Some(Next::Event(envelope.into()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::{Envelope, StreamEvent};
    use crate::timestamp::Timestamp;

    #[test]
    fn events_of_the_stream_differ_from_those_of_executions() {
        let clock = Clock::system();
        let mut reader = EventReader::new(Path::new("none"), "/".to_owned(), &clock);
        let mut item = |data: Vec<u8>| {
            reader.frame.data = data;
            reader.ended_frame()
        };
        let at = Timestamp::from_micros(1);
        let stream = |event: &StreamEvent| serde_json::to_vec(&event.at(at)).unwrap();
        assert!(item(stream(&StreamEvent::opened())).is_none());
        let missed = item(stream(&StreamEvent::Lagged { missed: 7 }));
        assert!(matches!(missed, Some(Next::Missed(7))), "{missed:?}");
        let mut without_number =
            serde_json::to_value(StreamEvent::Lagged { missed: 7 }.at(at)).unwrap();
        for missed in [json!("7"), json!(-7), Value::Null] {
            without_number["event"]["missed"] = missed;
            let nothing = item(serde_json::to_vec(&without_number).unwrap());
            assert!(nothing.is_none(), "{nothing:?}");
        }
        let warning = TdEvent::Warning {
            execution_id: "a".into(),
            context: "c".into(),
            message: "m".into(),
        };
        for seq in [None, Some(3)] {
            let envelope = Envelope::new(seq, at, warning.clone());
            let event = item(serde_json::to_vec(&envelope).unwrap());
            let Some(Next::Event(event)) = event else {
                panic!("{event:?}")
            };
            assert_eq!(event.seq, seq);
        }
    }
}
