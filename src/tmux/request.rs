//! Requests to the gateway: the part of a server that a poller observes, and the time of the reply (pure).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::capture::ResyncSpec;
use super::depth::Margin;
use super::digest::CaptureDigest;
use super::id::SessionId;
use super::listing::{Listing, ServerIdentity};
use super::schedule::PollSchedule;
use crate::event::PaneId;
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
    /// The treatment of new panes.
    pub new_panes: NewPanes,
    /// The panes that are known to be viewed; a different view is a change. `None` ignores views.
    pub viewed: Option<HashSet<PaneId>>,
    /// The time of the reply.
    pub when: ReplyTime,
}

/// The time at which a request is replied to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ReplyTime {
    /// Immediately.
    #[default]
    Now,
    /// As soon as something has changed. Until then, the gateway polls on this schedule.
    OnChange(PollSchedule),
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
    /// From this time on (the gateway's time), an unchanged pane also counts as a change.
    pub settles_at: Option<Duration>,
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

/// The treatment of panes that a session owns and that are not in the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewPanes {
    /// New panes are captured to the depth of a baseline, including the saved screen.
    #[default]
    Capture,
    /// New panes are only listed.
    List,
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
