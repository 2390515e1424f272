//! The poller of one tmux session: asks the gateway for news of its panes, and says what changed.
//!
//! One thread a session, named after it. It gets [`Control`] messages from the coordinator and
//! replies from the gateway, which is its ticker too, and sends events, which never waits. It
//! blocks on the gateway's reply, together with its stop and with what it holds back for a while.
//! It ends when the session or the server is gone, or when it is stopped; a panic is caught at its
//! top and reported, and the poller resumes after a while.

mod end;
pub(super) mod panes;
pub(super) mod pipes;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, never, select_biased};

use crate::bus::EventEmitter;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::{PaneId, SessionEndReason};
use crate::observe::poller::panes::{ReplyContext, Selection, SessionPanes};
use crate::thread::{Panicked, Stop, catch_panic, is_stopped};
use crate::tmux::{
    DepartedPane, DrainMessage, GatewayHandle, PendingReply, PollSchedule, ReplyTime,
    ServerIdentity, SessionId, SessionReply, SessionRequest, received,
};

/// Time for which the poller keeps its place while the log has no room; tmux holds the lines meanwhile.
const ROOM_WAIT: Duration = Duration::from_secs(5);

/// After this time it is seen again whether the log has room, the server replies, or a pane was let
/// go.
const RETRY: Duration = Duration::from_millis(200);

/// Interval in which new panes, sizes and ends are looked for, where bytes tell the rest: a new
/// pane is seen in about the time in which its first lines would be, if it was polled.
const STREAM_TICK: Duration = Duration::from_millis(200);

/// So much of what drains bring is held while an reply is waited for; then they wait, too.
const HELD_MAX: usize = 16;

/// After a crash the poller comes back after this time, doubled with each crash up to the second.
const BACK_OFF: Duration = Duration::from_millis(100);
const BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// A message from the coordinator to a poller.
#[derive(Debug)]
pub(in crate::observe) enum Control {
    /// Look at once.
    PollNow,
    /// Watch these panes only, where it names some, and never those.
    Select(Selection),
}

/// The parts of a poller, before it runs.
pub(in crate::observe) struct Poller {
    pub session_id: SessionId,
    pub name: String,
    pub server: ServerIdentity,
    pub emitter: EventEmitter,
    pub gateway: GatewayHandle,
    pub clock: Clock,
    pub schedule: PollSchedule,
    pub stop: Stop,
    pub control: Receiver<Control>,
    pub panes: SessionPanes,
}

/// The end of a poller's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::observe) struct Ended {
    pub reason: SessionEndReason,
    pub exit_status: Option<i32>,
    /// One of its programs failed.
    pub has_failed: bool,
}

impl Poller {
    /// Runs to the session's end.
    pub fn run(self) -> Ended {
        let mut work = Work {
            departed: HashMap::new(),
            started: false,
            hung: false,
            no_room_since: None,
            poller: self,
        };
        let mut back_off = BACK_OFF;
        loop {
            match catch_panic("poller", || work.observe()) {
                Ok(ended) => {
                    work.poller.panes.shutdown();
                    return ended;
                }
                Err(panicked) => work.recover(&panicked, &mut back_off),
            }
        }
    }
}

struct Work {
    poller: Poller,
    /// The ends of the panes of a session that is gone.
    departed: HashMap<PaneId, DepartedPane>,
    started: bool,
    hung: bool,
    no_room_since: Option<Instant>,
}

/// The result of a wait.
enum Woken {
    Reply(Result<SessionReply>),
    /// Nothing that needs an reply any more: the question is to be request anew.
    RequestAgain,
    /// Other captures are needed at once.
    CaptureMore,
    /// It is time to end.
    Stopped,
}

impl Work {
    /// Observes until the end. Called again after a panic.
    fn observe(&mut self) -> Ended {
        // The first capture is taken at once: what is printed after it is seen.
        let mut when = ReplyTime::Now;
        let reason = loop {
            if is_stopped(&self.poller.stop) {
                break SessionEndReason::Detached;
            }
            if !self.has_room() {
                match self.wait(None, Some(self.retry_at())) {
                    Woken::Stopped => break SessionEndReason::Detached,
                    Woken::Reply(_) | Woken::RequestAgain | Woken::CaptureMore => continue,
                }
            }
            let requested = self
                .poller
                .gateway
                .request_session(self.session_request(when));
            let woken = match requested {
                Ok(pending) => self.wait(Some(&pending), None),
                Err(error) => Woken::Reply(Err(error)),
            };
            // Whatever comes between is a reason to capture at once.
            when = ReplyTime::Now;
            match woken {
                Woken::Stopped => break SessionEndReason::Detached,
                Woken::RequestAgain => {}
                Woken::CaptureMore => {
                    if let Some(reason) = self.capture_more() {
                        break reason;
                    }
                    when = self.next_reply_time();
                }
                Woken::Reply(Ok(reply)) => {
                    let reason = self
                        .handle_reply(reply, false)
                        .or_else(|| self.capture_more());
                    if let Some(reason) = reason {
                        break reason;
                    }
                    when = self.next_reply_time();
                    if when == ReplyTime::Now
                        && let Woken::Stopped = self.wait(None, Some(self.retry_at()))
                    {
                        break SessionEndReason::Detached;
                    }
                }
                Woken::Reply(Err(error)) => {
                    if let Some(reason) = self.handle_failure(&error) {
                        break reason;
                    }
                    if let Woken::Stopped = self.wait(None, Some(self.retry_at())) {
                        break SessionEndReason::Detached;
                    }
                }
            }
        };
        self.end(reason)
    }

    /// Waits for an reply, or until some time, and says meanwhile what was held back.
    fn wait(
        &mut self,
        pending: Option<&PendingReply<SessionReply>>,
        until: Option<Instant>,
    ) -> Woken {
        let nothing = never();
        let no_arrivals = never();
        let timer = until.map_or_else(never, |until| self.poller.clock.at(until));
        loop {
            let due = self.poller.panes.deadline(pending.is_some());
            let due = due.map_or_else(never, |due| self.poller.clock.at(due));
            let replies = pending.map_or(&nothing, PendingReply::receiver);
            let arrivals = self.poller.panes.arrivals().unwrap_or(&no_arrivals);
            select_biased! {
                recv(self.poller.stop) -> _ => return Woken::Stopped,
                recv(self.poller.control) -> control => match control {
                    Ok(Control::PollNow) => {
                        self.poller.panes.wake(self.poller.clock.now());
                        return Woken::RequestAgain;
                    }
                    Ok(Control::Select(selection)) => {
                        self.poller.panes.select(selection);
                        return Woken::RequestAgain;
                    }
                    // The coordinator is gone: so is the reason to observe.
                    Err(_) => return Woken::Stopped,
                },
                recv(replies) -> reply => {
                    return Woken::Reply(received(reply));
                }
                recv(timer) -> _ => return Woken::RequestAgain,
                // One ring is as good as many, and the session's panes keeps the bell.
                recv(self.poller.panes.exits()) -> _ => {
                    let now = self.poller.clock.now();
                    self.poller.panes.handle_exits(now);
                }
                recv(self.poller.panes.agent_updates()) -> update => {
                    let now = self.poller.clock.now();
                    if let Ok(update) = update {
                        self.poller.panes.handle_agent_update(update, now);
                    }
                }
                recv(due) -> _ => {
                    // Not the due time: the observer may have been stopped since.
                    let now = self.poller.clock.now();
                    let has_other_request = self.poller.panes.handle_timeout(now);
                    if pending.is_some() && self.poller.panes.needs_more_captures(now) {
                        return Woken::CaptureMore;
                    }
                    if pending.is_some() && has_other_request {
                        return Woken::RequestAgain;
                    }
                }
                // Last: what has come is reported in its time, however much comes.
                recv(arrivals) -> arrival => {
                    let now = self.poller.clock.now();
                    // The thread that reads them has panicked: its panes are lost.
                    let Ok(arrival) = arrival else {
                        self.poller.panes.pipes_lost(now);
                        return Woken::RequestAgain;
                    };
                    if self.poller.panes.arrived(arrival, now) && pending.is_some() {
                        return Woken::RequestAgain;
                    }
                }
            }
        }
    }

    fn retry_at(&self) -> Instant {
        self.poller.clock.now() + RETRY
    }

    /// Takes the captures that are needed beside those that tell what is new.
    fn capture_more(&mut self) -> Option<SessionEndReason> {
        let now = self.poller.clock.now();
        if !self.poller.panes.needs_more_captures(now) {
            return None;
        }
        loop {
            let reason = self.capture_more_once();
            if reason.is_some() || !self.poller.panes.take_needs_another_round() {
                return reason;
            }
        }
    }

    fn capture_more_once(&mut self) -> Option<SessionEndReason> {
        let now = self.poller.clock.now();
        let session_request = SessionRequest {
            panes: self.poller.panes.extra_requests(now),
            ..self.session_request(ReplyTime::Now)
        };
        let mut held = Vec::new();
        let requested = self.poller.gateway.request_session(session_request);
        let reply = requested.map(|pending| self.wait_for_reply(&pending, &mut held));
        let reason = match reply {
            Ok(None) => Some(SessionEndReason::Detached),
            Ok(Some(Ok(reply))) => self.handle_reply(reply, true),
            Ok(Some(Err(error))) | Err(error) => self.handle_failure(&error),
        };
        let now = self.poller.clock.now();
        self.poller.panes.end_extra_captures(now);
        for arrival in held {
            self.poller.panes.arrived(arrival, now);
        }
        reason
    }

    /// Waits for an reply, which may take a busy server long; what streamed panes print is
    /// said meanwhile. Everything else that has come is held for after the reply, which may be what
    /// it follows.
    fn wait_for_reply(
        &mut self,
        pending: &PendingReply<SessionReply>,
        held: &mut Vec<DrainMessage>,
    ) -> Option<Result<SessionReply>> {
        let nothing = never();
        let mut is_receiving = true;
        loop {
            let arrivals = self.poller.panes.arrivals();
            let arrivals = arrivals.filter(|_| is_receiving && held.len() < HELD_MAX);
            select_biased! {
                recv(self.poller.stop) -> _ => return None,
                recv(pending.receiver()) -> reply => {
                    return Some(received(reply));
                }
                recv(arrivals.unwrap_or(&nothing)) -> arrival => {
                    // The thread that reads them has panicked: that is noticed next.
                    let Ok(arrival) = arrival else {
                        is_receiving = false;
                        continue;
                    };
                    let is_next = held.iter().all(|before| before.token != arrival.token);
                    if is_next && self.poller.panes.continues_stream(&arrival) {
                        let now = self.poller.clock.now();
                        self.poller.panes.arrived(arrival, now);
                    } else {
                        held.push(arrival);
                    }
                }
            }
        }
    }

    /// When the next reply is configured: a pane that could not be captured yet is request for again.
    fn next_reply_time(&self) -> ReplyTime {
        match self.poller.panes.has_pending_panes() {
            true => ReplyTime::Now,
            false => ReplyTime::OnChange(self.schedule()),
        }
    }

    /// In what rhythm to capture for what is new.
    fn schedule(&self) -> PollSchedule {
        match self.poller.panes.is_streamed() {
            true => PollSchedule::Fixed(STREAM_TICK),
            false => self.poller.schedule,
        }
    }

    fn session_request(&self, when: ReplyTime) -> SessionRequest {
        SessionRequest {
            session_id: self.poller.session_id,
            server: Some(self.poller.server.clone()),
            name: Some(self.poller.name.clone()),
            panes: self.poller.panes.requests(),
            new_panes: self.poller.panes.new_panes(!self.started),
            viewed: self.poller.panes.viewed(),
            when,
        }
    }

    fn handle_reply(&mut self, reply: SessionReply, again: bool) -> Option<SessionEndReason> {
        let (name, panes, departed) = match reply {
            SessionReply::Present {
                name,
                panes,
                departed,
                ..
            } => (name, panes, departed),
            SessionReply::Gone { departed } => {
                self.departed = departed;
                return Some(SessionEndReason::Closed);
            }
            SessionReply::OtherServer => return Some(SessionEndReason::ServerGone),
        };
        self.report_recovery();
        if name != self.poller.name {
            self.poller
                .emitter
                .session_renamed(&self.poller.name, &name);
            self.poller.name = name;
        }
        let first = !self.started;
        // What is printed from the session's beginning on is seen: its panes are looked at first.
        let are_panes_ready = again || !self.poller.panes.lists_unopened_pane(&panes);
        if first && are_panes_ready {
            self.started = true;
            let ids: Vec<PaneId> = panes
                .iter()
                .map(|reply| reply.state().pane())
                .filter(|id| self.poller.panes.is_watched(id))
                .collect();
            self.poller.emitter.session_started(&self.poller.name, ids);
        }
        let context = ReplyContext {
            name: &self.poller.name,
            first,
            again,
            now: self.poller.clock.now(),
        };
        self.poller.panes.handle_reply(panes, &departed, context);
        None
    }

    /// A capture failed: the server is gone, or does not reply, which is reported once.
    fn handle_failure(&mut self, error: &Error) -> Option<SessionEndReason> {
        if error.is_gone() {
            return Some(SessionEndReason::ServerGone);
        }
        if !std::mem::replace(&mut self.hung, true) {
            let message = format!("cannot capture the panes: {error}");
            self.poller.emitter.warning("tmux", &message);
        }
        None
    }

    fn report_recovery(&mut self) {
        if std::mem::take(&mut self.hung) {
            self.poller
                .emitter
                .warning("tmux", "the tmux server replies again");
        }
    }

    /// Returns whether the log has room; without it the poller keeps its place for a while.
    fn has_room(&mut self) -> bool {
        if self.poller.emitter.has_room() {
            self.no_room_since = None;
            return true;
        }
        let now = self.poller.clock.now();
        let since = *self.no_room_since.get_or_insert(now);
        now.saturating_duration_since(since) >= ROOM_WAIT
    }

    /// After a panic: says so and waits.
    fn recover(&mut self, panicked: &Panicked, back_off: &mut Duration) {
        log::error!(
            "the poller of session {:?} crashed: {}",
            self.poller.name,
            panicked.message
        );
        let stop = &self.poller.stop;
        select_biased! {
            recv(stop) -> _ => {}
            recv(self.poller.clock.after(*back_off)) -> _ => {}
        }
        *back_off = (*back_off * 2).min(BACK_OFF_MAX);
        let source = format!("poller {}", self.poller.name);
        self.poller
            .emitter
            .poller_restarted(&source, &panicked.message);
    }
}
