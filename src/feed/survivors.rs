//! What goes on although nothing observes it any more: the panes of a tmux server that runs, and background agents.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::board::{ExecutionKind, Fate, Row};
use crate::clock::Clock;
use crate::event::PaneId;
use crate::history::{RunMetadata, TmuxIdentity, host};
use crate::tmux::{Listing, Server};

/// The time for a server's answer. One that does not answer may still have its panes.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// The tmux servers that were asked, each once.
#[derive(Debug)]
pub(super) struct Survivors {
    clock: Clock,
    servers: BTreeMap<String, Answer>,
}

/// The answer of a server.
#[derive(Debug)]
enum Answer {
    Panes(Listing),
    Gone,
    Unknown,
}

/// The rows of one run that go on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RunSurvivors {
    /// Nothing of it is known to be in tmux. Background agents go on.
    Agents,
    /// These panes.
    Panes(Vec<PaneId>),
    /// None: its server is gone.
    ServerGone,
    /// All that had not ended: its server cannot be asked.
    All,
}

impl RunSurvivors {
    pub fn fate(&self, row: &Row) -> Fate {
        let goes_on = match self {
            Self::Agents => row.kind == ExecutionKind::Agent,
            Self::Panes(panes) => row.pane.as_ref().is_some_and(|pane| panes.contains(pane)),
            Self::ServerGone => return Fate::EndedWithServer,
            Self::All => true,
        };
        if goes_on { Fate::GoesOn } else { Fate::Ended }
    }
}

impl Survivors {
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            servers: BTreeMap::new(),
        }
    }

    /// Returns what goes on of a run that nobody writes.
    pub fn of(&mut self, run: Option<&RunMetadata>) -> RunSurvivors {
        let Some((run, identity)) = run.and_then(|run| Some((run, run.identity.as_ref()?))) else {
            return RunSurvivors::Agents;
        };
        if run.host != host() {
            return RunSurvivors::All;
        }
        let asked = self.servers.entry(identity.socket.clone());
        match asked.or_insert_with(|| ask(&identity.socket, &self.clock)) {
            // Another server may have the socket.
            Answer::Panes(listing) if is_server_of(identity, listing) => {
                RunSurvivors::Panes(panes_of(identity, listing))
            }
            Answer::Panes(_) | Answer::Gone => RunSurvivors::ServerGone,
            Answer::Unknown => RunSurvivors::All,
        }
    }
}

fn ask(socket: &str, clock: &Clock) -> Answer {
    match Listing::fetch(&Server::socket(socket).with_timeout(ANSWER_TIME), clock) {
        Ok(listing) => Answer::Panes(listing),
        Err(error) if error.is_gone() => Answer::Gone,
        Err(error) => {
            log::debug!("{error:?}");
            Answer::Unknown
        }
    }
}

fn is_server_of(identity: &TmuxIdentity, listing: &Listing) -> bool {
    let server = (listing.server.pid, listing.server.start_time);
    server == (identity.server_pid, identity.server_started)
}

/// Returns the panes of a session, if it still exists. A later session may have its id.
fn panes_of(identity: &TmuxIdentity, listing: &Listing) -> Vec<PaneId> {
    let panes = listing.panes.iter().filter(|state| {
        state.session_id.to_string() == identity.session_id
            && state.session_created == identity.session_created
    });
    panes.map(|state| state.pane()).collect()
}
