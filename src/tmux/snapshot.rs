//! A snapshot of a server: a listing and the screens captured with it (pure).

use std::collections::HashMap;
use std::sync::Arc;

use super::digest::{CaptureDigest, Freshness};
use super::listing::Listing;
use super::speculation::Speculations;
use super::state::PaneState;

/// The known state of a server at one time.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub listing: Arc<Listing>,
    /// The number of the listing, counted by the gateway.
    pub number: u64,
    /// The time just before the query.
    pub freshness: Freshness,
    /// True if the server was queried for it.
    pub is_new: bool,
    /// The requested screens, by pane number.
    pub screens: HashMap<u32, String>,
    pub speculations: Speculations,
}

impl Snapshot {
    /// Returns true if the listing shows that a pane was active. It dates only the activity of windows.
    pub fn shows_activity(&self, known: &CaptureDigest, listed: &PaneState) -> bool {
        let is_alone = || {
            let mut panes = self.listing.panes.iter();
            !panes.any(|other| other.window_id == listed.window_id && other.pane != listed.pane)
        };
        known.window_activity != listed.window_activity && is_alone()
    }
}
