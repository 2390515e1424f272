//! Requests to the gateway: the part of a server that a poller wants to know about, and when (pure).

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
    /// The server in which the session was found. A restarted server gives the same ids to other
    /// sessions.
    pub server: Option<ServerIdentity>,
    /// The last known name. A different name is a change, reported within a second. `None` requests
    /// names anew.
    pub name: Option<String>,
    /// The known panes. A pane that the session owns and that is missing here is new.
    pub panes: HashMap<PaneId, PaneRequest>,
    /// The treatment of new panes.
    pub new_panes: NewPanes,
    /// The panes that are known to be viewed; another view is a change. `None` ignores views.
    pub viewed: Option<HashSet<PaneId>>,
    /// The time of the reply.
    pub when: ReplyTime,
}

/// The time at which a request is replied to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ReplyTime {
    /// At once.
    #[default]
    Now,
    /// As soon as there is a change. Until then, the gateway polls on this schedule.
    OnChange(PollSchedule),
}

/// A request for one pane.
#[derive(Clone, Debug)]
pub enum PaneRequest {
    /// Only the pane's presence.
    Presence,
    /// A capture, once the pane's content has changed.
    Capture(CaptureRequest),
    /// The pane's presence, and a reply once its size or process differ from these.
    Shape(PaneNumbers),
    /// A capture now, with all that is needed to continue from it with the pane's bytes.
    Resync(ResyncRequest),
}

/// A request for a capture. Where the listing shows a full-screen program, the normal screen behind
/// it is captured, too.
#[derive(Clone, Debug)]
pub struct CaptureRequest {
    /// The digest of the last capture; without it, the pane is captured in any case.
    pub known: Option<CaptureDigest>,
    /// The rows of the history to capture beyond its growth.
    pub margin: Margin,
    /// From this time on (the gateway's time), an unchanged pane is news, too.
    pub settles_at: Option<Duration>,
    /// The pane is not captured before the listing shows a change: another size, cursor or history,
    /// or, where its window has no other pane, a later second of activity.
    pub is_resting: bool,
}

/// A request for a capture from which the poller continues with the pane's bytes.
#[derive(Clone, Debug)]
pub struct ResyncRequest {
    /// The rows of the history to capture.
    pub margin: Margin,
    /// The digest of the last capture, from which the growth of the history is computed.
    pub known: Option<CaptureDigest>,
    /// The steps besides the capture.
    pub spec: ResyncSpec,
}

/// The treatment of panes that a session owns and that the request does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewPanes {
    /// They are captured to the depth of a baseline, saved screen included.
    #[default]
    Capture,
    /// They are listed only.
    List,
}

/// The programs in the foreground of the panes of a listing. The server reads their names from the
/// kernel, one pane after the other, which takes as long as all the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ForegroundPrograms {
    /// [`PaneState::command`](super::PaneState::command) is empty unless another request needed it,
    /// and the listing may be 200 ms old.
    #[default]
    Omitted,
    /// The listing names them.
    Included,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ListingRequest {
    pub programs: ForegroundPrograms,
    /// A listing taken before the request is not enough.
    pub is_fresh: bool,
    /// A known listing: the reply comes once it no longer holds.
    pub known: Option<Arc<Listing>>,
}
