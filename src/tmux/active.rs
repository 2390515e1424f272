//! A request on its way through the gateway: when it is due, what a listing means for it, and its
//! reply (pure but for the channel of the reply).

use std::collections::HashMap;
use std::time::Duration;

use super::capture::CaptureSpec;
use super::depth::{BASELINE_ROWS, Margin, depth};
use super::digest::{CaptureDigest, Comparison, Freshness};
use super::id::pane_number;
use super::listing::Listing;
use super::pending::ReplySender;
use super::probe::ScreenSpec;
use super::reply::{DepartedPane, PaneReply, SessionReply};
use super::request::{CaptureRequest, NewPanes, PaneRequest, ReplyTime, SessionRequest};
use super::rounds::{AdaptiveRounds, UNHURRIED};
use super::schedule::{AdaptivePolling, PollSchedule};
use super::snapshot::Snapshot;
use super::state::PaneState;
use crate::error::{Error, Result};
use crate::event::PaneId;

/// A request for a session, from its arrival to its reply.
#[derive(Debug)]
pub(super) struct ActiveRequest {
    request: SessionRequest,
    /// `None` once the reply has been sent.
    reply_to: Option<ReplySender<SessionReply>>,
    /// The time of the last evaluation, or of the request.
    evaluated: Duration,
    /// The listing of that evaluation.
    evaluated_by: Option<u64>,
    /// Only a new listing can bring news.
    pub needs_listing_only: bool,
    /// The time at which a line settles, or a screen must be compared.
    recheck: Option<Duration>,
    /// The longest wait of equal screens for their next comparison.
    check_intervals: HashMap<PaneId, Duration>,
    /// The reply, once there is news, without the panes that remain to be captured.
    reply: Option<SessionReply>,
    /// The captures for the reply, with the listed states of their panes.
    pub captures: Vec<(PaneState, CaptureSpec)>,
    /// The number of captures that are missing from the reply.
    missing: usize,
    /// A history grew by more than an eighth of its limit.
    pub is_flood: bool,
}

impl ActiveRequest {
    pub fn new(
        request: SessionRequest,
        reply_to: ReplySender<SessionReply>,
        now: Duration,
    ) -> Self {
        let mut active = Self {
            request,
            reply_to: Some(reply_to),
            evaluated: now,
            evaluated_by: None,
            needs_listing_only: false,
            recheck: None,
            check_intervals: HashMap::new(),
            reply: None,
            captures: Vec::new(),
            missing: 0,
            is_flood: false,
        };
        let rechecks = active.capture_requests().map(|(pane, request, known)| {
            let check = known.freshness.at + active.check_interval(pane);
            let check = (!request.is_resting).then_some(check);
            [check, request.settles_at].into_iter().flatten().min()
        });
        active.recheck = rechecks.flatten().min();
        let mut panes = active.request.panes.values();
        let is_listed =
            |pane: &PaneRequest| matches!(pane, PaneRequest::Presence | PaneRequest::Shape(_));
        active.needs_listing_only = panes.all(is_listed) && !active.is_urgent();
        active
    }

    /// Returns true if the requester still waits for the reply.
    pub fn is_awaited(&self) -> bool {
        self.reply_to.as_ref().is_some_and(ReplySender::is_awaited)
    }

    /// Returns true if the request is to be replied to at once.
    pub fn is_urgent(&self) -> bool {
        self.request.when == ReplyTime::Now
    }

    /// Returns the schedule of the request, unless it is urgent.
    pub fn schedule(&self) -> Option<&PollSchedule> {
        match &self.request.when {
            ReplyTime::OnChange(schedule) => Some(schedule),
            ReplyTime::Now => None,
        }
    }

    pub fn adaptive(&self) -> Option<&AdaptivePolling> {
        match self.schedule()? {
            PollSchedule::Adaptive(adaptive) => Some(adaptive),
            PollSchedule::Fixed(_) => None,
        }
    }

    /// Returns true if the request needs current names.
    pub fn needs_names(&self) -> bool {
        self.request.name.is_none()
    }

    /// Returns when the request is due, given the number of bytes that the server has read. `tick`
    /// returns the first tick of an interval after a time, or an earlier time.
    pub fn due(
        &self,
        rounds: &AdaptiveRounds,
        server_bytes: Option<u64>,
        tick: impl Fn(Duration, Duration) -> Duration,
    ) -> Duration {
        match self.schedule() {
            None => Duration::ZERO,
            Some(PollSchedule::Fixed(interval)) => tick(self.evaluated, *interval),
            Some(PollSchedule::Adaptive(adaptive)) => {
                rounds.due(adaptive, server_bytes, self.recheck)
            }
        }
    }

    /// Returns the requests for captures of panes with a known digest.
    pub fn capture_requests(
        &self,
    ) -> impl Iterator<Item = (&PaneId, &CaptureRequest, &CaptureDigest)> {
        let panes = self.request.panes.iter();
        panes.filter_map(|(pane, request)| match request {
            PaneRequest::Capture(request) => Some((pane, request, request.known.as_ref()?)),
            _ => None,
        })
    }

    /// Returns how long the screen of a pane may wait for its next comparison.
    fn check_interval(&self, pane: &PaneId) -> Duration {
        match self.adaptive() {
            Some(adaptive) => {
                let interval = self.check_intervals.get(pane).copied().unwrap_or(UNHURRIED);
                interval.min(adaptive.interval_max)
            }
            None => Duration::ZERO,
        }
    }

    /// Returns the screens that are needed unless the numbers of their panes have changed.
    pub fn screens(&self, now: Freshness) -> impl Iterator<Item = ScreenSpec> + '_ {
        self.capture_requests()
            .filter_map(move |(pane, request, known)| {
                let is_due = now.at >= known.freshness.at + self.check_interval(pane)
                    || request.settles_at.is_some_and(|at| at <= now.at);
                let is_useful = is_due
                    && !known.is_conclusive(now.server_bytes)
                    && known.is_proved_by_screen(now.server_bytes);
                (is_useful && !request.is_resting).then_some(ScreenSpec {
                    pane: pane_number(pane)?,
                    height: known.numbers.shape.height,
                })
            })
    }

    /// Returns true if this listing cannot bring news: the request was evaluated by it.
    pub fn is_settled_by(&self, listing: u64) -> bool {
        self.evaluated_by == Some(listing) && self.needs_listing_only
    }

    /// Evaluates the request against a snapshot. Returns whether there is news; the reply is then
    /// complete but for [`ActiveRequest::captures`].
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
            let reply = match self.request.panes.get(&pane) {
                None if self.request.new_panes == NewPanes::List => {
                    has_news = true;
                    Some(PaneReply::Listed(listed.clone()))
                }
                None | Some(PaneRequest::Resync(_)) => None,
                Some(PaneRequest::Presence) => Some(PaneReply::Listed(listed.clone())),
                Some(PaneRequest::Shape(shape)) => {
                    has_news |= listed.shape() != *shape;
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
                created: session.created,
                panes,
                departed,
            });
        }
        has_news
    }

    /// Compares a pane with its digest; `None` when it must be captured.
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
            // A resync may find a full-screen program that the listing does not show yet, and a
            // requester that found one requests the whole history.
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

    /// Adds the result of a capture, `None` for a pane that is gone. Sends the reply once it is complete.
    pub fn add(&mut self, reply: Result<Option<PaneReply>>) {
        match reply {
            Ok(reply) => {
                if let Some(SessionReply::Present { panes, .. }) = &mut self.reply {
                    panes.extend(reply);
                }
                self.missing -= 1;
                self.finish();
            }
            Err(error) => self.fail(&error),
        }
    }

    /// Sends the reply if it is complete.
    pub fn finish(&mut self) {
        if self.missing > 0 {
            return;
        }
        let (Some(mut reply), Some(reply_to)) = (self.reply.take(), self.reply_to.take()) else {
            return;
        };
        if let SessionReply::Present { panes, .. } = &mut reply {
            panes.sort_by_key(|pane| {
                let state = pane.state();
                (state.window_index, state.pane_index, state.pane)
            });
        }
        reply_to.send(Ok(reply));
    }

    /// Sends an error instead of the reply, if that has not been sent.
    pub fn fail(&mut self, error: &Error) {
        if let Some(reply_to) = self.reply_to.take() {
            reply_to.send(Err(error.without_cause()));
        }
    }
}

/// Sends an error to all requests that have not been replied to.
pub(super) fn fail_all(requests: &mut [ActiveRequest], error: &Error) {
    requests.iter_mut().for_each(|request| request.fail(error));
}

#[cfg(test)]
mod tests;
