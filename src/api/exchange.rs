//! Single requests to the API and their answers, each on its own connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::chunked::Chunked;
use super::request::HEAD_BYTES_MAX;
use super::socket::connect;
use crate::board::Row;
use crate::error::{Error, Result};

/// The time to wait for an answer. The observer answers in milliseconds.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// The interval at which a waiting client checks whether to cancel.
const CHECK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

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
    let ask = || {
        let stream = open(socket)?;
        stream.set_read_timeout(Some(ANSWER_TIME + wait))?;
        send(&stream, "GET", path, etag.map(|tag| ("If-None-Match", tag)))?;
        read_answer(BufReader::new(stream))
    };
    ask().map_err(|cause| failed(socket, cause))
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
    let path = match hold.as_secs() {
        0 => "/api/v1/board".to_owned(),
        seconds => format!("/api/v1/board?wait={seconds}"),
    };
    let answer = get(socket, &path, etag, hold)?;
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

/// Reads the rows of a board. Leaves out rows that cannot be read, such as those of a kind that only a later
/// version of the observer knows.
fn rows_of(board: &[u8]) -> serde_json::Result<Vec<Row>> {
    let rows: Vec<serde_json::Value> = serde_json::from_slice(board)?;
    let known = rows
        .into_iter()
        .filter_map(|row| serde_json::from_value(row).ok());
    Ok(known.collect())
}

/// Sends a JSON body to a path and waits for the answer. Returns `None` once `is_over()` returns true.
pub(crate) fn post(
    socket: &Path,
    path: &str,
    body: &serde_json::Value,
    is_over: impl Fn() -> bool,
) -> Result<Option<Answer>> {
    let ask = || {
        let mut stream = open(socket)?;
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes())?;
        loop {
            if is_over() {
                return Ok(None);
            }
            match poll(&mut [PollFd::new(&stream, PollFlags::IN)], Some(&CHECK)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return read_answer(BufReader::new(stream)).map(Some),
                Err(cause) => return Err(cause.into()),
            }
        }
    };
    ask().map_err(|cause| failed(socket, cause))
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
pub(super) fn open(socket: &Path) -> io::Result<UnixStream> {
    let stream = connect(socket)?;
    stream.set_read_timeout(Some(ANSWER_TIME))?;
    stream.set_write_timeout(Some(ANSWER_TIME))?;
    Ok(stream)
}

/// Sends a request without a body.
pub(super) fn send(
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
    let mut body = Vec::new();
    let bytes_max = head.length.unwrap_or(BODY_BYTES_MAX).min(BODY_BYTES_MAX);
    match head.is_chunked && head.length.is_none() {
        true => Chunked::new(reader)
            .take(bytes_max)
            .read_to_end(&mut body)?,
        false => reader.take(bytes_max).read_to_end(&mut body)?,
    };
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
pub(super) struct AnswerHead {
    pub status: u16,
    length: Option<u64>,
    is_chunked: bool,
    etag: Option<String>,
}

/// Reads the head of an answer.
pub(super) fn read_head(reader: &mut impl BufRead) -> io::Result<AnswerHead> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::rows_of;

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
