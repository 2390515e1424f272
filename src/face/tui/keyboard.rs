//! `td-tui-keys`: reads keys, pasted text and sizes from the terminal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use crossterm::event::{Event, KeyEventKind, poll, read};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::effect::Input;
use crate::clock::Clock;
use crate::error::Result;
use crate::thread::{self, Handle, Waker};

/// The keys that wait to be handled: a second of a held key.
const KEYS_MAX: usize = 64;

/// The time in which the thread notices that it is to pause or to end.
const CHECK: Duration = Duration::from_millis(100);

const CHECK_SPEC: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// The time that the thread has to end.
const END: Duration = Duration::from_millis(500);

/// The thread that reads the terminal.
#[derive(Debug)]
pub(super) struct Keyboard {
    /// Closed when the terminal is gone.
    pub keys: Receiver<Input>,
    state: Arc<State>,
    paused: Receiver<Waker>,
    thread: Option<Handle<()>>,
    clock: Clock,
}

#[derive(Debug, Default)]
struct State {
    is_paused: AtomicBool,
    is_over: AtomicBool,
}

impl Keyboard {
    pub fn start(clock: &Clock) -> Result<Self> {
        let (sender, keys) = bounded(KEYS_MAX);
        let (pausing, paused) = bounded(1);
        let state = Arc::new(State::default());
        let own = state.clone();
        let thread = thread::spawn("td-tui-keys", move || read_keys(&own, &sender, &pausing))?;
        Ok(Self {
            keys,
            state,
            paused,
            thread: Some(thread),
            clock: clock.clone(),
        })
    }

    /// Reads nothing while something else does.
    pub fn pause<T>(&self, other: impl FnOnce() -> T) -> T {
        self.state.is_paused.store(true, Ordering::SeqCst);
        // The thread may have ended, or wait for room; either way it does not read.
        let waker = self.paused.recv_timeout(3 * CHECK).ok();
        let done = other();
        self.state.is_paused.store(false, Ordering::SeqCst);
        if let Some(waker) = waker {
            waker.wake();
        }
        done
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        // It may wait for room.
        while self.keys.try_recv().is_ok() {}
        let Some(thread) = self.thread.take() else {
            return;
        };
        match thread.join_deadline(self.clock.now() + END) {
            Ok(Ok(())) => {}
            Ok(Err(panicked)) => log::error!("{panicked}"),
            // It waits for a terminal that has just been closed, and ends with the process.
            Err(_) => log::warn!("the thread that reads the terminal does not end"),
        }
    }
}

/// Waits for keys for a moment. Returns true if the terminal has been closed: crossterm would wait for it
/// for ever, busily. New sizes are noticed after the moment.
fn is_gone() -> bool {
    let stdin = rustix::stdio::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    match rustix::event::poll(&mut fds, Some(&CHECK_SPEC)) {
        Ok(_) => {
            let seen = fds[0].revents();
            seen.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
        }
        Err(rustix::io::Errno::INTR) => false,
        Err(_) => true,
    }
}

fn read_keys(state: &State, keys: &Sender<Input>, pausing: &Sender<Waker>) {
    while !state.is_over.load(Ordering::SeqCst) {
        if state.is_paused.load(Ordering::SeqCst) {
            // A waker that is there already is as good.
            let _ = pausing.try_send(Waker::current());
            thread::park(Some(CHECK));
            continue;
        }
        if is_gone() {
            log::debug!("the terminal is gone");
            return;
        }
        let event = match poll(Duration::ZERO) {
            Ok(true) => read(),
            Ok(false) => continue,
            Err(cause) => Err(cause),
        };
        let input = match event {
            Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => Input::Key(key),
            Ok(Event::Paste(text)) => Input::Paste(text),
            Ok(Event::Resize(width, height)) => Input::Resize(width, height),
            Ok(_) => continue,
            // The terminal is gone.
            Err(cause) => {
                log::debug!("the terminal cannot be read: {cause}");
                return;
            }
        };
        if keys.send(input).is_err() {
            return;
        }
    }
}
