//! The control of a running command, for another thread.

use crossbeam_channel::{Receiver, Sender, bounded};
use rustix::process::Signal;

use super::terminal::SavedModes;
use crate::child::KillHandle;

/// The number of requests that wait: the first one terminates the command, further ones change nothing.
const REQUESTS_MAX: usize = 1;

/// Ends one command from any thread; see [`Command::control`](super::Command::control). Clones control
/// the same command.
#[derive(Clone, Debug)]
pub struct CommandControl {
    requests: Sender<Signal>,
    pub(super) signals: Receiver<Signal>,
    pub(super) kill_handle: KillHandle,
    pub(super) modes: SavedModes,
}

impl Default for CommandControl {
    fn default() -> Self {
        Self::new()
    }
}

impl CommandControl {
    /// Creates a control that is not connected with a command yet.
    pub fn new() -> Self {
        let (requests, signals) = bounded(REQUESTS_MAX);
        Self {
            requests,
            signals,
            kill_handle: KillHandle::default(),
            modes: SavedModes::default(),
        }
    }

    /// Terminates the command with a signal (`SIGTERM` is 15), as its timeout does. It is killed after its
    /// grace period.
    pub fn end(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            // A full channel has a request already.
            let _ = self.requests.try_send(signal);
        }
    }

    /// Kills the command and its group at once, and restores the terminal: for a program that must exit
    /// immediately.
    pub fn kill(&self) {
        self.kill_handle.kill();
        self.modes.restore();
    }
}
