//! Ending a command from another thread.

use crossbeam_channel::{Receiver, Sender, bounded};
use rustix::process::Signal;

use super::terminal::Modes;
use crate::child::Leash;

/// Orders that wait: the first one ends the command, more change nothing.
const ORDERS: usize = 1;

/// Ends the command that it was given to, from any thread; see
/// [`Command::control`](super::Command::control). It is for one command.
#[derive(Clone, Debug)]
pub struct CommandControl {
    give: Sender<Signal>,
    pub(super) orders: Receiver<Signal>,
    pub(super) leash: Leash,
    pub(super) modes: Modes,
}

impl Default for CommandControl {
    fn default() -> Self {
        Self::new()
    }
}

impl CommandControl {
    /// For a command.
    pub fn new() -> Self {
        let (give, orders) = bounded(ORDERS);
        Self {
            give,
            orders,
            leash: Leash::default(),
            modes: Modes::default(),
        }
    }

    /// Asks the command to end with a signal (`SIGTERM` is 15), as its timeout does; when its
    /// grace is over it is killed.
    pub fn end(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            // There is an order already.
            let _ = self.give.try_send(signal);
        }
    }

    /// Kills the command and its group at once, and gives the terminal back: the last act of a
    /// program that must end.
    pub fn kill(&self) {
        self.leash.kill();
        self.modes.restore();
    }
}
