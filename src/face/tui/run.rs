//! Runs the UI: starts its threads, hands them what is asked for, and draws.
//!
//! ```text
//! the terminal ─────────┐
//! td-tui-board ─────────┤            ┌─> td-tui-pages, td-tui-scan: logs
//! td-tui-live ─> inbox ─┼─> model ───┼─> td-tui-live, td-tui-screen: the observer
//! td-tui-pages, -scan ──┤ (this      └─> the terminal
//! td-tui-screen ────────┤  thread)
//! td-tui-history ───────┤
//! td-tui-end: signals ──┘
//! ```
//!
//! This thread alone has the terminal, changes the model and draws. On a busy machine each thread waits for its
//! turn, so a key is answered earliest where only one of them takes part. It waits for none of the others:
//! requests go through letter boxes. All end when the UI does.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::draw::draw;
use super::effect::{Effect, Input};
use super::feeds::{Captured, FindObserver, Followed};
use super::keyboard::Keyboard;
use super::loans::{jump, suspend};
use super::log_files::{PageRequest, ScanRequest};
use super::model::{About, Model};
use super::pacer::Pacer;
use super::terminal::{LoanEnd, Terminal, leave_on_panic};
use super::theme::Theme;
use super::threads::Threads;
use crate::board::Row;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::PaneId;
use crate::face::local_time::LocalTime;
use crate::history::DataDir;
use crate::thread;
use crate::tmux::{Server, Typing};

/// The time after which ages and times on the screen are drawn again.
const TICK: Duration = Duration::from_secs(1);

/// The bytes of live events that are handled in one go, about a millisecond's worth.
const LIVE_BYTES: usize = 64 * 1024;

/// The time that live events may take before each frame. A key waits no longer; the rest waits for the next
/// frame, or is counted as missed.
const LIVE_TIME: Duration = Duration::from_millis(8);

/// The surroundings of the UI.
pub(crate) struct TuiOptions {
    /// Finds the socket of the observer.
    pub find: FindObserver,
    pub data: DataDir,
    pub allows_input: bool,
    pub theme: Theme,
    /// The tmux server and the pane in which the UI runs.
    pub own: Option<(PathBuf, PaneId)>,
    /// The time after which the UI ends by itself.
    pub longest: Option<Duration>,
    pub clock: Clock,
}

/// Runs the UI until the user quits or a signal arrives.
///
/// # Errors
/// If there is no terminal, or a thread cannot be started.
pub(crate) fn run(options: TuiOptions, signals: &Receiver<i32>) -> Result<()> {
    leave_on_panic();
    let terminal = Terminal::enter()?;
    Ui::start(options, terminal, signals.clone())?.run()
}

/// The reason for the next frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameFor {
    /// The user has typed, or the size has changed.
    Key,
    /// There is something new.
    Data,
}

struct Ui {
    options: TuiOptions,
    model: Model,
    pacer: Pacer,
    keyboard: Keyboard,
    terminal: Terminal,
    threads: Threads,
    /// `None` if the screen shows all there is.
    next_frame: Option<FrameFor>,
    /// The time of the next tick.
    tick: Instant,
    is_over: bool,
}

impl Ui {
    fn start(options: TuiOptions, terminal: Terminal, signals: Receiver<i32>) -> Result<Self> {
        let (data, clock) = (options.data.clone(), options.clock.clone());
        let tick = clock.now() + TICK;
        let threads = Threads::start(options.find.clone(), data, clock, signals)?;
        let about = About {
            allows_input: options.allows_input,
            data: options.data.path().display().to_string(),
            local: LocalTime::of_system(),
        };
        let model = Model::new(about, Terminal::size(), options.clock.wall());
        Ok(Self {
            keyboard: Keyboard::open(),
            options,
            model,
            pacer: Pacer::default(),
            terminal,
            threads,
            next_frame: None,
            tick,
            is_over: false,
        })
    }

    fn run(mut self) -> Result<()> {
        let end = self.options.longest.map(|longest| self.now() + longest);
        self.draw();
        loop {
            let due = self.due();
            let deadline = due.unwrap_or(self.tick).min(self.tick);
            let is_typed = self.wait(end.map_or(deadline, |end| end.min(deadline)))?;
            if !self.threads.ended.is_empty() || end.is_some_and(|end| self.now() >= end) {
                break;
            }
            if is_typed {
                self.read_keys()?;
            }
            if self.next_frame != Some(FrameFor::Key) {
                self.take_inputs()?;
            }
            // A jump that was the end has not entered the terminal again.
            if self.is_over {
                break;
            }
            if self.now() >= self.tick {
                self.tick()?;
            }
            self.draw_if_due();
        }
        Ok(())
    }

    fn now(&self) -> Instant {
        self.options.clock.now()
    }

    /// Returns the time of the next frame, if there is something to draw, and the terminal takes it.
    fn due(&self) -> Option<Instant> {
        let next = self.next_frame.filter(|_| !self.terminal.is_busy())?;
        Some(self.pacer.due(next == FrameFor::Key, self.now()))
    }

    /// Waits for the terminal, and for the other threads unless a frame will soon take what they send. Returns
    /// true if the terminal may have something to read.
    fn wait(&mut self, deadline: Instant) -> Result<bool> {
        let left = deadline.saturating_duration_since(self.now());
        let left = Timespec::try_from(left).ok();
        let mut polled = vec![PollFd::new(&self.keyboard, PollFlags::IN)];
        let is_busy = self.terminal.is_busy();
        if is_busy {
            polled.push(PollFd::new(&self.terminal, PollFlags::OUT));
        }
        if is_busy || self.next_frame.is_none() {
            polled.push(PollFd::new(&self.threads.woken, PollFlags::IN));
        }
        match poll(&mut polled, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(cause) => {
                return Err(Error::other("cannot wait for the terminal").because(cause));
            }
        }
        let is_typed = !polled[0].revents().is_empty();
        self.terminal.pass_on();
        Ok(is_typed)
    }

    /// Handles the keys that were typed, and a paste.
    fn read_keys(&mut self) -> Result<()> {
        match self.keyboard.read() {
            Ok(keys) => {
                for key in keys {
                    if !self.is_over {
                        self.handle(key)?;
                        self.next_frame = Some(FrameFor::Key);
                    }
                }
            }
            Err(cause) => {
                log::debug!("the terminal is gone: {cause}");
                self.is_over = true;
            }
        }
        Ok(())
    }

    /// Handles what the other threads have sent until now.
    fn take_inputs(&mut self) -> Result<()> {
        self.threads.woken.clear();
        if Terminal::size() != self.model.size {
            self.resize();
            self.next_frame = Some(FrameFor::Key);
        }
        for _ in 0..self.threads.inputs.len() {
            if let Ok(input) = self.threads.inputs.try_recv() {
                self.handle(input)?;
                self.next_frame.get_or_insert(FrameFor::Data);
            }
        }
        if !self.threads.inbox.is_empty() {
            self.next_frame.get_or_insert(FrameFor::Data);
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<()> {
        let clock = &self.options.clock;
        self.tick = clock.now() + TICK;
        self.handle(Input::Tick(clock.wall()))?;
        self.next_frame.get_or_insert(FrameFor::Data);
        // A panic of any thread, also of the observer's, leaves the terminal.
        if self.threads.has_failed() || !Terminal::is_entered() {
            return Err(Error::other(
                "the terminal UI has failed: see the message above",
            ));
        }
        Ok(())
    }

    /// Draws, unless it is too early. Before a frame for a key, live events are not handled.
    fn draw_if_due(&mut self) {
        if self.due().is_none_or(|due| due > self.now()) {
            return;
        }
        let is_behind = match self.next_frame {
            Some(FrameFor::Key) => !self.threads.inbox.is_empty(),
            _ => self.take_live(),
        };
        self.next_frame = is_behind.then_some(FrameFor::Data);
        self.draw();
    }

    /// Handles live events, as far as the time allows. Returns true if some are left.
    fn take_live(&mut self) -> bool {
        let deadline = self.options.clock.now() + LIVE_TIME;
        while let Some(live) = self.threads.inbox.take(LIVE_BYTES) {
            let effects = self.model.update(live);
            for effect in effects {
                self.request(effect);
            }
            if self.options.clock.now() >= deadline {
                return true;
            }
        }
        false
    }

    fn draw(&mut self) {
        self.pacer.drawn(self.options.clock.now());
        self.terminal.show(draw(&self.model, &self.options.theme));
    }

    fn handle(&mut self, input: Input) -> Result<()> {
        for effect in self.model.update(input) {
            match effect {
                Effect::Quit => self.is_over = true,
                Effect::Suspend => {
                    let (ended, clock) = (&self.threads.ended, &self.options.clock);
                    let end = suspend(&mut self.terminal, ended, clock)?;
                    self.take_back(end);
                }
                Effect::Redraw => {
                    self.terminal.forget();
                    self.resize();
                }
                Effect::Jump(row) => {
                    let (ended, clock) = (&self.threads.ended, &self.options.clock);
                    let own = self.options.own.as_ref();
                    let end = jump(&row, own, &mut self.terminal, ended, clock)?;
                    if let Some(Err(why)) = self.take_back(end) {
                        self.model.message = Some(why);
                    }
                }
                Effect::Copy(text) => self.copy(text),
                effect => self.request(effect),
            }
        }
        self.threads
            .wanted
            .store(self.model.generation, Ordering::Relaxed);
        Ok(())
    }

    /// Continues on a terminal that another program had meanwhile, unless that was the end.
    fn take_back<T>(&mut self, end: LoanEnd<T>) -> Option<T> {
        match end {
            LoanEnd::Back(done) => {
                self.keyboard.forget();
                self.resize();
                Some(done)
            }
            LoanEnd::Over => {
                self.is_over = true;
                None
            }
        }
    }

    fn resize(&mut self) {
        let (width, height) = Terminal::size();
        let effects = self.model.update(Input::Resize(width, height));
        for effect in effects {
            self.request(effect);
        }
    }

    /// Hands a request to the thread that fulfils it.
    fn request(&mut self, effect: Effect) {
        let threads = &self.threads;
        threads
            .wanted
            .store(self.model.generation, Ordering::Relaxed);
        match effect {
            Effect::Follow { generation, row } => threads.live.replace(Followed {
                generation,
                execution: row.execution_id.to_string(),
            }),
            Effect::Load {
                generation,
                row,
                place,
            } => threads.pages.send(PageRequest::Page {
                generation,
                row,
                place,
            }),
            Effect::Snapshot {
                generation,
                row,
                at,
            } => threads.pages.send(PageRequest::Snapshot {
                generation,
                row,
                at,
            }),
            Effect::Scan(scan) => threads.scans.send(ScanRequest::Lines(scan)),
            Effect::LoadTimeline { since } => threads.scans.send(ScanRequest::Timeline { since }),
            Effect::Capture { generation, pane } => {
                threads.screens.replace(Captured { generation, pane });
            }
            Effect::Answer {
                row,
                text,
                presses_enter,
            } => self.answer(&row, text, presses_enter),
            Effect::Quit | Effect::Suspend | Effect::Redraw | Effect::Jump(_) | Effect::Copy(_) => {
            }
        }
    }

    /// Types an answer into a pane, in a thread: an agent needs a moment before it takes Enter.
    fn answer(&self, row: &Row, text: String, presses_enter: bool) {
        let send = self.threads.send.clone();
        let report = move |text: String| {
            // The UI may have ended.
            let _ = send.send(Input::Message(text));
        };
        let (Some(pane), Some(socket)) = (row.pane.clone(), row.server.clone()) else {
            // The queue is not full of answers: this thread does not wait for itself.
            let text = "the tmux server of this pane is not known".to_owned();
            let _ = self.threads.send.try_send(Input::Message(text));
            return;
        };
        let (clock, stop) = (self.options.clock.clone(), self.threads.stop.clone());
        let name = row.name.clone();
        let typed = thread::spawn("td-tui-type", move || {
            let server = Server::socket(&socket).until(stop.clone());
            let typing = Typing::text(&text, presses_enter);
            let sent = typing.and_then(|typing| {
                typing.send(&server, std::slice::from_ref(&pane), &stop, &clock)
            });
            report(match sent {
                Ok(pane) => format!("typed into {name} {pane}"),
                Err(error) => format!("nothing was typed: {error}"),
            });
        });
        if let Err(error) = typed {
            log::error!("{error:?}");
        }
    }

    /// Copies into the clipboard of the terminal, and into a buffer of tmux.
    fn copy(&mut self, text: String) {
        let mut bytes = Vec::new();
        let command = crossterm::clipboard::CopyToClipboard::to_clipboard_from(&text);
        // Writing to memory does not fail.
        let _ = crossterm::queue!(bytes, command);
        self.terminal.write(&bytes);
        if let Some((socket, _)) = &self.options.own {
            let (server, clock) = (Server::socket(socket), self.options.clock.clone());
            let copied = thread::spawn("td-tui-copy", move || {
                if let Err(error) = server.copy(&text, &clock) {
                    log::debug!("{error:?}");
                }
            });
            if let Err(error) = copied {
                log::error!("{error:?}");
            }
        }
    }
}
