//! The requests of a session's panes, and the time of the next one.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use super::SessionPanes;
use crate::event::PaneId;
use crate::observe::pane_observer::Pane;
use crate::observe::poller::pipes::SessionPipes;
use crate::tmux::{CaptureRequest, NewPanes, PaneReply, PaneRequest, ResyncRequest, ResyncSpec};

impl SessionPanes {
    /// Returns what each pane requests in a regular poll.
    pub fn requests(&self) -> HashMap<PaneId, PaneRequest> {
        let requests = self.panes.iter().map(|(id, pane)| {
            let request = if self.is_watched(id) {
                pane.next_request()
            } else {
                PaneRequest::Presence
            };
            (id.clone(), request)
        });
        let unwatched = self.unwatched.iter().filter(|id| !self.is_watched(id));
        // The presence of a pane counts even if nothing else is requested of it.
        let unopened = self.unopened.keys();
        unwatched
            .chain(unopened)
            .map(|id| (id.clone(), PaneRequest::Presence))
            .chain(requests)
            .collect()
    }

    /// Returns the panes that are listed, but not captured yet.
    pub fn unopened(&self) -> Vec<PaneId> {
        let mut panes: Vec<PaneId> = self.unopened.keys().cloned().collect();
        panes.sort();
        panes
    }

    /// Returns true if a pane still has to be requested: it is moving here from another session, or it
    /// could not be captured yet. The gateway does not report such a pane as a change.
    pub fn has_pending_panes(&self) -> bool {
        !self.arriving.is_empty() || !self.unopened.is_empty()
    }

    /// Returns the panes that clients are known to view; `None` if views are not reported.
    pub fn viewed(&self) -> Option<HashSet<PaneId>> {
        let viewed = self.panes.iter().filter(|(_, pane)| pane.views.is_viewed());
        let viewed = viewed.map(|(id, _)| id.clone());
        self.config.reports_views.then(|| viewed.collect())
    }

    /// Returns true if captures are needed besides the regular poll: a deeper one, one that starts a
    /// stream, or one to compare with a stream.
    pub fn needs_more_captures(&self, now: Instant) -> bool {
        let streams = self.pipes.is_some();
        let needs = |(id, pane): (&PaneId, &Pane)| {
            pane.needs_full_capture()
                || streams && self.is_watched(id) && pane.has_urgent_request(now)
        };
        !self.unopened.is_empty() || self.panes.iter().any(needs)
    }

    /// Returns the requests of the extra captures; see [`SessionPanes::needs_more_captures`].
    pub fn extra_requests(&mut self, now: Instant) -> HashMap<PaneId, PaneRequest> {
        let mut requests = self.requests();
        for (id, unopened) in &self.unopened {
            let margin = unopened.margin;
            let pipes = self.pipes.as_mut();
            let request = match pipes.filter(|_| unopened.pipe_after.is_none()) {
                Some(pipes) => PaneRequest::Resync(ResyncRequest {
                    margin,
                    known: None,
                    spec: ResyncSpec {
                        open_pipe: pipes.open_command(id),
                    },
                }),
                None => PaneRequest::Capture(CaptureRequest {
                    known: None,
                    margin,
                    settles_at: None,
                    is_resting: false,
                }),
            };
            requests.insert(id.clone(), request);
        }
        for (id, pane) in &mut self.panes {
            let Some(pipes) = &mut self.pipes else { break };
            if !self.config.selection.contains(id) {
                continue;
            }
            if let Some(request) = pane.urgent_request(now, || pipes.open_command(id)) {
                requests.insert(id.clone(), request);
            }
        }
        if let Some(trouble) = self.pipes.as_mut().and_then(SessionPipes::take_trouble) {
            self.emitter.events.warning("tmux", &trouble);
        }
        requests
    }

    /// Returns how the gateway must treat new panes.
    pub fn new_panes(&self, is_first: bool) -> NewPanes {
        match self.pipes {
            Some(_) if !(is_first && self.config.captured_first) => NewPanes::List,
            _ => NewPanes::Capture,
        }
    }

    /// Returns true if one of these panes must be captured before it is opened.
    pub fn lists_unopened_pane(&self, panes: &[PaneReply]) -> bool {
        let mut listed = panes
            .iter()
            .filter(|reply| matches!(reply, PaneReply::Listed(_)));
        self.pipes.is_some() && listed.any(|reply| self.is_watched(&reply.state().pane()))
    }

    /// Returns true if the last extra captures revealed panes that need another round.
    pub fn take_needs_another_round(&mut self) -> bool {
        std::mem::take(&mut self.needs_another_round)
    }

    /// Ends a round of extra captures: openings and comparisons without a reply have failed.
    pub fn end_extra_captures(&mut self, now: Instant) {
        if let Some(pipes) = &mut self.pipes {
            pipes.discard_requested();
        }
        self.panes
            .values_mut()
            .for_each(|pane| pane.check_failed(now));
    }

    /// Returns when [`SessionPanes::handle_timeout`] is due if nothing arrives; with `may_request`, also when
    /// a pane needs another request.
    pub fn deadline(&self, may_request: bool) -> Option<Instant> {
        let leaving = self.leaving.values().map(|(pane, _)| pane);
        let panes = self.panes.values();
        panes
            .filter_map(|pane| pane.deadline(may_request))
            .chain(leaving.filter_map(|pane| pane.deadline(false)))
            .chain(self.programs.deadline())
            .min()
    }
}
