//! The pipes of a session's panes: which opening is whose, and what is on its way.

use std::collections::HashMap;

use crossbeam_channel::Receiver;

use crate::event::PaneId;
use crate::thread::Panicked;
use crate::tmux::{DrainMessage, Drains, PipeToken};

/// The pipes of one session.
pub(in crate::observe) struct Pipes {
    drains: Drains,
    /// Openings that tmux has been asked for.
    asked: HashMap<PaneId, PipeToken>,
    /// Whose pipe is followed.
    owners: HashMap<PipeToken, PaneId>,
    /// What keeps pipes from being opened has been said.
    told: bool,
    /// And what it is, until somebody has taken it to say it.
    trouble: Option<String>,
}

impl Pipes {
    pub fn new(drains: Drains) -> Self {
        Self {
            drains,
            asked: HashMap::new(),
            owners: HashMap::new(),
            told: false,
            trouble: None,
        }
    }

    /// Where arrivals come.
    pub fn arrivals(&self) -> &Receiver<DrainMessage> {
        self.drains.messages()
    }

    /// The tmux command that opens the pipe of a pane; `None` when that cannot be prepared, which is
    /// said once.
    pub fn ask(&mut self, pane: &PaneId) -> Option<String> {
        match self.drains.prepare(pane) {
            Ok((token, command)) => {
                if let Some(earlier) = self.asked.insert(pane.clone(), token) {
                    self.drains.forget(earlier);
                }
                Some(command)
            }
            Err(error) => {
                if !std::mem::replace(&mut self.told, true) {
                    log::warn!("panes are polled: {error:?}");
                    self.trouble = Some(format!("panes are polled: {error}"));
                }
                None
            }
        }
    }

    /// What keeps pipes from being opened, once.
    pub fn trouble(&mut self) -> Option<String> {
        self.trouble.take()
    }

    /// The opening that was asked for, now that there is an answer.
    pub fn answered(&mut self, pane: &PaneId) -> Option<PipeToken> {
        self.asked.remove(pane)
    }

    /// A pane is followed by this pipe.
    pub fn follows(&mut self, pane: &PaneId, token: PipeToken) {
        self.owners.insert(token, pane.clone());
    }

    /// Whose pipe it is.
    pub fn owner(&self, token: &PipeToken) -> Option<&PaneId> {
        self.owners.get(token)
    }

    /// Nothing more is wanted of this pipe.
    pub fn close(&mut self, token: &PipeToken) {
        self.owners.remove(token);
        // Whether its drain has come or is expected.
        self.drains.forget(token.clone());
    }

    /// What there is by now is wanted of this pipe, and no more.
    pub fn finish(&self, token: &PipeToken) {
        self.drains.finish(token.clone());
    }

    /// It is to be said when all has come that is there by now.
    pub fn mark(&self, token: &PipeToken) {
        self.drains.mark(token.clone());
    }

    /// All answers have come: what is asked for still was not opened.
    pub fn forget_asked(&mut self) {
        for (_, token) in self.asked.drain() {
            self.drains.forget(token);
        }
    }

    /// Ends all of them.
    pub fn shutdown(self) -> Result<(), Panicked> {
        self.drains.shutdown()
    }
}
