//! Terminals: a command's own terminal, and the user's terminal with a command in its foreground.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};

use nix::sys::signal::{SigSet, SigmaskHow, Signal as NixSignal, raise};
use rustix::process::{Pid, Signal, getpgrp, kill_current_process_group};
use rustix::termios::{
    OptionalActions, Termios, Winsize, isatty, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr,
    tcsetpgrp,
};

use crate::thread::lock;

/// The controlling terminal of the process that opens it.
const TERMINAL: &str = "/dev/tty";

/// The size of a command's own terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PtySize {
    /// The width in character cells.
    pub columns: u16,
    /// The height in character cells.
    pub rows: u16,
    /// True to follow the size of this program's terminal, if it has one.
    pub follows: bool,
}

impl PtySize {
    /// Returns the size of this program's terminal, and follows it; 80 by 24 without a terminal.
    pub fn of_terminal() -> Self {
        let (columns, rows) = terminal_size().unwrap_or((80, 24));
        Self {
            columns,
            rows,
            follows: true,
        }
    }

    /// Returns a size that does not change.
    pub fn fixed(columns: u16, rows: u16) -> Self {
        Self {
            columns,
            rows,
            follows: false,
        }
    }

    pub(super) fn of_pty(self) -> pty_process::Size {
        pty_process::Size::new(self.rows, self.columns)
    }

    /// Returns the new size if the terminal that this size follows was resized.
    pub(super) fn changed(self) -> Option<Self> {
        let (columns, rows) = terminal_size().filter(|_| self.follows)?;
        let now = Self {
            columns,
            rows,
            ..self
        };
        (now != self).then_some(now)
    }
}

fn terminal_size() -> Option<(u16, u16)> {
    let size: Winsize = tcgetwinsize(File::open(TERMINAL).ok()?).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// The modes of a terminal, saved to be restored once. Clones share the saved modes.
#[derive(Clone, Debug, Default)]
pub(crate) struct SavedModes(Arc<Mutex<Option<(OwnedFd, Termios)>>>);

impl SavedModes {
    /// Saves and returns the present modes of a terminal.
    fn save(&self, terminal: impl AsFd) -> io::Result<Termios> {
        let modes = tcgetattr(terminal.as_fd())?;
        let terminal = terminal.as_fd().try_clone_to_owned()?;
        *self.lock() = Some((terminal, modes.clone()));
        Ok(modes)
    }

    pub(crate) fn restore(&self) {
        let saved = self.lock().take();
        if let Some((terminal, modes)) = saved {
            // A terminal that is gone needs no modes.
            let _ = set_modes(&terminal, &modes);
        }
    }

    fn modes(&self) -> Option<Termios> {
        self.lock().as_ref().map(|(_, modes)| modes.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Option<(OwnedFd, Termios)>> {
        lock(&self.0)
    }
}

/// Sets the modes of a terminal, also from its background.
fn set_modes(terminal: impl AsFd, modes: &Termios) -> rustix::io::Result<()> {
    without_signal(NixSignal::SIGTTOU, || {
        tcsetattr(terminal, OptionalActions::Now, modes)
    })
}

/// Runs `act` while a signal to this thread is blocked.
fn without_signal<T>(signal: NixSignal, act: impl FnOnce() -> T) -> T {
    let mut blocked = SigSet::empty();
    blocked.add(signal);
    let before = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let result = act();
    if let Ok(before) = before {
        // Restoring a mask that this thread had cannot fail.
        let _ = before.thread_set_mask();
    }
    result
}

/// Stops this program and its process group, as Ctrl-Z does. Returns when a shell continues them, or
/// immediately if no shell could continue them.
pub(crate) fn stop_own_group() {
    // The signal goes to the whole group, as from the terminal, and to this thread, so that it does
    // not continue before the stop. The thread's own signal is blocked until both are sent:
    // continuing after either discards the other, so the program does not stop twice.
    without_signal(NixSignal::SIGTSTP, || {
        let _ = raise(NixSignal::SIGTSTP);
        let _ = kill_current_process_group(Signal::TSTP);
    });
}

/// Lets this thread, and those that it starts afterwards, write to the terminal while a command is its
/// foreground, even with `stty tostop`. For programs that run commands with
/// [`Stdin::Inherited`](super::Stdin::Inherited).
pub fn allow_background_output() {
    let mut signals = SigSet::empty();
    signals.add(NixSignal::SIGTTOU);
    // If this fails, a terminal with `tostop` stops this program until `fg`.
    let _ = signals.thread_block();
}

/// Returns true if standard input is a terminal with this program in its foreground.
pub(crate) fn is_typed_at() -> bool {
    isatty(io::stdin()) && tcgetpgrp(io::stdin()).is_ok_and(|foreground| foreground == getpgrp())
}

/// The user's terminal while a command is in its foreground, as if a shell had started the command. Dropping
/// this takes the terminal back.
pub(super) struct ForegroundLoan {
    terminal: File,
    modes: SavedModes,
    own_group: Pid,
    command_group: Pid,
}

impl ForegroundLoan {
    /// Makes a command the foreground of this program's terminal, if it has one. If this program is in the
    /// background, this happens once it comes to the foreground.
    pub fn lend(command_group: Pid, modes: &SavedModes) -> Option<Self> {
        let terminal = File::options().read(true).write(true).open(TERMINAL).ok()?;
        let loan = Self {
            terminal,
            modes: modes.clone(),
            own_group: getpgrp(),
            command_group,
        };
        if loan.is_foreground(loan.own_group) {
            modes.save(&loan.terminal).ok()?;
            loan.set_foreground(command_group);
        }
        Some(loan)
    }

    fn set_foreground(&self, group: Pid) {
        let set = || tcsetpgrp(&self.terminal, group);
        if let Err(error) = without_signal(NixSignal::SIGTTOU, set) {
            log::warn!("cannot change the foreground of the terminal: {error}");
        }
    }

    fn is_foreground(&self, group: Pid) -> bool {
        tcgetpgrp(&self.terminal).is_ok_and(|foreground| foreground == group)
    }

    /// Handles a command that a signal has stopped: stops this program as well, as a shell's job stops,
    /// and returns the foreground to the command when this program continues in the foreground.
    pub fn command_stopped(&self, signal: i32) {
        let wants_terminal = signal == Signal::TTIN.as_raw() || signal == Signal::TTOU.as_raw();
        if wants_terminal && self.is_foreground(self.command_group) {
            // The command used the terminal just before it became the foreground.
            return;
        }
        let mut command_modes = None;
        if self.is_foreground(self.command_group) {
            command_modes = tcgetattr(&self.terminal).ok();
            self.set_foreground(self.own_group);
            if let Some(modes) = self.modes.modes() {
                let _ = set_modes(&self.terminal, &modes);
            }
        }
        stop_own_group();
        if self.is_foreground(self.own_group) {
            if self.modes.modes().is_none() {
                // The command becomes the foreground for the first time. Modes that cannot be read are not
                // restored.
                let _ = self.modes.save(&self.terminal);
            }
            if let Some(modes) = command_modes {
                let _ = set_modes(&self.terminal, &modes);
            }
            self.set_foreground(self.command_group);
        }
    }

    /// Takes the terminal back. Keeps the modes that the command has set, unless a signal ended it.
    pub fn take_back(self, is_killed: bool) {
        if !is_killed {
            *self.modes.lock() = None;
        }
    }
}

impl Drop for ForegroundLoan {
    fn drop(&mut self) {
        // If a shell has taken the terminal in the meantime, the shell keeps it.
        if self.is_foreground(self.command_group) {
            self.set_foreground(self.own_group);
        }
        self.modes.restore();
    }
}

/// Raw mode of the terminal at standard input, until it is dropped.
pub(super) struct RawMode(SavedModes);

impl RawMode {
    /// Sets the terminal at standard input to raw mode.
    pub fn enter(modes: &SavedModes) -> io::Result<Self> {
        let mut raw = modes.save(io::stdin())?;
        let guard = Self(modes.clone());
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(guard)
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        self.0.restore();
    }
}
