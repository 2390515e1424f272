//! The events of several hosts as one stream: each host's in its order, and each once, over broken connections.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::link::Link;
use crate::api::{
    ChunkedBody, EventReader, EventSource, KEEP_ALIVE, Request, Response, Stream, Unavailable,
    is_gone, percent_encoded, position,
};
use crate::clock::Clock;
use crate::event::StreamEvent;
use crate::feed::Next;
use crate::thread::{Handle, Stop, StopGuard, is_stopped, park, spawn, stop_pair};

/// The events that wait between a host's thread and the client. A slow client makes the host's stream wait, which then
/// reads from the logs.
const WAITING_MAX: usize = 1_024;

/// The interval of checks whether the client is still there.
const CHECK: Duration = Duration::from_millis(500);

/// The pause before another attempt to read a host's stream.
const PAUSE: Duration = Duration::from_millis(100);

/// The separators between the cursors of hosts, and between the name and the cursor of one.
const SEPARATORS: (char, char) = ('|', '=');

/// The streams of the hosts.
pub(super) struct HostEvents {
    /// The cursors of the hosts that have one.
    cursors: Vec<Option<String>>,
    names: Vec<String>,
    items: Receiver<(usize, Item)>,
    running: StopGuard,
    threads: Vec<Handle<()>>,
}

/// What a host's stream has next, and the position after it.
struct Item {
    what: Result<Vec<u8>, u64>,
    cursor: Option<String>,
}

impl HostEvents {
    /// Opens the streams that a request selects.
    pub fn open(links: &[Arc<Link>], request: &Request, clock: &Clock) -> Result<Self, Response> {
        let (running, stop) = stop_pair();
        let (sender, items) = bounded(WAITING_MAX);
        let cursor = request
            .header("last-event-id")
            .or_else(|| request.parameter("cursor"));
        let names: Vec<String> = links.iter().map(|link| name_of(link)).collect();
        let cursors: Vec<Option<String>> = names
            .iter()
            .map(|name| cursor_of(name, cursor?).map(str::to_owned))
            .collect();
        let mut events = Self {
            cursors,
            names,
            items,
            running,
            threads: Vec::new(),
        };
        for (number, link) in links.iter().enumerate() {
            let Some(path) = path_for(links, link, request) else {
                continue;
            };
            let source = HostSource {
                number,
                link: Arc::clone(link),
                path,
                cursor: events.cursors.get(number).cloned().flatten(),
                items: sender.clone(),
                clock: clock.clone(),
                stop: stop.clone(),
            };
            let thread = spawn("td-host-events", move || source.run());
            let thread = thread.map_err(|error| Response::problem(503, &error.to_string()))?;
            events.threads.push(thread);
        }
        Ok(events)
    }

    /// Returns the position in all streams.
    fn cursor(&self) -> String {
        joined(self.names.iter().zip(&self.cursors))
    }

    fn stop(self) {
        drop((self.running, self.items));
        self.threads.into_iter().for_each(Handle::join_logged);
    }
}

fn joined<'a>(cursors: impl Iterator<Item = (&'a String, &'a Option<String>)>) -> String {
    let (between, within) = SEPARATORS;
    let parts = cursors.filter_map(|(name, cursor)| {
        let cursor = cursor.as_ref()?;
        Some(format!("{name}{within}{cursor}"))
    });
    parts.collect::<Vec<_>>().join(&between.to_string())
}

/// Returns the present position in the events of all hosts that are read.
pub(super) fn position_of(links: &[Arc<Link>]) -> String {
    let cursors: Vec<(String, Option<String>)> = links
        .iter()
        .map(|link| {
            let socket = link.socket().ok();
            (name_of(link), socket.and_then(|socket| position(&socket)))
        })
        .collect();
    joined(cursors.iter().map(|(name, cursor)| (name, cursor)))
}

fn name_of(link: &Link) -> String {
    let name = link.rewriter.0.as_ref();
    name.map_or_else(String::new, ToString::to_string)
}

/// Returns the part of a position that is a host's.
fn cursor_of<'a>(name: &str, cursor: &'a str) -> Option<&'a str> {
    let (between, within) = SEPARATORS;
    let mut parts = cursor
        .split(between)
        .filter_map(|part| part.split_once(within));
    parts.find_map(|(of, cursor)| (of == name).then_some(cursor))
}

/// Returns the path by which a host is asked for what a request selects; `None` if it selects nothing of the host.
fn path_for(links: &[Arc<Link>], link: &Link, request: &Request) -> Option<String> {
    let asked = request.list("execution");
    let mut own = Vec::new();
    for id in &asked {
        let named = links.iter().filter(|link| link.rewriter.0.is_some());
        let is_named = named
            .into_iter()
            .any(|link| link.rewriter.own_id(id).is_some());
        match (is_named, link.rewriter.0.is_some()) {
            // A name without a host may be on each.
            (false, _) => own.push(*id),
            (true, true) => own.extend(link.rewriter.own_id(id)),
            (true, false) => {}
        }
    }
    if !asked.is_empty() && own.is_empty() {
        return None;
    }
    let own = own.into_iter().map(|id| ("execution", id));
    let others = request.query.iter().filter_map(|(name, value)| {
        let is_passed = ["type", "since", "from_seq"].contains(&name.as_str());
        is_passed.then_some((name.as_str(), value.as_str()))
    });
    let query: Vec<String> = own
        .chain(others)
        .map(|(name, value)| format!("{name}={}", percent_encoded(value)))
        .collect();
    Some(format!("/api/v1/events?{}", query.join("&")))
}

/// The stream of one host, on its own thread.
struct HostSource {
    number: usize,
    link: Arc<Link>,
    path: String,
    cursor: Option<String>,
    items: Sender<(usize, Item)>,
    clock: Clock,
    stop: Stop,
}

impl HostSource {
    /// Reads until a stop.
    fn run(self) {
        let mut reader: Option<EventReader> = None;
        while !is_stopped(&self.stop) {
            let Ok(socket) = self.link.socket() else {
                park(Some(PAUSE));
                continue;
            };
            let events = reader.get_or_insert_with(|| {
                let mut events = EventReader::new(&socket, self.path.clone(), &self.clock);
                events.cursor.clone_from(&self.cursor);
                events
            });
            events.socket = socket;
            let what = match events.next(self.clock.now() + CHECK) {
                Ok(Next::Event(envelope)) => {
                    let mut envelope = envelope.into_envelope();
                    self.link.rewriter.envelope(&mut envelope);
                    match serde_json::to_vec(&envelope) {
                        Ok(line) => Ok(line),
                        Err(cause) => {
                            log::warn!("an event of {} cannot be passed on: {cause}", self.path);
                            continue;
                        }
                    }
                }
                Ok(Next::Missed(missed)) => Err(missed),
                Ok(Next::Timeout) => continue,
                Ok(Next::End) => return,
                Err(Unavailable::Broken(cause)) => {
                    log::debug!("{}: {cause}", name_of(&self.link));
                    park(Some(PAUSE));
                    continue;
                }
                Err(Unavailable::Refused(why)) => {
                    log::info!("{} refuses its events: {why}", name_of(&self.link));
                    park(Some(CHECK));
                    continue;
                }
            };
            let cursor = events.cursor.clone();
            if self
                .items
                .send((self.number, Item { what, cursor }))
                .is_err()
            {
                return;
            }
        }
    }
}

/// Sends events until the client is gone, or a stop.
pub(super) fn send(
    mut events: HostEvents,
    stream: &Stream,
    clock: &Clock,
    stop: &Stop,
) -> io::Result<()> {
    let sent = send_all(&mut events, stream, clock, stop);
    events.stop();
    sent
}

fn send_all(
    events: &mut HostEvents,
    stream: &Stream,
    clock: &Clock,
    stop: &Stop,
) -> io::Result<()> {
    let mut body = ChunkedBody::start(stream, "text/event-stream; charset=utf-8")?;
    let line =
        |event: &StreamEvent| serde_json::to_vec(&event.at(clock.wall())).map_err(io::Error::other);
    frame(&mut body, &events.cursor(), &line(&StreamEvent::opened())?)?;
    body.flush()?;
    let mut quiet_since = clock.now();
    let mut is_flushed = true;
    while !is_stopped(stop) {
        let wait = if is_flushed { CHECK } else { Duration::ZERO };
        match events.items.recv_timeout(wait) {
            Ok((number, item)) => {
                if let Some(cursor) = events.cursors.get_mut(number) {
                    *cursor = item.cursor;
                }
                let line = match item.what {
                    Ok(line) => line,
                    Err(missed) => line(&StreamEvent::Lagged { missed })?,
                };
                frame(&mut body, &events.cursor(), &line)?;
                is_flushed = false;
            }
            Err(RecvTimeoutError::Timeout) if !is_flushed => {
                body.flush()?;
                is_flushed = true;
                quiet_since = clock.now();
            }
            Err(RecvTimeoutError::Timeout) => {
                if is_gone(stream) {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                if clock.now().saturating_duration_since(quiet_since) >= KEEP_ALIVE {
                    body.write_all(b":\n\n")?;
                    body.flush()?;
                    quiet_since = clock.now();
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    body.finish()
}

fn frame(body: &mut impl Write, cursor: &str, data: &[u8]) -> io::Result<()> {
    write!(body, "id: {cursor}\ndata: ")?;
    body.write_all(data)?;
    body.write_all(b"\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_has_that_of_each_host() {
        let position = "web=a-1-b|=c-2|db=x=y";
        assert_eq!(cursor_of("web", position), Some("a-1-b"));
        assert_eq!(cursor_of("", position), Some("c-2"));
        assert_eq!(cursor_of("db", position), Some("x=y"));
        assert_eq!(cursor_of("we", position), None);
        assert_eq!(cursor_of("web", ""), None);
    }
}
