//! Selects the sessions and panes of a listing that match the user's targets (pure, except for
//! warnings about targets that do not exist).
//!
//! A name matches what has it now and what had it while it was watched: a renamed session, window or
//! pane is followed by its id. Another session that takes the name is watched, too.

use std::collections::{HashMap, HashSet};

use crate::event::PaneId;
use crate::observe::poller::panes::Selection;
use crate::observe::watch::Watch;
use crate::tmux::{ListedSession, Listing, PaneState, Server, ServerIdentity, SessionId, Target};

/// Logs which targets of a watch, or whether its server, do not exist yet, for a caller that observes nothing
/// itself. `None` means that no server is running.
#[cfg(feature = "cli")]
pub(crate) fn report_absent(watch: &Watch, listing: Option<&Listing>) {
    let mut targets = WatchTargets::new(watch);
    if let Some(listing) = listing {
        targets.select(listing, |_| false);
    }
    targets.report_absent(&watch.server, listing.is_some());
}

/// The targets that the user named, and those that have existed.
#[derive(Debug)]
pub(super) struct WatchTargets {
    /// Empty to watch everything.
    targets: Vec<WatchTarget>,
    leave_out: Vec<PaneId>,
    include_observers: bool,
    is_no_server_reported: bool,
    /// The server whose ids are followed.
    server: Option<ServerIdentity>,
}

#[derive(Debug)]
struct WatchTarget {
    target: Target,
    /// The ids that the target has resolved to, without those that are gone.
    followed: Vec<Target>,
    /// The target has existed.
    was_found: bool,
    is_absence_reported: bool,
}

impl WatchTargets {
    pub fn new(watch: &Watch) -> Self {
        let named = |target: &Target| WatchTarget {
            target: target.clone(),
            followed: Vec::new(),
            was_found: false,
            is_absence_reported: watch.reported_absent.contains(target),
        };
        Self {
            targets: watch.targets.iter().map(named).collect(),
            leave_out: watch.leave_out.clone(),
            include_observers: watch.include_observers,
            is_no_server_reported: false,
            server: None,
        }
    }

    /// Returns the sessions to watch, each with its selected panes.
    pub fn select<'a>(
        &mut self,
        listing: &'a Listing,
        is_observer: impl Fn(&PaneState) -> bool,
    ) -> Vec<(ListedSession<'a>, Selection)> {
        if self.server.as_ref() != Some(&listing.server) {
            // Another server assigns the same ids to other panes.
            self.server = Some(listing.server.clone());
            self.targets
                .iter_mut()
                .for_each(|target| target.followed.clear());
        }
        let mut named: HashMap<SessionId, HashSet<PaneId>> = HashMap::new();
        for target in &mut self.targets {
            target.follow(listing);
            for state in target.resolve(listing) {
                target.was_found = true;
                named
                    .entry(state.session_id)
                    .or_default()
                    .insert(state.pane());
            }
        }
        let selected = listing.sessions().filter_map(|session| {
            let only = match self.targets.is_empty() {
                true => None,
                false => self.only(named.remove(&session.id)?, listing, session.id),
            };
            let left_out = |state: &&PaneState| {
                !self.include_observers && is_observer(state)
                    || self.leave_out.contains(&state.pane())
            };
            let panes = listing.panes_of(session.id);
            let leave_out = panes.filter(left_out).map(PaneState::pane).collect();
            Some((session, Selection { only, leave_out }))
        });
        selected.collect()
    }

    /// Returns the selected panes of a session, or `None` for all of them, including future ones.
    fn only(
        &self,
        named: HashSet<PaneId>,
        listing: &Listing,
        session: SessionId,
    ) -> Option<HashSet<PaneId>> {
        let all = listing
            .panes_of(session)
            .all(|state| named.contains(&state.pane()));
        let mut targets = self.targets.iter();
        let names_panes = targets.any(|target| target.target.may_be_part(listing));
        (!all || names_panes).then_some(named)
    }

    /// Returns true if there are targets and all of them have existed.
    pub fn all_found(&self) -> bool {
        !self.targets.is_empty() && self.targets.iter().all(|target| target.was_found)
    }

    /// Returns true if a target exists.
    pub fn any_exists(&self, listing: &Listing) -> bool {
        let is_same = self.server.as_ref() == Some(&listing.server);
        let mut targets = self.targets.iter();
        targets.any(|target| match is_same {
            true => !target.resolve(listing).is_empty(),
            false => !target.target.resolve(listing).is_empty(),
        })
    }

    /// Logs once that a target or the server does not exist yet.
    pub fn report_absent(&mut self, server: &Server, is_running: bool) {
        if self.all_found() {
            return;
        }
        if !is_running {
            if !std::mem::replace(&mut self.is_no_server_reported, true) {
                log::warn!("no tmux server is running at {server}: waiting for it");
            }
            return;
        }
        for target in self.targets.iter_mut().filter(|target| !target.was_found) {
            if !std::mem::replace(&mut target.is_absence_reported, true) {
                let reading = target.target.reading();
                let reading = reading.map_or_else(String::new, |reading| format!(" ({reading})"));
                let text = target.target.as_str();
                log::warn!("{text:?}{reading} does not exist yet: waiting for it");
            }
        }
    }
}

impl WatchTarget {
    /// Notes the ids that have the name now.
    fn follow(&mut self, listing: &Listing) {
        self.followed.retain(|id| !id.resolve(listing).is_empty());
        for id in self.target.identity(listing) {
            if !self.followed.contains(&id) {
                self.followed.push(id);
            }
        }
    }

    /// Returns the panes that have the name, or had it.
    fn resolve(&self, listing: &Listing) -> Vec<PaneState> {
        let mut panes = self.target.resolve(listing);
        for id in &self.followed {
            for state in id.resolve(listing) {
                if panes.iter().all(|known| known.pane() != state.pane()) {
                    panes.push(state);
                }
            }
        }
        panes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tmux::listing_of;

    fn targets_of(targets: &[&str]) -> WatchTargets {
        let mut watch = Watch::new(Server::default());
        for target in targets {
            watch = watch.target(Target::parse(target).unwrap());
        }
        WatchTargets::new(&watch)
    }

    fn selected(
        targets: &mut WatchTargets,
        listing: &Listing,
    ) -> Vec<(String, Option<usize>, usize)> {
        let is_observer = |state: &PaneState| state.pane() == "%3";
        let selected = targets.select(listing, is_observer).into_iter();
        selected
            .map(|(session, selection)| {
                let only = selection.only.map(|only| only.len());
                (session.name.to_owned(), only, selection.leave_out.len())
            })
            .collect()
    }

    #[test]
    fn without_targets_everything_but_observers_is_watched() {
        let listing = listing_of(&[(1, "a"), (2, "b"), (3, "b")]);
        let got = selected(&mut targets_of(&[]), &listing);
        assert_eq!(got, [("a".to_owned(), None, 0), ("b".to_owned(), None, 1)]);
    }

    #[test]
    fn a_session_means_all_of_it_and_a_pane_itself() {
        let listing = listing_of(&[(1, "a"), (2, "b"), (3, "b")]);
        let got = selected(&mut targets_of(&["b"]), &listing);
        assert_eq!(got, [("b".to_owned(), None, 1)]);
        let got = selected(&mut targets_of(&["%2"]), &listing);
        assert_eq!(got, [("b".to_owned(), Some(1), 1)]);
        let got = selected(&mut targets_of(&["%1", "a"]), &listing);
        assert_eq!(got, [("a".to_owned(), Some(1), 0)]);
        let dotted = listing_of(&[(1, "api.v2"), (2, "api.v2")]);
        let got = selected(&mut targets_of(&["api.v2"]), &dotted);
        assert_eq!(got, [("api.v2".to_owned(), None, 0)], "a name, not a part");
    }

    #[test]
    fn a_renamed_session_is_followed() {
        let mut targets = targets_of(&["old"]);
        let names = |targets: &mut WatchTargets, listing: &Listing| -> Vec<String> {
            let selected = selected(targets, listing).into_iter();
            selected.map(|(name, ..)| name).collect()
        };
        let mut listing = listing_of(&[(1, "old"), (2, "x")]);
        assert_eq!(names(&mut targets, &listing), ["old"]);
        listing.panes[0].session_name = "new".to_owned();
        let renamed = listing.clone();
        assert_eq!(names(&mut targets, &renamed), ["new"]);
        assert!(targets.any_exists(&renamed));
        // Another session that takes the name is watched, too.
        listing.panes[1].session_name = "old".to_owned();
        assert_eq!(names(&mut targets, &listing), ["new", "old"]);
        // Another server's sessions have the same ids.
        let mut restarted = renamed.clone();
        restarted.server.start_time += 1;
        assert!(!targets.any_exists(&restarted));
        assert_eq!(names(&mut targets, &restarted), [""; 0]);
    }

    #[test]
    fn watching_ends_when_all_targets_have_appeared_and_gone() {
        let mut targets = targets_of(&["a", "b"]);
        let (first, both) = (listing_of(&[(1, "a")]), listing_of(&[(1, "a"), (2, "b")]));
        selected(&mut targets, &first);
        assert!(!targets.all_found() && targets.any_exists(&first));
        selected(&mut targets, &both);
        assert!(targets.all_found());
        assert!(!targets.any_exists(&listing_of(&[(4, "c")])));
    }
}
