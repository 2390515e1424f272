//! A page: what is shown, as it stands on standard output, with live rows at its foot where that is a terminal.

use std::io::{self, BufWriter, ErrorKind, IsTerminal, StdoutLock, Write};
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use super::console::{BaselineLines, Console};
use super::json;
use super::live_rows::Drawn;
use super::tree::Tree;
use crate::bus::Delivery;
use crate::clock::Clock;
use crate::event::{Envelope, TdEvent};

/// What is collected before it is written even though more is there: a few screens.
const BUFFER_BYTES: usize = 64 * 1024;

/// How events are shown.
#[derive(Debug)]
pub(crate) enum Renderer {
    /// As the wire contract says.
    Json,
    /// For people, with what stood on panes when observation began.
    Console(Console, Receiver<BaselineLines>),
    /// For people, one execution.
    Tree(Tree),
}

/// Shows events one after the other.
pub(crate) struct EventWriter<W: Write> {
    out: BufWriter<W>,
    view: Renderer,
    /// Where there is a terminal: how many columns and rows it has now.
    size: Option<fn() -> (usize, usize)>,
    /// What stands at the terminal's foot.
    drawn: Drawn,
    /// When the last event happened, by its own clock and by ours.
    last: Option<(i64, Instant)>,
    /// What stood on panes whose session has not been shown yet.
    standing: Vec<BaselineLines>,
    /// What is to be written, built here and used again.
    text: String,
    clock: Clock,
}

impl EventWriter<StdoutLock<'static>> {
    /// On standard output, which is held until the page is dropped.
    pub fn stdout(view: Renderer, clock: Clock) -> Self {
        let stdout = io::stdout();
        let is_terminal = stdout.is_terminal() && !is_dumb();
        let size = is_terminal.then_some(size as fn() -> (usize, usize));
        Self::new(stdout.lock(), view, size, clock)
    }
}

impl<W: Write> EventWriter<W> {
    fn new(out: W, view: Renderer, size: Option<fn() -> (usize, usize)>, clock: Clock) -> Self {
        let mut page = Self {
            out: BufWriter::with_capacity(BUFFER_BYTES, out),
            view,
            size,
            drawn: Drawn::default(),
            last: None,
            standing: Vec::new(),
            text: String::new(),
            clock,
        };
        page.fit();
        page
    }

    /// How many columns and rows may be written to. The last column stays free: some terminals wrap
    /// as soon as it is written to.
    fn fit(&mut self) -> Option<(usize, usize)> {
        let (columns, rows) = self.size?();
        let columns = columns.saturating_sub(1);
        if let Renderer::Console(console, _) = &mut self.view {
            console.fit((columns, rows));
        }
        Some((columns, rows))
    }

    /// The time by the clock of the events, which may be those of another day.
    fn now(&self) -> i64 {
        let Some((at, then)) = self.last else {
            return 0;
        };
        let since = self.clock.now().saturating_duration_since(then);
        let since = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        at.saturating_add(since)
    }

    /// When [`EventWriter::flush`] will have something to show, though nothing happens.
    pub fn deadline(&self) -> Option<Instant> {
        let Renderer::Console(console, _) = &self.view else {
            return None;
        };
        let (at, then) = self.last?;
        let due = console.due(self.now())?;
        let after = u64::try_from(due.saturating_sub(at)).unwrap_or(0);
        then.checked_add(Duration::from_micros(after))
    }

    /// Shows what a subscription delivered.
    pub fn write_delivery(&mut self, delivery: &Delivery) -> io::Result<()> {
        match (&mut self.view, delivery) {
            (_, Delivery::Event(envelope)) => return self.write_event(envelope),
            (Renderer::Json, Delivery::Lagged { missed }) => {
                json::push_lagged(&mut self.text, *missed, self.clock.wall());
            }
            (Renderer::Console(console, _), Delivery::Lagged { missed }) => {
                console.lagged(*missed, &mut self.text);
            }
            (Renderer::Tree(tree), Delivery::Lagged { missed }) => {
                tree.lagged(*missed, &mut self.text);
            }
        }
        self.write()
    }

    /// Shows an event.
    pub fn write_event(&mut self, envelope: &Envelope) -> io::Result<()> {
        self.last = Some((envelope.ts.micros(), self.clock.now()));
        match &mut self.view {
            Renderer::Json => json::push_line(&mut self.text, envelope),
            Renderer::Console(console, standing) => {
                console.event(envelope, &mut self.text);
                // A pane's lines are sent before its events. They may be here before the start of
                // its session, which other sessions' events can stand before: then they wait.
                self.standing.extend(standing.try_iter());
                self.standing
                    .retain(|standing| !console.standing(standing, &mut self.text));
            }
            Renderer::Tree(tree) => tree.event(envelope, &mut self.text),
        }
        self.write()
    }

    /// Shows an event that was read, as it stands in its log where that is what is wanted.
    pub fn write_record(&mut self, envelope: &Envelope, line: &[u8]) -> io::Result<()> {
        match (&self.view, std::str::from_utf8(line)) {
            (Renderer::Json, Ok(line)) => {
                json::push_text(&mut self.text, line);
                self.write()
            }
            _ => self.write_event(envelope),
        }
    }

    /// Takes in what an event says about sessions and panes without showing it.
    pub fn note_context(&mut self, event: &TdEvent) {
        if let Renderer::Console(console, _) = &mut self.view {
            console.note_context(event);
        }
    }

    /// Whether lines are shown as they stand in a log.
    pub fn is_json(&self) -> bool {
        matches!(self.view, Renderer::Json)
    }

    fn write(&mut self) -> io::Result<()> {
        if self.text.is_empty() {
            return Ok(());
        }
        // What is rewritten may scroll out of reach with what is new.
        self.rewrite()?;
        self.hide_live()?;
        self.out.write_all(self.text.as_bytes())?;
        self.text.clear();
        if let Renderer::Console(console, _) = &mut self.view {
            console.is_written(0);
        }
        Ok(())
    }

    /// Rewrites lines that stand above the foot.
    fn rewrite(&mut self) -> io::Result<()> {
        let Renderer::Console(console, _) = &mut self.view else {
            return Ok(());
        };
        let Some(rewritten) = console.rewrite() else {
            return Ok(());
        };
        self.hide_live()?;
        self.out.write_all(rewritten.as_bytes())
    }

    /// Nothing more for now: readers are to see at once what there was.
    pub fn flush(&mut self) -> io::Result<()> {
        self.fit();
        let now = self.now();
        if let Renderer::Console(console, _) = &mut self.view {
            console.rest(now, &mut self.text);
        }
        self.write()?;
        self.rewrite()?;
        self.show_live(now)?;
        self.out.flush()
    }

    /// Nothing more at all.
    pub fn finish(&mut self) -> io::Result<()> {
        match &mut self.view {
            Renderer::Json => {}
            Renderer::Console(console, _) => console.finish(&mut self.text),
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
        let live = match &self.view {
            Renderer::Json => Vec::new(),
            Renderer::Console(console, _) => console.live((columns, rows), now),
            Renderer::Tree(tree) => tree.live(columns).into_iter().collect(),
        };
        if self.drawn.is(&live, columns) {
            return Ok(());
        }
        self.hide_live()?;
        if let Renderer::Console(console, _) = &mut self.view {
            console.is_written(live.len());
        }
        let drawn = self.drawn.draw(live, columns);
        self.out.write_all(drawn.as_bytes())
    }

    fn hide_live(&mut self) -> io::Result<()> {
        let Some(size) = self.size else {
            return Ok(());
        };
        let erased = self.drawn.erase(size().0);
        self.out.write_all(erased.as_bytes())
    }
}

/// Whoever read has read enough: that is no error.
pub(crate) fn unless_broken_pipe(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Columns and rows of the terminal; 80 and 24 where it does not say.
fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let side = |cells: Option<u16>, usual: usize| {
        let cells = cells.filter(|cells| *cells > 0);
        cells.map_or(usual, usize::from)
    };
    let columns = side(size.map(|size| size.ws_col), 80);
    (columns, side(size.map(|size| size.ws_row), 24))
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
    use crate::face::{ConsoleOptions, TreeOptions};

    fn printed(
        view: Renderer,
        size: Option<fn() -> (usize, usize)>,
        say: impl FnOnce(&crate::bus::EventEmitter),
    ) -> String {
        let bus = EventBus::new(100);
        let mut events = bus.subscribe();
        say(&bus.emitter_for("x"));
        let mut page = EventWriter::new(Vec::new(), view, size, Clock::system());
        bus.close();
        for delivery in events.iter() {
            page.write_delivery(&delivery).unwrap();
            page.flush().unwrap();
        }
        page.finish().unwrap();
        String::from_utf8(page.out.into_inner().unwrap()).unwrap()
    }

    #[test]
    fn a_terminal_shows_the_live_line_and_rewrites_it() {
        let say = |emitter: &crate::bus::EventEmitter| {
            emitter.session_started("job", vec!["%1".into()]);
            emitter.output_revised(&"%1".into(), 1, "10%");
            emitter.output_update(&"%1".into(), 1, "all\n");
        };
        let console = || Renderer::Console(Console::new(ConsoleOptions::default()), never());
        let text = printed(console(), Some(|| (80, 24)), say);
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
    fn a_line_that_was_printed_is_rewritten_above_the_live_rows() {
        let say = |emitter: &crate::bus::EventEmitter| {
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
        let console = Renderer::Console(Console::new(ConsoleOptions::default()), never());
        assert_eq!(
            printed(console, Some(|| (80, 24)), say),
            "job | [watching 1 pane]\njob | a 1\njob | b 1\njob | ? \
             \r\u{1b}[K\r\u{1b}[2A\u{1b}[2Kjob | a 2\n\u{1b}[1Bjob | ? \
             \r\u{1b}[Kjob | ? yes\n"
        );
        // On a low terminal the row has scrolled out of reach: it comes again at the end.
        let console = Renderer::Console(Console::new(ConsoleOptions::default()), never());
        let shown = printed(console, Some(|| (80, 2)), say);
        assert!(shown.ends_with("job ~ a 2\n"), "{shown:?}");
    }

    #[test]
    fn the_open_line_of_an_execution_is_live_and_stays_at_the_end() {
        let say = |emitter: &crate::bus::EventEmitter| {
            emitter.execution_output("stdout", "10%");
            emitter.execution_output("stdout", "\r50%");
            emitter.execution_output("stderr", "oh\n");
        };
        let look = |drawn| TreeOptions {
            drawn,
            ..TreeOptions::default()
        };
        let tree = |drawn| Renderer::Tree(Tree::new(look(drawn)));
        assert_eq!(
            printed(tree(true), Some(|| (80, 24)), say),
            " ╭───< x >\n │   10%\r\u{1b}[K │   50%\r\u{1b}[K │   [stderr] oh\n │   50%\r\u{1b}[K │   50%\n ╰──●\n"
        );
        assert_eq!(printed(tree(false), None, say), "[stderr] oh\n50%\n");
        let console = || Renderer::Console(Console::new(ConsoleOptions::default()), never());
        assert_eq!(
            printed(console(), Some(|| (80, 24)), say),
            "x | 10%\r\u{1b}[Kx | 50%\r\u{1b}[Kx | [stderr] oh\nx | 50%\r\u{1b}[Kx | 50%\n"
        );
        assert_eq!(printed(console(), None, say), "x | [stderr] oh\nx | 50%\n");
    }
}
