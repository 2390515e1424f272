//! Replies of the gateway: the state of a session and of its panes (pure).

use std::collections::HashMap;

use super::capture::PaneCapture;
use super::digest::Freshness;
use super::state::PaneState;
use crate::event::PaneId;

/// The state of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionReply {
    /// This server has no such session (any more).
    Gone {
        /// The panes of the request, all of which have left the session.
        departed: HashMap<PaneId, DepartedPane>,
    },
    /// Another server runs at the socket.
    OtherServer,
    /// The session exists.
    Present {
        /// Its name now.
        name: String,
        /// The time of its creation, in seconds since 1970.
        created: i64,
        /// The panes that it owns now. Other panes are gone or belong to another session.
        panes: Vec<PaneReply>,
        /// The panes of the request that it no longer owns.
        departed: HashMap<PaneId, DepartedPane>,
    },
}

/// A pane that has left its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepartedPane {
    /// The last time at which the pane was certain to show the known capture; `None` if no capture was known.
    pub freshness: Option<Freshness>,
    /// The pane exists and belongs to another session.
    pub moved: bool,
}

/// The state of one pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaneReply {
    /// The pane still shows the known capture.
    Unchanged(PaneState, Freshness),
    /// The pane exists. Its content was not requested, or is not certain yet.
    Listed(PaneState),
    /// The pane was captured.
    Captured(Box<PaneCapture>),
}

impl PaneReply {
    /// Returns the pane's state, to add what the reply does not contain.
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
