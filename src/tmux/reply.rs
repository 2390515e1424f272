//! Replies of the gateway: the state of a session and of its panes (pure).

use std::collections::HashMap;

use super::capture::{PaneCapture, ResyncData};
use super::digest::{CaptureDigest, Freshness};
use super::state::PaneState;
use crate::event::PaneId;
use crate::track::Capture;

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
    Captured {
        /// The pane's numbers, of the same instant.
        state: PaneState,
        /// The pane's content.
        capture: Box<Capture>,
        /// The digest to pass with the next request.
        digest: Box<CaptureDigest>,
        /// The data that a resync needs, where it was requested.
        resync: Option<Box<ResyncData>>,
    },
}

impl PaneReply {
    /// Returns the pane's state.
    pub fn state(&self) -> &PaneState {
        match self {
            Self::Unchanged(state, _) | Self::Listed(state) | Self::Captured { state, .. } => state,
        }
    }

    /// Builds the reply from a capture and the listed state of the pane. `queried` is the time just
    /// before the capture.
    pub(super) fn captured(listed: PaneState, pane: PaneCapture, queried: Freshness) -> Self {
        let PaneCapture {
            mut state,
            mut capture,
            screen,
            second,
            resync,
        } = pane;
        state.keep_pid(listed.pid);
        state.title.clone_from(&listed.title);
        (capture.pid, capture.dead, capture.at) = (state.pid, state.dead, queried.at);
        let freshness = Freshness {
            at: queried.at,
            second: second.unwrap_or(queried.second),
            server_bytes: capture.bytes_before,
        };
        let digest = Box::new(CaptureDigest::new(&state, screen, freshness));
        // tmux reaches a linked pane through any of its windows. The listing has the names and
        // indexes of the window that owns it.
        state.adopt_owner(listed);
        Self::Captured {
            state,
            capture: Box::new(capture),
            digest,
            resync: resync.map(Box::new),
        }
    }
}
