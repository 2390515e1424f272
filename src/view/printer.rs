//! The printer: takes deliveries off a subscription and writes them to standard output.
//!
//! `td-printer` blocks on its subscription and on standard output; a blocked output makes the
//! subscription lag and holds nobody else up. It ends when the bus is closed and all has been
//! printed, or when the output is gone; whoever waits for it sets a ceiling.

use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::time::Instant;

use crossbeam_channel::Receiver;

use super::console::{Console, Standing};
use super::json;
use crate::bus::{Delivery, RecvError, Subscription};
use crate::clock::Clock;
use crate::error::Result;
use crate::thread::{self, Handle, Panicked, Stop, stop_pair};

/// What is collected before it is written even though more is there: a few screens.
const BUFFER_BYTES: usize = 64 * 1024;

/// Carriage return, and the rest of the line erased.
const ERASE_LINE: &str = "\r\x1b[K";

/// How deliveries are shown.
#[derive(Debug)]
pub(crate) enum View {
    /// As the wire contract says.
    Json,
    /// For people, with what stood on panes when observation began.
    Console(Console, Receiver<Standing>),
}

/// A running printer.
#[derive(Debug)]
#[must_use = "wait for its end, or the last events are not shown"]
pub(crate) struct Printing {
    thread: Handle<io::Result<()>>,
    ended: Stop,
}

impl Printing {
    /// Starts to print.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(events: Subscription, view: View, clock: Clock) -> Result<Self> {
        let (running, ended) = stop_pair();
        let thread = thread::spawn("td-printer", move || {
            let _running = running;
            let stdout = io::stdout();
            let columns = (stdout.is_terminal() && !is_dumb()).then_some(columns as fn() -> usize);
            let out = BufWriter::with_capacity(BUFFER_BYTES, stdout.lock());
            Printer::new(out, view, columns, clock).run(events)
        })?;
        Ok(Self { thread, ended })
    }

    /// A channel that is closed when the printer has ended.
    pub fn ended(&self) -> Stop {
        self.ended.clone()
    }

    /// Waits for the end until a deadline. `None`: the output is blocked, and the printer is left
    /// to the end of the process.
    pub fn join_deadline(self, deadline: Instant) -> Option<Result<io::Result<()>, Panicked>> {
        self.thread.join_deadline(deadline).ok()
    }
}

struct Printer<W: Write> {
    out: BufWriter<W>,
    view: View,
    /// Where there is a terminal: how wide it is now.
    columns: Option<fn() -> usize>,
    /// The terminal's last line is the live one.
    has_live: bool,
    /// What stood on panes whose session has not been shown yet.
    standing: Vec<Standing>,
    /// What is to be written, built here and used again.
    text: String,
    clock: Clock,
}

impl<W: Write> Printer<W> {
    fn new(out: BufWriter<W>, view: View, columns: Option<fn() -> usize>, clock: Clock) -> Self {
        let (standing, text) = (Vec::new(), String::new());
        Self {
            out,
            view,
            columns,
            has_live: false,
            standing,
            text,
            clock,
        }
    }

    fn run(mut self, mut events: Subscription) -> io::Result<()> {
        match self.print(&mut events) {
            // Whoever read has read enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            ended => ended,
        }
    }

    fn print(&mut self, events: &mut Subscription) -> io::Result<()> {
        loop {
            let delivery = match events.try_recv() {
                Err(RecvError::Empty) => {
                    // Nothing more for now: readers are to see at once what there was.
                    self.show_live()?;
                    self.out.flush()?;
                    events.recv()
                }
                other => other,
            };
            match delivery {
                Ok(delivery) => self.show(&delivery)?,
                Err(_) => break,
            }
        }
        self.hide_live()?;
        self.out.flush()
    }

    fn show(&mut self, delivery: &Delivery) -> io::Result<()> {
        self.text.clear();
        match &mut self.view {
            View::Json => json::push_line(&mut self.text, delivery, self.clock.wall()),
            View::Console(console, standing) => {
                console.show(delivery, &mut self.text);
                // A pane's lines are sent before its events. They may be here before the start of
                // its session, which other sessions' events can stand before: then they wait.
                self.standing.extend(standing.try_iter());
                self.standing
                    .retain(|standing| !console.standing(standing, &mut self.text));
            }
        }
        if self.text.is_empty() {
            return Ok(());
        }
        self.hide_live()?;
        self.out.write_all(self.text.as_bytes())
    }

    fn show_live(&mut self) -> io::Result<()> {
        let (View::Console(console, _), Some(columns)) = (&self.view, self.columns) else {
            return Ok(());
        };
        // The last column stays free: some terminals wrap as soon as it is written to.
        let live = console.live(columns().saturating_sub(1));
        self.hide_live()?;
        if let Some(live) = live {
            self.out.write_all(live.as_bytes())?;
            self.has_live = true;
        }
        Ok(())
    }

    fn hide_live(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.has_live) {
            self.out.write_all(ERASE_LINE.as_bytes())?;
        }
        Ok(())
    }
}

/// How wide the terminal is; 80 columns where it does not say.
fn columns() -> usize {
    rustix::termios::tcgetwinsize(io::stdout())
        .map(|size| usize::from(size.ws_col))
        .ok()
        .filter(|columns| *columns > 0)
        .unwrap_or(80)
}

/// Whether the terminal cannot erase a line.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty())
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::never;

    use super::*;
    use crate::bus::EventBus;
    use crate::view::Look;

    fn printed(
        columns: Option<fn() -> usize>,
        say: impl FnOnce(&crate::bus::EventEmitter),
    ) -> String {
        let bus = EventBus::new(100);
        let mut events = bus.subscribe();
        let emitter = bus.emitter_for("x");
        emitter.session_started("job", vec!["%1".into()]);
        say(&emitter);
        let view = View::Console(Console::new(Look::default()), never());
        let out = BufWriter::new(Vec::new());
        let mut printer = Printer::new(out, view, columns, Clock::system());
        while let Ok(delivery) = events.recv_timeout(std::time::Duration::from_millis(200)) {
            printer.show(&delivery).unwrap();
            printer.show_live().unwrap();
        }
        bus.close();
        printer.print(&mut events).unwrap();
        String::from_utf8(printer.out.into_inner().unwrap()).unwrap()
    }

    #[test]
    fn a_terminal_shows_the_live_line_and_rewrites_it() {
        let say = |emitter: &crate::bus::EventEmitter| {
            emitter.output_revised(&"%1".into(), 1, "10%");
            emitter.output_update(&"%1".into(), 1, "all\n", false, None, None);
        };
        let text = printed(Some(|| 80), say);
        assert_eq!(
            text,
            "job | [watching 1 pane]\njob | 10%\r\u{1b}[Kjob | all\n"
        );
        assert_eq!(printed(None, say), "job | [watching 1 pane]\njob | all\n");
    }
}
