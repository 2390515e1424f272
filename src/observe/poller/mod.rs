//! The poller of one tmux session: requests captures of its panes and emits the changes.
//!
//! One thread per session, named after it. It receives [`Control`] messages from the coordinator,
//! replies from the gateway, which also serve as its ticks, and the output of drains. It emits events,
//! which never blocks. It blocks on the gateway's reply, its stop and the deadline of delayed output.
//! It ends when the session or the server is gone, or when it is stopped. A panic is caught at the top
//! and reported, and the poller resumes after a back-off.

pub(super) mod panes;
pub(super) mod pipes;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, never, select_biased};

use super::pane_observer::listener::{OpeningListener, PaneListener, StateListener};
use super::poller::panes::{ReplyContext, Selection, SessionPanes};
use super::session_outcome::SessionOutcome;
use crate::bus::EventEmitter;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::{PaneCloseReason, PaneId, SessionEndReason, TdEvent};
use crate::thread::{Panicked, Stop, catch_panic, is_stopped};
use crate::tmux::{
    DepartedPane, DrainMessage, GatewayHandle, PendingReply, PollSchedule, ServerIdentity,
    SessionId, SessionReply, SessionRequest, received,
};

/// The time for which the poller keeps its position while the log has no room; tmux holds the lines.
const ROOM_WAIT: Duration = Duration::from_secs(5);

/// The interval at which a streamed session is checked for new panes, sizes and ends: a new pane is found
/// about as fast as a poll would find its first lines. Also the delay before the poller checks again for room
/// in the log, a reply of the server, or a pane that another session's poller releases.
const TICK: Duration = Duration::from_millis(200);

/// The number of drain messages that are held while a reply is awaited; then the drains wait, too.
const HELD_MAX: usize = 16;

/// The delay before the poller resumes after a crash. It doubles with each crash, up to the maximum.
const BACK_OFF: Duration = Duration::from_millis(100);
const BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// A message from the coordinator to a poller.
#[derive(Debug)]
pub(in crate::observe) enum Control {
    /// Poll immediately.
    PollNow,
    /// Watch the panes of this selection.
    Select(Selection),
    /// Add a listener to a pane.
    Listen {
        pane: PaneId,
        listener: Box<dyn PaneListener>,
    },
    /// Add a listener of a pane's states.
    ListenToStates {
        pane: PaneId,
        listener: Box<dyn StateListener>,
    },
    /// Add a listener of panes that open from now on.
    ListenToOpenings(Box<dyn OpeningListener>),
}

/// The parts of a poller before it runs.
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
    pub progress: Progress,
}

/// The end of a poller's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::observe) struct Ended {
    pub reason: SessionEndReason,
    pub exit_status: Option<i32>,
    /// A program of the session failed.
    pub has_failed: bool,
}

/// What a poller remembers of its work.
#[derive(Default)]
pub(in crate::observe) struct Progress {
    /// The last states of the panes, after the session has ended.
    departed: HashMap<PaneId, DepartedPane>,
    started: bool,
    hung: bool,
    no_room_since: Option<Instant>,
    /// The request in progress is replied to at once.
    is_urgent: bool,
    /// An immediate poll was requested during such a request.
    polls_again: bool,
    /// An immediate poll was requested: the next reply is reported without waiting for lines to settle.
    is_requested: bool,
}

/// The result of a wait.
enum Woken {
    Reply(Result<SessionReply>),
    /// The request is outdated or unanswered: send another one.
    RequestAgain,
    /// More captures are needed at once.
    CaptureMore,
    /// The poller must end.
    Stopped,
}

impl Poller {
    /// Runs until the session ends or the poller is stopped.
    pub fn run(mut self) -> Ended {
        let mut back_off = BACK_OFF;
        loop {
            match catch_panic("poller", || self.observe()) {
                Ok(ended) => {
                    self.panes.shutdown();
                    return ended;
                }
                Err(panicked) => self.recover(&panicked, &mut back_off),
            }
        }
    }

    /// Observes until the end. Called again after a panic.
    fn observe(&mut self) -> Ended {
        // The first capture is taken at once, so that later output counts as new.
        let mut on_change = None;
        let reason = loop {
            if is_stopped(&self.stop) {
                break SessionEndReason::Detached;
            }
            if !self.has_room() {
                match self.pause() {
                    Some(reason) => break reason,
                    None => continue,
                }
            }
            self.progress.is_urgent = on_change.is_none();
            self.progress.polls_again = false;
            let is_requested = std::mem::take(&mut self.progress.is_requested);
            let request = self.session_request(on_change);
            let requested = self.gateway.request_session(request);
            let woken = match requested {
                Ok(pending) => self.wait(Some(&pending), None),
                Err(error) => Woken::Reply(Err(error)),
            };
            // Any result but a regular reply calls for another capture at once.
            on_change = None;
            match woken {
                Woken::Stopped => break SessionEndReason::Detached,
                Woken::RequestAgain => self.progress.is_requested |= is_requested,
                Woken::CaptureMore => {
                    self.progress.is_requested |= is_requested;
                    if let Some(reason) = self.capture_more() {
                        break reason;
                    }
                    on_change = self.next_schedule().filter(|_| !is_requested);
                }
                Woken::Reply(Ok(reply)) => {
                    let reason = self.handle_reply(reply, false);
                    let reason = reason.or_else(|| self.capture_more());
                    if let Some(reason) = reason {
                        break reason;
                    }
                    if is_requested {
                        self.panes.settle_now(self.clock.now());
                    }
                    if self.progress.polls_again {
                        continue;
                    }
                    on_change = self.next_schedule();
                    if on_change.is_none()
                        && let Some(reason) = self.pause()
                    {
                        break reason;
                    }
                }
                Woken::Reply(Err(error)) => {
                    self.progress.is_requested |= is_requested;
                    let reason = self.handle_failure(&error).or_else(|| self.pause());
                    if let Some(reason) = reason {
                        break reason;
                    }
                }
            }
        };
        self.end(reason)
    }

    /// Waits for a reply or until a deadline, and emits delayed output that becomes due meanwhile.
    fn wait(
        &mut self,
        pending: Option<&PendingReply<SessionReply>>,
        until: Option<Instant>,
    ) -> Woken {
        let nothing = never();
        let no_arrivals = never();
        let timer = until.map_or_else(never, |until| self.clock.at(until));
        loop {
            let due = self.panes.deadline(pending.is_some());
            let due = due.map_or_else(never, |due| self.clock.at(due));
            let replies = pending.map_or(&nothing, PendingReply::receiver);
            let arrivals = self.panes.arrivals().unwrap_or(&no_arrivals);
            select_biased! {
                recv(self.stop) -> _ => return Woken::Stopped,
                recv(self.control) -> control => match control {
                    Ok(Control::PollNow) => {
                        self.panes.wake(self.clock.now());
                        self.progress.is_requested = true;
                        if !self.progress.is_urgent {
                            return Woken::RequestAgain;
                        }
                        // Polls in quick succession must not withdraw each other's captures.
                        self.progress.polls_again = true;
                    }
                    Ok(Control::Select(selection)) => {
                        self.panes.select(selection);
                        return Woken::RequestAgain;
                    }
                    Ok(Control::Listen { pane, listener }) => {
                        self.panes.listen(&pane, listener, self.clock.now());
                    }
                    Ok(Control::ListenToStates { pane, listener }) => {
                        self.panes.listen_to_states(&pane, listener);
                    }
                    Ok(Control::ListenToOpenings(listener)) => {
                        self.panes.listen_to_openings(listener);
                    }
                    // The coordinator is gone.
                    Err(_) => return Woken::Stopped,
                },
                recv(replies) -> reply => {
                    return Woken::Reply(received(reply));
                }
                recv(timer) -> _ => return Woken::RequestAgain,
                // `SessionPanes` keeps the sender, so the channel never closes.
                recv(self.panes.exits()) -> _ => {
                    let now = self.clock.now();
                    self.panes.handle_exits(now);
                }
                recv(self.panes.agent_updates()) -> update => {
                    let now = self.clock.now();
                    if let Ok(update) = update {
                        self.panes.handle_agent_update(update, now);
                    }
                }
                recv(due) -> _ => {
                    // Not the due time: the process may have been suspended since.
                    let now = self.clock.now();
                    let has_other_request = self.panes.handle_timeout(now);
                    if pending.is_some() && self.panes.needs_more_captures(now) {
                        return Woken::CaptureMore;
                    }
                    if pending.is_some() && has_other_request {
                        return Woken::RequestAgain;
                    }
                }
                // Last, so that a flood of output does not delay the other channels.
                recv(arrivals) -> arrival => {
                    let now = self.clock.now();
                    // The thread that reads the drains has panicked: its streams are lost.
                    let Ok(arrival) = arrival else {
                        self.panes.pipes_lost(now);
                        return Woken::RequestAgain;
                    };
                    if self.panes.arrived(arrival, now) && pending.is_some() {
                        return Woken::RequestAgain;
                    }
                }
            }
        }
    }

    /// Waits for [`TICK`]. Returns a reason if the poller must end.
    fn pause(&mut self) -> Option<SessionEndReason> {
        self.progress.is_urgent = false;
        let woken = self.wait(None, Some(self.clock.now() + TICK));
        matches!(woken, Woken::Stopped).then_some(SessionEndReason::Detached)
    }

    /// Takes the captures that are needed besides the regular poll.
    fn capture_more(&mut self) -> Option<SessionEndReason> {
        let now = self.clock.now();
        if !self.panes.needs_more_captures(now) {
            return None;
        }
        loop {
            let reason = self.capture_more_once();
            if reason.is_some() || !self.panes.take_needs_another_round() {
                return reason;
            }
        }
    }

    fn capture_more_once(&mut self) -> Option<SessionEndReason> {
        let now = self.clock.now();
        let request = SessionRequest {
            panes: self.panes.extra_requests(now),
            ..self.session_request(None)
        };
        let mut held = Vec::new();
        let requested = self.gateway.request_session(request);
        let reply = requested.map(|pending| self.wait_for_reply(&pending, &mut held));
        let reason = match reply {
            Ok(None) => Some(SessionEndReason::Detached),
            Ok(Some(Ok(reply))) => self.handle_reply(reply, true),
            Ok(Some(Err(error))) | Err(error) => self.handle_failure(&error),
        };
        let now = self.clock.now();
        self.panes.end_extra_captures(now);
        for arrival in held {
            self.panes.arrived(arrival, now);
        }
        reason
    }

    /// Waits for a reply, which a busy server may delay, and emits the output of streamed panes
    /// meanwhile. Holds all other messages until the reply is handled.
    fn wait_for_reply(
        &mut self,
        pending: &PendingReply<SessionReply>,
        held: &mut Vec<DrainMessage>,
    ) -> Option<Result<SessionReply>> {
        let nothing = never();
        let mut is_receiving = true;
        loop {
            let arrivals = self.panes.arrivals();
            let arrivals = arrivals.filter(|_| is_receiving && held.len() < HELD_MAX);
            select_biased! {
                recv(self.stop) -> _ => return None,
                recv(pending.receiver()) -> reply => {
                    return Some(received(reply));
                }
                recv(arrivals.unwrap_or(&nothing)) -> arrival => {
                    // The thread that reads the drains has panicked; the next wait handles that.
                    let Ok(arrival) = arrival else {
                        is_receiving = false;
                        continue;
                    };
                    let is_next = held.iter().all(|before| before.token != arrival.token);
                    if is_next && self.panes.continues_stream(&arrival) {
                        let now = self.clock.now();
                        self.panes.arrived(arrival, now);
                    } else {
                        held.push(arrival);
                    }
                }
            }
        }
    }

    /// Returns the schedule of the next request; `None` while a pane still has to be captured at once.
    fn next_schedule(&self) -> Option<PollSchedule> {
        if self.panes.has_pending_panes() {
            None
        } else {
            Some(self.schedule())
        }
    }

    /// Returns the schedule of polls.
    fn schedule(&self) -> PollSchedule {
        if self.panes.is_streamed() {
            PollSchedule::Fixed(TICK)
        } else {
            self.schedule
        }
    }

    fn session_request(&self, on_change: Option<PollSchedule>) -> SessionRequest {
        SessionRequest {
            session_id: self.session_id,
            server: Some(self.server.clone()),
            name: Some(self.name.clone()),
            panes: self.panes.requests(),
            lists_new_panes: self.panes.lists_new_panes(!self.progress.started),
            viewed: self.panes.viewed(),
            given_names: self.panes.given_names(),
            on_change,
        }
    }

    fn handle_reply(&mut self, reply: SessionReply, again: bool) -> Option<SessionEndReason> {
        let (name, panes, departed) = match reply {
            SessionReply::Present {
                name,
                panes,
                departed,
            } => (name, panes, departed),
            SessionReply::Gone { departed } => {
                self.progress.departed = departed;
                return Some(SessionEndReason::Closed);
            }
            SessionReply::OtherServer => return Some(SessionEndReason::ServerGone),
        };
        self.report_recovery();
        if name != self.name {
            self.emitter.session_renamed(&self.name, &name);
            self.name = name;
        }
        let first = !self.progress.started;
        // A session is reported as started after its new panes are captured from their first line.
        let are_panes_ready = again || !self.panes.lists_unopened_pane(&panes);
        if first && are_panes_ready {
            self.progress.started = true;
            let mut ids: Vec<PaneId> = panes.iter().map(|reply| reply.state().pane()).collect();
            let present = ids.clone();
            ids.retain(|id| self.panes.is_watched(id));
            self.emitter.session_started(&self.name, ids);
            for pane in self.panes.take_lost(&present) {
                let execution_id = self.emitter.execution_id().clone();
                // A closed bus means that the engine is at its end.
                let _ = self.emitter.emit(TdEvent::PaneClosed {
                    execution_id,
                    pane,
                    reason: PaneCloseReason::Closed.into(),
                    exit_status: None,
                });
            }
        }
        let context = ReplyContext {
            name: &self.name,
            first,
            again,
            now: self.clock.now(),
            second: self.clock.wall().micros() / 1_000_000,
        };
        self.panes.handle_reply(panes, &departed, context);
        None
    }

    /// Handles a failed request, and reports once that the server does not respond.
    fn handle_failure(&mut self, error: &Error) -> Option<SessionEndReason> {
        if error.is_gone() {
            return Some(SessionEndReason::ServerGone);
        }
        if !std::mem::replace(&mut self.progress.hung, true) {
            let message = format!("cannot capture the panes: {error}");
            self.emitter.warning("tmux", &message);
        }
        None
    }

    fn report_recovery(&mut self) {
        if std::mem::take(&mut self.progress.hung) {
            self.emitter
                .warning("tmux", "the tmux server replies again");
        }
    }

    /// Returns true if the log has room, or has had none for [`ROOM_WAIT`].
    fn has_room(&mut self) -> bool {
        if self.emitter.has_room() {
            self.progress.no_room_since = None;
            return true;
        }
        let now = self.clock.now();
        let since = *self.progress.no_room_since.get_or_insert(now);
        now.saturating_duration_since(since) >= ROOM_WAIT
    }

    /// Reports a panic and waits for the back-off.
    fn recover(&mut self, panicked: &Panicked, back_off: &mut Duration) {
        log::error!(
            "the poller of session {:?} crashed: {}",
            self.name,
            panicked.message
        );
        let stop = &self.stop;
        select_biased! {
            recv(stop) -> _ => {}
            recv(self.clock.after(*back_off)) -> _ => {}
        }
        *back_off = (*back_off * 2).min(BACK_OFF_MAX);
        let source = format!("poller {}", self.name);
        self.emitter.poller_restarted(&source, &panicked.message);
    }
}

/// The time limit of the last capture: a hung server must not delay the observer's end.
const LAST_CAPTURE_TIMEOUT: Duration = Duration::from_millis(800);

impl Poller {
    /// Emits the last lines and the ends of the panes and of the session.
    fn end(&mut self, reason: SessionEndReason) -> Ended {
        if reason == SessionEndReason::Detached {
            self.last_capture();
            self.panes.finish();
            self.receive_last_bytes(Some(self.clock.now() + LAST_CAPTURE_TIMEOUT));
        } else {
            let now = self.clock.now();
            if !std::mem::replace(&mut self.progress.started, true) {
                // The session ended before its first capture; its run still has a start and an end.
                let panes = self.panes.unopened();
                self.emitter.session_started(&self.name, panes);
            }
            self.panes.close(&self.progress.departed, now);
            self.receive_last_bytes(None);
        }
        self.panes.detach(self.clock.now());
        // A session that continues has no exit status.
        let outcome = match reason {
            SessionEndReason::Detached => SessionOutcome::default(),
            SessionEndReason::Closed | SessionEndReason::ServerGone => self.panes.outcome(),
        };
        let exit_status = outcome.status();
        if self.progress.started {
            self.emitter.session_ended(&self.name, reason, exit_status);
        }
        Ended {
            reason,
            exit_status,
            has_failed: outcome.has_failed(),
        }
    }

    /// Captures the output from before the stop, if the server replies in time.
    fn last_capture(&mut self) {
        if !self.progress.started || self.progress.hung {
            return;
        }
        for again in [false, true] {
            let now = self.clock.now();
            if again && !self.panes.needs_more_captures(now) || self.panes.is_streamed() {
                return;
            }
            let panes = if again {
                self.panes.extra_requests(now)
            } else {
                self.panes.requests()
            };
            // Without a name, the reply contains the current one.
            let session_request = SessionRequest {
                panes,
                name: None,
                ..self.session_request(None)
            };
            let Ok(pending) = self.gateway.request_session(session_request) else {
                return;
            };
            let deadline = self.clock.at(self.clock.now() + LAST_CAPTURE_TIMEOUT);
            match pending.wait_or(&deadline) {
                Some(Ok(reply)) => {
                    // The panes that a reply lacks reveal that the session has just ended.
                    let _ = self.handle_reply(reply, again);
                }
                Some(Err(_)) | None => return,
            }
        }
    }

    /// Receives the remaining bytes of drains and exits of programs until the deadline. Without one,
    /// waits for all of them, or for [`LAST_CAPTURE_TIMEOUT`] once the observer is stopped.
    fn receive_last_bytes(&mut self, until: Option<Instant>) {
        let mut until = until;
        while self.panes.has_pending_bytes() {
            let nothing = never();
            let arrivals = self.panes.arrivals().unwrap_or(&nothing);
            let timeout = until.map_or_else(never, |until| self.clock.at(until));
            let due = self.panes.deadline(false);
            let due = due.map_or_else(never, |due| self.clock.at(due));
            let stop = match until {
                Some(_) => never(),
                None => self.stop.clone(),
            };
            select_biased! {
                recv(stop) -> _ => until = Some(self.clock.now() + LAST_CAPTURE_TIMEOUT),
                recv(timeout) -> _ => return,
                recv(self.panes.exits()) -> _ => {
                    let now = self.clock.now();
                    self.panes.handle_exits(now);
                }
                // An expected drain may never connect.
                recv(due) -> _ => {
                    self.panes.handle_timeout(self.clock.now());
                }
                recv(arrivals) -> arrival => match arrival {
                    Ok(arrival) => {
                        let now = self.clock.now();
                        self.panes.arrived(arrival, now);
                    }
                    Err(_) => return,
                },
            }
        }
    }
}
