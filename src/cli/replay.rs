//! `td-observe replay`: shows a run as it happened, at its original speed or another.

use std::io::{self, IsTerminal, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap_complete::engine::ArgValueCompleter;
use crossbeam_channel::{Receiver, Sender, bounded, never, select_biased};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::PipeFlags;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::SigId;
use signal_hook::consts::SIGCONT;

use super::duration::{TimePoint, parse_duration, parse_speed, parse_time_point};
use super::failure::Failure;
use super::history::{Which, report_problems, until_stopped};
use super::log_show::{PageOptions, page_options};
use super::options::Options;
use super::signals::Signals;
use super::{known, live};
use crate::clock::Clock;
use crate::history::{Query, ReplayPace};
use crate::thread::{self, Handle, Stop, is_stopped, lock};
use crate::timestamp::Timestamp;

/// Replays the events of a run.
pub(super) fn run(options: &Options, typed: TypedReplay) -> Result<ExitCode, Failure> {
    let terminal = TerminalMode::default();
    let saved_terminal = terminal.clone();
    let signals = Signals::catch(move || saved_terminal.restore())?;
    let clock = Clock::system();
    let which = Which::typed(&typed.run, options)?;
    let query = query(&typed, &which)?;
    let mut pace = ReplayPace::new().speed(typed.speed);
    if let Some(idle_limit) = typed.idle_limit {
        pace = pace.idle_limit(idle_limit);
    }
    let page = page_options(options, false, None, false, &clock);
    let time = clock.clone();
    until_stopped(&signals, &clock, move |stop| {
        play(&which, query, pace, page, terminal, &time, stop)
    })
}

/// Returns the query for the selected part of the run.
fn query(typed: &TypedReplay, which: &Which) -> Result<Query, Failure> {
    let mut query = Query::all();
    let is_off = |point: &Option<TimePoint>| matches!(point, Some(TimePoint::Off(_)));
    let start = if is_off(&typed.from) || is_off(&typed.to) {
        which
            .read(Query::all())?
            .next()
            .map(|record| record.envelope.ts)
    } else {
        None
    };
    let after = |point: TimePoint| match point {
        TimePoint::At(ts) => ts,
        TimePoint::Off(off) => {
            let micros = i64::try_from(off.as_micros()).unwrap_or(i64::MAX);
            let start = start.unwrap_or_default().micros();
            Timestamp::from_micros(start.saturating_add(micros))
        }
    };
    if let Some(from) = typed.from {
        query = super::log::with_context(query.since(after(from)));
    }
    if let Some(to) = typed.to {
        query = query.until(after(to));
    }
    if query.is_empty_span() {
        return Err(usage!("--from is not before --to: the time span is empty"));
    }
    Ok(query)
}

fn play(
    which: &Which,
    query: Query,
    mut pace: ReplayPace,
    page: PageOptions,
    terminal: TerminalMode,
    clock: &Clock,
    stop: &Stop,
) -> Result<ExitCode, Failure> {
    let mut log = which.read(query)?;
    let is_quiet = page.quiet;
    let mut page = page.open();
    if let Some(session) = which.session() {
        page.note_context(&session);
    }
    let keys = Keys::start(terminal);
    let mut player = Player {
        began: None,
        paused: None,
    };
    for record in &mut log {
        if !record.is_wanted {
            page.note_context(&record.envelope.event);
            continue;
        }
        let due = pace.due(record.envelope.ts);
        if is_stopped(stop) {
            break;
        }
        if player.is_early(due, clock) {
            page.flush()?;
            if !player.wait(due, &keys, clock, stop) {
                break;
            }
        }
        if !is_quiet {
            page.write_record(&record.envelope, record.line())?;
        }
    }
    page.finish()?;
    drop(keys);
    Ok(live::code(report_problems(which, log.report())))
}

/// The position in a replay.
struct Player {
    /// The time at which the replay would have begun without pauses.
    began: Option<Instant>,
    /// The start of the current pause.
    paused: Option<Instant>,
}

impl Player {
    /// Returns true if an event is not due yet.
    fn is_early(&mut self, due: Duration, clock: &Clock) -> bool {
        let began = *self.began.get_or_insert_with(|| clock.now());
        self.paused.is_some() || began.checked_add(due).is_none_or(|at| at > clock.now())
    }

    /// Waits until the event is due. Returns false if the replay must end.
    fn wait(&mut self, due: Duration, keys: &Keys, clock: &Clock, stop: &Stop) -> bool {
        loop {
            let now = clock.now();
            let began = *self.began.get_or_insert(now);
            // `None` for a time beyond the range of the clock, which is never reached.
            let at = began.checked_add(due);
            let timer = match at {
                Some(at) if self.paused.is_none() && at <= now => return true,
                Some(at) if self.paused.is_none() => clock.at(at),
                _ => crossbeam_channel::never(),
            };
            select_biased! {
                recv(stop) -> _ => return false,
                recv(keys.pressed) -> key => match key {
                    Ok(b' ' | b'p') => {
                        let now = clock.now();
                        self.paused = match self.paused {
                            None => Some(now),
                            // The replay continues at the position of the pause.
                            Some(since) => {
                                self.began = began.checked_add(now - since);
                                None
                            }
                        };
                    }
                    Ok(b'.' | b'n') if self.paused.is_some() => {
                        // Moves the position to this event.
                        let now = clock.now();
                        self.paused = Some(now);
                        self.began = now.checked_sub(due).or(self.began);
                        return true;
                    }
                    Ok(b'q') | Err(_) => return false,
                    Ok(_) => {}
                },
                recv(timer) -> _ => {}
            }
        }
    }
}

// The arguments of `replay`.

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/replay.txt").trim_end())]
pub(super) struct TypedReplay {
    /// An execution id, a name (its latest run), or a path
    #[arg(value_name = "RUN", add = ArgValueCompleter::new(known::runs))]
    pub run: PathBuf,
    /// Play N times as fast
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_speed)]
    pub speed: f64,
    /// Shorten every silence to at most this
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub idle_limit: Option<Duration>,
    /// Begin 5m after the start of the run, or at 2026-01-21T10:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time_point)]
    pub from: Option<TimePoint>,
    /// End there
    #[arg(long, value_name = "TIME", value_parser = parse_time_point)]
    pub to: Option<TimePoint>,
}

// Reads single keys as they are pressed, if standard input is a terminal.
//
// `td-keys` blocks on the terminal and on two pipes. It sends each key. When the program continues after a
// stop, it sets the terminal mode again, because the shell has changed it. It ends when [`Keys`] is dropped,
// which closes a pipe and restores the terminal.

/// Maximum number of waiting keys. Further keys are dropped while the program is busy.
const KEYS_MAX: usize = 16;

/// The original mode of the terminal. Several threads may restore it; only the first restore has an effect.
#[derive(Clone, Default)]
pub(super) struct TerminalMode(Arc<Mutex<Option<Termios>>>);

impl TerminalMode {
    /// Restores the original mode.
    pub fn restore(&self) {
        let before = lock(&self.0).take();
        if let Some(before) = before {
            // An error means that the terminal is gone.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
        }
    }
}

/// Reads keys until it is dropped.
pub(super) struct Keys {
    pressed: Receiver<u8>,
    terminal: TerminalMode,
    /// The signal handler that notifies the thread when the program continues.
    continue_handler: Option<SigId>,
    /// Closed to end the thread.
    wake: Option<OwnedFd>,
    thread: Option<Handle<()>>,
}

impl Keys {
    /// Starts to read keys. Without a terminal, no key arrives. If the program ends without dropping this
    /// value, the caller must restore `terminal`.
    pub fn start(terminal: TerminalMode) -> Self {
        let mut keys = Self {
            pressed: never(),
            terminal,
            continue_handler: None,
            wake: None,
            thread: None,
        };
        // A replay also works without keys.
        if io::stdin().is_terminal()
            && io::stdout().is_terminal()
            && let Err(error) = keys.begin()
        {
            log::info!("keys cannot be read: {error}");
        }
        keys
    }

    fn begin(&mut self) -> io::Result<()> {
        let before = tcgetattr(io::stdin())?;
        let (woken, wake) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (press, pressed) = bounded(KEYS_MAX);
        let mut each_key = before.clone();
        // ISIG remains set, so that Ctrl-C sends a signal.
        each_key
            .local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO);
        let (continued, on_continue) =
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        self.continue_handler = Some(signal_hook::low_level::pipe::register(
            SIGCONT,
            on_continue,
        )?);
        tcsetattr(io::stdin(), OptionalActions::Now, &each_key)?;
        *lock(&self.terminal.0) = Some(before);
        let thread = thread::spawn("td-keys", move || {
            serve(&woken, &continued, &each_key, &press);
        });
        self.thread = Some(thread.map_err(io::Error::other)?);
        (self.wake, self.pressed) = (Some(wake), pressed);
        Ok(())
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(id) = self.continue_handler.take() {
            signal_hook::low_level::unregister(id);
        }
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            thread.join_logged();
        }
        self.terminal.restore();
    }
}

fn serve(woken: &OwnedFd, continued: &OwnedFd, each_key: &Termios, press: &Sender<u8>) {
    let stdin = io::stdin();
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(woken.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(continued.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
            Ok(_) => {}
        }
        let [keys, woken, continue_handler] = fds;
        if !woken.revents().is_empty() {
            return;
        }
        if !continue_handler.revents().is_empty() {
            // One notification is enough.
            let _ = rustix::io::read(continued, &mut [0; 64]);
            let _ = tcsetattr(stdin.as_fd(), OptionalActions::Now, each_key);
            continue;
        }
        if !keys.revents().is_empty() {
            let mut key = [0];
            match stdin.lock().read(&mut key) {
                // The terminal is gone.
                Ok(0) | Err(_) => return,
                Ok(_) => {
                    // A full queue drops the key: see `KEYS_MAX`.
                    let _ = press.try_send(key[0]);
                }
            }
        }
    }
}
