//! The pipes of a session's panes: the opening in progress for each pane, and the owner of each pipe.

use std::collections::HashMap;

use crate::event::PaneId;
use crate::tmux::{DrainOrder, Drains, PipeToken};

pub(in crate::observe) struct SessionPipes {
    pub drains: Drains,
    /// The openings that are requested from tmux.
    pub requested: HashMap<PaneId, PipeToken>,
    /// The pane that each pipe streams.
    pub owners: HashMap<PipeToken, PaneId>,
    /// The reason that prevents pipes from being opened has been logged.
    is_trouble_logged: bool,
    /// The reason, until the caller takes it.
    pub trouble: Option<String>,
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

    /// Returns the tmux command that opens the pipe of a pane; `None` if it cannot be prepared, which
    /// is logged once.
    pub fn open_command(&mut self, pane: &PaneId) -> Option<String> {
        match self.drains.prepare(pane) {
            Ok((token, command)) => {
                if let Some(earlier) = self.requested.insert(pane.clone(), token) {
                    self.drains.order(DrainOrder::Forget(earlier));
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

    /// Closes a pipe; its drain may be connected or still expected.
    pub fn close(&mut self, token: &PipeToken) {
        self.owners.remove(token);
        self.drains.order(DrainOrder::Forget(token.clone()));
    }

    /// Discards the openings without a reply: all replies have arrived, so tmux did not open them.
    pub fn discard_requested(&mut self) {
        for (_, token) in self.requested.drain() {
            self.drains.order(DrainOrder::Forget(token));
        }
    }
}
