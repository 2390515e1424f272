//! Writes rendered events to standard output, with live rows at the foot of a terminal.

use std::io;
use std::io::{BufWriter, ErrorKind, IsTerminal, StdoutLock, Write};
use std::time::{Duration, Instant};

use super::board_table::LiveRows;
use super::console::Console;
use super::tree::Tree;
use crate::bus::{Delivery, RecvTimeoutError};
use crate::clock::Clock;
use crate::event::{Envelope, StreamEvent, TdEvent};
use crate::history::line::LineWriter;
use crate::recording::push_escaped;
use crate::thread;
use crate::thread::{Handle, Panicked, Stop, stop_pair};
use serde::Serialize;

/// The size of the output buffer: a few screens, so that a burst of events needs few writes.
const BUFFER_BYTES: usize = 64 * 1024;

/// The form in which events are written.
#[derive(Debug)]
pub(crate) enum Renderer {
    /// The wire format.
    Json,
    /// For people.
    Console(Box<Console>),
    /// For people, one execution.
    Tree(Tree),
}

/// Writes events one after another.
pub(crate) struct EventWriter<W: Write> {
    out: BufWriter<W>,
    renderer: Renderer,
    /// Reads the terminal's columns and rows; `None` without a terminal.
    size: Option<fn() -> (usize, usize)>,
    live: LiveRows,
    /// The time of the last event, by the clock of the events and by ours.
    last: Option<(i64, Instant)>,
    /// Rendered text that is not written yet; reused.
    text: String,
    lines: LineWriter,
    clock: Clock,
}

impl EventWriter<StdoutLock<'static>> {
    /// Writes to standard output, which stays locked until the writer is dropped.
    pub fn stdout(renderer: Renderer, clock: Clock) -> Self {
        Self::with_output(io::stdout().lock(), renderer, true, clock)
    }
}

impl<W: Write> EventWriter<W> {
    /// Writes to an output that leads to standard output. `is_direct` is true if it buffers nothing, so that
    /// rows of a terminal can be rewritten.
    pub fn with_output(out: W, renderer: Renderer, is_direct: bool, clock: Clock) -> Self {
        let is_terminal = is_direct && io::stdout().is_terminal() && !is_dumb();
        let size = is_terminal.then_some(terminal_size as fn() -> (usize, usize));
        Self::new(out, renderer, size, clock)
    }

    /// Returns the output, after writing everything so far.
    pub fn flushed(&mut self) -> io::Result<&mut W> {
        self.flush()?;
        Ok(self.out.get_mut())
    }

    /// Writes a line that is not an event.
    pub fn write_line(&mut self, line: &str) -> io::Result<()> {
        self.text.push_str(line);
        self.text.push('\n');
        self.write()
    }

    fn new(out: W, renderer: Renderer, size: Option<fn() -> (usize, usize)>, clock: Clock) -> Self {
        let mut writer = Self {
            out: BufWriter::with_capacity(BUFFER_BYTES, out),
            renderer,
            size,
            live: LiveRows::default(),
            last: None,
            text: String::new(),
            lines: LineWriter::default(),
            clock,
        };
        writer.fit();
        writer
    }

    /// Passes the terminal's size to the console, and returns the columns and rows to use. The last column
    /// stays free, because some terminals wrap as soon as it is written.
    fn fit(&mut self) -> Option<(usize, usize)> {
        let (columns, rows) = self.size?();
        let columns = columns.saturating_sub(1);
        if let Some(console) = self.console() {
            console.fit((columns, rows));
        }
        Some((columns, rows))
    }

    fn console(&mut self) -> Option<&mut Console> {
        match &mut self.renderer {
            Renderer::Console(console) => Some(console),
            Renderer::Json | Renderer::Tree(_) => None,
        }
    }

    /// Returns the time, in microseconds, by the clock of the events, which may be of another day.
    fn now(&self) -> i64 {
        let Some((at, then)) = self.last else {
            return 0;
        };
        let since = self.clock.now().saturating_duration_since(then);
        let since = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        at.saturating_add(since)
    }

    /// Returns the next time at which [`EventWriter::flush`] has something to write without a new event.
    pub fn deadline(&self) -> Option<Instant> {
        let Renderer::Console(console) = &self.renderer else {
            return None;
        };
        let (at, then) = self.last?;
        let deadline = console.deadline(self.now())?;
        let after = u64::try_from(deadline.saturating_sub(at)).unwrap_or(0);
        then.checked_add(Duration::from_micros(after))
    }

    /// Writes a subscription's delivery.
    fn write_delivery(&mut self, delivery: &Delivery) -> io::Result<()> {
        let missed = match delivery {
            Delivery::Event(envelope) => return self.write_event(envelope),
            Delivery::Lagged { missed } => *missed,
        };
        match &mut self.renderer {
            Renderer::Json => {
                let event = StreamEvent::Lagged { missed };
                push_line(&mut self.text, &event.at(self.clock.wall()));
            }
            Renderer::Console(console) => console.lagged(missed, &mut self.text),
            Renderer::Tree(tree) => tree.lagged(missed, &mut self.text),
        }
        self.write()
    }

    /// Begins a stream. The wire format begins with a line that names its version.
    pub fn open_stream(&mut self) -> io::Result<()> {
        if self.is_json() {
            let event = StreamEvent::opened();
            push_line(&mut self.text, &event.at(self.clock.wall()));
        }
        self.write()
    }

    /// Writes an event.
    pub fn write_event(&mut self, envelope: &Envelope) -> io::Result<()> {
        self.last = Some((envelope.ts.micros(), self.clock.now()));
        match &mut self.renderer {
            Renderer::Json => push_event(&mut self.text, &mut self.lines, envelope),
            Renderer::Console(console) => console.event(envelope, &mut self.text),
            Renderer::Tree(tree) => tree.event(envelope, &mut self.text),
        }
        self.write()
    }

    /// Writes an event of the history; `line` is its line there, which JSON output repeats unchanged.
    pub fn write_record(&mut self, envelope: &Envelope, line: &[u8]) -> io::Result<()> {
        if self.is_json()
            && let Ok(line) = std::str::from_utf8(line)
        {
            push_text(&mut self.text, line);
            return self.write();
        }
        self.write_event(envelope)
    }

    /// Records the sessions and panes of an event that is not written.
    pub fn note_context(&mut self, event: &TdEvent) {
        if let Some(console) = self.console() {
            console.note_context(event);
        }
    }

    pub fn is_json(&self) -> bool {
        matches!(self.renderer, Renderer::Json)
    }

    fn write(&mut self) -> io::Result<()> {
        if self.text.is_empty() {
            return Ok(());
        }
        // New text may scroll rows off the screen before they are rewritten.
        self.rewrite()?;
        self.hide_live()?;
        self.out.write_all(self.text.as_bytes())?;
        self.text.clear();
        if let Some(console) = self.console() {
            console.mark_written(0);
        }
        Ok(())
    }

    /// Rewrites printed rows above the live ones.
    fn rewrite(&mut self) -> io::Result<()> {
        let Some(rewritten) = self.console().and_then(Console::rewrite) else {
            return Ok(());
        };
        self.hide_live()?;
        self.out.write_all(rewritten.as_bytes())
    }

    /// Writes everything that is due, because no event is waiting.
    pub fn flush(&mut self) -> io::Result<()> {
        self.fit();
        let now = self.now();
        if let Renderer::Console(console) = &mut self.renderer {
            console.release_due(now, &mut self.text);
        }
        self.write()?;
        self.rewrite()?;
        self.show_live(now)?;
        self.out.flush()
    }

    /// Writes all held lines, and removes the live rows. No event may follow.
    pub fn finish(&mut self) -> io::Result<()> {
        match &mut self.renderer {
            Renderer::Json => {}
            Renderer::Console(console) => console.finish(&mut self.text),
            Renderer::Tree(tree) => tree.finish(&mut self.text),
        }
        self.write()?;
        self.rewrite()?;
        self.hide_live()?;
        self.out.flush()
    }

    fn show_live(&mut self, now: i64) -> io::Result<()> {
        let Some((columns, rows)) = self.fit() else {
            return Ok(());
        };
        let live = match &self.renderer {
            Renderer::Json => Vec::new(),
            Renderer::Console(console) => console.live((columns, rows), now),
            Renderer::Tree(tree) => tree.live(columns).into_iter().collect(),
        };
        if self.live.shows(&live, columns) {
            return Ok(());
        }
        self.hide_live()?;
        if let Some(console) = self.console() {
            console.mark_written(live.len());
        }
        let drawn = self.live.draw(live, columns);
        self.out.write_all(drawn.as_bytes())
    }

    fn hide_live(&mut self) -> io::Result<()> {
        // The size is read only if there is something to erase.
        let Some(size) = self.size.filter(|_| !self.live.rows.is_empty()) else {
            return Ok(());
        };
        let erased = self.live.erase(size().0);
        self.out.write_all(erased.as_bytes())
    }
}

/// Turns a broken pipe into success, because the reader needs no more output.
pub(crate) fn unless_broken_pipe(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Returns the terminal's columns and rows, or 80 and 24 if the terminal does not report them.
pub(crate) fn terminal_size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let side = |cells: Option<u16>, default: usize| {
        let cells = cells.filter(|cells| *cells > 0);
        cells.map_or(default, usize::from)
    };
    let columns = side(size.map(|size| size.ws_col), 80);
    (columns, side(size.map(|size| size.ws_row), 24))
}

/// Returns true if the terminal cannot erase a line.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty())
}

// Renders events in the wire format, one JSON object per line (pure).

/// Appends the line of an event, as fast as the log is written: a printer that is slower lags.
fn push_event(out: &mut String, lines: &mut LineWriter, envelope: &Envelope) {
    let mut line = Vec::new();
    match lines.push(&mut line, envelope) {
        Ok(()) => push_text(out, String::from_utf8_lossy(&line).trim_end_matches('\n')),
        // Every event can be serialized.
        Err(error) => log::error!("cannot serialize an event: {error}"),
    }
}

/// Appends the line of a value: an event, or an entry of a list.
pub(crate) fn push_line(out: &mut String, value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(line) => push_text(out, &line),
        // Serialization of strings, numbers and maps with string keys does not fail.
        Err(error) => log::error!("cannot serialize a line of JSON: {error}"),
    }
}

/// Appends the line of an event as the log has it.
pub(super) fn push_text(out: &mut String, line: &str) {
    push_escaped(line, out);
    out.push('\n');
}

// The printer thread: writes a subscription's deliveries to standard output.
//
// `td-printer` blocks on its subscription and on standard output. While the output is blocked, the
// subscription lags and delays no other thread. The thread ends when the bus is closed and all events are
// printed, or when the output is closed. Callers must join it with a deadline.

/// A running printer.
#[derive(Debug)]
#[must_use = "join it, or the last events are not printed"]
pub(crate) struct Printer {
    thread: Handle<io::Result<()>>,
    ended: Stop,
}

impl Printer {
    /// Starts the thread. `next` waits for the next delivery, until the deadline if there is one.
    pub fn start(
        next: impl FnMut(Option<Instant>) -> Result<Delivery, RecvTimeoutError> + Send + 'static,
        renderer: Renderer,
        clock: Clock,
    ) -> crate::Result<Self> {
        let (running, ended) = stop_pair();
        let thread = thread::spawn("td-printer", move || {
            let _running = running;
            unless_broken_pipe(print(next, &mut EventWriter::stdout(renderer, clock)))
        })?;
        Ok(Self { thread, ended })
    }

    /// Returns a channel that closes when the printer has ended.
    pub fn ended(&self) -> Stop {
        self.ended.clone()
    }

    /// Joins the thread. Returns `None` if the output is still blocked at the deadline; the thread then ends
    /// with the process.
    pub fn join_deadline(self, deadline: Instant) -> Option<Result<io::Result<()>, Panicked>> {
        self.thread.join_deadline(deadline).ok()
    }
}

fn print<W: io::Write>(
    mut next: impl FnMut(Option<Instant>) -> Result<Delivery, RecvTimeoutError>,
    writer: &mut EventWriter<W>,
) -> io::Result<()> {
    writer.open_stream()?;
    loop {
        let mut delivery = next(Some(writer.clock.now()));
        if let Err(RecvTimeoutError::Timeout) = delivery {
            writer.flush()?;
            delivery = next(writer.deadline());
        }
        match delivery {
            Ok(delivery) => writer.write_delivery(&delivery)?,
            // The deadline has passed: the next flush writes the lines held until then.
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Closed) => return writer.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    mod event_writer {

        use super::super::*;
        use crate::bus::EventBus;
        use crate::face::{ConsoleOptions, TreeOptions};

        fn printed(
            renderer: Renderer,
            size: Option<fn() -> (usize, usize)>,
            emit: impl FnOnce(&crate::bus::EventEmitter),
        ) -> String {
            let bus = EventBus::new(100);
            let mut events = bus.subscribe();
            emit(&bus.emitter_for("x"));
            let mut writer = EventWriter::new(Vec::new(), renderer, size, Clock::system());
            bus.close();
            for delivery in events.iter() {
                writer.write_delivery(&delivery).unwrap();
                writer.flush().unwrap();
            }
            writer.finish().unwrap();
            String::from_utf8(writer.out.into_inner().unwrap()).unwrap()
        }

        #[test]
        fn a_terminal_shows_the_live_row_and_rewrites_it() {
            let emit = |emitter: &crate::bus::EventEmitter| {
                emitter.session_started("job", vec!["%1".into()]);
                emitter.output_revised(&"%1".into(), 1, "10%");
                emitter.output_update(&"%1".into(), 1, "all\n");
            };
            let console = || Renderer::Console(Box::new(Console::new(ConsoleOptions::default())));
            let text = printed(console(), Some(|| (80, 24)), emit);
            assert_eq!(
                text,
                "job | [watching 1 pane]\njob | 10%\r\u{1b}[Kjob | all\n"
            );
            assert_eq!(
                printed(console(), None, emit),
                "job | [watching 1 pane]\njob | all\n"
            );
        }

        #[test]
        fn a_printed_line_is_rewritten_above_the_live_rows() {
            let emit = |emitter: &crate::bus::EventEmitter| {
                let pane = "%1".into();
                let update = |first_line, chunk| {
                    emitter.output_update(&pane, first_line, chunk);
                };
                emitter.session_started("job", vec![pane.clone()]);
                update(1, "a 1\nb 1\n");
                emitter.output_revised(&pane, 3, "? ");
                emitter.output_revised(&pane, 1, "a 2");
                update(3, "? yes\n");
            };
            let console = Renderer::Console(Box::new(Console::new(ConsoleOptions::default())));
            assert_eq!(
                printed(console, Some(|| (80, 24)), emit),
                "job | [watching 1 pane]\njob | a 1\njob | b 1\njob | ? \
             \r\u{1b}[K\r\u{1b}[2A\u{1b}[2Kjob | a 2\n\u{1b}[1Bjob | ? \
             \r\u{1b}[Kjob | ? yes\n"
            );
            // On a low terminal the row has scrolled off, so it is printed again at the end.
            let console = Renderer::Console(Box::new(Console::new(ConsoleOptions::default())));
            let shown = printed(console, Some(|| (80, 2)), emit);
            assert!(shown.ends_with("job ~ a 2\n"), "{shown:?}");
        }

        #[test]
        fn the_open_line_of_an_execution_is_live_and_is_printed_at_the_end() {
            let emit = |emitter: &crate::bus::EventEmitter| {
                emitter.execution_output("stdout", "10%");
                emitter.execution_output("stdout", "\r50%");
                emitter.execution_output("stderr", "oh\n");
            };
            let options = |drawn| TreeOptions {
                framed: drawn,
                ..TreeOptions::default()
            };
            let tree = |drawn| Renderer::Tree(Tree::new(options(drawn)));
            assert_eq!(
                printed(tree(true), Some(|| (80, 24)), emit),
                " ╭───< x >\n │   10%\r\u{1b}[K │   50%\r\u{1b}[K │   [stderr] oh\n │   50%\r\u{1b}[K │   50%\n ╰──●\n"
            );
            assert_eq!(printed(tree(false), None, emit), "[stderr] oh\n50%\n");
            let console = || Renderer::Console(Box::new(Console::new(ConsoleOptions::default())));
            assert_eq!(
                printed(console(), Some(|| (80, 24)), emit),
                "x | 10%\r\u{1b}[Kx | 50%\r\u{1b}[Kx | [stderr] oh\nx | 50%\r\u{1b}[Kx | 50%\n"
            );
            assert_eq!(printed(console(), None, emit), "x | [stderr] oh\nx | 50%\n");
        }
    }

    mod json {

        use super::super::*;
        use crate::event::{Envelope, SCHEMA, StreamEvent, TdEvent};
        use crate::face::sanitize::tests::nasty;
        use crate::timestamp::Timestamp;
        use proptest::prelude::*;

        proptest! {
            #[test]
            fn a_line_parses_into_its_envelope_without_control_characters(message in nasty()) {
                let event = TdEvent::Warning {
                    execution_id: "x".into(),
                    context: "test".into(),
                    message,
                };
                let envelope = Envelope::new(Some(1), Timestamp::default(), event);
                let mut line = String::new();
                push_event(&mut line, &mut LineWriter::default(), &envelope);
                prop_assert!(!line.trim_end_matches('\n').contains(char::is_control), "{:?}", line);
                let read: Envelope = serde_json::from_str(&line).unwrap();
                prop_assert_eq!(read, envelope);
            }
        }

        #[test]
        fn events_of_streams_have_no_number() {
            let now = Timestamp::from_micros(0);
            let mut lines = String::new();
            push_line(&mut lines, &StreamEvent::opened().at(now));
            push_line(&mut lines, &StreamEvent::Lagged { missed: 7 }.at(now));
            let (version, ts) = (env!("CARGO_PKG_VERSION"), "1970-01-01T00:00:00.000000Z");
            let expected = [
                format!(
                    r#"{{"seq":null,"ts":"{ts}","event":{{"type":"StreamOpened","schema":{SCHEMA},"version":"{version}"}}}}"#
                ),
                format!(r#"{{"seq":null,"ts":"{ts}","event":{{"type":"Lagged","missed":7}}}}"#),
            ];
            assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
        }
    }
}
