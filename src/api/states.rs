//! The states of the agents in a target, as the hub learns them.

use std::collections::HashMap;
use std::time::Instant;

use super::hub::{Hub, Next};
use crate::board::RowState;
use crate::clock::Clock;
use crate::event::{ExecutionId, PaneId, TdEvent};
use crate::history::DataDir;
use crate::tmux::ServerIdentity;
use crate::wait::{StartedWait, StateMatcher, WaitMatch};

/// The panes of a target, among those of all servers and sessions.
#[derive(Debug)]
pub(super) struct TargetPanes {
    data: Option<DataDir>,
    server: ServerIdentity,
    /// The panes at the beginning.
    panes: Vec<PaneId>,
    /// The session whose later panes are part of the target, too.
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
    /// Returns the panes of a wait.
    pub fn of(started: &StartedWait<'_>, data: Option<DataDir>) -> Self {
        Self {
            data,
            server: started.server().clone(),
            panes: started.panes(),
            session: started.whole_session().map(|session| session.to_string()),
            known: HashMap::new(),
        }
    }

    /// Returns true if a pane of an execution is one of the target.
    fn contain(&mut self, execution: &str, pane: &PaneId) -> bool {
        if !self.known.contains_key(execution) {
            // What is not known yet is asked for again with the next event.
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
        let run = self.data.as_ref()?.run(&ExecutionId::from(execution));
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

/// Reads the hub until a state is met.
#[derive(Debug)]
pub(super) struct StateFollower {
    matcher: StateMatcher,
    panes: TargetPanes,
    position: u64,
    /// The states of the board count, too.
    looks_at_board: bool,
    /// A text was sent: the states of the board do not count.
    is_sent: bool,
}

/// The result of a look at the hub.
#[derive(Debug)]
pub(super) enum Look {
    Met(WaitMatch),
    NotYet,
    /// The observer ends.
    Closed,
}

impl StateFollower {
    /// Begins with the present states; after a text, only what follows now counts.
    pub fn begin(hub: &Hub, matcher: StateMatcher, panes: TargetPanes, is_sent: bool) -> Self {
        // Events between the position and the board are seen twice, which changes nothing.
        let (position, _) = hub.end();
        let mut follower = Self {
            matcher,
            panes,
            position,
            looks_at_board: !is_sent,
            is_sent,
        };
        follower.note_board(hub);
        follower
    }

    /// Reads events until a state is met, at most until the deadline.
    pub fn look(&mut self, hub: &Hub, deadline: Instant, clock: &Clock) -> Look {
        if std::mem::take(&mut self.looks_at_board)
            && let Some(met) = self.matcher.met()
        {
            return Look::Met(met);
        }
        let until = self
            .matcher
            .settles_at()
            .map_or(deadline, |at| at.min(deadline));
        match hub.next(self.position, until) {
            Next::Events(events) => {
                for event in events {
                    self.position += 1;
                    if let Some(met) = self.handle(&event.event, clock.now()) {
                        return Look::Met(met);
                    }
                }
                Look::NotYet
            }
            Next::Missed(missed) => {
                self.position += missed;
                self.note_board(hub);
                self.looks_at_board = !self.is_sent;
                Look::NotYet
            }
            Next::Timeout => {
                let settles_at = self.matcher.settles_at();
                match settles_at.filter(|at| *at <= clock.now()) {
                    Some(_) => self.matcher.settled().map_or(Look::NotYet, Look::Met),
                    None => Look::NotYet,
                }
            }
            Next::Closed => Look::Closed,
        }
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

    /// Notes the states that the board has.
    fn note_board(&mut self, hub: &Hub) {
        for row in hub.rows() {
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
