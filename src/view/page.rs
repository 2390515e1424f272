//! A page: what is shown, as it stands on standard output, the live line on its last row where that is a terminal.

use std::io::{self, BufWriter, ErrorKind, IsTerminal, StdoutLock, Write};

use crossbeam_channel::Receiver;

use super::console::{Console, Standing};
use super::json;
use super::tree::Tree;
use crate::bus::Delivery;
use crate::clock::Clock;
use crate::event::{Envelope, TdEvent};

/// What is collected before it is written even though more is there: a few screens.
const BUFFER_BYTES: usize = 64 * 1024;

/// Carriage return, and the rest of the line erased.
const ERASE_LINE: &str = "\r\x1b[K";

/// How events are shown.
#[derive(Debug)]
pub(crate) enum View {
    /// As the wire contract says.
    Json,
    /// For people, with what stood on panes when observation began.
    Console(Console, Receiver<Standing>),
    /// For people, one execution.
    Tree(Tree),
}

/// Shows events one after the other.
pub(crate) struct Page<W: Write> {
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

impl Page<StdoutLock<'static>> {
    /// On standard output, which is held until the page is dropped.
    pub fn stdout(view: View, clock: Clock) -> Self {
        let stdout = io::stdout();
        let columns = (stdout.is_terminal() && !is_dumb()).then_some(columns as fn() -> usize);
        Self::new(stdout.lock(), view, columns, clock)
    }
}

impl<W: Write> Page<W> {
    fn new(out: W, view: View, columns: Option<fn() -> usize>, clock: Clock) -> Self {
        Self {
            out: BufWriter::with_capacity(BUFFER_BYTES, out),
            view,
            columns,
            has_live: false,
            standing: Vec::new(),
            text: String::new(),
            clock,
        }
    }

    /// Shows what a subscription delivered.
    pub fn show(&mut self, delivery: &Delivery) -> io::Result<()> {
        match (&mut self.view, delivery) {
            (_, Delivery::Event(envelope)) => return self.event(envelope),
            (View::Json, Delivery::Lagged { missed }) => {
                json::push_lagged(&mut self.text, *missed, self.clock.wall());
            }
            (View::Console(console, _), Delivery::Lagged { missed }) => {
                console.lagged(*missed, &mut self.text);
            }
            (View::Tree(tree), Delivery::Lagged { missed }) => {
                tree.lagged(*missed, &mut self.text);
            }
        }
        self.write()
    }

    /// Shows an event.
    pub fn event(&mut self, envelope: &Envelope) -> io::Result<()> {
        match &mut self.view {
            View::Json => json::push_line(&mut self.text, envelope),
            View::Console(console, standing) => {
                console.event(envelope, &mut self.text);
                // A pane's lines are sent before its events. They may be here before the start of
                // its session, which other sessions' events can stand before: then they wait.
                self.standing.extend(standing.try_iter());
                self.standing
                    .retain(|standing| !console.standing(standing, &mut self.text));
            }
            View::Tree(tree) => tree.event(envelope, &mut self.text),
        }
        self.write()
    }

    /// Shows an event that was read, as it stands in its log where that is what is wanted.
    pub fn line(&mut self, envelope: &Envelope, line: &[u8]) -> io::Result<()> {
        match (&self.view, std::str::from_utf8(line)) {
            (View::Json, Ok(line)) => {
                json::push_text(&mut self.text, line);
                self.write()
            }
            _ => self.event(envelope),
        }
    }

    /// Takes in what an event says about sessions and panes without showing it.
    pub fn note_only(&mut self, event: &TdEvent) {
        if let View::Console(console, _) = &mut self.view {
            console.note_only(event);
        }
    }

    /// Whether lines are shown as they stand in a log.
    pub fn is_json(&self) -> bool {
        matches!(self.view, View::Json)
    }

    fn write(&mut self) -> io::Result<()> {
        if self.text.is_empty() {
            return Ok(());
        }
        self.hide_live()?;
        self.out.write_all(self.text.as_bytes())?;
        self.text.clear();
        Ok(())
    }

    /// Nothing more for now: readers are to see at once what there was.
    pub fn rest(&mut self) -> io::Result<()> {
        self.show_live()?;
        self.out.flush()
    }

    /// Nothing more at all.
    pub fn end(&mut self) -> io::Result<()> {
        match &mut self.view {
            View::Json => {}
            View::Console(console, _) => console.finish(&mut self.text),
            View::Tree(tree) => tree.finish(&mut self.text),
        }
        self.write()?;
        self.hide_live()?;
        self.out.flush()
    }

    fn show_live(&mut self) -> io::Result<()> {
        let Some(columns) = self.columns else {
            return Ok(());
        };
        // The last column stays free: some terminals wrap as soon as it is written to.
        let columns = columns().saturating_sub(1);
        let live = match &self.view {
            View::Json => None,
            View::Console(console, _) => console.live(columns),
            View::Tree(tree) => tree.live(columns),
        };
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

/// Whoever read has read enough: that is no error.
pub(crate) fn unless_broken_pipe(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
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
    use crate::view::{Look, TreeLook};

    fn printed(
        view: View,
        columns: Option<fn() -> usize>,
        say: impl FnOnce(&crate::bus::EventEmitter),
    ) -> String {
        let bus = EventBus::new(100);
        let mut events = bus.subscribe();
        say(&bus.emitter_for("x"));
        let mut page = Page::new(Vec::new(), view, columns, Clock::system());
        bus.close();
        for delivery in events.iter() {
            page.show(&delivery).unwrap();
            page.rest().unwrap();
        }
        page.end().unwrap();
        String::from_utf8(page.out.into_inner().unwrap()).unwrap()
    }

    #[test]
    fn a_terminal_shows_the_live_line_and_rewrites_it() {
        let say = |emitter: &crate::bus::EventEmitter| {
            emitter.session_started("job", vec!["%1".into()]);
            emitter.output_revised(&"%1".into(), 1, "10%");
            emitter.output_update(&"%1".into(), 1, "all\n", false, None, None);
        };
        let console = || View::Console(Console::new(Look::default()), never());
        let text = printed(console(), Some(|| 80), say);
        assert_eq!(
            text,
            "job | [watching 1 pane]\njob | 10%\r\u{1b}[Kjob | all\n"
        );
        assert_eq!(
            printed(console(), None, say),
            "job | [watching 1 pane]\njob | all\n"
        );
    }

    #[test]
    fn the_open_line_of_an_execution_is_live_and_stays_at_the_end() {
        let say = |emitter: &crate::bus::EventEmitter| {
            emitter.execution_output("stdout", "10%");
            emitter.execution_output("stdout", "\r50%");
            emitter.execution_output("stderr", "oh\n");
        };
        let look = |drawn| TreeLook {
            drawn,
            ..TreeLook::default()
        };
        let tree = |drawn| View::Tree(Tree::new(look(drawn)));
        assert_eq!(
            printed(tree(true), Some(|| 80), say),
            " ╭───< x >\n │   10%\r\u{1b}[K │   50%\r\u{1b}[K │   [stderr] oh\n │   50%\r\u{1b}[K │   50%\n ╰──●\n"
        );
        assert_eq!(printed(tree(false), None, say), "[stderr] oh\n50%\n");
        let console = || View::Console(Console::new(Look::default()), never());
        assert_eq!(
            printed(console(), Some(|| 80), say),
            "x | 10%\r\u{1b}[Kx | 50%\r\u{1b}[Kx | [stderr] oh\nx | 50%\r\u{1b}[Kx | 50%\n"
        );
        assert_eq!(printed(console(), None, say), "x | [stderr] oh\nx | 50%\n");
    }
}
