//! The client of the API: single requests, each on its own connection, and a stream of events that reconnects by
//! itself.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;

use super::http::{HEAD_BYTES_MAX, percent_encoded};
use super::seen::SeenNumbers;
use super::server::connect;
use super::wait_client::WaitReport;
use crate::board::Row;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::TdEvent;
use crate::feed::{Next, Reader};
use crate::history::parse_line;
use crate::wait::WaitOutcome;

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
            let answer = read_body(head, reader).map_err(Unavailable::Broken)?;
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
        let stream = lines.get_ref().reader.get_ref();
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

/// The time to wait for an answer. The observer answers in milliseconds.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// The interval at which a waiting client checks whether to cancel.
const CHECK: Duration = Duration::from_millis(100);

/// The largest body of an answer.
const BODY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The most headers of an answer.
const HEADERS_MAX: usize = 32;

/// An answer of the observer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
    /// The version of the board, or the position in the events.
    pub etag: Option<String>,
}

impl Answer {
    /// Returns the reason for a refused request.
    pub fn problem(&self) -> String {
        let problem: Option<serde_json::Value> = serde_json::from_slice(&self.body).ok();
        let detail = problem.as_ref().and_then(|problem| problem.get("detail"));
        match detail.and_then(serde_json::Value::as_str) {
            Some(detail) => detail.to_owned(),
            None => format!("status {}", self.status),
        }
    }
}

/// Requests a path. `wait` extends the time that the observer has to answer.
///
/// # Errors
/// [`Error::is_gone`] if no observer listens at the socket; another error if the answer is late or invalid.
pub(crate) fn get(socket: &Path, path: &str, etag: Option<&str>, wait: Duration) -> Result<Answer> {
    get_within(socket, path, etag, ANSWER_TIME + wait)
}

/// Requests a path, and waits for the answer for this long.
pub(crate) fn get_within(
    socket: &Path,
    path: &str,
    etag: Option<&str>,
    timeout: Duration,
) -> Result<Answer> {
    get_seen((socket, path), etag, timeout, &|_| {})
}

/// Requests a path as [`get_within`] does. `opened` sees the connection, and may shut it down to end the wait.
fn get_seen(
    (socket, path): (&Path, &str),
    etag: Option<&str>,
    timeout: Duration,
    opened: &dyn Fn(&UnixStream),
) -> Result<Answer> {
    let clock = Clock::system();
    let ask = || {
        let stream = open(socket)?;
        opened(&stream);
        send(&stream, "GET", path, etag.map(|tag| ("If-None-Match", tag)))?;
        let deadline = clock.now() + timeout;
        read_answer(BufReader::new(Timed {
            stream,
            deadline,
            clock: clock.clone(),
        }))
    };
    ask().map_err(|cause| failed(socket, cause))
}

/// A connection that is read until a deadline, however slowly it is written.
struct Timed {
    stream: UnixStream,
    deadline: Instant,
    clock: Clock,
}

impl Read for Timed {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(self.clock.now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(out)
    }
}

/// Returns the problems of an observer that do not show on its board: histories that cannot be written. One that does
/// not answer has none.
pub(crate) fn get_problems(socket: &Path) -> Vec<String> {
    #[derive(Default, Deserialize)]
    struct Health {
        #[serde(default)]
        problems: Vec<String>,
    }
    let answer = get(socket, "/healthz", None, Duration::ZERO);
    let health = answer.map(|answer| serde_json::from_slice(&answer.body).unwrap_or_default());
    health.map_or_else(|_| Vec::new(), |health: Health| health.problems)
}

/// Dismisses the row with an id, or brings it back.
///
/// # Errors
/// The reason in words.
pub(crate) fn dismiss_row(
    socket: &Path,
    id: &str,
    is_dismissed: bool,
) -> std::result::Result<(), String> {
    let path = format!("/api/v1/rows/{}/dismiss", percent_encoded(id));
    let body = serde_json::json!({"dismissed": is_dismissed});
    let answer = post(socket, &path, &body).map_err(|error| format!("{error:?}"))?;
    match answer.status {
        200 => Ok(()),
        _ => Err(answer.problem()),
    }
}

/// Sends a JSON body to a path.
///
/// # Errors
/// As for [`get`].
pub(crate) fn post(socket: &Path, path: &str, body: &Value) -> Result<Answer> {
    let ask = || {
        let mut stream = open(socket)?;
        stream.set_read_timeout(Some(ANSWER_TIME))?;
        stream.write_all(post_request(path, "application/json", body).as_bytes())?;
        read_answer(BufReader::new(stream))
    };
    ask().map_err(|cause| failed(socket, cause))
}

/// Returns a request with a JSON body.
fn post_request(path: &str, accept: &str, body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

/// Returns the present position in the observer's events; `None` if the observer does not answer.
pub(crate) fn position(socket: &Path) -> Option<String> {
    let ask = || {
        let stream = open(socket)?;
        send(&stream, "HEAD", "/api/v1/events", None)?;
        read_answer(BufReader::new(stream))
    };
    let answer = ask().map_err(|cause| log::debug!("{cause}"));
    answer.ok()?.etag
}

/// Requests the board's rows and its version. With a known version, waits up to `hold` for another one; `None` if
/// there is none.
///
/// # Errors
/// As for [`get`], or if the observer refuses the request.
pub(crate) fn get_board(
    socket: &Path,
    etag: Option<&str>,
    hold: Duration,
) -> Result<Option<(Vec<Row>, Option<String>)>> {
    get_board_within(socket, etag, (hold, ANSWER_TIME + hold), &|_| {})
}

/// Returns the rows as [`get_board`] does, of an observer that answers within a time. `opened` sees the connection, and may
/// shut it down to end the wait.
pub(crate) fn get_board_within(
    socket: &Path,
    etag: Option<&str>,
    (hold, within): (Duration, Duration),
    opened: &dyn Fn(&UnixStream),
) -> Result<Option<(Vec<Row>, Option<String>)>> {
    let path = match hold.as_secs() {
        0 => "/api/v1/board".to_owned(),
        seconds => format!("/api/v1/board?wait={seconds}"),
    };
    let answer = get_seen((socket, &path), etag, within, opened)?;
    match answer.status {
        200 => match rows_of(&answer.body) {
            Ok(rows) => Ok(Some((rows, answer.etag))),
            Err(cause) => Err(Error::other("the observer's board cannot be read").because(cause)),
        },
        304 => Ok(None),
        _ => Err(Error::other(format!(
            "the observer refuses the request: {}",
            answer.problem()
        ))),
    }
}

/// Returns the rows of the board of an observer that answers within this time.
pub(crate) fn get_rows(socket: &Path, within: Duration) -> Result<Vec<Row>> {
    let answer = get_within(socket, "/api/v1/board", None, within)?;
    let unread = |cause| Error::other("the observer's board cannot be read").because(cause);
    rows_of(&answer.body).map_err(unread)
}

/// Reads the rows of a board. Leaves out rows that cannot be read, such as those of a kind that only a later
/// version of the observer knows.
fn rows_of(board: &[u8]) -> serde_json::Result<Vec<Row>> {
    let rows: Vec<serde_json::Value> = serde_json::from_slice(board)?;
    let known = rows
        .into_iter()
        .filter_map(|row| serde_json::from_value(row).ok());
    Ok(known.collect())
}

/// Sends a JSON body to a path, and passes on the lines of the answer as they arrive. Ends with the answer, once
/// `is_over()` returns true, or after a silence.
///
/// # Errors
/// [`Error::is_gone`] if no observer listens at the socket; another error if it is silent or breaks off.
pub(crate) fn post_lines(
    (socket, path): (&Path, &str),
    body: &Value,
    patience: (Duration, &Clock),
    is_over: impl Fn() -> bool,
    on_line: impl FnMut(&[u8]),
) -> Result<()> {
    let request = post_request(path, "application/x-ndjson", body);
    lines_of(socket, &request, patience, is_over, on_line)
}

/// Requests a path, and passes on the lines of the answer as [`post_lines`] does. Another answer than 200 is passed on as
/// the last of an error.
#[cfg(feature = "hosts")]
pub(crate) fn get_lines(
    (socket, path): (&Path, &str),
    patience: (Duration, &Clock),
    is_over: impl Fn() -> bool,
    on_line: impl FnMut(&[u8]),
) -> Result<()> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    lines_of(socket, &request, patience, is_over, on_line)
}

fn lines_of(
    socket: &Path,
    request: &str,
    (silence, clock): (Duration, &Clock),
    is_over: impl Fn() -> bool,
    mut on_line: impl FnMut(&[u8]),
) -> Result<()> {
    let mut heard_at = clock.now();
    // Returns true if the client is to wait on after a read that has timed out.
    let waits_on = |cause: &io::Error, heard_at: Instant| match cause.kind() {
        io::ErrorKind::Interrupted => true,
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            clock.now().saturating_duration_since(heard_at) < silence
        }
        _ => false,
    };
    let mut ask = || {
        let mut stream = open(socket)?;
        stream.write_all(request.as_bytes())?;
        stream.set_read_timeout(Some(CHECK))?;
        let mut reader = BufReader::new(stream);
        while let Err(cause) = reader.fill_buf() {
            if is_over() {
                return Ok(());
            }
            if !waits_on(&cause, heard_at) {
                return Err(cause);
            }
        }
        reader.get_ref().set_read_timeout(Some(ANSWER_TIME))?;
        let head = read_head(&mut reader)?;
        if !head.is_chunked {
            return read_body(head, reader).map(|answer| on_line(&answer.body));
        }
        reader.get_ref().set_read_timeout(Some(CHECK))?;
        let (mut lines, mut line) = (BufReader::new(Chunked::new(reader)), Vec::new());
        while !is_over() {
            let room = LINE_BYTES_MAX.saturating_sub(line.len() as u64);
            match lines.by_ref().take(room).read_until(b'\n', &mut line) {
                Ok(_) if line.ends_with(b"\n") => {
                    heard_at = clock.now();
                    on_line(&line);
                    line.clear();
                }
                Ok(0) => return Ok(()),
                Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(cause) if waits_on(&cause, heard_at) => {}
                Err(cause) => return Err(cause),
            }
        }
        Ok(())
    };
    ask().map_err(|cause| failed(socket, cause))
}

/// The silence after which an observer counts as stopped: four times the interval of its signs of life.
pub(crate) const SILENCE: Duration = Duration::from_secs(2);

/// What an observer says of a wait, in a line of its answer.
pub(crate) enum WaitLine {
    Report(WaitReport),
    Outcome(Box<WaitOutcome>),
    /// The reason why it refuses the wait.
    Refusal(String),
}

impl WaitLine {
    /// Reads a line; `None` if a later version says something else.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let Ok(line) = serde_json::from_slice::<Value>(line) else {
            return Some(Self::Report(WaitReport::Alive));
        };
        match line.get("wait").and_then(Value::as_str) {
            Some("begun") => Some(Self::Report(WaitReport::Begun)),
            Some("lost_lines") => Some(Self::Report(WaitReport::LostLines)),
            Some(_) => None,
            None => Some(match WaitOutcome::from_json(&line) {
                Some(outcome) => Self::Outcome(Box::new(outcome)),
                None => {
                    let detail = line.get("detail").and_then(Value::as_str);
                    Self::Refusal(detail.map_or_else(|| line.to_string(), str::to_owned))
                }
            }),
        }
    }
}

/// Waits in the observer at a socket, on a target of a tmux server. Returns `None` if `is_over` has ended the wait.
///
/// # Errors
/// The reason in words.
#[cfg(feature = "mcp")]
pub(super) fn wait_at(
    observer: &Path,
    (server, body): (&Path, &Value),
    (report, is_over): (&dyn Fn(WaitReport), &dyn Fn() -> bool),
    clock: &Clock,
) -> std::result::Result<Option<WaitOutcome>, String> {
    let server = percent_encoded(&server.to_string_lossy());
    let path = format!("/api/v1/wait?socket={server}");
    let mut answer = None;
    let asked =
        post_lines(
            (observer, &path),
            body,
            (SILENCE, clock),
            is_over,
            |line| match WaitLine::parse(line) {
                Some(WaitLine::Report(said)) => report(said),
                Some(WaitLine::Outcome(outcome)) => answer = Some(Ok(Some(*outcome))),
                Some(WaitLine::Refusal(why)) => answer = Some(Err(why)),
                None => {}
            },
        );
    match (answer, asked) {
        (Some(answer), _) => answer,
        (None, _) if is_over() => Ok(None),
        (None, Ok(())) => Err("the observer has ended".to_owned()),
        (None, Err(error)) => Err(format!("{error:?}")),
    }
}

fn failed(socket: &Path, cause: io::Error) -> Error {
    match cause.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            Error::gone("no observer listens at").at(socket)
        }
        _ => Error::file("cannot talk to the observer at", socket, cause),
    }
}

/// Connects to an observer, with timeouts for reads and writes.
fn open(socket: &Path) -> io::Result<UnixStream> {
    let stream = connect(socket)?;
    stream.set_read_timeout(Some(ANSWER_TIME))?;
    stream.set_write_timeout(Some(ANSWER_TIME))?;
    Ok(stream)
}

/// Sends a request without a body.
fn send(
    mut stream: &UnixStream,
    method: &str,
    path: &str,
    header: Option<(&str, &str)>,
) -> io::Result<()> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    if let Some((name, value)) = header {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    stream.write_all(text.as_bytes())
}

/// Reads an answer and at most 64 MiB of its body.
pub(crate) fn read_answer(mut reader: impl BufRead) -> io::Result<Answer> {
    let head = read_head(&mut reader)?;
    read_body(head, reader)
}

fn read_body(head: AnswerHead, reader: impl BufRead) -> io::Result<Answer> {
    let mut body = Vec::new();
    let bytes_max = head.length.unwrap_or(BODY_BYTES_MAX).min(BODY_BYTES_MAX);
    let mut reader: Box<dyn Read + '_> = if head.is_chunked && head.length.is_none() {
        Box::new(Chunked::new(reader))
    } else {
        Box::new(reader)
    };
    reader.by_ref().take(bytes_max).read_to_end(&mut body)?;
    if head
        .length
        .is_some_and(|length| (body.len() as u64) < length)
    {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Answer {
        status: head.status,
        body,
        etag: head.etag,
    })
}

/// The head of an answer.
struct AnswerHead {
    status: u16,
    length: Option<u64>,
    is_chunked: bool,
    etag: Option<String>,
}

/// Reads the head of an answer.
fn read_head(reader: &mut impl BufRead) -> io::Result<AnswerHead> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let limit = HEAD_BYTES_MAX - head.len().min(HEAD_BYTES_MAX);
        if reader.take(limit as u64).read_until(b'\n', &mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Response::new(&mut headers);
    parsed.parse(&head).map_err(io::Error::other)?;
    let header = |name: &str| {
        let mut headers = parsed.headers.iter();
        let found = headers.find(|header| header.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(found.value).ok().map(str::trim)
    };
    Ok(AnswerHead {
        status: parsed.code.unwrap_or(0),
        length: header("content-length").and_then(|text| text.parse().ok()),
        is_chunked: header("transfer-encoding") == Some("chunked"),
        etag: header("etag").map(str::to_owned),
    })
}

/// The longest accepted line with the size of a chunk.
const SIZE_BYTES_MAX: usize = 64;

/// Decodes a chunked body. A read that times out within a chunk loses no bytes.
struct Chunked<R> {
    reader: R,
    /// The received part of a chunk's size line. It is kept because a read may time out within the line.
    size: Vec<u8>,
    left: u64,
    is_over: bool,
}

impl<R: BufRead> Chunked<R> {
    fn new(reader: R) -> Self {
        Self {
            reader,
            size: Vec::new(),
            left: 0,
            is_over: false,
        }
    }

    fn begin_chunk(&mut self) -> io::Result<()> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "a chunk has no size");
        // The line end after the previous chunk, if any, then the size.
        loop {
            let room = SIZE_BYTES_MAX.saturating_sub(self.size.len()) as u64;
            let mut line = (&mut self.reader).take(room);
            if line.read_until(b'\n', &mut self.size)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if self.size != b"\r\n" {
                break;
            }
            self.size.clear();
        }
        let line = std::mem::take(&mut self.size);
        let text = std::str::from_utf8(&line)
            .map_err(|_| invalid())?
            .strip_suffix('\n')
            .ok_or_else(invalid)?;
        self.left = u64::from_str_radix(text.trim(), 16).map_err(|_| invalid())?;
        self.is_over = self.left == 0;
        Ok(())
    }
}

impl<R: BufRead> Read for Chunked<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !self.is_over {
            self.begin_chunk()?;
        }
        if self.is_over {
            return Ok(0);
        }
        let room = out
            .len()
            .min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.reader.read(&mut out[..room])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    mod client {
        use serde_json::json;

        use super::super::*;
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

    mod exchange {
        use serde_json::json;

        use super::super::rows_of;

        #[test]
        fn rows_of_unknown_kinds_are_left_out() {
            let row = |kind: &str| {
                json!({
                    "execution_id": "a", "name": kind, "kind": kind, "state": "running",
                    "since": "2026-11-27T00:00:00.000000Z", "last_line": "", "turns": 0, "gaps": 0,
                    "errors": 0,
                })
            };
            let board = json!([row("pane"), row("satellite"), row("command")]);
            let rows = rows_of(board.to_string().as_bytes()).unwrap();
            let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
            assert_eq!(names, ["pane", "command"]);
            assert!(rows_of(b"{}").is_err());
        }
    }

    mod chunked {
        use std::io::BufReader;

        use super::super::*;

        /// Times out once before each byte.
        struct Slow<'a>(&'a [u8], bool);

        impl Read for Slow<'_> {
            fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
                self.1 = !self.1;
                if self.1 {
                    Err(io::ErrorKind::WouldBlock.into())
                } else {
                    self.0.read(&mut out[..1])
                }
            }
        }

        #[test]
        fn a_wait_that_ends_loses_nothing() {
            let text = b"10\r\n0123456789abcdef\r\n3\r\nxyz\r\n0\r\n\r\n";
            let mut body = Chunked::new(BufReader::with_capacity(1, Slow(text, false)));
            let (mut out, mut buffer) = (Vec::new(), [0; 5]);
            loop {
                match body.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => out.extend_from_slice(&buffer[..count]),
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
            }
            assert_eq!(out, b"0123456789abcdefxyz");
        }

        #[test]
        fn sizes_are_checked() {
            let long = "0".repeat(SIZE_BYTES_MAX) + "1\r\nx";
            for (text, kind) in [
                ("x\r\n", io::ErrorKind::InvalidData),
                ("\r\n\r\n3", io::ErrorKind::InvalidData),
                (&long, io::ErrorKind::InvalidData),
                ("", io::ErrorKind::UnexpectedEof),
                ("3\r\nab", io::ErrorKind::UnexpectedEof),
            ] {
                let read = Chunked::new(text.as_bytes()).read_to_end(&mut Vec::new());
                assert_eq!(read.unwrap_err().kind(), kind, "{text:?}");
            }
        }
    }
}
