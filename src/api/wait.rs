//! `POST /api/v1/wait`: waits as `td-observe wait` does, and responds with the outcome.
//!
//! The connection's thread waits. Meanwhile, `td-api-wait` reads the states of agents from the feed, and
//! cancels the wait when the client disconnects or the observer ends.
//!
//! A client that accepts `application/x-ndjson` gets lines: `{"wait":"begun"}` once everything that is printed
//! counts, `{"wait":"lost_lines"}`, an empty line about twice a second, and the outcome.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};

use super::events::is_gone;
use super::http::Request;
use super::http::{ChunkedBody, Response};
use super::panes::{self, ApiContext, failed, refused};
use super::stream::Stream;
use super::typing::Input;
use super::wait_client::{WaitClient, WaitReport};
use crate::board::RowState;
use crate::clock::Clock;
use crate::event::{AgentState, ExecutionId, PaneId, TdEvent};
use crate::feed::{Feed, Next, Reader};
use crate::thread::{Panicked, Stop, StopGuard, is_stopped, lock, run_beside, stop_pair};
use crate::tmux::{Server, ServerIdentity, Target, Typing};
use crate::wait::{
    StartedWait, StateMatcher, Wait, WaitEnd, WaitMatch, WaitOutcome, WaitSpec, Waiter,
};

/// The longest time until a wait ends after its client has disconnected or the observer has ended.
const CHECK: Duration = Duration::from_millis(100);

/// The interval of the empty lines that show a client that the observer is alive.
const ALIVE: Duration = Duration::from_millis(500);

/// The content type of an answer in lines.
const LINES: &str = "application/x-ndjson";

/// The answer to a client of the API.
struct Answer<'a> {
    stream: &'a Stream,
    /// The body, if the answer has lines and has begun.
    body: Mutex<Option<ChunkedBody<&'a Stream>>>,
    has_lines: bool,
}

impl WaitClient for Answer<'_> {
    fn report(&self, report: WaitReport) -> io::Result<()> {
        self.line(match report {
            WaitReport::Begun => "{\"wait\":\"begun\"}",
            WaitReport::LostLines => "{\"wait\":\"lost_lines\"}",
            WaitReport::Alive => "",
        })
    }

    fn is_gone(&self) -> bool {
        is_gone(self.stream)
    }
}

impl Answer<'_> {
    /// Begins an answer in lines, once the request is known to be valid.
    fn begin(&self) -> io::Result<()> {
        if self.has_lines {
            *lock(&self.body) = Some(ChunkedBody::start(self.stream, LINES)?);
        }
        Ok(())
    }

    /// Writes a line, if the answer has lines and has begun.
    fn line(&self, text: &str) -> io::Result<()> {
        match &mut *lock(&self.body) {
            Some(body) => {
                body.write_all(text.as_bytes())?;
                body.write_all(b"\n")?;
                body.flush()
            }
            None => Ok(()),
        }
    }

    /// Writes the outcome, or the reason why there is none.
    fn end(&self, response: &Response) -> io::Result<()> {
        let mut stream = self.stream;
        match lock(&self.body).take() {
            Some(mut body) => {
                body.write_all(response.body())?;
                body.finish()
            }
            None => response.write(&mut stream, true),
        }
    }
}

/// Waits, and writes the outcome to the client.
pub(super) fn wait(
    context: &ApiContext,
    (request, body): (&Request, &[u8]),
    stream: &Stream,
    stop: &Stop,
) -> io::Result<()> {
    let accepted = request.header("accept");
    let output = &Answer {
        stream,
        body: Mutex::new(None),
        has_lines: accepted.is_some_and(|accepted| accepted.contains(LINES)),
    };
    #[cfg(feature = "redis")]
    if context.feed.has_copies() {
        let begin = || output.begin();
        let asked = (body, request.socket());
        return match super::wait_copied::wait(context, asked, (&begin, output)) {
            Ok(Some(outcome)) => output.end(&Response::json(&outcome.to_json(None))),
            Ok(None) if is_gone(stream) => Err(io::ErrorKind::BrokenPipe.into()),
            Ok(None) => output.end(&Response::problem(503, "the observer ends")),
            Err(response) => output.end(&response),
        };
    }
    let requested = match RequestedWait::read(context, (body, request.socket()), stop) {
        Ok(requested) => requested,
        Err(response) => return output.end(&response),
    };
    output.begin()?;
    match requested.run(context, output, stop) {
        Ok(Some(outcome)) => output.end(&Response::json(&outcome.to_json(None))),
        Ok(None) if is_gone(stream) => Err(io::ErrorKind::BrokenPipe.into()),
        Ok(None) => output.end(&Response::problem(503, "the observer ends")),
        Err(response) => output.end(&response),
    }
}

/// A face of this process that waits.
#[cfg(feature = "mcp")]
struct OwnFace<'a> {
    begun: &'a (dyn Fn() -> bool + Sync),
    stop: &'a Stop,
}

#[cfg(feature = "mcp")]
impl WaitClient for OwnFace<'_> {
    fn report(&self, report: WaitReport) -> io::Result<()> {
        if report == WaitReport::Begun && !(self.begun)() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }

    fn is_gone(&self) -> bool {
        is_stopped(self.stop)
    }
}

/// Waits for a face of this process; see [`Observer::wait`](super::Observer::wait).
///
/// # Errors
/// The reason in words.
#[cfg(feature = "mcp")]
pub(super) fn wait_here(
    context: &ApiContext,
    (server, body): (&Path, &serde_json::Value),
    begun: &(dyn Fn() -> bool + Sync),
    stop: &Stop,
) -> Result<Option<WaitOutcome>, String> {
    let client = OwnFace { begun, stop };
    let body = body.to_string();
    let requested = RequestedWait::read(context, (body.as_bytes(), Some(server)), stop);
    let outcome = requested.and_then(|requested| requested.run(context, &client, stop));
    outcome.map_err(|response| response.detail())
}

/// A requested wait.
struct RequestedWait {
    server: Server,
    wait: Wait,
    states: Vec<AgentState>,
    socket: PathBuf,
    typing: Option<Typing>,
    /// The client types a text itself.
    is_sent: bool,
    may_leave_enter: bool,
    answers: Option<String>,
}

impl RequestedWait {
    /// Reads a request, for a server if there are several.
    ///
    /// # Errors
    /// The response to send instead.
    pub fn read(
        context: &ApiContext,
        (body, server): (&[u8], Option<&Path>),
        stop: &Stop,
    ) -> Result<Self, Response> {
        let invalid = |error: crate::Error| Response::problem(400, &error.to_string());
        let spec: WaitSpec = panes::parsed(body)?;
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
        let (socket, found) = panes.find(&target, server, (stop, clock))?;
        Ok(Self {
            server: found.server,
            wait,
            states,
            socket,
            typing,
            is_sent: spec.send.is_some() || spec.sent.is_some(),
            may_leave_enter: spec.enter.is_none(),
            answers: spec.answers.clone(),
        })
    }

    /// Waits, and returns the redacted outcome; `None` if the wait was cancelled.
    ///
    /// # Errors
    /// The response to send instead.
    pub fn run(
        self,
        context: &ApiContext,
        client: &dyn WaitClient,
        stop: &Stop,
    ) -> Result<Option<WaitOutcome>, Response> {
        let (running, cancelled) = stop_pair();
        let (follower_sender, followers) = bounded(1);
        let (match_sender, matches) = bounded(1);
        let monitor = WaitMonitor {
            client,
            stop: stop.clone(),
            clock: context.clock.clone(),
            followers,
            match_sender,
            _running: running,
        };
        let outcome = move || self.outcome(context, client, (follower_sender, matches), &cancelled);
        let (monitored, outcome) =
            run_beside("td-api-wait", || monitor.run(), outcome).map_err(|error| failed(&error))?;
        let panicked = |panicked: Panicked| Response::problem(500, &panicked.to_string());
        monitored.map_err(panicked)?;
        outcome.map_err(panicked)?
    }

    fn outcome(
        self,
        context: &ApiContext,
        client: &dyn WaitClient,
        (follower_sender, matches): (Sender<StateFollower>, Receiver<WaitMatch>),
        cancelled: &Stop,
    ) -> Result<Option<WaitOutcome>, Response> {
        let clock = &context.clock;
        let sessions = context.sessions.clone();
        let waiter = Waiter::beside(self.server.clone(), sessions, clock.clone())
            .map_err(|error| failed(&error))?;
        let wait = if self.states.is_empty() {
            self.wait
        } else {
            self.wait.other(matches)
        };
        let started = match waiter.start_until_stopped(&wait, cancelled) {
            Ok(Some(started)) => started,
            Ok(None) => return Ok(None),
            // The target existed a moment ago, so it is gone.
            Err(error) if error.is_invalid_input() => {
                return Err(Response::problem(404, &error.to_string()));
            }
            Err(error) => return Err(failed(&error)),
        };
        let follower = (!self.states.is_empty()).then(|| {
            let panes = TargetPanes::of(&started, &context.feed);
            let mut matcher = StateMatcher::new(self.states);
            if self.is_sent {
                matcher.sent();
            }
            StateFollower::begin(&context.feed, matcher, panes, self.is_sent)
        });
        if client.report(WaitReport::Begun).is_err() {
            return Ok(None);
        }
        // Type only now, when the screens and states are known, so that everything after the text is
        // observed.
        if let Some(typing) = self.typing.filter(|_| !started.has_ended()) {
            let typed = Input {
                typing,
                may_leave_enter: self.may_leave_enter,
                answers: self.answers.as_deref(),
            };
            let row_of = |pane: &PaneId| Ok(context.row_of(pane, &self.socket));
            let panes = started.panes();
            let sent = typed.send((&self.server, &panes), &row_of, (cancelled, clock));
            sent.map_err(|error| refused(&error))?;
        }
        if let Some(follower) = follower {
            // The monitor may have ended with the client.
            let _ = follower_sender.send(follower);
        }
        // A client that is gone is noticed by the monitor.
        let report_loss = || drop(client.report(WaitReport::LostLines));
        match started.finish_reporting(report_loss) {
            Ok(outcome) if outcome.end == WaitEnd::Interrupted => Ok(None),
            Ok(mut outcome) => {
                outcome.redact(&context.panes.rules);
                Ok(Some(outcome))
            }
            Err(error) => Err(failed(&error)),
        }
    }
}

/// Monitors agent states, the client and the observer during a wait.
struct WaitMonitor<'a> {
    client: &'a dyn WaitClient,
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
        let mut alive_at = self.clock.now();
        while !is_stopped(&self.stop) && !self.client.is_gone() {
            if alive_at + ALIVE <= self.clock.now() {
                alive_at = self.clock.now();
                let _ = self.client.report(WaitReport::Alive);
            }
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

/// Selects the panes of a target among those of all servers and sessions.
#[derive(Debug)]
struct TargetPanes {
    feed: Feed,
    server: ServerIdentity,
    /// The panes at the start of the wait.
    panes: Vec<PaneId>,
    /// The session, if its later panes belong to the target, too.
    session: Option<String>,
    known: HashMap<String, ExecutionPlace>,
}

/// The place of an execution.
#[derive(Clone, Copy, Debug)]
struct ExecutionPlace {
    is_of_server: bool,
    is_of_session: bool,
}

impl TargetPanes {
    /// Creates the selection for a started wait.
    fn of(started: &StartedWait<'_>, feed: &Feed) -> Self {
        Self {
            feed: feed.clone(),
            server: started.server().clone(),
            panes: started.panes(),
            session: started.whole_session().map(|session| session.to_string()),
            known: HashMap::new(),
        }
    }

    /// Returns true if a pane of an execution belongs to the target.
    fn contain(&mut self, execution: &str, pane: &PaneId) -> bool {
        if !self.known.contains_key(execution) {
            // Unknown executions are read again at the next event.
            let Some(place) = self.place_of(execution) else {
                return false;
            };
            self.known.insert(execution.to_owned(), place);
        }
        self.known.get(execution).is_some_and(|place| {
            place.is_of_session || place.is_of_server && self.panes.contains(pane)
        })
    }

    fn place_of(&self, execution: &str) -> Option<ExecutionPlace> {
        let run = self.feed.data().run(&ExecutionId::from(execution));
        let identity = run.metadata().ok()??.identity;
        let of_server = identity.filter(|of| {
            self.server.socket.to_str() == Some(&of.socket)
                && (of.server_pid, of.server_started) == (self.server.pid, self.server.start_time)
        });
        Some(ExecutionPlace {
            is_of_server: of_server.is_some(),
            is_of_session: of_server.is_some_and(|of| Some(of.session_id) == self.session),
        })
    }
}

/// The observer is ending; no events follow.
#[derive(Debug)]
struct Ended;

/// Reads the feed until an agent is in one of the requested states.
#[derive(Debug)]
struct StateFollower {
    matcher: StateMatcher,
    panes: TargetPanes,
    reader: Reader,
    /// The states of the board must be checked, too.
    checks_board: bool,
    /// A text was sent, so earlier states on the board do not count.
    is_sent: bool,
}

impl StateFollower {
    /// Creates a follower that begins with the present states; after a sent text, only later states count.
    fn begin(feed: &Feed, matcher: StateMatcher, panes: TargetPanes, is_sent: bool) -> Self {
        // Events between the position and the board are handled twice, which is harmless.
        let mut follower = Self {
            matcher,
            panes,
            reader: Reader::live(feed),
            checks_board: !is_sent,
            is_sent,
        };
        follower.note_board();
        follower
    }

    /// Waits for events until the deadline, and checks them for a requested state.
    ///
    /// # Errors
    /// [`Ended`] when the observer ends.
    fn poll(&mut self, deadline: Instant, clock: &Clock) -> Result<Option<WaitMatch>, Ended> {
        if std::mem::take(&mut self.checks_board)
            && let Some(met) = self.matcher.met()
        {
            return Ok(Some(met));
        }
        let settles_at = self.matcher.settles_at();
        let until = settles_at.map_or(deadline, |at| at.min(deadline));
        Ok(match self.reader.next(Some(until)) {
            Next::Event(event) => self.handle(&event.event, clock.now()),
            Next::Missed(_) => {
                self.note_board();
                self.checks_board = !self.is_sent;
                None
            }
            Next::Timeout if settles_at.is_some_and(|at| at <= clock.now()) => {
                self.matcher.settled()
            }
            Next::Timeout => None,
            Next::End => return Err(Ended),
        })
    }

    fn handle(&mut self, event: &TdEvent, now: Instant) -> Option<WaitMatch> {
        if !StateMatcher::concerns(event) && !self.is_sent {
            return None;
        }
        let pane = event.pane()?;
        if !self.panes.contain(event.execution_id(), pane) {
            return None;
        }
        self.matcher.handle(event, now)
    }

    /// Records the states on the board.
    fn note_board(&mut self) {
        for row in self.panes.feed.rows() {
            let state = match &row.state {
                RowState::Agent(state) if !row.is_unread() => state.known(),
                // The shell is at its prompt again.
                RowState::Failed if !row.has_ended() => Some(AgentState::Idle),
                _ => continue,
            };
            if let Some(pane) = &row.pane
                && self.panes.contain(row.execution_id.as_str(), pane)
            {
                let asks = row.asks.as_deref().unwrap_or("");
                self.matcher.note_state(pane, state, asks);
            }
        }
    }
}
