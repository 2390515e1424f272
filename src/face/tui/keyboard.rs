//! `td-tui-keys`: reads keys, pasted text and sizes from the terminal.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use crossterm::event::{Event, KeyEventKind, poll, read};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::retry_on_intr;

use super::effect::Input;
use crate::error::Result;
use crate::thread::{self, Handle, Waker};

/// The keys that wait to be handled: a second of a held key.
const KEYS_MAX: usize = 64;

/// The time in which the thread notices that it is to pause or to end.
const CHECK: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_millis(5);

/// The thread that reads the terminal.
#[derive(Debug)]
pub(super) struct Keyboard {
    /// Closed when the terminal is gone.
    pub keys: Receiver<Input>,
    state: Arc<State>,
    paused: Receiver<Waker>,
    thread: Option<Handle<()>>,
}

#[derive(Debug, Default)]
struct State {
    is_paused: AtomicBool,
    is_over: AtomicBool,
}

impl Keyboard {
    pub fn start() -> Result<Self> {
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
        })
    }

    /// Ends the thread: what is typed is for another program.
    pub fn end(&self) {
        self.state.is_over.store(true, Ordering::SeqCst);
    }

    /// Reads nothing while something else does.
    pub fn pause<T>(&self, other: impl FnOnce() -> T) -> T {
        // The thread reports a pause more than once; earlier reports are of earlier pauses.
        while self.paused.try_recv().is_ok() {}
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
        self.end();
        let Some(thread) = self.thread.take() else {
            return;
        };
        let mut left = 3 * CHECK;
        while !thread.is_finished() {
            // It may wait for room.
            while self.keys.try_recv().is_ok() {}
            // crossterm does not return from a terminal that is closed while it reads.
            let Some(less) = left.checked_sub(PAUSE) else {
                return log::debug!("the terminal is still being read");
            };
            left = less;
            thread::park(Some(PAUSE));
        }
        if let Err(panicked) = thread.join() {
            log::error!("{panicked}");
        }
    }
}

/// Reads an event; `None` if there is none for a while.
fn next_event() -> io::Result<Option<Event>> {
    check_terminal(Duration::ZERO)?;
    // crossterm may have read more than one event.
    if !poll(Duration::ZERO)? {
        check_terminal(CHECK)?;
        if !poll(Duration::ZERO)? {
            return Ok(None);
        }
    }
    read().map(Some)
}

/// Waits until there is something to read, at most for some time. Fails if the terminal is closed:
/// crossterm would wait for it for ever, busily.
fn check_terminal(time: Duration) -> io::Result<()> {
    let stdin = rustix::stdio::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    let time = Timespec::try_from(time).ok();
    retry_on_intr(|| rustix::event::poll(&mut polled, time.as_ref()))?;
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    match polled[0].revents().intersects(gone) {
        true => Err(io::ErrorKind::UnexpectedEof.into()),
        false => Ok(()),
    }
}

fn read_keys(state: &State, keys: &Sender<Input>, pausing: &Sender<Waker>) {
    while !state.is_over.load(Ordering::SeqCst) {
        if state.is_paused.load(Ordering::SeqCst) {
            // One that was not taken yet is as good.
            let _ = pausing.try_send(Waker::current());
            thread::park(Some(CHECK));
            continue;
        }
        let event = match next_event() {
            Ok(Some(event)) => Ok(event),
            Ok(None) => continue,
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
