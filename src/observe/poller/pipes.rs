//! The pipes of a session's panes: the opening in progress for each pane, and the owner of each pipe.

use std::collections::HashMap;

use crossbeam_channel::Receiver;

use crate::event::PaneId;
use crate::thread::Panicked;
use crate::tmux::{DrainMessage, Drains, PipeToken};

pub(in crate::observe) struct SessionPipes {
    drains: Drains,
    /// The openings that are requested from tmux.
    requested: HashMap<PaneId, PipeToken>,
    /// The pane that each pipe streams.
    owners: HashMap<PipeToken, PaneId>,
    /// The reason that prevents pipes from being opened has been logged.
    is_trouble_logged: bool,
    /// The reason, until the caller takes it.
    trouble: Option<String>,
}

impl SessionPipes {
    pub fn new(drains: Drains) -> Self {
        Self {
            drains,
            requested: HashMap::new(),
            owners: HashMap::new(),
            is_trouble_logged: false,
            trouble: None,
        }
    }

    /// Returns the channel of the drains' messages.
    pub fn messages(&self) -> &Receiver<DrainMessage> {
        self.drains.messages()
    }

    /// Returns the tmux command that opens the pipe of a pane; `None` if it cannot be prepared, which
    /// is logged once.
    pub fn open_command(&mut self, pane: &PaneId) -> Option<String> {
        match self.drains.prepare(pane) {
            Ok((token, command)) => {
                if let Some(earlier) = self.requested.insert(pane.clone(), token) {
                    self.drains.forget(earlier);
                }
                Some(command)
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_trouble_logged, true) {
                    log::warn!("cannot open pipes; falling back to polling: {error:?}");
                    self.trouble = Some(format!(
                        "cannot open pipes; falling back to polling: {error}"
                    ));
                }
                None
            }
        }
    }

    /// Takes the reason that prevents pipes from being opened; it is returned once.
    pub fn take_trouble(&mut self) -> Option<String> {
        self.trouble.take()
    }

    /// Takes the requested opening of a pane, whose reply has arrived.
    pub fn take_requested(&mut self, pane: &PaneId) -> Option<PipeToken> {
        self.requested.remove(pane)
    }

    /// Notes that this pipe streams a pane.
    pub fn set_owner(&mut self, pane: &PaneId, token: PipeToken) {
        self.owners.insert(token, pane.clone());
    }

    /// Returns the pane that a pipe streams.
    pub fn owner(&self, token: &PipeToken) -> Option<&PaneId> {
        self.owners.get(token)
    }

    /// Closes a pipe; its drain may be connected or still expected.
    pub fn close(&mut self, token: &PipeToken) {
        self.owners.remove(token);
        self.drains.forget(token.clone());
    }

    /// Ends a pipe after the bytes that its drain has received by now.
    pub fn finish(&self, token: &PipeToken) {
        self.drains.finish(token.clone());
    }

    /// Requests a mark behind the bytes that the drain has received by now.
    pub fn request_mark(&self, token: &PipeToken) {
        self.drains.mark(token.clone());
    }

    /// Discards the openings without a reply: all replies have arrived, so tmux did not open them.
    pub fn discard_requested(&mut self) {
        for (_, token) in self.requested.drain() {
            self.drains.forget(token);
        }
    }

    /// Ends all pipes.
    pub fn shutdown(self) -> Result<(), Panicked> {
        self.drains.shutdown()
    }
}
