//! A wait that has begun: requests captures and feeds them to its panes until a condition is met.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded, never, select_biased};

use super::config::{TargetEnd, Wait, WaitCondition, WaitEnd, WaitMatch, WaitOutcome};
use super::exits::ProgramExits;
use super::matcher::{LastLines, LineMatch, MatchKind};
use super::pane::{BaselineMode, LineSource, WaitedPane};
use super::stream::{HEARD_TIMEOUT, SharedPane, Streams};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::PaneId;
use crate::observe::ObservedSessions;
use crate::thread::{self, Handle, Stop, StopGuard, lock, stop_pair};
use crate::tmux::{
    DepartedPane, ForegroundPrograms, GatewayHandle, Listing, PaneReply, PaneRequest, PaneState,
    PollSchedule, Server, ServerIdentity, SessionId, SessionReply, SessionRequest, bytes_read_by,
    received,
};
use crate::track::{PaneNumbers, ProcessExit};

/// The time limit of the last capture, after the timeout. A healthy server replies in a few milliseconds,
/// and a caller with a timeout must not wait long for a hung one.
const LAST_CAPTURE: Duration = Duration::from_secs(1);

/// The shortest interval at which the presence of streamed panes is checked: their pollers report everything
/// else.
const PRESENCE_INTERVAL: Duration = Duration::from_millis(200);

/// A wait that has begun, from [`Waiter::start`](super::Waiter::start). Its duration and its timeout count
/// from that call. Dropping it ends the wait.
#[derive(Debug)]
#[must_use = "the outcome comes from finish"]
pub struct StartedWait<'a> {
    wait: Wait,
    channel: Option<ChannelWait>,
    session_id: SessionId,
    /// The last known name. While it is current, tmux need not list all sessions.
    session_name: String,
    identity: ServerIdentity,
    /// The panes of the target; `None` for all panes of the session, including new ones.
    target_panes: Option<Vec<PaneId>>,
    gateway: GatewayHandle,
    clock: &'a Clock,
    stop: Stop,
    began: Instant,
    deadline: Option<Instant>,
    panes: HashMap<PaneId, SharedPane>,
    /// The streams of the session, if an engine observes it.
    streams: Option<Streams>,
    /// The last listed numbers of streamed panes.
    listed: HashMap<PaneId, PaneNumbers>,
    /// Panes whose next capture is their baseline, because their streams have ended without a trace.
    abandoned: HashSet<PaneId>,
    /// The panes of the session that are not part of the target.
    other_panes: HashSet<PaneId>,
    /// A pane that is gone has, or may have, printed lines that were not captured.
    has_lost_lines: bool,
    /// The caller knows that lines were lost.
    is_loss_reported: bool,
    /// The last request got no reply in time.
    is_unanswered: bool,
    /// A match in the final state of a pane that is gone.
    final_match: Option<(PaneId, LineMatch)>,
    last_lines: LastLines,
    /// A pane and a line that it showed before the wait.
    already_shown: Option<(PaneId, String)>,
    exit_status: Option<i32>,
    /// The programs, for a wait for their end.
    programs: Option<ProgramExits>,
    has_baseline: bool,
    /// The end, when the first capture already decided it.
    end: Option<WaitEnd>,
}

impl<'a> StartedWait<'a> {
    /// Begins a wait for a target that is in the listing: takes the first capture, however long that takes.
    pub(super) fn start(
        wait: &Wait,
        channel: Option<ChannelWait>,
        (listing, sessions): (&Listing, Option<&ObservedSessions>),
        gateway: GatewayHandle,
        clock: &'a Clock,
        began: Instant,
        stop: &Stop,
    ) -> Result<Self> {
        let panes = wait.target.resolve(listing);
        let session = panes.first();
        let session_id = session.map_or_else(SessionId::default, |pane| pane.session_id);
        let ids: Vec<PaneId> = panes.iter().map(PaneState::pane).collect();
        let in_session = || listing.panes_of(session_id).map(PaneState::pane);
        // A target that is the whole session also includes panes that open later.
        let is_part = in_session().count() != ids.len() || wait.target.may_be_part(listing);
        let other_panes = in_session().filter(|id| !ids.contains(id)).collect();
        let sessions = sessions.filter(|_| wait.needs_lines() || !wait.states.is_empty());
        let streams =
            sessions.map(|sessions| Streams::new(sessions.clone(), &listing.server, session_id));
        if let Some(streams) = streams.as_ref().filter(|_| !is_part) {
            streams.listen_to_openings(wait);
        }
        let streamed = streams.as_ref().filter(|_| wait.needs_lines());
        let streamed = streamed.map_or_else(HashMap::new, |streams| {
            let mode = if wait.include_existing {
                BaselineMode::Existing
            } else {
                BaselineMode::Baseline
            };
            streams.listen(&ids, (wait, mode), (stop, clock))
        });
        let mut started = Self {
            channel,
            session_id,
            session_name: session.map_or_else(String::new, |pane| pane.session_name.clone()),
            identity: listing.server.clone(),
            target_panes: is_part.then_some(ids),
            gateway,
            clock,
            stop: stop.clone(),
            began,
            deadline: wait.timeout.and_then(|timeout| began.checked_add(timeout)),
            panes: streamed,
            streams,
            listed: HashMap::new(),
            abandoned: HashSet::new(),
            other_panes,
            has_lost_lines: false,
            is_loss_reported: false,
            is_unanswered: false,
            final_match: None,
            last_lines: LastLines::default(),
            already_shown: None,
            exit_status: None,
            programs: wait.exit.then(ProgramExits::start),
            has_baseline: false,
            end: None,
            wait: wait.clone(),
        };
        started.end = started.capture_now(None)?;
        if let Some(streams) = started.streams.as_ref().filter(|_| !wait.states.is_empty()) {
            let panes: Vec<PaneId> = started.panes.keys().cloned().collect();
            started.wait.other = Some(streams.listen_to_states(&panes, wait));
        }
        started.already_shown = started.panes.iter().find_map(|(id, pane)| {
            let line = lock(pane).already_shown.take()?;
            Some((id.clone(), line))
        });
        Ok(started)
    }

    /// Returns a pane of the target and a line that it showed before the wait and that matches a pattern. Such
    /// a line does not end the wait.
    pub fn already_shown(&self) -> Option<(&PaneId, &str)> {
        let (pane, line) = self.already_shown.as_ref()?;
        Some((pane, line))
    }

    /// Returns the panes of the target.
    #[cfg(feature = "cli")]
    pub(crate) fn panes(&self) -> Vec<PaneId> {
        let mut panes: Vec<PaneId> = self.panes.keys().cloned().collect();
        panes.sort_unstable();
        panes
    }

    /// Returns the server of the target.
    #[cfg(feature = "cli")]
    pub(crate) fn server(&self) -> &ServerIdentity {
        &self.identity
    }

    /// Returns the session if the target is a whole session, which includes panes that open later.
    #[cfg(feature = "cli")]
    pub(crate) fn whole_session(&self) -> Option<SessionId> {
        self.target_panes.is_none().then_some(self.session_id)
    }

    /// Returns true if the first capture has ended the wait.
    #[cfg(feature = "cli")]
    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Waits in this thread until a condition is met.
    ///
    /// # Errors
    /// `is_gone()` when the gateway has ended; `is_timeout()` or another error when tmux gives no readable
    /// reply.
    pub fn finish(self) -> Result<WaitOutcome> {
        self.finish_reporting(|| {})
    }

    /// Waits as [`StartedWait::finish`] does, and calls `lost_lines` as soon as lines are lost: the line that the
    /// wait is for may have been among them. The wait continues. It is called once at most.
    ///
    /// # Errors
    /// The same as for [`StartedWait::finish`].
    pub fn finish_reporting(mut self, mut lost_lines: impl FnMut()) -> Result<WaitOutcome> {
        let end = match self.end.take() {
            Some(end) => end,
            None => self.run(&mut lost_lines)?,
        };
        Ok(self.outcome(end))
    }

    /// Waits for the outcome of the same wait in an observer, as long as `lead` is open. If it is closed without
    /// an outcome, the wait continues here, from the content of the panes at its start.
    #[cfg(feature = "cli")]
    pub(crate) fn finish_led(
        mut self,
        lead: &Receiver<Lead>,
        mut lost_lines: impl FnMut(),
    ) -> Result<WaitOutcome> {
        let (stop, other) = (self.stop.clone(), self.wait.other.take());
        let other = other.unwrap_or_else(never);
        let channel = self.channel.as_ref();
        let channel_done = channel.map_or_else(never, |channel| channel.done.clone());
        // The observer's own last capture takes a moment.
        let late = self.deadline.map(|deadline| deadline + 2 * LAST_CAPTURE);
        let late = late.map_or_else(never, |at| self.clock.at(at));
        let mut other_open = Some(&other);
        while self.end.is_none() {
            select_biased! {
                recv(stop) -> _ => self.end = Some(WaitEnd::Interrupted),
                recv(lead) -> lead => match lead {
                    Ok(Lead::Outcome(outcome)) => return Ok(*outcome),
                    Ok(Lead::LostLines) => {
                        if !std::mem::replace(&mut self.is_loss_reported, true) {
                            lost_lines();
                        }
                    }
                    Err(_) => break,
                },
                recv(channel_done) -> result => {
                    let result = result.unwrap_or_else(|_| Err(channel_panicked()));
                    self.end = Some(self.channel_done(result)?);
                }
                recv(other_open.unwrap_or(&never())) -> found => match found {
                    Ok(found) => self.end = Some(WaitEnd::Matched(found)),
                    Err(_) => other_open = None,
                },
                recv(late) -> _ => break,
            }
        }
        self.wait.other = other_open.cloned();
        self.finish_reporting(lost_lines)
    }

    fn outcome(mut self, end: WaitEnd) -> WaitOutcome {
        if self.last_lines.lines.is_empty()
            && let Some(pane) = self.panes.values().max_by_key(|pane| lock(pane).changed_at)
        {
            self.last_lines = lock(pane).last_lines();
        }
        WaitOutcome {
            end,
            ts: self.clock.wall(),
            elapsed: self.clock.now().saturating_duration_since(self.began),
            lost_lines: self.may_have_lost_lines(),
            last_lines: self.last_lines.lines,
            lines_before: self.last_lines.before,
        }
    }

    fn run(&mut self, lost_lines: &mut dyn FnMut()) -> Result<WaitEnd> {
        loop {
            if let Some(end) = self.heard() {
                return Ok(end);
            }
            if self.has_lost_lines()
                && self.wait.matches_lines()
                && !std::mem::replace(&mut self.is_loss_reported, true)
            {
                lost_lines();
            }
            let schedule = PollSchedule::Fixed(self.interval());
            let request = self.request(Some(schedule));
            let pending = self.gateway.request_session(request)?;
            let stop = self.stop.clone();
            let channel = self.channel.as_ref();
            let channel_done = channel.map_or_else(never, |channel| channel.done.clone());
            let other = self.wait.other.clone().unwrap_or_else(never);
            let time_up = self.deadline.map_or_else(never, |at| self.clock.at(at));
            let idle = self.idle_at().map_or_else(never, |at| self.clock.at(at));
            let streams = self.streams.as_ref();
            let rings = streams.map_or_else(never, |streams| streams.rings.clone());
            let end = select_biased! {
                recv(stop) -> _ => Some(WaitEnd::Interrupted),
                recv(rings) -> _ => {
                    if self.has_closed_pane() {
                        self.capture_now(self.deadline)?
                    } else {
                        None
                    }
                }
                recv(pending.receiver()) -> reply => {
                    match self.handle_reply(received(reply), false)? {
                        None => self.capture_deeper(self.deadline)?,
                        end => end,
                    }
                }
                recv(channel_done) -> result => {
                    let result = result.unwrap_or_else(|_| Err(channel_panicked()));
                    Some(self.channel_done(result)?)
                }
                recv(other) -> found => {
                    if found.is_err() {
                        // A condition that the wait does not observe can no longer be met.
                        self.wait.other = None;
                    }
                    found.ok().map(WaitEnd::Matched)
                }
                recv(time_up) -> _ => Some(self.last_capture()?),
                // Output since the previous capture ends the silence.
                recv(idle) -> _ => self
                    .capture_now(self.deadline)?
                    .or_else(|| self.is_idle().then(|| matched(WaitCondition::Idle))),
            };
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    /// Takes the last capture, after the timeout: everything printed until now counts.
    fn last_capture(&mut self) -> Result<WaitEnd> {
        // Without a reply, the present state of the panes is unknown.
        self.is_unanswered = true;
        let by = self.clock.now().checked_add(LAST_CAPTURE);
        let end = self.capture_now(by)?;
        Ok(end.unwrap_or_else(|| {
            if self.may_have_lost_lines() {
                WaitEnd::Lost
            } else {
                WaitEnd::TimedOut
            }
        }))
    }

    /// Captures the panes at once, and again in full where the first capture was too short.
    fn capture_now(&mut self, by: Option<Instant>) -> Result<Option<WaitEnd>> {
        let end = match self.capture(false, by)? {
            None => self.capture_deeper(by)?,
            end => end,
        };
        Ok(end.or_else(|| self.catch_up(by)))
    }

    /// Waits until everything that tmux has read from streamed panes has been heard.
    fn catch_up(&mut self, by: Option<Instant>) -> Option<WaitEnd> {
        let streamed = self
            .panes
            .iter()
            .filter(|(_, pane)| lock(pane).is_streamed());
        let streamed: Vec<PaneId> = streamed.map(|(id, _)| id.clone()).collect();
        let streams = self.streams.as_ref().filter(|_| !streamed.is_empty())?;
        let by = by.unwrap_or_else(|| self.clock.now() + LAST_CAPTURE);
        self.is_unanswered |= !streams.catch_up(&streamed, by, (&self.stop, self.clock));
        self.heard()
    }

    /// Returns the end that the streams of panes have brought.
    fn heard(&mut self) -> Option<WaitEnd> {
        // The panes of the first capture are those that were there.
        let streams = self.streams.as_ref().filter(|_| self.has_baseline);
        for (id, pane) in streams.map(Streams::take_opened).unwrap_or_default() {
            let known = self.panes.entry(id).or_insert_with(|| Arc::clone(&pane));
            // What was captured of it so far is also in its stream, which began with its first line.
            if !lock(known).is_streamed() {
                *known = pane;
            }
        }
        let mut found = None;
        let mut abandoned = Vec::new();
        for (id, pane) in &self.panes {
            let mut pane = lock(pane);
            if let Some(line_match) = pane.found.take() {
                found.get_or_insert((id.clone(), line_match));
            }
            if matches!(pane.source, LineSource::Abandoned) {
                abandoned.push(id.clone());
            }
        }
        for id in abandoned {
            self.panes.remove(&id);
            self.abandoned.insert(id);
            self.has_lost_lines = true;
        }
        found.map(|(id, line_match)| self.end_of(id, line_match))
    }

    fn has_closed_pane(&self) -> bool {
        let is_closed = |pane: &SharedPane| matches!(lock(pane).source, LineSource::Closed { .. });
        self.panes.values().any(is_closed)
    }

    /// Returns the interval of requests.
    fn interval(&self) -> Duration {
        let is_streamed = |pane: &SharedPane| lock(pane).is_streamed();
        if self.wait.exit || self.panes.is_empty() || !self.panes.values().all(is_streamed) {
            self.wait.interval
        } else {
            self.wait.interval.max(PRESENCE_INTERVAL)
        }
    }

    /// Captures the full history of panes whose last capture was too short.
    fn capture_deeper(&mut self, by: Option<Instant>) -> Result<Option<WaitEnd>> {
        let is_too_short = |pane: &SharedPane| lock(pane).needs_full_capture();
        if self.panes.values().any(is_too_short) {
            self.capture(true, by)
        } else {
            Ok(None)
        }
    }

    fn capture(&mut self, is_full: bool, by: Option<Instant>) -> Result<Option<WaitEnd>> {
        let pending = self.gateway.request_session(self.request(None))?;
        let late = by.map_or_else(never, |at| self.clock.at(at));
        select_biased! {
            recv(self.stop) -> _ => Ok(Some(WaitEnd::Interrupted)),
            recv(pending.receiver()) -> reply => {
                self.handle_reply(received(reply), is_full)
            }
            recv(late) -> _ => {
                self.is_unanswered = true;
                Ok(None)
            }
        }
    }

    fn request(&self, on_change: Option<PollSchedule>) -> SessionRequest {
        let panes = self.panes.iter();
        let panes = panes.map(|(id, pane)| {
            let listed = self.listed.get(id).copied().unwrap_or_default();
            (id.clone(), lock(pane).request(listed))
        });
        let others = self.other_panes.iter();
        let others = others.map(|id| (id.clone(), PaneRequest::Presence));
        SessionRequest {
            lists_new_panes: false,
            session_id: self.session_id,
            server: Some(self.identity.clone()),
            name: Some(self.session_name.clone()),
            panes: panes.chain(others).collect(),
            viewed: None,
            given_names: None,
            on_change,
        }
    }

    fn idle_at(&self) -> Option<Instant> {
        let idle = self.wait.idle?;
        let changed_at = self
            .panes
            .values()
            .map(|pane| lock(pane).changed_at)
            .max()?;
        changed_at.checked_add(idle)
    }

    /// Returns true if the last capture succeeded and confirmed a silence that is long enough.
    fn is_idle(&self) -> bool {
        !self.is_unanswered && self.idle_at().is_some_and(|at| at <= self.clock.now())
    }

    /// Handles a reply. A hung server is retried while there is time.
    fn handle_reply(
        &mut self,
        reply: Result<SessionReply>,
        is_full: bool,
    ) -> Result<Option<WaitEnd>> {
        match reply {
            Ok(reply) => {
                self.is_unanswered = false;
                Ok(self.handle_session(reply, is_full))
            }
            Err(error) if !self.has_baseline => Err(error),
            Err(error) if error.is_gone() => Ok(Some(self.server_gone())),
            Err(error) if error.is_timeout() => {
                log::warn!("{error:?}");
                self.is_unanswered = true;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn handle_session(&mut self, reply: SessionReply, is_full: bool) -> Option<WaitEnd> {
        let (panes, departed) = match reply {
            SessionReply::Present {
                name,
                panes,
                departed,
            } => {
                self.session_name = name;
                (panes, departed)
            }
            SessionReply::Gone { departed } => {
                self.remove_panes(|_| true, &departed);
                return Some(self.target_ended(TargetEnd::SessionGone));
            }
            SessionReply::OtherServer => return Some(self.server_gone()),
        };
        let now = self.clock.now();
        let mut first_match: Option<(PaneId, LineMatch)> = None;
        let present: HashSet<PaneId> = panes.iter().map(|reply| reply.state().pane()).collect();
        for reply in panes {
            let id = reply.state().pane();
            if let Some(targets) = &self.target_panes
                && !targets.contains(&id)
            {
                self.other_panes.insert(id);
                continue;
            }
            if let Some(line_match) = self.handle_pane(&id, reply, is_full, now) {
                first_match.get_or_insert((id, line_match));
            }
        }
        self.has_baseline = true;
        if let Some((id, line_match)) = first_match {
            return Some(self.end_of(id, line_match));
        }
        if let Some(end) = self.heard() {
            return Some(end);
        }
        self.remove_panes(|id| !present.contains(id), &departed);
        if let Some((pane, line_match)) = self.final_match.take() {
            return Some(self.end_of(pane, line_match));
        }
        if self.panes.is_empty() {
            return Some(self.target_ended(TargetEnd::PaneGone));
        }
        if self.panes.values().all(|pane| lock(pane).death.is_some()) {
            let by = self.clock.now() + LAST_CAPTURE;
            if let Some(end) = self.catch_up(Some(by)) {
                return Some(end);
            }
            let deaths = self.panes.values().filter_map(|pane| lock(pane).death);
            // A failure counts more than a success, as for programs whose panes are closed.
            self.exit_status = deaths.filter_map(ProcessExit::exit_status).max();
            return Some(self.target_ended(TargetEnd::ProgramEnded));
        }
        None
    }

    fn handle_pane(
        &mut self,
        id: &PaneId,
        reply: PaneReply,
        is_full: bool,
        now: Instant,
    ) -> Option<LineMatch> {
        if let Some(programs) = &mut self.programs {
            programs.note(id, reply.state().pid, self.identity.pid);
        }
        let shared = self.panes.get(id).cloned();
        let mut known = shared.as_ref().map(|pane| lock(pane));
        let mut captured = match reply {
            PaneReply::Captured(captured) => *captured,
            PaneReply::Unchanged(state, freshness) => {
                return known.and_then(|mut pane| pane.handle_unchanged(&state, freshness, now));
            }
            PaneReply::Listed(state) => {
                if let Some(pane) = &mut known {
                    pane.death = state.dead;
                    self.listed.insert(id.clone(), state.numbers);
                }
                return None;
            }
        };
        match known {
            Some(pane) if is_full && !pane.needs_full_capture() => None,
            Some(mut pane) => pane.handle_capture(captured, is_full, now),
            None => {
                let was_abandoned = self.abandoned.remove(id);
                let mode = match (self.has_baseline, self.wait.include_existing) {
                    (true, _) if was_abandoned => BaselineMode::Baseline,
                    (true, _) => BaselineMode::New,
                    (false, true) => BaselineMode::Existing,
                    (false, false) => BaselineMode::Baseline,
                };
                let (mut pane, line_match) =
                    WaitedPane::polled(&mut captured, &self.wait, mode, now);
                if mode == BaselineMode::New && self.target_panes.is_none() {
                    pane.stream_by = self.streams.as_ref().map(|_| now + HEARD_TIMEOUT);
                }
                self.panes.insert(id.clone(), Arc::new(Mutex::new(pane)));
                line_match
            }
        }
    }

    /// Removes panes that are gone. Everything that the server has read since a pane's last capture may
    /// have been output of this pane.
    fn remove_panes(
        &mut self,
        is_gone: impl Fn(&PaneId) -> bool,
        departed: &HashMap<PaneId, DepartedPane>,
    ) {
        let gone: Vec<_> = self.panes.extract_if(|id, _| is_gone(id)).collect();
        self.await_closes(&gone);
        let now = self.clock.now();
        for (id, pane) in gone {
            let mut pane = lock(&pane);
            let captured = departed.get(&id);
            let captured = captured.and_then(|departed| departed.freshness?.server_bytes);
            let is_complete = match &pane.source {
                LineSource::Closed { is_complete } => *is_complete,
                LineSource::Streamed | LineSource::Abandoned => false,
                LineSource::Polled(_) => {
                    pane.death.is_some()
                        || captured.is_some() && captured == bytes_read_by(self.identity.pid)
                }
            };
            self.has_lost_lines |= pane.has_lost_lines || self.wait.matches_lines() && !is_complete;
            self.last_lines = pane.last_lines();
            if let Some(line_match) = pane.end(now) {
                self.final_match.get_or_insert((id, line_match));
            }
        }
    }

    /// Waits until the streams of panes that are gone have passed on their last lines.
    fn await_closes(&self, gone: &[(PaneId, SharedPane)]) {
        let Some(streams) = &self.streams else { return };
        let late = self.clock.after(LAST_CAPTURE);
        while gone.iter().any(|(_, pane)| lock(pane).is_streamed()) {
            select_biased! {
                recv(self.stop) -> _ => return,
                recv(streams.rings) -> _ => {}
                recv(late) -> _ => return,
            }
        }
    }

    fn has_lost_lines(&self) -> bool {
        let now = self.clock.now();
        let has_lost = |pane: &SharedPane| {
            let pane = lock(pane);
            pane.has_lost_lines && pane.stream_by.is_none_or(|by| by <= now)
        };
        self.has_lost_lines || self.panes.values().any(has_lost)
    }

    fn may_have_lost_lines(&self) -> bool {
        let is_incomplete = |pane: &SharedPane| lock(pane).needs_full_capture();
        self.has_lost_lines() || self.is_unanswered || self.panes.values().any(is_incomplete)
    }
}

fn channel_panicked() -> Error {
    Error::other("the thread that waits for the channel has panicked")
}

/// A report of the observer in which the same wait runs.
#[cfg(feature = "cli")]
#[derive(Debug)]
pub(crate) enum Lead {
    /// Lines were lost; the wait continues.
    LostLines,
    /// The wait is over.
    Outcome(Box<WaitOutcome>),
}

fn matched(condition: WaitCondition) -> WaitEnd {
    WaitEnd::Matched(WaitMatch::of(condition))
}

impl StartedWait<'_> {
    pub(super) fn end_of(&mut self, pane: PaneId, line_match: LineMatch) -> WaitEnd {
        if let Some(pane) = self.panes.get(&pane) {
            self.last_lines = lock(pane).last_lines();
        }
        let condition = match line_match.kind {
            MatchKind::Wanted | MatchKind::Stop => WaitCondition::Text,
            MatchKind::Turn => WaitCondition::Turn,
        };
        let wait_match = WaitMatch {
            pane: Some(pane),
            line: line_match.line,
            text: Some(line_match.text),
            pattern: Some(line_match.pattern),
            lines_before: line_match.before,
            ..WaitMatch::of(condition)
        };
        match line_match.kind {
            MatchKind::Stop => WaitEnd::Stopped(wait_match),
            MatchKind::Wanted | MatchKind::Turn => WaitEnd::Matched(wait_match),
        }
    }

    pub(super) fn server_gone(&mut self) -> WaitEnd {
        self.remove_panes(|_| true, &HashMap::new());
        self.target_ended(TargetEnd::ServerGone)
    }

    pub(super) fn target_ended(&mut self, end: TargetEnd) -> WaitEnd {
        if let Some((pane, line_match)) = self.final_match.take() {
            return self.end_of(pane, line_match);
        }
        if self.wait.exit {
            WaitEnd::Matched(WaitMatch {
                exit_status: self.exit_status.or_else(|| {
                    let programs = self.programs.as_ref()?;
                    programs.status(self.clock)
                }),
                ..WaitMatch::of(WaitCondition::Exit)
            })
        } else {
            WaitEnd::Ended(end)
        }
    }

    /// Handles the end of `wait-for`, which returns when the channel is signalled and when the server dies.
    pub(super) fn channel_done(&mut self, result: Result<()>) -> Result<WaitEnd> {
        let listing = self
            .gateway
            .request_listing(ForegroundPrograms::Omitted)?
            .wait();
        match (result, listing) {
            (Ok(()), Ok(listing)) if listing.server == self.identity => {
                Ok(matched(WaitCondition::Channel))
            }
            (_, Err(error)) if !error.is_gone() => Err(error),
            _ => Ok(self.target_ended(TargetEnd::ServerGone)),
        }
    }
}

/// A running wait for a channel. Dropping it ends the wait.
#[derive(Debug)]
pub(super) struct ChannelWait {
    /// Receives a message when the channel was signalled or the server is gone.
    pub done: Receiver<Result<()>>,
    running: Option<StopGuard>,
    thread: Option<Handle<()>>,
}

impl ChannelWait {
    /// Starts the thread.
    pub fn start(server: &Server, name: &str, clock: &Clock) -> Result<Self> {
        let (running, stop) = stop_pair();
        let (sender, done) = bounded(1);
        let (server, name, clock) = (server.clone(), name.to_owned(), clock.clone());
        let thread = thread::spawn("td-channel", move || {
            // The wait may have ended for another reason.
            let _ = sender.send(server.wait_for(&name, stop, &clock));
        })?;
        Ok(Self {
            done,
            running: Some(running),
            thread: Some(thread),
        })
    }
}

impl Drop for ChannelWait {
    fn drop(&mut self) {
        self.running = None;
        if let Some(thread) = self.thread.take() {
            thread.join_logged();
        }
    }
}
