//! A request on its way through the gateway: its due time, the captures that it needs, and its reply.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use super::capture::{CaptureResult, CaptureSpec};
use super::client::{Client, Snapshot};
use super::digest::{BASELINE_ROWS, Freshness, Margin, depth};
use super::listing::{Listing, ServerIdentity};
use super::request::{
    DepartedPane, PaneReply, PaneRequest, ReplySender, SessionReply, SessionRequest,
};
use super::schedule::{AdaptivePolling, AdaptiveRounds, PollSchedule, next_tick};
use super::state::{GivenNames, PaneState};
use crate::error::Error;
use crate::event::PaneId;

/// A request for a session, from its arrival to its reply.
#[derive(Debug)]
pub(super) struct ActiveRequest {
    request: SessionRequest,
    /// `None` once the reply has been sent.
    reply_to: Option<ReplySender<SessionReply>>,
    /// The time of the last evaluation, or of the request before the first evaluation.
    evaluated: Duration,
    /// The listing used in that evaluation.
    evaluated_by: Option<u64>,
    /// True if only a new listing can show a change.
    pub needs_listing_only: bool,
    /// The time at which a pane must be captured again, or be confirmed as unchanged.
    recheck: Option<Duration>,
    /// The reply once a change is found, without the panes that are still to be captured.
    reply: Option<SessionReply>,
    /// The captures for the reply, with the listed states of their panes.
    pub captures: Vec<(PaneState, CaptureSpec)>,
    /// The number of captures that the reply still needs.
    missing: usize,
    /// True if a history grew by more than an eighth of its limit.
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
            reply: None,
            captures: Vec::new(),
            missing: 0,
            is_flood: false,
        };
        let rechecks = active.request.panes.values().filter_map(|pane| match pane {
            PaneRequest::Capture(request) => request.again_at,
            _ => None,
        });
        active.recheck = rechecks.min();
        let mut panes = active.request.panes.values();
        let is_listed =
            |pane: &PaneRequest| matches!(pane, PaneRequest::Presence | PaneRequest::Shape(_));
        active.needs_listing_only = panes.all(is_listed) && !active.is_urgent();
        active
    }

    /// Returns true if the requester is still waiting for the reply.
    pub fn is_awaited(&self) -> bool {
        self.reply_to.as_ref().is_some_and(ReplySender::is_awaited)
    }

    /// Returns true if the request must be replied to at once.
    pub fn is_urgent(&self) -> bool {
        self.request.on_change.is_none()
    }

    /// Returns the schedule of the request, unless it is urgent.
    pub fn schedule(&self) -> Option<&PollSchedule> {
        self.request.on_change.as_ref()
    }

    pub fn adaptive(&self) -> Option<&AdaptivePolling> {
        match self.schedule()? {
            PollSchedule::Adaptive(adaptive) => Some(adaptive),
            PollSchedule::Fixed(_) => None,
        }
    }

    /// Returns when the request is due, given the number of bytes that the server has read.
    pub fn due(&self, rounds: &AdaptiveRounds, server_bytes: Option<u64>) -> Duration {
        match self.schedule() {
            None => Duration::ZERO,
            Some(PollSchedule::Fixed(interval)) => next_tick(self.evaluated, *interval),
            Some(PollSchedule::Adaptive(adaptive)) => {
                rounds.due(adaptive, server_bytes, self.recheck)
            }
        }
    }

    /// Returns true if this listing cannot show a change, because the request was already evaluated with it.
    pub fn is_settled_by(&self, listing: u64) -> bool {
        self.evaluated_by == Some(listing) && self.needs_listing_only
    }

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
        let shown_name = listing.shown_name(&session);
        let name = self.request.name.as_ref();
        let is_renamed = name.is_some_and(|name| name != shown_name);
        let departed = self.departed(listing);
        let mut has_news = self.is_urgent() || is_renamed || !departed.is_empty();
        let mut panes = Vec::new();
        for listed in listing.panes_of(session.id) {
            let pane = listed.pane();
            let known = self.request.panes.get(&pane);
            let is_observed = !matches!(known, None | Some(PaneRequest::Presence));
            has_news |= is_observed && self.has_other_view(&pane, listed);
            has_news |= is_observed && self.has_other_name(&pane, listed);
            let reply = match known {
                None if self.request.lists_new_panes => {
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
                name: shown_name.to_owned(),
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
        let is_urgent = self.is_urgent();
        let Some(PaneRequest::Capture(request)) = self.request.panes.get_mut(pane) else {
            return None;
        };
        let known = request.known.as_mut()?;
        let was_active = known.window_activity != listed.window_activity
            && (!request.is_resting || snapshot.is_alone(listed));
        if known.numbers != listed.numbers || known.title != listed.title || was_active {
            return None;
        }
        let again_at = request.again_at;
        let is_due = again_at.is_some_and(|at| at <= snapshot.freshness.at);
        let is_certain = request.is_resting || known.is_certain();
        if !is_certain && (is_urgent || is_due) {
            return None;
        }
        self.recheck = [self.recheck, again_at].into_iter().flatten().min();
        if !is_certain {
            return Some(PaneReply::Listed(listed.clone()));
        }
        known.confirm(listed, snapshot.freshness);
        *has_news |= is_due;
        Some(PaneReply::Unchanged(listed.clone(), snapshot.freshness))
    }

    /// Returns true if the pane has come into view or gone out of view.
    fn has_other_view(&self, pane: &PaneId, listed: &PaneState) -> bool {
        let viewed = self.request.viewed.as_ref();
        viewed.is_some_and(|viewed| viewed.contains(pane) != listed.viewed)
    }

    /// Returns true if the pane has got another name, or lost one.
    fn has_other_name(&self, pane: &PaneId, listed: &PaneState) -> bool {
        let names = self.request.given_names.as_ref();
        let known = |names: &HashMap<PaneId, GivenNames<String>>| {
            let known = names.get(pane).map(GivenNames::as_deref);
            known.unwrap_or_default() == listed.given_names()
        };
        names.is_some_and(|names| !known(names))
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

    /// Adds the result of a capture; `None` for a pane that no longer exists. Sends the reply once it is
    /// complete.
    fn add(&mut self, captured: Option<PaneReply>) {
        if let Some(SessionReply::Present { panes, .. }) = &mut self.reply {
            panes.extend(captured);
        }
        self.missing -= 1;
        self.finish();
    }

    /// Sends the reply if it is complete.
    fn finish(&mut self) {
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

    /// Sends an error instead of the reply, unless the reply was already sent.
    pub fn fail(&mut self, error: &Error) {
        if let Some(reply_to) = self.reply_to.take() {
            reply_to.send(Err(error.without_cause()));
        }
    }
}

/// Takes the captures that requests need, in batches, and replies to each request once it has all of its
/// captures.
pub(super) fn complete(client: &mut Client, mut requests: Vec<ActiveRequest>, snapshot: Snapshot) {
    let identity = &snapshot.listing.server;
    let missing = share(&mut requests);
    let costs: Vec<CaptureCost> = missing
        .iter()
        .map(|capture| CaptureCost::of(&capture.spec, capture.listed.height))
        .collect();
    let mut missing = missing.into_iter();
    for batch in batches(&costs) {
        if client.is_stopped() {
            return;
        }
        let mut batch: Vec<SharedCapture> = missing.by_ref().take(batch.len()).collect();
        batch.retain(|capture| capture.is_awaited(&requests));
        if batch.is_empty() {
            continue;
        }
        let specs: Vec<CaptureSpec> = batch.iter().map(|capture| capture.spec.clone()).collect();
        let freshness = client.freshness();
        let results = match client.capture(identity, &specs) {
            Ok(results) => results,
            // The server hangs or has ended; the next request tries again.
            Err(error) => return fail_all(&mut requests, &error),
        };
        for (capture, result) in batch.into_iter().zip(results) {
            deliver(
                client,
                identity,
                capture,
                (result, freshness),
                &mut requests,
            );
        }
    }
}

/// A capture of one pane, with the greatest depth among its requests.
struct SharedCapture {
    /// The indexes of the requests.
    requests: Vec<usize>,
    listed: PaneState,
    spec: CaptureSpec,
}

impl SharedCapture {
    /// Returns true if a requester still waits for the capture.
    fn is_awaited(&self, requests: &[ActiveRequest]) -> bool {
        let mut readers = self.requests.iter();
        readers.any(|at| requests[*at].is_awaited())
    }
}

/// Collects the captures that requests need, each pane once. Replies to requests that need no captures.
fn share(requests: &mut [ActiveRequest]) -> Vec<SharedCapture> {
    let mut captures: Vec<SharedCapture> = Vec::new();
    let mut of_pane: HashMap<PaneId, usize> = HashMap::new();
    for (at, request) in requests.iter_mut().enumerate() {
        request.finish();
        for (listed, spec) in std::mem::take(&mut request.captures) {
            match of_pane.get(&spec.pane).map(|at| &mut captures[*at]) {
                Some(capture) => {
                    capture.requests.push(at);
                    capture.spec.merge(spec);
                }
                None => {
                    of_pane.insert(spec.pane.clone(), captures.len());
                    captures.push(SharedCapture {
                        requests: vec![at],
                        listed,
                        spec,
                    });
                }
            }
        }
    }
    captures
}

/// Delivers the result of a capture, and the time just before it, to its requests. The result is cloned only
/// if several requests need it.
fn deliver(
    client: &mut Client,
    identity: &ServerIdentity,
    SharedCapture {
        requests: readers,
        listed,
        spec,
    }: SharedCapture,
    (mut result, freshness): (CaptureResult, Freshness),
    requests: &mut [ActiveRequest],
) {
    let pane = spec.pane.clone();
    if matches!(result, CaptureResult::Unreadable) {
        // Output is truncated if rows are full of combining marks or if other panes of the batch filled it.
        // The pane is then captured again, alone and without its history. Its pipe may already be open by
        // now, so its bytes do not begin at this capture.
        let screen_only = CaptureSpec {
            depth: 0,
            resync: None,
            ..spec
        };
        let specs = [screen_only];
        match client.capture(identity, &specs) {
            Ok(mut again) => result = again.pop().unwrap_or(CaptureResult::Unreadable),
            Err(error) => return readers.iter().for_each(|at| requests[*at].fail(&error)),
        }
    }
    let reply = match result {
        CaptureResult::Captured(mut pane) => {
            pane.adopt_listed(listed, freshness);
            Some(PaneReply::Captured(pane))
        }
        CaptureResult::Gone => None,
        CaptureResult::Unreadable => {
            let error = Error::other(format!(
                "{} replied about pane {pane} with unreadable output",
                client.server()
            ));
            return readers.iter().for_each(|at| requests[*at].fail(&error));
        }
    };
    if let Some((last, others)) = readers.split_last() {
        for at in others {
            requests[*at].add(reply.clone());
        }
        requests[*last].add(reply);
    }
}

/// Sends an error to all requests without a reply.
pub(super) fn fail_all(requests: &mut [ActiveRequest], error: &Error) {
    requests.iter_mut().for_each(|request| request.fail(error));
}

/// The longest time for which one batch may occupy the server: less than a person notices while typing, and
/// enough for many panes to share the cost of starting tmux (1 to 4 ms).
const BATCH_US_MAX: u64 = 10_000;

/// The cost of a capture in the server, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct CaptureCost(u64);

impl CaptureCost {
    /// Estimates the cost for a pane with `height` rows.
    pub(super) fn of(spec: &CaptureSpec, height: u32) -> Self {
        let screen = u64::from(height) * if spec.saved { 2 } else { 1 };
        // One command with formats (100 µs), two captures (50 µs each), and each row of 80 columns twice (1 µs).
        // Measured with tmux 3.3a and 100 sessions on a busy machine.
        Self(200 + u64::from(spec.depth) + screen)
    }
}

/// Splits captures into batches of consecutive captures. A capture above the limit is a batch of its own.
pub(super) fn batches(costs: &[CaptureCost]) -> Vec<Range<usize>> {
    let mut batches: Vec<Range<usize>> = Vec::new();
    let mut spent_us = 0;
    for (at, CaptureCost(us)) in costs.iter().enumerate() {
        match batches.last_mut() {
            Some(batch) if spent_us + us <= BATCH_US_MAX => {
                batch.end = at + 1;
                spent_us += us;
            }
            _ => {
                batches.push(at..at + 1);
                spent_us = *us;
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use crate::thread::stop_pair;
    use crate::tmux::digest::CaptureDigest;
    use crate::tmux::listing::Listing;
    use crate::tmux::listing::tests::listing;
    use crate::tmux::request::{CaptureRequest, PendingReply};
    use crate::tmux::state::tests::state;
    use crate::track::ProcessExit;

    use super::*;

    /// Builds a listing with %1 in session $1, last active in second 5, and %2 in $2.
    fn listed(change: impl FnOnce(&mut PaneState)) -> Listing {
        let mut pane = state(1, (1, "a"), (1, 0, "w"), 0);
        change(&mut pane);
        listing(vec![pane, state(2, (2, "b"), (2, 0, "w"), 0)])
    }

    /// Builds a request to capture %1, whose capture is from the beginning of second 5.
    fn capture_request(again_at: Option<Duration>) -> CaptureRequest {
        let listed = listed(|_| {});
        let freshness = Freshness {
            second: 5,
            server_bytes: Some(100),
            ..Freshness::default()
        };
        CaptureRequest {
            known: Some(CaptureDigest::new(&listed.panes[0], freshness)),
            margin: Margin::Rows(10),
            again_at,
            is_resting: false,
        }
    }

    /// Evaluates a request for session $1 one second later, when the server has read `server_bytes`. Returns the
    /// request as an error if nothing has changed.
    fn evaluate(
        pane: Option<PaneRequest>,
        listing: &Listing,
        server_bytes: u64,
    ) -> Result<ActiveRequest, Box<ActiveRequest>> {
        let (reply_to, _) = PendingReply::new(stop_pair().1);
        let request = SessionRequest {
            session_id: listing.panes[0].session_id,
            name: Some("a".into()),
            panes: pane.map(|pane| ("%1".into(), pane)).into_iter().collect(),
            on_change: Some(PollSchedule::default()),
            ..SessionRequest::default()
        };
        let mut active = ActiveRequest::new(request, reply_to, Duration::ZERO);
        let snapshot = Snapshot {
            listing: Arc::new(listing.clone()),
            number: 1,
            freshness: Freshness {
                at: Duration::from_millis(100),
                second: 6,
                server_bytes: Some(server_bytes),
            },
        };
        if active.evaluate(&snapshot) {
            Ok(active)
        } else {
            Err(Box::new(active))
        }
    }

    fn capture(again_at: Option<Duration>) -> Option<PaneRequest> {
        Some(PaneRequest::Capture(capture_request(again_at)))
    }

    /// Builds a request whose capture is from some seconds after the last activity.
    fn certain(again_at: Option<Duration>) -> Option<PaneRequest> {
        let mut request = capture_request(again_at);
        if let Some(known) = &mut request.known {
            known.freshness.second = 9;
        }
        Some(PaneRequest::Capture(request))
    }

    #[test]
    fn an_unchanged_pane_is_no_news() {
        let same = listed(|_| {});
        let certain = evaluate(certain(None), &same, 101).unwrap_err();
        assert_eq!(certain.recheck, None);
        let later = Duration::from_millis(150);
        let uncertain = evaluate(capture(Some(later)), &same, 101).unwrap_err();
        assert_eq!(uncertain.recheck, Some(later), "to be captured then");
        let grown = listed(|pane| pane.history_size = 9);
        assert!(evaluate(Some(PaneRequest::Presence), &grown, 200).is_err());
    }

    #[test]
    fn a_pane_whose_listing_differs_is_captured() {
        let changes: [fn(&mut PaneState); 9] = [
            |pane| pane.window_activity = 3,
            |pane| pane.title = "other".into(),
            |pane| pane.width = 1,
            |pane| pane.height = 1,
            |pane| pane.history_size = 1,
            |pane| pane.cursor.x = 1,
            |pane| pane.alternate = true,
            |pane| pane.dead = Some(ProcessExit::default()),
            |pane| pane.pid = 2,
        ];
        for change in changes {
            let request = evaluate(certain(None), &listed(change), 100).unwrap();
            assert_eq!(request.captures.len(), 1, "{request:?}");
        }
    }

    #[test]
    fn a_changed_or_new_pane_is_captured() {
        let grown = listed(|pane| pane.history_size = 300);
        let request = evaluate(capture(None), &grown, 200).unwrap();
        assert_eq!(request.captures.len(), 1);
        assert!(request.is_flood, "300 of 2000 rows since the last capture");
        let same = listed(|_| {});
        let new = evaluate(None, &same, 100).unwrap();
        assert_eq!(new.captures.len(), 1, "new");
    }

    #[test]
    fn an_unchanged_pane_is_news_once_a_line_settles() {
        let same = listed(|_| {});
        let later = Duration::from_millis(150);
        let waiting = evaluate(certain(Some(later)), &same, 100).unwrap_err();
        assert_eq!(waiting.recheck, Some(later));
        let now = Duration::from_millis(100);
        let request = evaluate(certain(Some(now)), &same, 100).unwrap();
        let Some(SessionReply::Present { panes, .. }) = &request.reply else {
            panic!("{request:?}")
        };
        assert!(matches!(panes[..], [PaneReply::Unchanged(..)]), "{panes:?}");
    }

    #[test]
    fn a_moved_pane_differs_from_an_ended_one_also_without_a_known_capture() {
        let mut moved = listed(|_| {});
        // $1 has %3 instead of %1, and %1 is in $2.
        moved.panes[0].pane = 3;
        moved.panes[1].pane = 1;
        let ended = listing(vec![state(3, (1, "a"), (1, 0, "w"), 0)]);
        for known in [capture_request(None).known, None] {
            let pane = |known: &Option<CaptureDigest>| {
                Some(PaneRequest::Capture(CaptureRequest {
                    known: known.clone(),
                    ..capture_request(None)
                }))
            };
            for (listing, is_moved) in [(&moved, true), (&ended, false)] {
                let request = evaluate(pane(&known), listing, 200).unwrap();
                let Some(SessionReply::Present { departed, .. }) = &request.reply else {
                    panic!("{request:?}")
                };
                let departed = departed["%1"];
                assert_eq!(
                    (departed.moved, departed.freshness.is_some()),
                    (is_moved, known.is_some())
                );
            }
        }
    }

    #[test]
    fn a_hundred_small_captures_are_three_batches() {
        let spec = CaptureSpec {
            pane: "%1".into(),
            depth: 50,
            saved: false,
            resync: None,
        };
        assert_eq!(batches(&[CaptureCost::of(&spec, 24); 100]).len(), 3);
        let deep = CaptureSpec {
            depth: 100_000,
            ..spec.clone()
        };
        let costs = [
            CaptureCost::of(&spec, 24),
            CaptureCost::of(&deep, 24),
            CaptureCost::of(&spec, 24),
        ];
        assert_eq!(batches(&costs), [0..1, 1..2, 2..3]);
        assert!(batches(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn all_captures_are_in_a_batch_and_no_batch_is_long(costs in prop::collection::vec(0_u64..20_000, 0..200)) {
            let costs: Vec<CaptureCost> = costs.into_iter().map(CaptureCost).collect();
            let batches = batches(&costs);
            let all: Vec<usize> = batches.iter().cloned().flatten().collect();
            prop_assert_eq!(all, (0..costs.len()).collect::<Vec<_>>());
            for batch in batches {
                let us: u64 = costs[batch.clone()].iter().map(|cost| cost.0).sum();
                prop_assert!(us <= BATCH_US_MAX || batch.len() == 1);
            }
        }
    }
}
