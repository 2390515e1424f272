//! A data directory with logs, an observer in memory, and clients.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::super::data::PageData;
use super::super::json::Line;
use crate::agent::StateRules;
use crate::api::http::Head;
use crate::api::{ApiContext, Observer, Panes, Request};
use crate::board::Board;
use crate::bus::EventBus;
use crate::clock::Clock;
use crate::event::{Envelope, TdEvent};
use crate::face::find_row::find_row;
use crate::face::local_time::LocalTime;
use crate::face::row_log::is_shown;
use crate::face::view_lines::{Content, LineView, Lines};
use crate::feed::{Feed, Numbers};
use crate::history::DataDir;
use crate::history::line::LineWriter;
use crate::redact::Rules;
use crate::thread::{self, Handle, StopGuard, stop_pair};

/// The longest wait for what must come.
const CEILING: Duration = Duration::from_secs(60);

pub(super) struct House {
    page: PageData,
    data: DataDir,
    clock: Clock,
    feed: Feed,
    bus: Arc<EventBus>,
    is_away: Arc<AtomicBool>,
    pub events: Vec<Envelope>,
    numbers: BTreeMap<String, u64>,
    emitted: u64,
    served: Vec<Handle<()>>,
    _running: StopGuard,
    stop: crate::thread::Stop,
    _feed_thread: Handle<()>,
    _temp: tempfile::TempDir,
}

impl House {
    pub fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::new(temp.path());
        data.prepare().unwrap();
        let (bus, clock) = (Arc::new(EventBus::new(1 << 14)), Clock::system());
        let board = Board::new(StateRules::builtin());
        let (feed, feed_thread) = Feed::start(
            bus.subscribe(),
            board,
            &Numbers::new(),
            data.clone(),
            clock.clone(),
        )
        .unwrap();
        let context = ApiContext {
            feed: feed.clone(),
            bus: Arc::clone(&bus),
            clock: clock.clone(),
            panes: Panes {
                servers: Vec::new(),
                rules: Rules::builtin(),
                allows_input: false,
            },
            sessions: Default::default(),
            log_troubles: Default::default(),
            runs: None,
        };
        let is_away = Arc::new(AtomicBool::new(false));
        let away = Arc::clone(&is_away);
        let find = move || {
            if away.load(Ordering::SeqCst) {
                return Err("no observer".to_owned());
            }
            Ok(Observer::Here(context.clone()))
        };
        let (running, stop) = stop_pair();
        Self {
            page: PageData::new(Arc::new(find), data.clone(), clock.clone()),
            data,
            clock,
            feed,
            bus,
            is_away,
            events: Vec::new(),
            numbers: BTreeMap::new(),
            emitted: 0,
            served: Vec::new(),
            _running: running,
            stop,
            _feed_thread: feed_thread,
            _temp: temp,
        }
    }

    /// Hides the observer.
    pub fn away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::SeqCst);
    }

    /// Logs events and emits them; returns once the observer has them.
    pub fn log(&mut self, events: impl IntoIterator<Item = TdEvent>) {
        for event in events {
            self.write(&event);
            self.bus.emit(event);
            self.emitted += 1;
        }
        let deadline = self.clock.now() + CEILING;
        while self.feed.end().0 < self.emitted {
            assert!(self.clock.now() < deadline, "{:?}", self.feed.end());
            thread::park(Some(Duration::from_millis(1)));
        }
    }

    /// Logs events of a run that the observer does not know.
    pub fn forgotten(&mut self, events: impl IntoIterator<Item = TdEvent>) {
        events.into_iter().for_each(|event| self.write(&event));
    }

    fn write(&mut self, event: &TdEvent) {
        let id = event.execution_id().to_string();
        let seq = self.numbers.entry(id.clone()).or_default();
        *seq += 1;
        let envelope = Envelope::new(Some(*seq), self.clock.wall(), event.clone());
        let mut line = Vec::new();
        LineWriter::default().push(&mut line, &envelope).unwrap();
        let run = self.data.run(&id.as_str().into());
        fs::create_dir_all(run.path()).unwrap();
        let mut options = File::options();
        options.create(true).append(true);
        let mut file = options.open(run.events_path()).unwrap();
        file.write_all(&line).unwrap();
        self.events.push(envelope);
    }

    /// Returns the answer to a request: status and body.
    fn answer(&self, method: &str, path: &str) -> (u16, String) {
        let (server, mut client) = UnixStream::pair().unwrap();
        let (page, stop) = (self.page.clone(), self.stop.clone());
        let request = request(method, path, None);
        let serving = thread::spawn("test-page", move || {
            page.answer(&request, &server, &stop).unwrap();
        });
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        serving.unwrap().join().unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, body.to_owned())
    }

    #[track_caller]
    pub fn json(&self, path: &str) -> Value {
        let (status, body) = self.answer("GET", path);
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    pub fn status(&self, path: &str) -> u16 {
        self.status_of("GET", path)
    }

    pub fn status_of(&self, method: &str, path: &str) -> u16 {
        self.answer(method, path).0
    }

    /// Opens a stream after an event.
    pub fn open(&mut self, path: &str, last: u64) -> UnixStream {
        let (server, client) = UnixStream::pair().unwrap();
        client.set_read_timeout(Some(CEILING)).unwrap();
        let (page, stop) = (self.page.clone(), self.stop.clone());
        let request = request("GET", path, Some(last));
        let serving = thread::spawn("test-live", move || {
            // The client breaks the connection.
            let _ = page.answer(&request, &server, &stop);
        });
        self.served.push(serving.unwrap());
        client
    }

    /// Reads a stream from the last event of the page on, until the reader has enough bytes or messages.
    pub fn live(&mut self, path: &str, page: &mut Page, is_enough: impl Fn(usize, &Page) -> bool) {
        let stream = self.open(path, page.last);
        self.read(stream, page, is_enough);
    }

    pub fn read(
        &self,
        mut stream: UnixStream,
        page: &mut Page,
        is_enough: impl Fn(usize, &Page) -> bool,
    ) {
        let (mut bytes, mut text, mut read) = (Vec::new(), String::new(), 0);
        let mut has_head = false;
        loop {
            // A frame is taken once it is complete; a cut loses the rest.
            while let Some((frame, rest)) = text.split_once("\n\n") {
                page.frame(frame);
                text = rest.to_owned();
            }
            if is_enough(read, page) {
                return;
            }
            let mut part = [0; 64];
            let count = stream.read(&mut part).unwrap();
            assert!(count > 0, "the stream ends");
            read += count;
            bytes.extend_from_slice(&part[..count]);
            if !has_head {
                let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
                    continue;
                };
                bytes.drain(..end + 4);
                has_head = true;
                read = 0;
            }
            while let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") {
                let size = std::str::from_utf8(&bytes[..end]).unwrap();
                let size = usize::from_str_radix(size, 16).unwrap();
                if bytes.len() < end + 2 + size + 2 {
                    break;
                }
                text.push_str(std::str::from_utf8(&bytes[end + 2..end + 2 + size]).unwrap());
                bytes.drain(..end + 2 + size + 2);
            }
        }
    }
}

fn request(method: &str, path: &str, last: Option<u64>) -> Request {
    let last = last.map_or(String::new(), |last| format!("Last-Event-ID: {last}\r\n"));
    let head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{last}\r\n");
    let Head::Complete(request, _) = Request::read(head.as_bytes()) else {
        panic!("{head}")
    };
    *request
}

/// What a client has of a view.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The lines by the numbers of their events and their places in them, with their numbers in the pane.
    pub known: BTreeMap<(u64, u64), (Option<i64>, Value)>,
    pub open: Option<Value>,
    pub missed: u64,
    pub last: u64,
}

impl Page {
    /// Takes a page of lines or a message of a stream.
    #[track_caller]
    pub fn take(&mut self, json: &Value) {
        self.missed += json["missed"].as_u64().unwrap_or(0);
        let none = Vec::new();
        for line in json["lines"].as_array().unwrap_or(&none) {
            let at = (line["seq"].as_u64().unwrap(), line["nth"].as_u64().unwrap());
            let line = (line["n"].as_i64(), line["spans"].clone());
            assert_eq!(self.known.insert(at, line), None, "twice: {at:?}");
        }
        for revised in json["revised"].as_array().unwrap_or(&none) {
            let number = revised["n"].as_i64();
            let mut lines = self.known.values_mut().rev();
            if let Some((_, spans)) = lines.find(|(of, _)| *of == number) {
                *spans = revised["spans"].clone();
            }
        }
        self.open = json.get("open").cloned();
    }

    fn frame(&mut self, frame: &str) {
        let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
        let (Some(id), Some(data)) = (field("id: "), field("data: ")) else {
            assert_eq!(frame, ":");
            return;
        };
        self.take(&serde_json::from_str(data).unwrap());
        self.last = id.parse().unwrap();
    }

    pub fn lines(&self) -> Vec<((u64, u64), Value)> {
        let lines = self.known.iter();
        lines.map(|(at, (_, spans))| (*at, spans.clone())).collect()
    }

    pub fn has(&self, text: &str) -> bool {
        let mut lines = self.known.values();
        lines.any(|(_, spans)| spans.to_string().contains(text))
    }
}

/// Returns the lines of the terminal UI: those of all events of the row.
pub(super) fn expected(house: &House, id: &str, view: LineView) -> Vec<((u64, u64), Value)> {
    let source = &house.page.source;
    let row = find_row((&source.find, &source.clock), &source.data, id).unwrap();
    let mut content = Content::new(view, LocalTime::of_system());
    let mut lines = Lines::default();
    let events = house.events.iter();
    let own = events.filter(|envelope| row.execution_id == *envelope.event.execution_id());
    for envelope in own.filter(|envelope| is_shown(&row, &envelope.event)) {
        content.push(envelope, &mut |change| {
            lines.apply(change);
        });
    }
    let lines = lines.iter().map(|line| {
        let at = (line.at.seq, u64::from(line.at.nth));
        let json = serde_json::to_value(Line::of(line)).unwrap();
        (at, json["spans"].clone())
    });
    lines.collect()
}
