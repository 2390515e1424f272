//! Which sessions and panes of a listing are watched, by what the user named (pure, but for what it
//! says on stderr of targets that are not there).
//!
//! A name means what has it now, and what had it when it was watched: a session that is renamed is
//! followed by its id, and so is a window or a pane in it. Another session that takes the name is
//! watched, too.

use std::collections::{HashMap, HashSet};

use crate::event::PaneId;
use crate::observe::poller::panes::Selection;
use crate::observe::watch::Watch;
use crate::tmux::{ListedSession, Listing, PaneState, Server, ServerIdentity, SessionId, Target};

/// The targets that the user named, and those that have existed.
#[derive(Debug)]
pub(super) struct WatchTargets {
    /// None: everything.
    targets: Vec<WatchTarget>,
    leave_out: Vec<PaneId>,
    include_observers: bool,
    told_no_server: bool,
    /// The server whose ids are followed.
    server: Option<ServerIdentity>,
}

#[derive(Debug)]
struct WatchTarget {
    target: Target,
    /// The ids that it has resolved to, without those that are gone.
    followed: Vec<Target>,
    /// It has been there.
    came: bool,
    told_absent: bool,
}

impl WatchTargets {
    pub fn new(watch: &Watch) -> Self {
        let named = |target: &Target| WatchTarget {
            target: target.clone(),
            followed: Vec::new(),
            came: false,
            told_absent: false,
        };
        Self {
            targets: watch.targets.iter().map(named).collect(),
            leave_out: watch.leave_out.clone(),
            include_observers: watch.include_observers,
            told_no_server: false,
            server: None,
        }
    }

    /// Sessions to watch, each with what of its panes.
    pub fn select<'a>(
        &mut self,
        listing: &'a Listing,
        observes: impl Fn(&PaneState) -> bool,
    ) -> Vec<(ListedSession<'a>, Selection)> {
        if self.server.as_ref() != Some(&listing.server) {
            // Another server gives the same ids to others.
            self.server = Some(listing.server.clone());
            self.targets.iter_mut().for_each(|one| one.followed.clear());
        }
        let mut named: HashMap<SessionId, HashSet<PaneId>> = HashMap::new();
        for one in &mut self.targets {
            one.follow(listing);
            for state in one.resolve(listing) {
                one.came = true;
                named
                    .entry(state.session_id)
                    .or_default()
                    .insert(state.pane());
            }
        }
        let chosen = listing.sessions().filter_map(|session| {
            let only = match self.targets.is_empty() {
                true => None,
                false => self.only(named.remove(&session.id)?, listing, session.id),
            };
            let left_out = |state: &&PaneState| {
                !self.include_observers && observes(state) || self.leave_out.contains(&state.pane())
            };
            let panes = listing.panes_of(session.id);
            let leave_out = panes.filter(left_out).map(PaneState::pane).collect();
            Some((session, Selection { only, leave_out }))
        });
        chosen.collect()
    }

    /// These panes of a session, or `None` for all of them, those that will come included.
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
        let names_panes = targets.any(|one| one.target.may_be_part(listing));
        (!all || names_panes).then_some(named)
    }

    /// Returns whether there are targets, and all of them have been there.
    pub fn all_found(&self) -> bool {
        !self.targets.is_empty() && self.targets.iter().all(|one| one.came)
    }

    /// Returns whether a target is there.
    pub fn any_exists(&self, listing: &Listing) -> bool {
        let is_same = self.server.as_ref() == Some(&listing.server);
        let mut targets = self.targets.iter();
        targets.any(|one| match is_same {
            true => !one.resolve(listing).is_empty(),
            false => !one.target.resolve(listing).is_empty(),
        })
    }

    /// Reports once what is waited for, after a capture at what there is.
    pub fn tell_absent(&mut self, server: &Server, is_running: bool) {
        if self.all_found() {
            return;
        }
        if !is_running {
            if !std::mem::replace(&mut self.told_no_server, true) {
                log::warn!("no tmux server is running at {server}: waiting for it");
            }
            return;
        }
        for one in self.targets.iter_mut().filter(|one| !one.came) {
            if !std::mem::replace(&mut one.told_absent, true) {
                let reading = one.target.reading();
                let reading = reading.map_or_else(String::new, |reading| format!(" ({reading})"));
                let text = one.target.as_str();
                log::warn!("{text:?}{reading} is not there yet: waiting for it");
            }
        }
    }
}

impl WatchTarget {
    /// Remembers what has the name now.
    fn follow(&mut self, listing: &Listing) {
        self.followed.retain(|id| !id.resolve(listing).is_empty());
        for id in self.target.identity(listing) {
            if !self.followed.contains(&id) {
                self.followed.push(id);
            }
        }
    }

    /// The panes of what has the name, or had it.
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

    fn choice(targets: &[&str]) -> WatchTargets {
        let mut watch = Watch::new(Server::default());
        for target in targets {
            watch = watch.target(Target::parse(target).unwrap());
        }
        WatchTargets::new(&watch)
    }

    fn chosen(choice: &mut WatchTargets, listing: &Listing) -> Vec<(String, Option<usize>, usize)> {
        let observes = |state: &PaneState| state.pane() == "%3";
        let chosen = choice.select(listing, observes).into_iter();
        chosen
            .map(|(session, selection)| {
                let only = selection.only.map(|only| only.len());
                (session.name.to_owned(), only, selection.leave_out.len())
            })
            .collect()
    }

    #[test]
    fn without_targets_it_is_everything_but_observers() {
        let listing = listing_of(&[(1, "a"), (2, "b"), (3, "b")]);
        let got = chosen(&mut choice(&[]), &listing);
        assert_eq!(got, [("a".to_owned(), None, 0), ("b".to_owned(), None, 1)]);
    }

    #[test]
    fn a_session_means_all_of_it_and_a_pane_itself() {
        let listing = listing_of(&[(1, "a"), (2, "b"), (3, "b")]);
        let got = chosen(&mut choice(&["b"]), &listing);
        assert_eq!(got, [("b".to_owned(), None, 1)]);
        let got = chosen(&mut choice(&["%2"]), &listing);
        assert_eq!(got, [("b".to_owned(), Some(1), 1)]);
        let got = chosen(&mut choice(&["%1", "a"]), &listing);
        assert_eq!(got, [("a".to_owned(), Some(1), 0)]);
        let dotted = listing_of(&[(1, "api.v2"), (2, "api.v2")]);
        let got = chosen(&mut choice(&["api.v2"]), &dotted);
        assert_eq!(got, [("api.v2".to_owned(), None, 0)], "a name, not a part");
    }

    #[test]
    fn what_has_been_named_so_is_followed_under_another_name() {
        let mut choice = choice(&["old"]);
        let names = |choice: &mut WatchTargets, listing: &Listing| -> Vec<String> {
            let chosen = chosen(choice, listing).into_iter();
            chosen.map(|(name, ..)| name).collect()
        };
        let mut listing = listing_of(&[(1, "old"), (2, "x")]);
        assert_eq!(names(&mut choice, &listing), ["old"]);
        listing.panes[0].session_name = "new".to_owned();
        let renamed = listing.clone();
        assert_eq!(names(&mut choice, &renamed), ["new"]);
        assert!(choice.any_exists(&renamed));
        // Another one that takes the name is watched, too.
        listing.panes[1].session_name = "old".to_owned();
        assert_eq!(names(&mut choice, &listing), ["new", "old"]);
        // Another server's sessions have the same ids.
        let mut restarted = renamed.clone();
        restarted.server.start_time += 1;
        assert!(!choice.any_exists(&restarted));
        assert_eq!(names(&mut choice, &restarted), [""; 0]);
    }

    #[test]
    fn it_is_over_when_all_targets_have_come_and_gone() {
        let mut choice = choice(&["a", "b"]);
        let (first, both) = (listing_of(&[(1, "a")]), listing_of(&[(1, "a"), (2, "b")]));
        chosen(&mut choice, &first);
        assert!(!choice.all_found() && choice.any_exists(&first));
        chosen(&mut choice, &both);
        assert!(choice.all_found());
        assert!(!choice.any_exists(&listing_of(&[(4, "c")])));
    }
}
