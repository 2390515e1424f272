//! The events of several hosts as one stream: each host's in its order, and each once, over broken connections.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::link::Link;
use crate::api::{
    EventReader, EventSource, Request, Response, SentEvents, Unavailable, percent_encoded, position,
};
use crate::clock::Clock;
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
    what: Next,
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

    /// Ends the streams.
    pub fn stop(self) {
        drop((self.running, self.items));
        self.threads.into_iter().for_each(Handle::join_logged);
    }
}

impl SentEvents for HostEvents {
    fn next(&mut self, deadline: Instant) -> Next {
        match self.items.recv_deadline(deadline) {
            Ok((number, item)) => {
                if let Some(cursor) = self.cursors.get_mut(number) {
                    *cursor = item.cursor;
                }
                item.what
            }
            Err(RecvTimeoutError::Timeout) => Next::Timeout,
            Err(RecvTimeoutError::Disconnected) => Next::End,
        }
    }

    fn position(&self) -> String {
        joined(self.names.iter().zip(&self.cursors))
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
                    Next::Event(envelope.into())
                }
                Ok(missed @ Next::Missed(_)) => missed,
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
