//! `POST /api/v1/wait`: waits as `td-observe wait` does, and answers with the outcome.
//!
//! The connection's thread waits. `td-api-wait` beside it reads the states of agents from the hub, and ends
//! the wait when the client has gone or the observer ends.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};

use super::events::is_gone;
use super::hub::Hub;
use super::input::refused;
use super::panes::{self, Panes, failed};
use super::request::Request;
use super::response::Response;
use super::states::{Look, StateFollower, TargetPanes};
use crate::clock::Clock;
use crate::event::AgentState;
use crate::history::DataDir;
use crate::thread::{Stop, StopGuard, is_stopped, run_beside, stop_pair};
use crate::tmux::{Server, Target, Typing};
use crate::wait::{StateMatcher, Wait, WaitEnd, WaitMatch, WaitSpec, Waiter};

/// The time in which a wait ends after its client or the observer.
const CHECK: Duration = Duration::from_millis(100);

/// The parts of the observer that a wait uses.
#[derive(Clone, Copy)]
pub(super) struct Sources<'a> {
    pub panes: &'a Panes,
    pub hub: &'a Hub,
    pub data: Option<&'a DataDir>,
    pub clock: &'a Clock,
}

/// A wait that was asked for.
struct RequestedWait {
    server: Server,
    wait: Wait,
    states: Vec<AgentState>,
    typing: Option<Typing>,
}

/// Waits, and writes the outcome.
///
/// # Errors
/// Those of the connection.
pub(super) fn wait(
    sources: Sources<'_>,
    (request, body): (&Request, &[u8]),
    mut stream: &UnixStream,
    stop: &Stop,
) -> io::Result<()> {
    let asked = match read(sources, (request, body), stop) {
        Ok(asked) => asked,
        Err(response) => return response.write(&mut stream, true),
    };
    let (running, cancelled) = stop_pair();
    let (begin, begun) = bounded(1);
    let (found, other) = bounded(1);
    let attendant = Attendant {
        stream,
        stop: stop.clone(),
        hub: sources.hub.clone(),
        clock: sources.clock.clone(),
        begun,
        found,
        _running: running,
    };
    let answer = move || {
        let response = asked.answer(sources, (begin, other), &cancelled);
        match response {
            Some(response) => response.write(&mut stream, true),
            None if is_gone(stream) => Err(io::ErrorKind::BrokenPipe.into()),
            None => Response::problem(503, "the observer ends").write(&mut stream, true),
        }
    };
    let (attended, answered) =
        run_beside("td-api-wait", || attendant.run(), answer).map_err(io::Error::other)?;
    attended.map_err(io::Error::other)?;
    answered.map_err(io::Error::other)?
}

fn read(
    sources: Sources<'_>,
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
            sources.panes.check_input()?;
            Some(Typing::text(text, spec.enter.unwrap_or(true)).map_err(invalid)?)
        }
        None => None,
    };
    let found = sources
        .panes
        .find(&target, request, (stop, sources.clock))?;
    Ok(RequestedWait {
        server: found.server,
        wait,
        states,
        typing,
    })
}

impl RequestedWait {
    /// Waits; `None` when it was cancelled.
    fn answer(
        self,
        sources: Sources<'_>,
        (begin, other): (Sender<StateFollower>, Receiver<WaitMatch>),
        cancelled: &Stop,
    ) -> Option<Response> {
        let clock = sources.clock;
        let waiter = match Waiter::new(self.server.clone()) {
            Ok(waiter) => waiter,
            Err(error) => return Some(failed(&error)),
        };
        let wait = match self.states.is_empty() {
            true => self.wait,
            false => self.wait.other(other),
        };
        let started = match waiter.start_until_stopped(&wait, cancelled) {
            Ok(started) => started?,
            // The target was there just now.
            Err(error) if error.is_invalid_input() => {
                return Some(Response::problem(404, &error.to_string()));
            }
            Err(error) => return Some(failed(&error)),
        };
        let follower = (!self.states.is_empty()).then(|| {
            let panes = TargetPanes::of(&started, sources.data.cloned());
            let mut matcher = StateMatcher::new(self.states);
            if self.typing.is_some() {
                matcher.sent();
            }
            StateFollower::begin(sources.hub, matcher, panes, self.typing.is_some())
        });
        // Everything that comes after the text is seen: the screens and the states are known.
        if let Some(typing) = self.typing.filter(|_| !started.has_ended())
            && let Err(error) = typing.send(&self.server, &started.panes(), cancelled, clock)
        {
            return Some(refused(&error));
        }
        if let Some(follower) = follower {
            // It may have ended with the client.
            let _ = begin.send(follower);
        }
        match started.finish() {
            Ok(outcome) if outcome.end == WaitEnd::Interrupted => None,
            Ok(mut outcome) => {
                outcome.redact(&sources.panes.rules);
                Some(Response::json(&outcome.to_json(None)))
            }
            Err(error) => Some(failed(&error)),
        }
    }
}

/// Notices states, and the end of the client or of the observer, beside a wait.
struct Attendant<'a> {
    stream: &'a UnixStream,
    stop: Stop,
    hub: Hub,
    clock: Clock,
    /// Gets the follower of states; closed when the wait is over.
    begun: Receiver<StateFollower>,
    found: Sender<WaitMatch>,
    /// Dropped, it cancels the wait.
    _running: StopGuard,
}

impl Attendant<'_> {
    fn run(self) {
        let mut follower: Option<StateFollower> = None;
        while !is_stopped(&self.stop) && !is_gone(self.stream) {
            let Some(states) = &mut follower else {
                match self.begun.recv_deadline(self.clock.now() + CHECK) {
                    Ok(states) => follower = Some(states),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                continue;
            };
            match states.look(&self.hub, self.clock.now() + CHECK, &self.clock) {
                Look::Met(met) => {
                    // The wait may have ended for another reason.
                    let _ = self.found.try_send(met);
                    follower = None;
                }
                Look::NotYet => {}
                // The observer ends, and with it the wait.
                Look::Closed => return,
            }
            if self
                .begun
                .try_recv()
                .is_err_and(|error| error == TryRecvError::Disconnected)
            {
                return;
            }
        }
    }
}
