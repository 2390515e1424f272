//! The control of a running command, for another thread.

use crossbeam_channel::{Receiver, Sender, bounded};
use rustix::process::Signal;

use super::terminal::SavedModes;
use crate::child::KillHandle;

/// The capacity of the request channel. The first request terminates the command; further ones have no
/// effect.
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
    /// Creates a control that is not connected to a command yet.
    pub fn new() -> Self {
        let (requests, signals) = bounded(REQUESTS_MAX);
        Self {
            requests,
            signals,
            kill_handle: KillHandle::default(),
            modes: SavedModes::default(),
        }
    }

    /// Terminates the command with a signal (`SIGTERM` is 15), and kills it after its grace period, as its
    /// timeout does.
    pub fn end(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            // A full channel already has a request.
            let _ = self.requests.try_send(signal);
        }
    }

    /// Kills the command and its group immediately and restores the terminal, for a program that must exit.
    pub fn kill(&self) {
        self.kill_handle.kill();
        self.modes.restore();
    }
}
