//! Runs the UI: starts its threads, passes requests to them, and draws.
//!
//! ```text
//! the terminal ─────────┐
//! td-tui-board ─────────┤            ┌─> td-tui-pages, td-tui-scan: logs
//! td-tui-live ──────────┼─> model ───┼─> td-tui-live, td-tui-screen: the observer
//! td-tui-pages, -scan ──┤ (this      └─> the terminal
//! td-tui-screen ────────┤  thread)
//! td-tui-history ───────┤
//! td-tui-end: signals ──┘
//! ```
//!
//! Only this thread reads and writes the terminal, changes the model and draws, because on a busy machine
//! each thread involved delays the reaction to a key. It waits for no other thread: requests go through
//! queues. All threads end with the UI.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded, never, select_biased};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::SigId;
use signal_hook::consts::SIGWINCH;

use super::cells::Theme;
use super::draw::draw;
use super::effect::{CaptureRequest, Effect, FollowedRun, Input, PageRequest, ScanRequest};
use super::jump::{OwnTerminal, Shown, UNKNOWN_SERVER, Visit, jump};
use super::model::{Model, Settings};
use super::queues::{InputSender, QUEUE_MAX, RequestSender, Woken, request_queue, wake_pair};
use super::readers::Access;
use super::reports::{self, ANSWER_TIME};
use super::terminal::{HAS_REPORTED, IS_ENTERED, Keyboard, Terminal, leave_on_panic, suspend};
use crate::api::{FindObserver, Input as TypedInput};
use crate::board::{Place, Row};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::PaneId;
use crate::face::local_time::LocalTime;
use crate::history::DataDir;
use crate::thread::{self, Handle, Stop, StopGuard, lock, stop_pair};
use crate::tmux::{Server, Typing};

/// The interval at which ages and times on the screen are updated.
const TICK: Duration = Duration::from_secs(1);

/// The options and the environment of the UI.
pub(crate) struct TuiOptions {
    /// Finds the socket of the observer.
    pub find: FindObserver,
    pub data: DataDir,
    pub allows_input: bool,
    /// Shows the pane of another host on this terminal.
    pub visit: Option<VisitHost>,
    pub theme: Theme,
    /// Where in tmux the UI runs, if it does.
    pub own: Option<OwnTerminal>,
    /// The time after which the UI ends by itself; `None` means never.
    pub max_duration: Option<Duration>,
    pub clock: Clock,
}

/// Returns the program that shows a pane of another host on this terminal; the error is the reason why there is none.
pub(crate) type VisitHost = Arc<Visit>;

/// Runs the UI until the user quits or a signal arrives.
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
    /// There is new data.
    Data,
}

struct Ui {
    options: TuiOptions,
    model: Model,
    frame_limiter: FrameLimiter,
    keyboard: Keyboard,
    terminal: Terminal,
    /// When the terminal was asked whether it reads reports.
    asked_at: Instant,
    /// What was last reported to the terminal.
    reported: Option<String>,
    threads: Threads,
    /// `None` if the screen is up to date.
    next_frame: Option<FrameFor>,
    /// The time of the next tick.
    tick: Instant,
    is_over: bool,
}

impl Ui {
    fn start(options: TuiOptions, mut terminal: Terminal, signals: Receiver<i32>) -> Result<Self> {
        let (data, clock) = (options.data.clone(), options.clock.clone());
        let tick = clock.now() + TICK;
        let threads = Threads::start(options.find.clone(), data, clock, signals)?;
        let settings = Settings {
            allows_input: options.allows_input,
            data_dir: options.data.path().display().to_string(),
            local: LocalTime::of_system(),
        };
        let model = Model::new(settings, Terminal::size(), options.clock.wall());
        terminal.write(&reports::question());
        Ok(Self {
            keyboard: Keyboard::open(),
            asked_at: options.clock.now(),
            reported: None,
            options,
            model,
            frame_limiter: FrameLimiter::default(),
            terminal,
            threads,
            next_frame: None,
            tick,
            is_over: false,
        })
    }

    fn run(mut self) -> Result<()> {
        let end = self.options.max_duration.map(|time| self.now() + time);
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
            // If the UI ended during a jump, it has not entered the terminal again.
            if self.is_over {
                break;
            }
            if self.now() >= self.tick {
                self.tick()?;
            }
            self.draw_if_due()?;
        }
        self.take_answers();
        Ok(())
    }

    /// Waits for the answers that the terminal still owes: whoever reads it next would take them for keys.
    fn take_answers(&mut self) {
        let until = self.asked_at + ANSWER_TIME;
        while !self.keyboard.decoder.answers.are_over && self.now() < until {
            let left = until.saturating_duration_since(self.now());
            let left = Timespec::try_from(left).ok();
            let mut polled = [PollFd::new(&self.keyboard, PollFlags::IN)];
            let is_ready = poll(&mut polled, left.as_ref()).is_ok_and(|ready| ready > 0);
            // A terminal that is gone answers nothing.
            if !is_ready || self.keyboard.read().is_err() {
                return;
            }
        }
    }

    fn now(&self) -> Instant {
        self.options.clock.now()
    }

    /// Returns the time of the next frame, if there is something to draw and the terminal accepts it.
    fn due(&self) -> Option<Instant> {
        let next = self.next_frame.filter(|_| !self.terminal.is_busy())?;
        Some(self.frame_limiter.due(next == FrameFor::Key, self.now()))
    }

    /// Waits for the terminal, and for the other threads unless a frame is due soon, which handles their
    /// reports. Returns true if the terminal may have input.
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
        self.terminal.write_pending();
        Ok(is_typed)
    }

    /// Handles typed keys and pasted text.
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

    /// Handles the inputs that the other threads have sent so far.
    fn take_inputs(&mut self) -> Result<()> {
        self.threads.woken.clear();
        if Terminal::size() != self.model.layout.size {
            self.resize()?;
            self.next_frame = Some(FrameFor::Key);
        }
        for _ in 0..self.threads.inputs.len() {
            if let Ok(input) = self.threads.inputs.try_recv() {
                self.handle(input)?;
                self.next_frame.get_or_insert(FrameFor::Data);
            }
        }
        if !self.threads.events.is_empty() {
            self.next_frame.get_or_insert(FrameFor::Data);
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<()> {
        let clock = &self.options.clock;
        self.tick = clock.now() + TICK;
        self.handle(Input::Tick(clock.wall()))?;
        self.next_frame.get_or_insert(FrameFor::Data);
        // A panic of any thread, including the observer's, leaves the terminal.
        if self.threads.has_failed() || !IS_ENTERED.load(Ordering::SeqCst) {
            return Err(Error::other(
                "the terminal UI has failed: see the message above",
            ));
        }
        Ok(())
    }

    /// Draws if a frame is due. Live events are not handled before a frame for a key.
    fn draw_if_due(&mut self) -> Result<()> {
        if self.due().is_none_or(|due| due > self.now()) {
            return Ok(());
        }
        if self.next_frame != Some(FrameFor::Key) {
            // Eight milliseconds of each frame, which bounds the wait of a key. The other events wait.
            let deadline = self.now() + TICK / 125;
            while self.now() < deadline
                && let Ok(live) = self.threads.events.try_recv()
            {
                self.handle(live)?;
            }
        }
        let is_behind = !self.threads.events.is_empty();
        self.next_frame = is_behind.then_some(FrameFor::Data);
        self.draw();
        Ok(())
    }

    fn draw(&mut self) {
        self.frame_limiter.drawn(self.options.clock.now());
        self.terminal.show(draw(&self.model, &self.options.theme));
        if self.keyboard.decoder.answers.reads_reports {
            self.report();
        }
    }

    /// Reports to the terminal what has changed since the last report.
    fn report(&mut self) {
        let board = &self.model.board;
        let (rows, names) = (&board.rows[..board.len], &board.names);
        let report = reports::report(rows, names);
        if self.reported.as_ref() != Some(&report) {
            HAS_REPORTED.store(true, Ordering::SeqCst);
            self.terminal.write(report.as_bytes());
            self.reported = Some(report);
        }
    }

    fn handle(&mut self, input: Input) -> Result<()> {
        if matches!(input, Input::Key(_) | Input::Paste(_)) {
            *lock(&self.threads.used_at) = self.now();
        }
        let effects = self.model.update(input);
        let generation = self.model.log.generation;
        self.threads.generation.store(generation, Ordering::Relaxed);
        for effect in effects {
            match effect {
                Effect::Quit => self.is_over = true,
                Effect::Suspend => {
                    self.take_answers();
                    let (ended, clock) = (&self.threads.ended, &self.options.clock);
                    let end = suspend(&mut self.terminal, ended, clock)?;
                    self.take_back(end)?;
                }
                Effect::Redraw => {
                    self.terminal.shown.forget();
                    self.resize()?;
                }
                Effect::Jump(row) => {
                    self.take_answers();
                    let (ended, clock) = (&self.threads.ended, &self.options.clock);
                    let (own, visit) = (self.options.own.as_ref(), &self.options.visit);
                    let ways = (own, visit.as_deref());
                    let end = jump(&row, ways, &mut self.terminal, ended, clock)?;
                    match self.take_back(end)? {
                        Some(Err(why)) => self.model.input.message = Some(why),
                        Some(Ok(Shown::BehindPopup)) => self.is_over = true,
                        Some(Ok(Shown::InView)) | None => {}
                    }
                }
                Effect::Dismiss { row, is_dismissed } => self.dismiss(&row, is_dismissed),
                Effect::Copy(text) => self.copy(text),
                Effect::Follow(run) => self.threads.live.send(run),
                Effect::Load(request) => self.threads.pages.send(request),
                Effect::Scan(request) => self.threads.scans.send(request),
                Effect::Capture(request) => self.threads.screens.send(request),
                Effect::Answer {
                    row,
                    text,
                    presses_enter,
                } => self.answer(row, text, presses_enter),
            }
        }
        Ok(())
    }

    /// Continues after another program has used the terminal, unless the UI has ended.
    fn take_back<T>(&mut self, end: Option<T>) -> Result<Option<T>> {
        if end.is_some() {
            self.keyboard.decoder.forget();
            // The reports have ended with the screen.
            self.reported = None;
            self.resize()?;
        } else {
            self.is_over = true;
        }
        Ok(end)
    }

    fn resize(&mut self) -> Result<()> {
        let (width, height) = Terminal::size();
        self.handle(Input::Resize(width, height))
    }

    /// Types an answer into a pane, in a separate thread, because an agent needs time before it accepts
    /// Enter.
    fn answer(&mut self, row: Box<Row>, text: String, presses_enter: bool) {
        let (Some(pane), Some(socket)) = (row.pane.clone(), row.server.clone()) else {
            self.model.input.message = Some(UNKNOWN_SERVER.to_owned());
            return;
        };
        let inputs = self.threads.send.clone();
        let (clock, stop) = (self.options.clock.clone(), self.threads.stop.clone());
        let (name, find) = (row.full_name(), self.options.find.clone());
        detach("td-tui-type", move || {
            let server = Server::socket(&socket).until(stop.clone());
            let typing = Typing::text(&text, presses_enter);
            let sent = typing.and_then(|typing| {
                let input = TypedInput {
                    typing,
                    may_leave_enter: false,
                    answers: row.question_id.as_deref(),
                };
                if let Some(place) = row.place().filter(Place::is_elsewhere) {
                    let observer = find().map_err(Error::other)?;
                    return observer.send(&place, &input, (&stop, &clock));
                }
                let row_of = |_: &PaneId| Ok(Some(Row::clone(&row)));
                let panes = std::slice::from_ref(&pane);
                input.send((&server, panes), &row_of, (&stop, &clock))
            });
            let text = match sent {
                Ok(pane) => format!("typed into {name} {pane}"),
                Err(error) => format!("nothing was typed: {error}"),
            };
            // The UI may have ended.
            let _ = inputs.send(Input::Message(text));
        });
    }

    /// Dismisses a row or brings it back, in a separate thread, because the observer may not answer at once.
    fn dismiss(&mut self, row: &Row, is_dismissed: bool) {
        let (find, inputs) = (self.options.find.clone(), self.threads.send.clone());
        let (id, name) = (row.key().to_string(), row.full_name());
        detach("td-tui-dismiss", move || {
            let done = find().and_then(|observer| observer.dismiss(&id, is_dismissed));
            let text = match (done, is_dismissed) {
                (Ok(()), true) => {
                    format!("{name} is dismissed until its next change; X brings it back")
                }
                (Ok(()), false) => format!("{name} is back"),
                (Err(error), _) => format!("nothing was dismissed: {error}"),
            };
            // The UI may have ended.
            let _ = inputs.send(Input::Message(text));
        });
    }

    /// Copies text to the clipboard of the terminal, and to a buffer of tmux.
    fn copy(&mut self, text: String) {
        let mut bytes = Vec::new();
        let command = crossterm::clipboard::CopyToClipboard::to_clipboard_from(&text);
        // Writing to memory does not fail.
        let _ = crossterm::queue!(bytes, command);
        self.terminal.write(&bytes);
        if let Some(own) = &self.options.own {
            let (server, clock) = (Server::socket(&own.server), self.options.clock.clone());
            detach("td-tui-copy", move || {
                if let Err(error) = server.copy(&text, &clock) {
                    log::debug!("{error:?}");
                }
            });
        }
    }
}

/// Starts a thread that ends by itself.
fn detach(name: &str, body: impl FnOnce() + Send + 'static) {
    if let Err(error) = thread::spawn(name, body) {
        log::error!("{error:?}");
    }
}

/// The threads of the UI, and the channels to them.
pub(super) struct Threads {
    pub generation: Arc<AtomicU64>,
    pub live: RequestSender<FollowedRun>,
    pub pages: RequestSender<PageRequest>,
    pub scans: RequestSender<ScanRequest>,
    pub screens: RequestSender<CaptureRequest>,
    pub inputs: Receiver<Input>,
    /// Batches of live events.
    pub events: Receiver<Input>,
    pub send: InputSender,
    /// The time of the last key.
    pub used_at: Arc<Mutex<Instant>>,
    /// The signal that ends the UI.
    pub ended: Receiver<i32>,
    /// Notified of each input, live event, signal, and change of the terminal's size.
    pub woken: Woken,
    pub stop: Stop,
    on_resize: Option<SigId>,
    /// Dropped first, which stops all threads.
    running: Option<StopGuard>,
    handles: Vec<Handle<()>>,
}

impl Threads {
    /// Starts all threads. `signals` receives the signal that ends the UI.
    pub fn start(
        find: FindObserver,
        data: DataDir,
        clock: Clock,
        signals: Receiver<i32>,
    ) -> Result<Self> {
        let (running, stop) = stop_pair();
        let no_wake = |cause: io::Error| Error::other("cannot wake the terminal UI").because(cause);
        let (wake, woken) = wake_pair().map_err(no_wake)?;
        let queue = || {
            let (inputs, receiver) = bounded(QUEUE_MAX);
            let wake = wake.clone();
            (InputSender { inputs, wake }, receiver)
        };
        let (send, inputs) = queue();
        let (live_events, events) = queue();
        let (end, ended) = bounded(1);
        let generation = Arc::new(AtomicU64::new(0));
        let used_at = Arc::new(Mutex::new(clock.now()));
        let access = Access {
            used_at: used_at.clone(),
            find,
            data,
            clock,
            stop: stop.clone(),
            generation: generation.clone(),
            inputs: send.clone(),
        };
        let (live, followed) = request_queue();
        let (pages, page_requests) = request_queue();
        let (scans, scan_requests) = request_queue();
        let (screens, captured) = request_queue();
        let mut threads = Self {
            generation,
            live,
            pages,
            scans,
            screens,
            inputs,
            events,
            send,
            used_at,
            ended,
            woken,
            stop,
            on_resize: None,
            running: Some(running),
            handles: Vec::new(),
        };
        let handler = wake.for_handler().map_err(no_wake)?;
        let on_resize = signal_hook::low_level::pipe::register(SIGWINCH, handler);
        threads.on_resize = Some(on_resize.map_err(no_wake)?);
        threads.spawn("td-tui-end", &access, move |access| {
            select_biased! {
                recv(signals) -> signal => {
                    // The channel has room for one signal, which is enough.
                    let _ = end.try_send(signal.unwrap_or_default());
                    wake.notify();
                    // A thread that ends before the UI counts as panicked, so this one waits; the stop
                    // channel has no message.
                    let _ = access.stop.recv();
                }
                recv(access.stop) -> _ => {}
            }
            None
        })?;
        threads.spawn("td-tui-board", &access, |access| access.read_board())?;
        threads.spawn("td-tui-live", &access, move |access| {
            access.read_live(&followed, &live_events)
        })?;
        threads.spawn("td-tui-screen", &access, move |access| {
            access.read_screen(&captured)
        })?;
        threads.spawn("td-tui-pages", &access, move |access| {
            access.read_pages(&page_requests)
        })?;
        threads.spawn("td-tui-scan", &access, move |access| {
            access.scan(&scan_requests)
        })?;
        threads.spawn("td-tui-history", &access, |access| access.read_history())?;
        Ok(threads)
    }

    /// Starts a thread, which runs until the end of the UI.
    fn spawn(
        &mut self,
        name: &str,
        access: &Access,
        body: impl FnOnce(Access) -> Option<()> + Send + 'static,
    ) -> Result<()> {
        let access = access.clone();
        let handle = thread::spawn(name, move || {
            body(access);
        })?;
        self.handles.push(handle);
        Ok(())
    }

    /// Returns true if a thread has ended while the UI runs, which means that it has panicked.
    pub fn has_failed(&self) -> bool {
        self.handles.iter().any(Handle::is_finished)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        drop(self.running.take());
        if let Some(id) = self.on_resize.take() {
            signal_hook::low_level::unregister(id);
        }
        // Without a receiver, no thread waits for room in the queue.
        (self.inputs, self.events) = (never(), never());
        self.handles.drain(..).for_each(Handle::join_logged);
    }
}

/// The maximum number of frames in a second.
const FRAMES_MAX: usize = 30;

/// The frames of the last second.
#[derive(Debug, Default)]
pub(super) struct FrameLimiter {
    drawn: VecDeque<Instant>,
}

impl FrameLimiter {
    /// Returns the earliest time of the next frame.
    pub fn due(&self, is_for_key: bool, now: Instant) -> Instant {
        let mut due = now;
        if let Some(first) = self.drawn.front()
            && self.drawn.len() >= FRAMES_MAX
        {
            due = due.max(*first + TICK);
        }
        if let Some(last) = self.drawn.back()
            && !is_for_key
        {
            // 20 frames a second show new data: a third of the frames is reserved for keys.
            due = due.max(*last + TICK / 20);
        }
        due
    }

    pub fn drawn(&mut self, now: Instant) {
        self.drawn.push_back(now);
        if self.drawn.len() > FRAMES_MAX {
            self.drawn.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_second_has_more_than_30_frames(steps in prop::collection::vec((any::<bool>(), 0_u64..60), 1..300)) {
            let start = Instant::now();
            let (mut frame_limiter, mut frames, mut now) = (FrameLimiter::default(), Vec::new(), start);
            for (is_for_key, wait) in steps {
                now += Duration::from_millis(wait);
                now = frame_limiter.due(is_for_key, now);
                frame_limiter.drawn(now);
                frames.push(now);
                let second = frames.iter().filter(|frame| now - **frame < TICK).count();
                prop_assert!(second <= FRAMES_MAX);
            }
        }
    }

    #[test]
    fn a_key_is_drawn_at_once_beside_a_flood() {
        let (mut frame_limiter, mut now) = (FrameLimiter::default(), Instant::now());
        for _ in 0..100 {
            now = frame_limiter.due(false, now);
            frame_limiter.drawn(now);
            let key = now + Duration::from_millis(5);
            if frame_limiter.drawn.len() < FRAMES_MAX {
                assert_eq!(frame_limiter.due(true, key), key);
            }
            now = key;
        }
        // A flood alone draws 20 frames a second, so the 30th last frame is more than a second old.
        assert_eq!(frame_limiter.due(true, now), now);
    }
}
