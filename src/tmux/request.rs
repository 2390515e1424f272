//! Requests to the gateway and their replies: the part of a server that a poller observes, and its state.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvError, Sender, bounded, select_biased};

use super::capture::{PaneCapture, ResyncSpec};
use super::digest::{CaptureDigest, Freshness, Margin};
use super::listing::{Listing, ServerIdentity};
use super::schedule::PollSchedule;
use super::state::{GivenNames, PaneState, SessionId};
use crate::error::{Error, Result};
use crate::event::PaneId;
use crate::thread::Stop;
use crate::track::PaneNumbers;

/// A request for one session and its panes.
#[derive(Clone, Debug, Default)]
pub struct SessionRequest {
    /// The session.
    pub session_id: SessionId,
    /// The server on which the session was found. A restarted server assigns the same ids to other sessions.
    pub server: Option<ServerIdentity>,
    /// The last known name. A different name is a change, reported within a second. `None` requests current
    /// names.
    pub name: Option<String>,
    /// The known panes. A pane that the session owns and that is not listed here is new.
    pub panes: HashMap<PaneId, PaneRequest>,
    /// True if new panes are only listed. Otherwise they are captured to the depth of a baseline, including the
    /// saved screen.
    pub lists_new_panes: bool,
    /// The panes that are known to be viewed; a different view is a change. `None` ignores views.
    pub viewed: Option<HashSet<PaneId>>,
    /// The names that have been given to the panes, as far as they are known; another name is a change. `None`
    /// ignores them.
    pub given_names: Option<HashMap<PaneId, GivenNames<String>>>,
    /// `None` requests a reply at once. Otherwise the reply comes as soon as something has changed; until then,
    /// the gateway polls on this schedule.
    pub on_change: Option<PollSchedule>,
}

/// A request for one pane.
#[derive(Clone, Debug)]
pub enum PaneRequest {
    /// Reports only that the pane exists.
    Presence,
    /// Captures the pane once its content has changed.
    Capture(CaptureRequest),
    /// Reports that the pane exists, and replies once its size or process differs from these numbers.
    Shape(PaneNumbers),
    /// Captures the pane now, with all data needed to continue with its bytes.
    Resync(ResyncRequest),
}

/// A request for a capture. If the listing shows a full-screen program, the normal screen behind it is also
/// captured.
#[derive(Clone, Debug)]
pub struct CaptureRequest {
    /// The digest of the last capture. Without it, the pane is always captured.
    pub known: Option<CaptureDigest>,
    /// The number of history rows to capture in addition to its growth.
    pub margin: Margin,
    /// At this time (the gateway's), the pane is captured again, or confirmed as unchanged if it certainly is.
    pub again_at: Option<Duration>,
    /// The pane is not captured before the listing shows a change: another size, cursor or history, or, if
    /// its window has no other pane, a later second of activity.
    pub is_resting: bool,
}

/// A request for a capture from which the poller continues with the pane's bytes.
#[derive(Clone, Debug)]
pub struct ResyncRequest {
    /// The number of history rows to capture.
    pub margin: Margin,
    /// The digest of the last capture, from which the growth of the history is computed.
    pub known: Option<CaptureDigest>,
    /// The additional steps of the capture.
    pub spec: ResyncSpec,
}

/// The programs in the foreground of the listed panes. The server reads their names from the kernel, one pane
/// after the other, which takes as long as the rest of the listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ForegroundPrograms {
    /// [`PaneState::command`](super::PaneState::command) is empty unless another request needed it, and the
    /// listing may be up to 200 ms old.
    #[default]
    Omitted,
    /// The listing contains them.
    Included,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ListingRequest {
    pub programs: ForegroundPrograms,
    /// True if a listing taken before the request does not suffice.
    pub is_fresh: bool,
    /// A known listing. The reply is sent once it no longer holds.
    pub known: Option<Arc<Listing>>,
}

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

/// The gateway's end of a request, which sends the reply.
#[derive(Debug)]
pub(super) struct ReplySender<T> {
    sender: Sender<Result<T>>,
    requester: Weak<()>,
}

impl<T> ReplySender<T> {
    /// Returns true if the requester is still waiting for the reply.
    pub fn is_awaited(&self) -> bool {
        self.requester.strong_count() > 0
    }

    pub fn send(self, reply: Result<T>) {
        // The channel has room for its only reply. If it is closed, the requester has gone away.
        let _ = self.sender.try_send(reply);
    }
}

/// A reply that has not arrived yet. Dropping it withdraws the request.
#[derive(Debug)]
#[must_use = "a request whose reply is dropped is withdrawn"]
pub struct PendingReply<T> {
    receiver: Receiver<Result<T>>,
    /// Closed once the gateway's thread has ended, even by a panic.
    ended: Stop,
    _requester: Arc<()>,
}

impl<T> PendingReply<T> {
    /// Creates both ends of a request.
    pub(super) fn new(ended: Stop) -> (ReplySender<T>, Self) {
        // Each request has exactly one reply.
        let (sender, receiver) = bounded(1);
        let requester = Arc::new(());
        let reply_to = ReplySender {
            sender,
            requester: Arc::downgrade(&requester),
        };
        let pending = Self {
            receiver,
            ended,
            _requester: requester,
        };
        (reply_to, pending)
    }

    /// Waits for the reply.
    ///
    /// # Errors
    /// `is_gone()` without a server or when the gateway has ended; `is_timeout()` if the server hangs.
    pub fn wait(self) -> Result<T> {
        let never: Stop = crossbeam_channel::never();
        self.wait_or(&never).unwrap_or_else(|| Err(ended()))
    }

    /// Returns the channel of the reply, for a requester that selects over several channels. It is closed
    /// without a reply when the gateway ends; [`PendingReply::wait`] then returns the error.
    pub(crate) fn receiver(&self) -> &Receiver<Result<T>> {
        &self.receiver
    }

    /// Waits for the reply; returns `None` once `interrupt` is ready (a stop or a deadline).
    pub(crate) fn wait_or<I>(self, interrupt: &Receiver<I>) -> Option<Result<T>> {
        // The reply has priority, because the gateway may have sent it just before its end.
        select_biased! {
            recv(self.receiver) -> reply => Some(received(reply)),
            recv(interrupt) -> _ => None,
            recv(self.ended) -> _ => {
                Some(self.receiver.try_recv().unwrap_or_else(|_| Err(ended())))
            }
        }
    }
}

/// Returns what a receiver of replies got; `is_gone()` when the gateway has ended instead.
pub(crate) fn received<T>(reply: std::result::Result<Result<T>, RecvError>) -> Result<T> {
    reply.unwrap_or_else(|_| Err(ended()))
}

pub(super) fn ended() -> Error {
    Error::gone("the tmux gateway has ended")
}
