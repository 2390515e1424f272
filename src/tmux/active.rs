//! A request on its way through the gateway: its due time, the captures that it needs, and its reply.

mod evaluation;

use std::collections::HashMap;
use std::time::Duration;

use super::batches::{CaptureCost, batches};
use super::capture::{CaptureResult, CaptureSpec, capture};
use super::client::Client;
use super::digest::{CaptureDigest, Freshness};
use super::id::pane_number;
use super::listing::ServerIdentity;
use super::pending::ReplySender;
use super::probe::ScreenSpec;
use super::reply::{PaneReply, SessionReply};
use super::request::{CaptureRequest, PaneRequest, ReplyTime, SessionRequest};
use super::rounds::{AdaptiveRounds, UNHURRIED};
use super::schedule::{AdaptivePolling, PollSchedule};
use super::server::Server;
use super::snapshot::Snapshot;
use super::state::PaneState;
use crate::clock::Clock;
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
    /// The time at which a line settles or a screen must be compared.
    recheck: Option<Duration>,
    /// For each unchanged screen, the longest time until its next comparison.
    check_intervals: HashMap<PaneId, Duration>,
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

    /// Returns true if the requester is still waiting for the reply.
    pub fn is_awaited(&self) -> bool {
        self.reply_to.as_ref().is_some_and(ReplySender::is_awaited)
    }

    /// Returns true if the request must be replied to at once.
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

    /// Returns when the request is due, given the number of bytes that the server has read. `tick` returns
    /// the first tick of an interval at or after a time.
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

    /// Returns the requests to capture panes with a known digest.
    pub fn capture_requests(
        &self,
    ) -> impl Iterator<Item = (&PaneId, &CaptureRequest, &CaptureDigest)> {
        let panes = self.request.panes.iter();
        panes.filter_map(|(pane, request)| match request {
            PaneRequest::Capture(request) => Some((pane, request, request.known.as_ref()?)),
            _ => None,
        })
    }

    /// Returns the time until the next comparison of a pane's screen.
    fn check_interval(&self, pane: &PaneId) -> Duration {
        match self.adaptive() {
            Some(adaptive) => {
                let interval = self.check_intervals.get(pane).copied().unwrap_or(UNHURRIED);
                interval.min(adaptive.interval_max)
            }
            None => Duration::ZERO,
        }
    }

    /// Returns the screens to capture unless the numbers of their panes have changed.
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
                    height: known.numbers.height,
                })
            })
    }

    /// Returns true if this listing cannot show a change, because the request was already evaluated with it.
    pub fn is_settled_by(&self, listing: u64) -> bool {
        self.evaluated_by == Some(listing) && self.needs_listing_only
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
    let mut speculations = snapshot.speculations;
    let mut missing = Vec::new();
    for capture in share(&mut requests) {
        match speculations.take_for(&capture.spec) {
            Some(result) => {
                let taken = (result, speculations.freshness);
                deliver(client, identity, capture, taken, &mut requests);
            }
            None => missing.push(capture),
        }
    }
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
        let run = |server: &Server, clock: &Clock| capture(server, clock, identity, &specs);
        let results = match client.run_captures(specs.len(), run) {
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
        let run = |server: &Server, clock: &Clock| capture(server, clock, identity, &specs);
        match client.run_captures(specs.len(), run) {
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

#[cfg(test)]
mod tests;
