//! Replies of the gateway: the state of a session and of its panes (pure).

use std::collections::HashMap;

use super::capture::PaneCapture;
use super::digest::Freshness;
use super::state::PaneState;
use crate::event::PaneId;

/// The state of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionReply {
    /// The server has no such session, or no longer has it.
    Gone {
        /// The panes of the request, all of which have left the session.
        departed: HashMap<PaneId, DepartedPane>,
    },
    /// Another server runs at the socket.
    OtherServer,
    /// The session exists.
    Present {
        /// The session's current name.
        name: String,
        /// The panes that it currently owns. Other panes have closed or belong to another session.
        panes: Vec<PaneReply>,
        /// The requested panes that it no longer owns.
        departed: HashMap<PaneId, DepartedPane>,
    },
}

/// A pane that has left its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepartedPane {
    /// The last time at which the pane certainly had the known content; `None` if no capture was known.
    pub freshness: Option<Freshness>,
    /// True if the pane exists and belongs to another session.
    pub moved: bool,
}

/// The state of one pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaneReply {
    /// The pane still has the known content.
    Unchanged(PaneState, Freshness),
    /// The pane exists. Its content was not requested, or is not certain yet.
    Listed(PaneState),
    /// The pane was captured.
    Captured(Box<PaneCapture>),
}

impl PaneReply {
    /// Returns the pane's state, so that the caller can complete it.
    pub(crate) fn state_mut(&mut self) -> &mut PaneState {
        match self {
            Self::Unchanged(state, _) | Self::Listed(state) => state,
            Self::Captured(pane) => &mut pane.state,
        }
    }

    /// Returns the pane's state.
    pub fn state(&self) -> &PaneState {
        match self {
            Self::Unchanged(state, _) | Self::Listed(state) => state,
            Self::Captured(pane) => &pane.state,
        }
    }
}
