//! The panes that each watch of an engine observes, so that two watches never report the same line.
//!
//! A pane belongs to the first watch that selects it, and later ones leave it out. When that watch ends, they
//! find the pane free.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::client_views::{ClientView, ClientViews};
use super::observed_sessions::SessionKey;
use super::poller::panes::Selection;
use crate::thread::lock;
use crate::tmux::{Listing, PaneState};

/// The claims of all watches of an engine.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchClaims(Arc<Mutex<Claims>>);

#[derive(Debug, Default)]
struct Claims {
    next: u64,
    /// Incremented when a watch gives something up.
    releases: u64,
    held: HashMap<u64, HashMap<SessionKey, Selection>>,
    /// What clients show of these panes.
    views: ClientViews,
}

impl WatchClaims {
    /// Adds a watch, without claims.
    pub(super) fn join(&self) -> WatchClaim {
        let mut claims = lock(&self.0);
        claims.next += 1;
        WatchClaim {
            id: claims.next,
            claims: Arc::clone(&self.0),
            releases: claims.releases,
            is_refused: false,
        }
    }

    /// Returns what clients show of the panes that the watches observe.
    pub(super) fn views(&self) -> ClientViews {
        lock(&self.0).views.clone()
    }
}

/// The claims of one watch, which are released when it is dropped.
#[derive(Debug)]
pub(super) struct WatchClaim {
    id: u64,
    claims: Arc<Mutex<Claims>>,
    /// The releases at the last claim.
    releases: u64,
    /// Another watch has some of the wanted panes.
    is_refused: bool,
}

impl WatchClaim {
    /// Claims what these selections contain and no other watch has, in place of earlier claims. Removes the
    /// rest from the selections.
    pub fn claim(&mut self, wanted: &mut [(SessionKey, Selection)], listing: &Listing) {
        let mut claims = lock(&self.claims);
        self.releases = claims.releases;
        self.is_refused = false;
        let others = claims.held.iter().filter(|(id, _)| **id != self.id);
        for (key, other) in others.flat_map(|(_, held)| held) {
            let mine = wanted.iter_mut().filter(|(wanted, _)| wanted == key);
            for (_, selection) in mine {
                let panes = listing.panes_of(key.session).map(PaneState::pane);
                let (taken, free): (Vec<_>, Vec<_>) = panes.partition(|pane| other.contains(pane));
                self.is_refused |= taken.iter().any(|pane| selection.contains(pane));
                if other.only.is_none() && selection.only.is_none() {
                    // Future panes are the other's, too.
                    selection.only = Some(free.into_iter().collect());
                }
                selection.leave_out.extend(taken);
            }
        }
        let before = claims
            .held
            .insert(self.id, wanted.iter().cloned().collect());
        let kept = |key: &SessionKey| wanted.iter().any(|(wanted, _)| wanted == key);
        if before.is_some_and(|before| !before.keys().all(kept)) {
            claims.releases += 1;
        }
    }

    /// Sets what clients show of the claimed panes.
    pub fn set_views(&mut self, views: Vec<ClientView>) {
        lock(&self.claims).views.set(self.id, views);
    }

    /// Returns true if another watch has some of the wanted panes.
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Returns true if another watch has released panes since the last claim.
    pub fn may_get_more(&self) -> bool {
        self.is_refused && lock(&self.claims).releases != self.releases
    }
}

impl Drop for WatchClaim {
    fn drop(&mut self) {
        let mut claims = lock(&self.claims);
        claims.held.remove(&self.id);
        claims.views.remove(self.id);
        claims.releases += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::PaneId;
    use crate::tmux::listing_of;

    #[test]
    fn a_pane_belongs_to_the_first_watch_until_it_ends() {
        let listing = listing_of(&[(1, "a"), (2, "b"), (3, "b")]);
        let all = || -> Vec<(SessionKey, Selection)> {
            let key = |session| SessionKey::new(&listing.server, session);
            let sessions = listing.sessions();
            sessions
                .map(|session| (key(session.id), Selection::default()))
                .collect()
        };
        let panes = |wanted: &[(SessionKey, Selection)]| -> Vec<String> {
            let of = |(key, selection): &(SessionKey, Selection)| {
                let panes = listing.panes_of(key.session).map(PaneState::pane);
                let selected = panes.filter(|pane| selection.contains(pane));
                selected.map(|pane| pane.to_string()).collect::<Vec<_>>()
            };
            wanted.iter().flat_map(of).collect()
        };
        let claims = WatchClaims::default();
        let (mut first, mut second) = (claims.join(), claims.join());
        let mut wanted = all();
        wanted.retain(|(key, _)| listing.panes_of(key.session).count() == 2);
        wanted[0].1.only = Some([PaneId::from("%3")].into());
        first.claim(&mut wanted, &listing);
        assert_eq!(panes(&wanted), ["%3"]);
        let mut wanted = all();
        second.claim(&mut wanted, &listing);
        assert_eq!(panes(&wanted), ["%1", "%2"]);
        assert!(second.is_refused() && !second.may_get_more());
        // A third one gets nothing, not even future panes.
        let mut third = claims.join();
        let mut wanted = all();
        third.claim(&mut wanted, &listing);
        assert_eq!(panes(&wanted), [""; 0]);
        assert!(wanted.iter().all(|(_, selection)| selection.only.is_some()));
        // The first one keeps what it has, and then ends.
        drop(first);
        assert!(second.may_get_more());
        let mut wanted = all();
        second.claim(&mut wanted, &listing);
        assert_eq!(panes(&wanted), ["%1", "%2", "%3"]);
        assert!(!second.is_refused());
    }
}
