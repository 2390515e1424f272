//! Keys, one by one as they are pressed, where standard input is a terminal.
//!
//! `td-keys` blocks on the terminal and on two pipes; it sends each key, takes the terminal again
//! when the program continues after it was stopped (a shell sets it as it likes then), and ends when
//! [`Keys`] is dropped, which closes a pipe and gives the terminal back as it was.

use std::io::{self, IsTerminal, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender, bounded, never};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::PipeFlags;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::SigId;
use signal_hook::consts::SIGCONT;

use crate::thread::{self, Handle};

/// Maximum number of waiting keys: a user who types faster than they are read means the last ones.
const KEYS_MAX: usize = 16;

/// The terminal's original state, which the first of several threads restores, once.
#[derive(Clone, Default)]
pub(super) struct Terminal(Arc<Mutex<Option<Termios>>>);

impl Terminal {
    /// Gives the terminal back as it was.
    pub fn restore(&self) {
        let before = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(before) = before {
            // A terminal that is gone needs nothing.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
        }
    }
}

/// Takes keys until it is dropped.
pub(super) struct Keys {
    pressed: Receiver<u8>,
    terminal: Terminal,
    /// The signal handler that notifies the thread when the program continues.
    going_on: Option<SigId>,
    /// Closed to end the thread.
    wake: Option<OwnedFd>,
    thread: Option<Handle<()>>,
}

impl Keys {
    /// Begins to take keys; without a terminal there are none. `terminal` is to be given back when
    /// the program ends in another way.
    pub fn take(terminal: Terminal) -> Self {
        let mut keys = Self {
            pressed: never(),
            terminal,
            going_on: None,
            wake: None,
            thread: None,
        };
        // Without keys a replay is as good.
        if io::stdin().is_terminal()
            && io::stdout().is_terminal()
            && let Err(error) = keys.begin()
        {
            log::info!("no keys are taken: {error}");
        }
        keys
    }

    fn begin(&mut self) -> io::Result<()> {
        let before = tcgetattr(io::stdin())?;
        let (woken, wake) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (press, pressed) = bounded(KEYS_MAX);
        let mut each_key = before.clone();
        // Signals stay: Ctrl-C is one.
        each_key
            .local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO);
        let (goes_on, on_continue) =
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        self.going_on = Some(signal_hook::low_level::pipe::register(
            SIGCONT,
            on_continue,
        )?);
        tcsetattr(io::stdin(), OptionalActions::Now, &each_key)?;
        *self
            .terminal
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(before);
        let thread = thread::spawn("td-keys", move || {
            serve(&woken, &goes_on, &each_key, &press);
        });
        self.thread = Some(thread.map_err(io::Error::other)?);
        (self.wake, self.pressed) = (Some(wake), pressed);
        Ok(())
    }

    /// Gets a message for each key.
    pub fn pressed(&self) -> &Receiver<u8> {
        &self.pressed
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(id) = self.going_on.take() {
            signal_hook::low_level::unregister(id);
        }
        self.wake = None;
        if let Some(thread) = self.thread.take()
            && let Err(panicked) = thread.join()
        {
            log::error!("{panicked}");
        }
        self.terminal.restore();
    }
}

fn serve(woken: &OwnedFd, goes_on: &OwnedFd, each_key: &Termios, press: &Sender<u8>) {
    let stdin = io::stdin();
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(woken.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(goes_on.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
            Ok(_) => {}
        }
        let [keys, woken, going_on] = fds;
        if !woken.revents().is_empty() {
            return;
        }
        if !going_on.revents().is_empty() {
            // One notification is enough.
            let _ = rustix::io::read(goes_on, &mut [0; 64]);
            let _ = tcsetattr(stdin.as_fd(), OptionalActions::Now, each_key);
            continue;
        }
        if !keys.revents().is_empty() {
            let mut key = [0];
            match stdin.lock().read(&mut key) {
                // The terminal is gone.
                Ok(0) | Err(_) => return,
                Ok(_) => {
                    // Too many keys: see `KEYS_MAX`.
                    let _ = press.try_send(key[0]);
                }
            }
        }
    }
}
