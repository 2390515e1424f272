//! Events for clients: parses queries, and sends the stream as server-sent events.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::http::Request;
use super::http::{ChunkedBody, Response};
use super::liveness::KEEP_ALIVE;
use super::panes::ApiContext;
use super::stream::Stream;
use crate::clock::Clock;
use crate::error::Error;
use crate::event::{ExecutionId, StreamEvent};
use crate::feed::{Next, Reader, Selection, StartPoint, StreamCursor};
use crate::history::Query;
use crate::thread::{Stop, is_stopped};
use crate::timestamp::{Timestamp, ago};

/// The interval of checks whether a waiting client is still connected.
const WAIT: Duration = Duration::from_millis(500);

/// The query for the events of one run.
#[derive(Debug)]
pub(crate) struct EventsQuery {
    pub query: Query,
    pub from_seq: u64,
    pub limit: usize,
    /// Types, texts or times are selected, too.
    selects: bool,
}

impl EventsQuery {
    /// Parses the parameters of a request. The error describes how to correct them.
    pub fn of_run(request: &Request, clock: &Clock) -> Result<Self, String> {
        let mut query = Query::all();
        let names = ["type", "grep", "since"];
        let selects = names.iter().any(|name| request.parameter(name).is_some());
        for name in types(request) {
            query = query.kind(name);
        }
        if let Some(pattern) = request.parameter("grep") {
            query = query.text(pattern).map_err(|error| error.to_string())?;
        }
        if let Some(since) = since(request, clock)? {
            query = query.since(since);
        }
        Ok(Self {
            query,
            from_seq: number(request, "from_seq", 0)?,
            limit: usize::try_from(number(request, "limit", u64::MAX)?).unwrap_or(usize::MAX),
            selects,
        })
    }

    /// Returns true if all events from a number on are requested.
    pub fn is_place(&self) -> bool {
        self.from_seq > 1 && !self.selects
    }
}

fn number(request: &Request, name: &str, default: u64) -> Result<u64, String> {
    match request.parameter(name) {
        None => Ok(default),
        Some(text) => text
            .parse()
            .map_err(|_| format!("{name}: {text:?} is no number")),
    }
}

/// Returns the requested event types. Embedders and later versions have others than this one.
fn types(request: &Request) -> Vec<String> {
    request
        .list("type")
        .into_iter()
        .map(str::to_owned)
        .collect()
}

/// Returns the time from which events are requested.
fn since(request: &Request, clock: &Clock) -> Result<Option<Timestamp>, String> {
    let text = request.parameter("since");
    text.map(|text| time_of(text, clock.wall())).transpose()
}

/// Parses a time: a duration before now, such as `10m`, or a timestamp.
pub(super) fn time_of(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    ago(text, now)
        .ok_or_else(|| format!("since: {text:?} is no time; give 10m, 2h or 2026-01-21T10:00:00Z"))
}

/// Opens the requested stream.
pub(super) fn open(context: &ApiContext, request: &Request) -> Result<Reader, Response> {
    let invalid = |why: String| Response::problem(400, &why);
    let selection = Selection {
        executions: request
            .list("execution")
            .into_iter()
            .map(str::to_owned)
            .collect(),
        types: types(request).into_iter().collect(),
    };
    let since = since(request, &context.clock).map_err(invalid)?;
    let last = request
        .header("last-event-id")
        .or_else(|| request.parameter("cursor"));
    let from = start_point("Last-Event-ID", last, since).map_err(invalid)?;
    let from_seq = number(request, "from_seq", 0).map_err(invalid)?;
    let failed = |error: Error| Response::problem(500, &error.to_string());
    if let (None, 1.., [id]) = (from, from_seq, &request.list("execution")[..]) {
        let id = ExecutionId::from(*id);
        return Reader::open_after(&context.feed, selection, &id, from_seq - 1).map_err(failed);
    }
    Reader::open(&context.feed, selection, from.unwrap_or(StartPoint::Now)).map_err(failed)
}

/// Returns the point that a cursor and a start time name, if there are any.
pub(super) fn start_point(
    name: &str,
    cursor: Option<&str>,
    since: Option<Timestamp>,
) -> Result<Option<StartPoint>, String> {
    let Some(text) = cursor else {
        return Ok(since.map(StartPoint::Since));
    };
    match text.parse::<StreamCursor>() {
        Ok(cursor) => Ok(Some(StartPoint::After(cursor, since))),
        Err(_) => Err(format!("{name}: {text:?} is no cursor")),
    }
}

/// What is sent as server-sent events.
pub(crate) trait SentEvents {
    /// Returns the next item; waits for it until the deadline.
    fn next(&mut self, deadline: Instant) -> Next;

    /// Returns the position after the last item.
    fn position(&self) -> String;
}

impl SentEvents for Reader {
    fn next(&mut self, deadline: Instant) -> Next {
        Reader::next(self, Some(deadline))
    }

    fn position(&self) -> String {
        self.cursor().to_string()
    }
}

/// Sends events until the client disconnects or the observer ends.
pub(crate) fn send(
    events: &mut impl SentEvents,
    stream: &Stream,
    clock: &Clock,
    stop: &Stop,
) -> io::Result<()> {
    let mut body = ChunkedBody::start(stream, "text/event-stream; charset=utf-8")?;
    stream_frame(&mut body, &events.position(), &StreamEvent::opened(), clock)?;
    body.flush()?;
    let mut quiet_since = clock.now();
    // Frames are flushed before the thread waits.
    let mut is_flushed = true;
    loop {
        if is_stopped(stop) {
            return body.finish();
        }
        let wait = if is_flushed { WAIT } else { Duration::ZERO };
        match events.next(clock.now() + wait) {
            Next::Event(envelope) => {
                let line = serde_json::to_vec(&*envelope).map_err(io::Error::other)?;
                frame(&mut body, &events.position(), &line)?;
                is_flushed = false;
            }
            Next::Missed(missed) => {
                let lagged = StreamEvent::Lagged { missed };
                stream_frame(&mut body, &events.position(), &lagged, clock)?;
                is_flushed = false;
            }
            Next::Timeout if !is_flushed => {
                body.flush()?;
                is_flushed = true;
                quiet_since = clock.now();
            }
            Next::Timeout => {
                if is_gone(stream) {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                if clock.now().saturating_duration_since(quiet_since) >= KEEP_ALIVE {
                    body.write_all(b":\n\n")?;
                    body.flush()?;
                    quiet_since = clock.now();
                }
            }
            Next::End => return body.finish(),
        }
    }
}

fn stream_frame(
    body: &mut impl Write,
    cursor: &str,
    event: &StreamEvent,
    clock: &Clock,
) -> io::Result<()> {
    let line = serde_json::to_vec(&event.at(clock.wall())).map_err(io::Error::other)?;
    frame(body, cursor, &line)
}

fn frame(body: &mut impl Write, cursor: &str, data: &[u8]) -> io::Result<()> {
    write!(body, "id: {cursor}\ndata: ")?;
    body.write_all(data)?;
    body.write_all(b"\n\n")
}

/// Returns true if the client has closed its end.
pub(crate) fn is_gone(stream: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(stream, PollFlags::RDHUP)];
    poll(&mut fds, Some(&Timespec::default())).is_ok()
        && fds[0]
            .revents()
            .intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR)
}
