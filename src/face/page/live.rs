//! The live lines of a row as server-sent events. The id of an event is the number of the last event of the run that
//! was read; a client that comes back with it gets each line once.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crossbeam_channel::select_biased;
use serde::Serialize;

use super::json::{Line, Revised, Revisions, Spans, revised};
use super::source::PageSource;
use crate::api::{ChunkedBody, KEEP_ALIVE, is_gone};
use crate::board::Row;
use crate::event::Envelope;
use crate::face::local_time::LocalTime;
use crate::face::row_log::{AROUND, RowLog, is_shown};
use crate::face::run_stream::{RunItem, RunStream};
use crate::face::styled_text::StyledText;
use crate::face::view_lines::{Change, Content, LineView, ViewLine, weight};
use crate::thread::{Stop, is_stopped};

/// The pause after a message, in which lines accumulate: two frames of a screen.
const PAUSE: Duration = Duration::from_millis(30);

/// The size of the events in a message, as they weigh in memory.
const MESSAGE_BYTES: usize = 256 * 1024;

/// The interval of checks whether the client is still there, and the pause before another attempt to reach the
/// observer.
const CHECK: Duration = Duration::from_millis(500);

/// The interval at which the client hears how far the run was read, so that a client that comes back does not have
/// the events of other rows read again.
const PROGRESS: Duration = Duration::from_secs(5);

/// The size in memory of the old events that a client who comes back gets: thousands of lines, as many as its page
/// holds. Beyond it, they are skipped and counted.
const OLD_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The lines of a row after an event.
pub(super) struct Live {
    row: Row,
    view: LineView,
    after: u64,
}

/// A message to the client.
#[derive(Default)]
struct Message {
    /// The number of events before the lines that are missing.
    missed: u64,
    lines: Vec<ViewLine>,
    revisions: Revisions,
    /// The size of its events.
    bytes: usize,
    /// The time of its first event.
    since: Option<Instant>,
}

#[derive(Serialize)]
struct MessageJson<'a> {
    #[serde(skip_serializing_if = "is_zero")]
    missed: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lines: Vec<Line<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    revised: Vec<Revised<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    open: Option<Spans<'a>>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Live {
    pub fn new(row: Row, view: LineView, after: u64) -> Self {
        Self { row, view, after }
    }

    /// Sends lines until the client disconnects or the server stops.
    pub fn send<S: AsFd>(self, page: &PageSource, stream: &S, stop: &Stop) -> io::Result<()>
    where
        for<'a> &'a S: Write,
    {
        let mut body = ChunkedBody::start(stream, "text/event-stream; charset=utf-8")?;
        body.write_all(b":\n\n")?;
        body.flush()?;
        let mut content = Content::new(self.view, LocalTime::of_system());
        let from = self.begin(page, &mut content, &|| is_stopped(stop) || is_gone(stream));
        let execution = &self.row.execution_id;
        let source = (&page.find, &page.clock);
        let mut sender = Sender {
            run: RunStream::new(source, execution, from, OLD_BYTES_MAX),
            live: &self,
            page,
            body,
            content,
            message: Message::default(),
            open: None,
            told: 0,
            told_at: page.clock.now(),
        };
        sender.run(stream, stop)?;
        sender.body.finish()
    }

    /// Reads events before the first one to send, because it may end a line; returns the number of the last one that
    /// the log has.
    fn begin(&self, page: &PageSource, content: &mut Content, is_over: &dyn Fn() -> bool) -> u64 {
        let mut log = RowLog::new(&page.data, &self.row, is_over);
        let before = log.before(self.after.saturating_add(1), &AROUND);
        for envelope in &before.events {
            content.push(envelope, &mut |_| {});
        }
        // The log may be behind the live events.
        let last = before.last_seq.unwrap_or(self.after);
        last.min(self.after)
    }
}

/// The state of a stream.
struct Sender<'a, S>
where
    &'a S: Write,
{
    live: &'a Live,
    page: &'a PageSource,
    body: ChunkedBody<&'a S>,
    run: RunStream,
    content: Content,
    message: Message,
    /// The open line that the client knows.
    open: Option<StyledText>,
    /// The number that the client knows, and the time of the last bytes.
    told: u64,
    told_at: Instant,
}

impl<'a, S: AsFd> Sender<'a, S>
where
    &'a S: Write,
{
    fn run(&mut self, stream: &S, stop: &Stop) -> io::Result<()> {
        let clock = &self.page.clock;
        let mut check_at = clock.now();
        while !is_stopped(stop) {
            let now = clock.now();
            if now >= check_at {
                if is_gone(stream) {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                self.keep_alive(now)?;
                check_at = now + CHECK;
            }
            // The events of a message are read without waiting.
            let is_empty = self.message.since.is_none();
            let deadline = if is_empty { check_at } else { now };
            match self.run.next(deadline) {
                RunItem::Event {
                    envelope, missed, ..
                } => {
                    if missed > 0 && self.last() > self.live.after {
                        self.flush()?;
                        self.message.missed = missed;
                        self.message.since = Some(now);
                    }
                    self.take(&envelope, now);
                    let since = self.message.since.unwrap_or(now);
                    let is_due = now.saturating_duration_since(since) >= PAUSE;
                    if is_due || self.message.bytes >= MESSAGE_BYTES {
                        self.flush()?;
                    }
                }
                RunItem::Nothing if is_empty => {}
                RunItem::Nothing => {
                    self.flush()?;
                    self.pause(PAUSE, stop);
                }
                RunItem::Unavailable(why) => {
                    log::debug!("{why}");
                    self.flush()?;
                    self.pause(CHECK, stop);
                }
                RunItem::Refused(why) => {
                    log::warn!("the observer refuses: {why}");
                    return self.flush();
                }
                RunItem::End => return self.flush(),
            }
        }
        self.flush()
    }

    fn pause(&self, time: Duration, stop: &Stop) {
        select_biased! {
            recv(stop) -> _ => {}
            recv(self.page.clock.after(time)) -> _ => {}
        }
    }

    /// Returns the number of the last event that the client does not need again.
    fn last(&self) -> u64 {
        self.run.last().max(self.live.after)
    }

    /// Adds the next event of the run to the message.
    fn take(&mut self, envelope: &Envelope, now: Instant) {
        self.message.bytes += 256;
        if !is_shown(&self.live.row, &envelope.event) {
            return;
        }
        // The client knows the lines of earlier events.
        let is_new = envelope.seq.is_none_or(|seq| seq > self.live.after);
        let message = &mut self.message;
        self.content.push(envelope, &mut |change| match change {
            Change::Line(line) if is_new => message.lines.push(line),
            Change::Revised(number, text) if is_new => {
                message.revisions.insert(number, text);
            }
            _ => {}
        });
        if is_new {
            message.bytes += weight(envelope);
            message.since.get_or_insert(now);
        }
    }

    /// Sends the message, unless the client knows all of it.
    fn flush(&mut self) -> io::Result<()> {
        let open = self.content.open_line();
        let message = std::mem::take(&mut self.message);
        let has_news =
            message.missed > 0 || !message.lines.is_empty() || !message.revisions.is_empty();
        if has_news || open != self.open {
            self.open = open;
            self.write(&message)?;
        }
        Ok(())
    }

    /// Tells how far the run was read, or that the stream is alive.
    fn keep_alive(&mut self, now: Instant) -> io::Result<()> {
        self.flush()?;
        let silence = now.saturating_duration_since(self.told_at);
        if silence >= PROGRESS && self.told < self.last() {
            return self.write(&Message::default());
        }
        if silence >= KEEP_ALIVE {
            self.body.write_all(b":\n\n")?;
            self.body.flush()?;
            self.told_at = now;
        }
        Ok(())
    }

    fn write(&mut self, message: &Message) -> io::Result<()> {
        let json = MessageJson {
            missed: message.missed,
            lines: message.lines.iter().map(Line::of).collect(),
            revised: revised(&message.revisions),
            open: self.open.as_ref().map(Spans::of),
        };
        self.told = self.last();
        self.told_at = self.page.clock.now();
        write!(self.body, "id: {}\ndata: ", self.told)?;
        serde_json::to_writer(&mut self.body, &json).map_err(io::Error::other)?;
        self.body.write_all(b"\n\n")?;
        self.body.flush()
    }
}
