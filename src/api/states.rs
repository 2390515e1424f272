//! The states of the agents in a target, read from the feed.

use std::collections::HashMap;
use std::time::Instant;

use crate::board::RowState;
use crate::clock::Clock;
use crate::event::{ExecutionId, PaneId, TdEvent};
use crate::feed::{Feed, Next, Reader};
use crate::tmux::ServerIdentity;
use crate::wait::{StartedWait, StateMatcher, WaitMatch};

/// Selects the panes of a target among those of all servers and sessions.
#[derive(Debug)]
pub(super) struct TargetPanes {
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
    pub fn of(started: &StartedWait<'_>, feed: &Feed) -> Self {
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
pub(super) struct Ended;

/// Reads the feed until an agent is in one of the requested states.
#[derive(Debug)]
pub(super) struct StateFollower {
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
    pub fn begin(feed: &Feed, matcher: StateMatcher, panes: TargetPanes, is_sent: bool) -> Self {
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
    pub fn poll(&mut self, deadline: Instant, clock: &Clock) -> Result<Option<WaitMatch>, Ended> {
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
        let is_state = matches!(event, TdEvent::AgentState { .. });
        if !is_state && !self.is_sent {
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
            if let (Some(pane), RowState::Agent(state), false) =
                (&row.pane, &row.state, row.has_ended())
                && self.panes.contain(row.execution_id.as_str(), pane)
            {
                let asks = row.asks.as_deref().unwrap_or("");
                self.matcher.note_state(pane, state.known(), asks);
            }
        }
    }
}
