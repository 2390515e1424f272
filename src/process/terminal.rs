//! Terminals: one that a command has of its own, and the user's, lent to a command that reads it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::signal::{SigSet, SigmaskHow, Signal as NixSignal, raise};
use rustix::process::{Pid, Signal, getpgrp, kill_current_process_group};
use rustix::termios::{
    OptionalActions, Termios, Winsize, isatty, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr,
    tcsetpgrp,
};

/// The controlling terminal of whoever opens it.
const TERMINAL: &str = "/dev/tty";

/// How large a terminal is that a command gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PtySize {
    /// Its width and height in character cells.
    pub columns: u16,
    /// See `columns`.
    pub rows: u16,
    /// Follows the terminal of this program, where it has one.
    pub follows: bool,
}

impl PtySize {
    /// As large as the terminal of this program, now and when that changes; 80 by 24 without one.
    pub fn of_terminal() -> Self {
        let (columns, rows) = our_size().unwrap_or((80, 24));
        Self {
            columns,
            rows,
            follows: true,
        }
    }

    /// So large, for good.
    pub fn fixed(columns: u16, rows: u16) -> Self {
        Self {
            columns,
            rows,
            follows: false,
        }
    }

    pub(super) fn size(self) -> pty_process::Size {
        pty_process::Size::new(self.rows, self.columns)
    }

    /// The screen as it is to be now, if that is another size.
    pub(super) fn changed(self) -> Option<Self> {
        let (columns, rows) = our_size().filter(|_| self.follows)?;
        let now = Self {
            columns,
            rows,
            ..self
        };
        (now != self).then_some(now)
    }
}

fn our_size() -> Option<(u16, u16)> {
    let size: Winsize = tcgetwinsize(File::open(TERMINAL).ok()?).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// A terminal's modes as they were, to be given back once, by whoever comes first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Modes(Arc<Mutex<Option<(OwnedFd, Termios)>>>);

impl Modes {
    /// Remembers how this terminal is set now.
    pub(crate) fn save(&self, terminal: impl AsFd) -> io::Result<Termios> {
        let modes = tcgetattr(terminal.as_fd())?;
        let terminal = terminal.as_fd().try_clone_to_owned()?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((terminal, modes.clone()));
        Ok(modes)
    }

    /// Sets the terminal as it was.
    pub(crate) fn restore(&self) {
        let saved = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((terminal, modes)) = saved {
            // From the background, too. A terminal that is gone needs nothing.
            let _ = without_stops(|| tcsetattr(&terminal, OptionalActions::Now, &modes));
        }
    }

    /// Whether nothing is remembered.
    fn is_empty(&self) -> bool {
        let saved = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        saved.is_none()
    }

    /// Leaves it as it is.
    pub(super) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Does what stops programs that are not in the foreground, without being stopped.
fn without_stops<T>(act: impl FnOnce() -> T) -> T {
    without(NixSignal::SIGTTOU, act)
}

/// Does something while a signal to this thread waits.
fn without<T>(signal: NixSignal, act: impl FnOnce() -> T) -> T {
    let mut held = SigSet::empty();
    held.add(signal);
    let before = held.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let done = act();
    if let Ok(before) = before {
        // It was the mask of this thread a moment ago.
        let _ = before.thread_set_mask();
    }
    done
}

/// Lets this thread, and those that it starts afterwards, write to the terminal while a command has
/// it, also where `stty tostop` is set. For programs that run commands with
/// [`Stdin::Inherited`](super::Stdin::Inherited).
pub fn allow_background_output() {
    let mut stops = SigSet::empty();
    stops.add(NixSignal::SIGTTOU);
    // Where it is refused, a terminal that is set to `tostop` stops us, and `fg` goes on.
    let _ = stops.thread_block();
}

/// Whether somebody types into standard input: it is a terminal, and we are its foreground.
pub(super) fn is_typed() -> bool {
    isatty(io::stdin()) && tcgetpgrp(io::stdin()).is_ok_and(|foreground| foreground == getpgrp())
}

/// The user's terminal, lent to a command: it is the foreground, as if a shell had started it.
/// Dropped, the terminal is taken back.
pub(super) struct Lent {
    terminal: File,
    modes: Modes,
    /// Our own group, and the command's.
    own: Pid,
    group: Pid,
}

impl Lent {
    /// Lends the terminal, if this program has one; in its background, when it comes to the
    /// foreground.
    pub fn lend(group: Pid, modes: &Modes) -> Option<Self> {
        let terminal = File::options().read(true).write(true).open(TERMINAL).ok()?;
        let lent = Self {
            terminal,
            modes: modes.clone(),
            own: getpgrp(),
            group,
        };
        if lent.has(lent.own) {
            modes.save(&lent.terminal).ok()?;
            lent.give(group);
        }
        Some(lent)
    }

    fn give(&self, to: Pid) {
        if let Err(error) = without_stops(|| tcsetpgrp(&self.terminal, to)) {
            log::warn!("the terminal cannot be handed over: {error}");
        }
    }

    fn has(&self, group: Pid) -> bool {
        tcgetpgrp(&self.terminal).is_ok_and(|foreground| foreground == group)
    }

    /// The command was stopped by a signal. As a shell's job would, so stop we, and when we go on
    /// in the foreground, so does the command.
    pub fn stopped(&self, signal: i32) {
        let wants_terminal = signal == Signal::TTIN.as_raw() || signal == Signal::TTOU.as_raw();
        if wants_terminal && self.has(self.group) {
            // It looked at the terminal a moment before it was given to it.
            return;
        }
        let mut theirs = None;
        if self.has(self.group) {
            theirs = tcgetattr(&self.terminal).ok();
            self.give(self.own);
            if let Ok(modes) = self.modes.save_of(&self.terminal) {
                let _ = without_stops(|| tcsetattr(&self.terminal, OptionalActions::Now, &modes));
            }
        }
        // Everybody in our group, as the terminal would have done; and this thread, so that it does
        // not go on before the stop. Its own signal waits until both are sent: whichever stops us,
        // going on takes the other away, and we are not stopped a second time.
        without(NixSignal::SIGTSTP, || {
            let _ = raise(NixSignal::SIGTSTP);
            let _ = kill_current_process_group(Signal::TSTP);
        });
        if self.has(self.own) {
            if self.modes.is_empty() {
                // The first time that it is lent. Modes that cannot be read are not given back.
                let _ = self.modes.save(&self.terminal);
            }
            if let Some(theirs) = theirs {
                let _ = without_stops(|| tcsetattr(&self.terminal, OptionalActions::Now, &theirs));
            }
            self.give(self.group);
        }
    }

    /// Takes the terminal back. What the command has set stays set, unless it died.
    pub fn take_back(self, died: bool) {
        if !died {
            self.modes.forget();
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Where a shell has taken it meanwhile, it is the shell's.
        if self.has(self.group) {
            self.give(self.own);
        }
        self.modes.restore();
    }
}

impl Modes {
    /// How the terminal was set when it was saved.
    fn save_of(&self, terminal: impl AsFd) -> io::Result<Termios> {
        let saved = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*saved {
            Some((_, modes)) => Ok(modes.clone()),
            None => Ok(tcgetattr(terminal)?),
        }
    }
}

/// Every key goes through as it is typed, while this lives.
pub(super) struct Raw(Modes);

impl Raw {
    /// Sets the terminal at standard input so.
    pub fn begin(modes: &Modes) -> io::Result<Self> {
        let mut raw = modes.save(io::stdin())?;
        let guard = Self(modes.clone());
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(guard)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.0.restore();
    }
}
