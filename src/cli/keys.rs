//! Reads single keys as they are pressed, if standard input is a terminal.
//!
//! `td-keys` blocks on the terminal and on two pipes. It sends each key. When the program continues after a
//! stop, it sets the terminal mode again, because the shell has changed it. It ends when [`Keys`] is dropped,
//! which closes a pipe and restores the terminal.

use std::io::{self, IsTerminal, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

use crossbeam_channel::{Receiver, Sender, bounded, never};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::PipeFlags;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::SigId;
use signal_hook::consts::SIGCONT;

use crate::thread::{self, Handle, lock};

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

    pub fn pressed(&self) -> &Receiver<u8> {
        &self.pressed
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
