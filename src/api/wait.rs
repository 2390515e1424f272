//! `POST /api/v1/wait`: waits as `td-observe wait` does, and responds with the outcome.
//!
//! The connection's thread waits. Meanwhile, `td-api-wait` reads the states of agents from the feed, and
//! cancels the wait when the client disconnects or the observer ends.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};

use super::context::ApiContext;
use super::events::is_gone;
use super::input::refused;
use super::panes::{self, failed};
use super::request::Request;
use super::response::Response;
use super::states::{Ended, StateFollower, TargetPanes};
use crate::clock::Clock;
use crate::event::AgentState;
use crate::thread::{Stop, StopGuard, is_stopped, run_beside, stop_pair};
use crate::tmux::{Server, Target, Typing};
use crate::wait::{StateMatcher, Wait, WaitEnd, WaitMatch, WaitSpec, Waiter};

/// The longest time until a wait ends after its client has disconnected or the observer has ended.
const CHECK: Duration = Duration::from_millis(100);

/// A requested wait.
struct RequestedWait {
    server: Server,
    wait: Wait,
    states: Vec<AgentState>,
    typing: Option<Typing>,
}

/// Waits, and writes the outcome to the client.
pub(super) fn wait(
    context: &ApiContext,
    (request, body): (&Request, &[u8]),
    mut stream: &UnixStream,
    stop: &Stop,
) -> io::Result<()> {
    let requested = match read(context, (request, body), stop) {
        Ok(requested) => requested,
        Err(response) => return response.write(&mut stream, true),
    };
    let (running, cancelled) = stop_pair();
    let (follower_sender, followers) = bounded(1);
    let (match_sender, matches) = bounded(1);
    let monitor = WaitMonitor {
        stream,
        stop: stop.clone(),
        clock: context.clock.clone(),
        followers,
        match_sender,
        _running: running,
    };
    let answer = move || {
        let response = requested.answer(context, (follower_sender, matches), &cancelled);
        match response {
            Some(response) => response.write(&mut stream, true),
            None if is_gone(stream) => Err(io::ErrorKind::BrokenPipe.into()),
            None => Response::problem(503, "the observer ends").write(&mut stream, true),
        }
    };
    let (monitored, answered) =
        run_beside("td-api-wait", || monitor.run(), answer).map_err(io::Error::other)?;
    monitored.map_err(io::Error::other)?;
    answered.map_err(io::Error::other)?
}

fn read(
    context: &ApiContext,
    (request, body): (&Request, &[u8]),
    stop: &Stop,
) -> Result<RequestedWait, Response> {
    let invalid = |error: crate::Error| Response::problem(400, &error.to_string());
    let spec: WaitSpec = panes::body(body)?;
    let target = Target::parse(&spec.target).map_err(invalid)?;
    let wait = spec.wait(target.clone(), "").map_err(invalid)?;
    let states = spec.state.iter().map(|name| {
        AgentState::from_name(name).ok_or_else(|| {
            let names = AgentState::ALL.map(AgentState::as_str).join(", ");
            let why = format!("state: {name:?} is no state of an agent; there are {names}");
            Response::problem(400, &why)
        })
    });
    let states = states.collect::<Result<Vec<_>, _>>()?;
    let typing = match &spec.send {
        Some(text) => {
            context.panes.check_input()?;
            Some(Typing::text(text, spec.enter.unwrap_or(true)).map_err(invalid)?)
        }
        None => None,
    };
    let (panes, clock) = (&context.panes, &context.clock);
    let (_, found) = panes.find(&target, request.socket(), (stop, clock))?;
    Ok(RequestedWait {
        server: found.server,
        wait,
        states,
        typing,
    })
}

impl RequestedWait {
    /// Waits; returns `None` if the wait was cancelled.
    fn answer(
        self,
        context: &ApiContext,
        (follower_sender, matches): (Sender<StateFollower>, Receiver<WaitMatch>),
        cancelled: &Stop,
    ) -> Option<Response> {
        let clock = &context.clock;
        let waiter = match Waiter::new(self.server.clone()) {
            Ok(waiter) => waiter,
            Err(error) => return Some(failed(&error)),
        };
        let wait = match self.states.is_empty() {
            true => self.wait,
            false => self.wait.other(matches),
        };
        let started = match waiter.start_until_stopped(&wait, cancelled) {
            Ok(started) => started?,
            // The target existed a moment ago, so it is gone.
            Err(error) if error.is_invalid_input() => {
                return Some(Response::problem(404, &error.to_string()));
            }
            Err(error) => return Some(failed(&error)),
        };
        let follower = (!self.states.is_empty()).then(|| {
            let panes = TargetPanes::of(&started, &context.feed);
            let mut matcher = StateMatcher::new(self.states);
            if self.typing.is_some() {
                matcher.sent();
            }
            StateFollower::begin(&context.feed, matcher, panes, self.typing.is_some())
        });
        // Type only now, when the screens and states are known, so that everything after the text is
        // observed.
        if let Some(typing) = self.typing.filter(|_| !started.has_ended())
            && let Err(error) = typing.send(&self.server, &started.panes(), cancelled, clock)
        {
            return Some(refused(&error));
        }
        if let Some(follower) = follower {
            // The monitor may have ended with the client.
            let _ = follower_sender.send(follower);
        }
        match started.finish() {
            Ok(outcome) if outcome.end == WaitEnd::Interrupted => None,
            Ok(mut outcome) => {
                outcome.redact(&context.panes.rules);
                Some(Response::json(&outcome.to_json(None)))
            }
            Err(error) => Some(failed(&error)),
        }
    }
}

/// Monitors agent states, the client and the observer during a wait.
struct WaitMonitor<'a> {
    stream: &'a UnixStream,
    stop: Stop,
    clock: Clock,
    /// Receives the follower of states. Disconnected when the wait is over.
    followers: Receiver<StateFollower>,
    match_sender: Sender<WaitMatch>,
    /// Cancels the wait when dropped.
    _running: StopGuard,
}

impl WaitMonitor<'_> {
    fn run(self) {
        let mut follower: Option<StateFollower> = None;
        while !is_stopped(&self.stop) && !is_gone(self.stream) {
            let Some(states) = &mut follower else {
                match self.followers.recv_deadline(self.clock.now() + CHECK) {
                    Ok(states) => follower = Some(states),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                continue;
            };
            match states.poll(self.clock.now() + CHECK, &self.clock) {
                Ok(Some(met)) => {
                    // The wait may have ended for another reason.
                    let _ = self.match_sender.try_send(met);
                    follower = None;
                }
                Ok(None) => {}
                // The observer is ending, which cancels the wait.
                Err(Ended) => return,
            }
            if self.followers.try_recv().err() == Some(TryRecvError::Disconnected) {
                return;
            }
        }
    }
}
