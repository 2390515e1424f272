//! Runs the UI: starts its threads, hands them what is asked for, and draws.
//!
//! ```text
//! td-tui-keys ──────────┐
//! td-tui-board ─────────┤            ┌─> td-tui-pages, td-tui-scan: logs
//! td-tui-live ─> inbox ─┼─> model ───┼─> td-tui-live, td-tui-screen: the observer
//! td-tui-pages, -scan ──┤ (this      └─> td-tui-out: the terminal
//! td-tui-screen ────────┤  thread)
//! td-tui-history ───────┘
//! ```
//!
//! This thread alone changes the model and draws. It waits for none of the others: requests go through
//! letter boxes, frames to a thread that has the terminal. All end when the UI does.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::{Receiver, select_biased};

use super::draw::draw;
use super::effect::{Effect, Input};
use super::feeds::{Captured, FindObserver, Followed};
use super::keyboard::Keyboard;
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
use crate::process::{is_typed_at, stop_own_group};
use crate::thread;
use crate::tmux::{Server, Typing};

/// The time after which ages and times on the screen are drawn again.
const TICK: Duration = Duration::from_secs(1);

/// The pause between two checks whether the program is in the foreground again.
const BACKGROUND_CHECK: Duration = Duration::from_millis(100);

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

struct Ui {
    options: TuiOptions,
    model: Model,
    pacer: Pacer,
    /// Read before the terminal is left.
    keyboard: Keyboard,
    terminal: Terminal,
    threads: Threads,
    signals: Receiver<i32>,
    is_over: bool,
}

impl Ui {
    fn start(options: TuiOptions, terminal: Terminal, signals: Receiver<i32>) -> Result<Self> {
        let (data, clock) = (options.data.clone(), options.clock.clone());
        let threads = Threads::start(options.find.clone(), data, clock)?;
        let about = About {
            allows_input: options.allows_input,
            data: options.data.path().display().to_string(),
            local: LocalTime::of_system(),
        };
        let model = Model::new(about, Terminal::size(), options.clock.wall());
        Ok(Self {
            keyboard: Keyboard::start()?,
            options,
            model,
            pacer: Pacer::default(),
            terminal,
            threads,
            signals,
            is_over: false,
        })
    }

    fn run(mut self) -> Result<()> {
        let clock = self.options.clock.clone();
        let mut tick = clock.after(TICK);
        let end = match self.options.longest {
            Some(longest) => clock.after(longest),
            None => crossbeam_channel::never(),
        };
        let mut has_data = false;
        self.draw();
        while !self.is_over {
            let (bell, inputs) = (self.threads.bell.clone(), self.threads.inputs.clone());
            let frame = match has_data {
                true => clock.at(self.pacer.due(false, clock.now())),
                false => crossbeam_channel::never(),
            };
            select_biased! {
                recv(self.signals) -> _ => break,
                recv(end) -> _ => break,
                recv(self.keyboard.keys) -> key => match key {
                    Ok(key) => has_data |= self.key(key)?,
                    Err(_) => break,
                },
                recv(frame) -> _ => {
                    has_data = self.take_live();
                    self.draw();
                }
                recv(bell) -> _ => has_data = true,
                recv(inputs) -> input => if let Ok(input) = input {
                    self.handle(input)?;
                    has_data = true;
                },
                recv(tick) -> _ => {
                    tick = clock.after(TICK);
                    self.handle(Input::Tick(clock.wall()))?;
                    has_data = true;
                    // A panic of any thread, also of the observer's, leaves the terminal.
                    if self.threads.has_failed() || !Terminal::is_entered() {
                        return Err(Error::other("the terminal UI has failed: see the message above"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Handles a key, and those that wait behind it, and draws. Live events wait for the next frame. Returns
    /// true if there may be some.
    fn key(&mut self, key: Input) -> Result<bool> {
        self.handle(key)?;
        let now = self.options.clock.now();
        let due = self.pacer.due(true, now);
        let frame = self.options.clock.at(due);
        let keys = self.keyboard.keys.clone();
        while !self.is_over {
            select_biased! {
                recv(keys) -> key => match key {
                    Ok(key) => self.handle(key)?,
                    Err(_) => self.is_over = true,
                },
                recv(frame) -> _ => break,
            }
        }
        self.draw();
        Ok(true)
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
                Effect::Suspend => self.suspend()?,
                Effect::Redraw => {
                    self.terminal.forget();
                    self.resize();
                }
                Effect::Jump(row) => {
                    if let Err(why) = self.jump(&row)? {
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

    /// Stops with the whole job until `fg`. A signal ends the program also in the background, where it must not
    /// touch the terminal.
    fn suspend(&mut self) -> Result<()> {
        let (keyboard, terminal) = (&self.keyboard, &self.terminal);
        let (signals, clock) = (&self.signals, &self.options.clock);
        let stop = || {
            stop_own_group();
            while !is_typed_at() {
                select_biased! {
                    recv(signals) -> _ => return LoanEnd::Over,
                    recv(clock.after(BACKGROUND_CHECK)) -> _ => {}
                }
            }
            LoanEnd::Back(())
        };
        let end = keyboard.pause(|| {
            let end = terminal.lend(stop);
            if matches!(end, Ok(LoanEnd::Over)) {
                keyboard.end();
            }
            end
        });
        match end? {
            LoanEnd::Back(()) => self.resize(),
            LoanEnd::Over => self.is_over = true,
        }
        Ok(())
    }

    /// Takes the size of a terminal that another program had meanwhile.
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

    /// Shows a pane to the user. The inner error says why it cannot be shown.
    fn jump(&mut self, row: &Row) -> Result<std::result::Result<(), String>> {
        let (Some(pane), Some(socket)) = (&row.pane, &row.server) else {
            return Ok(Err("the tmux server of this pane is not known".to_owned()));
        };
        let server = Server::socket(socket);
        let clock = &self.options.clock;
        if let Some((own_socket, own)) = &self.options.own
            && is_same_file(own_socket, Path::new(&socket))
        {
            let switched = server.switch_client(own, pane, clock);
            return Ok(switched.map_err(|error| error.to_string()));
        }
        let (keyboard, terminal, signals) = (&self.keyboard, &self.terminal, &self.signals);
        let attach = || match server.attach(pane, clock, signals) {
            Ok(None) => LoanEnd::Over,
            Ok(Some(status)) if status.success() => LoanEnd::Back(Ok(())),
            Ok(Some(status)) => {
                LoanEnd::Back(Err(format!("tmux attach-session ended with {status}")))
            }
            Err(error) => LoanEnd::Back(Err(error.to_string())),
        };
        match keyboard.pause(|| terminal.lend(attach))? {
            LoanEnd::Back(attached) => {
                self.resize();
                Ok(attached)
            }
            LoanEnd::Over => {
                self.is_over = true;
                Ok(Ok(()))
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
    fn copy(&self, text: String) {
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

fn is_same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    one == other || real(one).is_some_and(|found| real(other) == Some(found))
}
