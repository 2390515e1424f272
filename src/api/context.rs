//! The parts of the observer that requests use, and the views of panes by faces: a request for the screen of a
//! pane counts as a view.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::panes::Panes;
use crate::board::{Attention, Row};
use crate::bus::EventBus;
use crate::clock::Clock;
use crate::event::{PaneId, PaneViewer};
use crate::feed::Feed;
use crate::timestamp::Timestamp;

/// The shortest time between two `PaneSeen` events of a pane, unless its row has finished.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// The parts of the observer that requests use. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ApiContext {
    pub feed: Feed,
    /// The observer's bus, for views of panes by clients.
    pub bus: Arc<EventBus>,
    pub clock: Clock,
    /// The panes that clients can view and type into.
    pub panes: Panes,
}

impl ApiContext {
    /// Emits `PaneSeen` for a pane that a face has shown, unless the board already has a recent view.
    pub(super) fn note_view(&self, pane: &PaneId, socket: &Path) {
        let now = self.clock.wall();
        for row in self.feed.rows() {
            let is_due = row.pane.as_ref() == Some(pane) && is_due(&row, now);
            if is_due && self.is_of_server(&row, socket) {
                let emitter = self.bus.emitter_for(&row.execution_id);
                emitter.pane_seen(pane, PaneViewer::Face);
            }
        }
    }

    /// Returns true if a row belongs to the tmux server at a socket. Other servers may have a pane with the
    /// same id.
    fn is_of_server(&self, row: &Row, socket: &Path) -> bool {
        let run = self.feed.data().run(&row.execution_id);
        let metadata = run.metadata().ok().flatten();
        let identity = metadata.and_then(|metadata| metadata.identity);
        identity.is_some_and(|identity| Path::new(&identity.socket) == socket)
    }
}

/// Returns true if a view of the row must be reported: immediately if the row has finished; otherwise if it
/// has changed since the last view, at most once a minute.
fn is_due(row: &Row, now: Timestamp) -> bool {
    if row.has_ended() {
        // An ended row has no source that could emit.
        return false;
    }
    let Some(seen) = row.seen else {
        return true;
    };
    let age = now.micros().saturating_sub(seen.micros());
    let is_old = u128::try_from(age).is_ok_and(|age| age >= REPORT_INTERVAL.as_micros());
    let has_news = row.last_output.is_some_and(|at| at > seen) || row.since > seen;
    row.attention() == Attention::Finished || has_news && is_old
}
