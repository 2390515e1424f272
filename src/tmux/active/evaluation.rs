//! Evaluates a request against a snapshot of the server: finds changes and the captures that the reply needs
//! (pure).

use std::collections::HashMap;
use std::time::Duration;

use super::ActiveRequest;
use crate::event::PaneId;
use crate::tmux::capture::CaptureSpec;
use crate::tmux::depth::{BASELINE_ROWS, Margin, depth};
use crate::tmux::digest::{Comparison, Freshness};
use crate::tmux::listing::Listing;
use crate::tmux::reply::{DepartedPane, PaneReply, SessionReply};
use crate::tmux::request::{NewPanes, PaneRequest};
use crate::tmux::rounds::UNHURRIED;
use crate::tmux::snapshot::Snapshot;
use crate::tmux::state::PaneState;

impl ActiveRequest {
    /// Evaluates the request against a snapshot. Returns true if there is a change; the reply is then
    /// complete except for [`ActiveRequest::captures`].
    pub fn evaluate(&mut self, snapshot: &Snapshot) -> bool {
        self.evaluated = snapshot.freshness.at;
        if self.is_settled_by(snapshot.number) {
            return false;
        }
        self.evaluated_by = Some(snapshot.number);
        self.recheck = None;
        let listing = &*snapshot.listing;
        let expected = self.request.server.as_ref();
        if expected.is_some_and(|server| *server != listing.server) {
            self.reply = Some(SessionReply::OtherServer);
            return true;
        }
        let Some(session) = listing.session(self.request.session_id) else {
            let departed = self.departed(listing);
            self.reply = Some(SessionReply::Gone { departed });
            return true;
        };
        let name = self.request.name.as_ref();
        let is_renamed = name.is_some_and(|name| name != session.name);
        let departed = self.departed(listing);
        let mut has_news = self.is_urgent() || is_renamed || !departed.is_empty();
        let mut panes = Vec::new();
        for listed in listing.panes_of(session.id) {
            let pane = listed.pane();
            let known = self.request.panes.get(&pane);
            let is_observed = !matches!(known, None | Some(PaneRequest::Presence));
            has_news |= is_observed && self.has_other_view(&pane, listed);
            let reply = match known {
                None if self.request.new_panes == NewPanes::List => {
                    has_news = true;
                    Some(PaneReply::Listed(listed.clone()))
                }
                None | Some(PaneRequest::Resync(_)) => None,
                Some(PaneRequest::Presence) => Some(PaneReply::Listed(listed.clone())),
                Some(PaneRequest::Shape(shape)) => {
                    has_news |= !listed.has_shape_of(shape);
                    Some(PaneReply::Listed(listed.clone()))
                }
                Some(PaneRequest::Capture(_)) => {
                    self.compare(&pane, listed, snapshot, &mut has_news)
                }
            };
            match reply {
                Some(reply) => panes.push(reply),
                None => self.add_capture(pane, listed),
            }
        }
        has_news |= !self.captures.is_empty();
        if has_news {
            self.reply = Some(SessionReply::Present {
                name: session.name.to_owned(),
                panes,
                departed,
            });
        }
        has_news
    }

    /// Compares a pane with its digest; `None` if it must be captured.
    fn compare(
        &mut self,
        pane: &PaneId,
        listed: &PaneState,
        snapshot: &Snapshot,
        has_news: &mut bool,
    ) -> Option<PaneReply> {
        let Freshness {
            at: now,
            server_bytes,
            ..
        } = snapshot.freshness;
        let check_interval = self.check_interval(pane);
        let is_urgent = self.is_urgent();
        let Some(PaneRequest::Capture(request)) = self.request.panes.get_mut(pane) else {
            return None;
        };
        let settles_at = request.settles_at;
        let known = request.known.as_mut()?;
        match known.compare(listed, server_bytes) {
            Comparison::Changed => return None,
            Comparison::Uncertain
                if request.is_resting && !snapshot.shows_activity(known, listed) => {}
            Comparison::Unchanged => {}
            Comparison::Uncertain => match snapshot.screens.get(&listed.pane) {
                Some(screen)
                    if **screen == *known.screen && known.is_proved_by_screen(server_bytes) =>
                {
                    let longer = (check_interval * 2).max(UNHURRIED);
                    self.check_intervals.insert(pane.clone(), longer);
                }
                Some(_) => return None,
                None => {
                    let recheck = known.freshness.at + check_interval;
                    let recheck = settles_at.map_or(recheck, |at| at.min(recheck));
                    if is_urgent || recheck <= now {
                        return None;
                    }
                    self.recheck_at(recheck);
                    return Some(PaneReply::Listed(listed.clone()));
                }
            },
        }
        known.confirm(listed, snapshot.freshness);
        if let Some(settles_at) = settles_at {
            *has_news |= settles_at <= now;
            self.recheck_at(settles_at);
        }
        Some(PaneReply::Unchanged(listed.clone(), snapshot.freshness))
    }

    /// Returns true if the pane has come into view or gone out of view.
    fn has_other_view(&self, pane: &PaneId, listed: &PaneState) -> bool {
        let viewed = self.request.viewed.as_ref();
        viewed.is_some_and(|viewed| viewed.contains(pane) != listed.viewed)
    }

    fn recheck_at(&mut self, time: Duration) {
        self.recheck = Some(self.recheck.map_or(time, |at| at.min(time)));
    }

    fn add_capture(&mut self, pane: PaneId, listed: &PaneState) {
        let (known, margin, resync) = match self.request.panes.get(&pane) {
            Some(PaneRequest::Capture(request)) => (request.known.as_ref(), request.margin, None),
            Some(PaneRequest::Resync(request)) => (
                request.known.as_ref(),
                request.margin,
                Some(request.spec.clone()),
            ),
            _ => (None, Margin::Rows(BASELINE_ROWS), None),
        };
        self.is_flood |= known.is_some_and(|known| {
            let growth = listed
                .history_size
                .saturating_sub(known.numbers.history_size);
            growth > listed.history_limit / 8
        });
        let spec = CaptureSpec {
            depth: depth(known, listed, margin),
            pane,
            // A resync may find a full-screen program that the listing does not show yet, and a requester
            // that found one requests the whole history.
            saved: listed.alternate || resync.is_some() || matches!(margin, Margin::All),
            resync,
        };
        self.captures.push((listed.clone(), spec));
        self.missing += 1;
    }

    /// Returns the panes of the request that the session no longer owns.
    fn departed(&self, listing: &Listing) -> HashMap<PaneId, DepartedPane> {
        let departed = self.request.panes.iter().filter_map(|(pane, request)| {
            let owner = listing.pane(pane).map(|state| state.session_id);
            let known = match request {
                PaneRequest::Capture(request) => request.known.as_ref(),
                _ => None,
            };
            let departed = DepartedPane {
                freshness: known.map(|known| known.freshness),
                moved: owner.is_some(),
            };
            (owner != Some(self.request.session_id)).then(|| (pane.clone(), departed))
        });
        departed.collect()
    }
}
