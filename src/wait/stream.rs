//! A streamed pane of a wait: the listener that the pane's poller calls, and the wait's end of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select_biased};

use super::config::{Wait, WaitMatch};
use super::pane::{BaselineMode, LineSource, WaitedPane};
use crate::clock::Clock;
use crate::event::{AgentState, PaneId};
use crate::observe::{
    HeardMark, ObservedSessions, OpenedListeners, OpeningListener, PaneListener, StateListener,
    StreamEnd, StreamedView,
};
use crate::thread::{Stop, lock, stop_pair};
use crate::tmux::{ServerIdentity, SessionId};
use crate::track::Change;

/// The time that a stream has to pass on what tmux has read from its pane. Even a flood arrives in a fraction of
/// that.
pub(super) const HEARD_TIMEOUT: Duration = Duration::from_secs(2);

/// A pane that the wait shares with its poller.
pub(super) type SharedPane = Arc<Mutex<WaitedPane>>;

/// The session of a wait among those that an engine observes.
#[derive(Debug)]
pub(super) struct Streams {
    sessions: ObservedSessions,
    server: ServerIdentity,
    session: SessionId,
    doorbell: Sender<()>,
    /// Receives a message when a pane has a match, has lost lines, has ended, or has opened.
    pub rings: Receiver<()>,
    /// The panes that have opened since, with their streams.
    opened: Arc<OpenedPanes>,
    /// Sends the first match of a state.
    found: Sender<WaitMatch>,
    matches: Receiver<WaitMatch>,
}

type OpenedPanes = Mutex<Vec<(PaneId, SharedPane)>>;

impl Streams {
    pub fn new(sessions: ObservedSessions, server: &ServerIdentity, session: SessionId) -> Self {
        // One ring stands for all: the wait looks at all of its panes.
        let (doorbell, rings) = bounded(1);
        let (found, matches) = bounded(1);
        Self {
            sessions,
            server: server.clone(),
            session,
            doorbell,
            rings,
            opened: Arc::default(),
            found,
            matches,
        }
    }

    /// Listens to panes of the session that open from now on, from their first lines on, and to their states.
    pub fn listen_to_openings(&self, wait: &Wait) {
        let listener = Openings {
            wait: wait.clone(),
            opened: Arc::downgrade(&self.opened),
            doorbell: self.doorbell.clone(),
            found: self.found.clone(),
        };
        let session = (&self.server, self.session);
        self.sessions
            .listen_to_openings(session, Box::new(listener));
    }

    /// Takes the panes that have opened, and whose streams have begun.
    pub fn take_opened(&self) -> Vec<(PaneId, SharedPane)> {
        std::mem::take(&mut *lock(&self.opened))
    }

    /// Listens to panes, and returns those that are streamed, with their present state as the baseline.
    pub fn listen(
        &self,
        panes: &[PaneId],
        (wait, mode): (&Wait, BaselineMode),
        (stop, clock): (&Stop, &Clock),
    ) -> HashMap<PaneId, SharedPane> {
        let begin = |pane: &PaneId| {
            let (begun, begins) = bounded(1);
            let listener = WaitListener {
                wait: wait.clone(),
                mode,
                before: Vec::new(),
                begins: Begins::Awaited(Some(begun)),
                pane: Weak::new(),
                doorbell: self.doorbell.clone(),
            };
            let session = (&self.server, self.session);
            self.sessions.listen(session, pane, Box::new(listener));
            (pane.clone(), begins)
        };
        let pending: Vec<(PaneId, Receiver<SharedPane>)> = panes.iter().map(begin).collect();
        let late = clock.at(clock.now() + HEARD_TIMEOUT);
        let mut streamed = HashMap::new();
        for (pane, begins) in pending {
            select_biased! {
                recv(begins) -> begun => if let Ok(shared) = begun {
                    streamed.insert(pane, shared);
                },
                recv(stop) -> _ => return HashMap::new(),
                // The listeners that begin later find their receiver gone.
                recv(late) -> _ => break,
            }
        }
        streamed
    }

    /// Listens to the states of panes. Returns the channel that receives the first match.
    pub fn listen_to_states(&self, panes: &[PaneId], wait: &Wait) -> Receiver<WaitMatch> {
        for pane in panes {
            let listener = WantedStates::new(wait, pane, &self.found);
            let session = (&self.server, self.session);
            self.sessions
                .listen_to_states(session, pane, Box::new(listener));
        }
        self.matches.clone()
    }

    /// Waits until everything that tmux has read from these panes has been heard. Returns false if it has not by
    /// this time.
    pub fn catch_up(&self, panes: &[PaneId], by: Instant, (stop, clock): (&Stop, &Clock)) -> bool {
        let (waiting, heard) = stop_pair();
        let waiting = Arc::new(waiting);
        for pane in panes {
            let mark = HeardMark {
                _guard: Arc::clone(&waiting),
            };
            self.sessions
                .listen((&self.server, self.session), pane, Box::new(mark));
        }
        drop(waiting);
        select_biased! {
            recv(heard) -> _ => true,
            recv(stop) -> _ => false,
            recv(clock.at(by)) -> _ => false,
        }
    }
}

/// Finds a wanted state of a pane's agent.
#[derive(Debug)]
struct WantedStates {
    wanted: Vec<AgentState>,
    pane: PaneId,
    /// The first state that is reported precedes the text that is sent.
    ignores_present: bool,
    found: Sender<WaitMatch>,
}

impl WantedStates {
    fn new(wait: &Wait, pane: &PaneId, found: &Sender<WaitMatch>) -> Self {
        Self {
            wanted: wait.states.clone(),
            pane: pane.clone(),
            ignores_present: !wait.sent.is_empty(),
            found: found.clone(),
        }
    }
}

impl StateListener for WantedStates {
    fn present(&mut self, state: AgentState, asks: &str) -> bool {
        self.ignores_present || self.changed(state, asks)
    }

    fn changed(&mut self, state: AgentState, asks: &str) -> bool {
        if !self.wanted.contains(&state) {
            return true;
        }
        // The wait may have ended, or another pane was faster.
        let _ = (self.found).try_send(WaitMatch::of_state(&self.pane, state, asks));
        false
    }
}

/// Feeds a pane of a wait, in the thread of the pane's poller.
#[derive(Debug)]
struct WaitListener {
    wait: Wait,
    mode: BaselineMode,
    /// The changes before the stream began, of a pane that has just opened.
    before: Vec<Change>,
    begins: Begins,
    /// The pane, as long as the wait lasts.
    pane: Weak<Mutex<WaitedPane>>,
    doorbell: Sender<()>,
}

/// Who is told that a stream begins.
#[derive(Debug)]
enum Begins {
    /// The wait, which waits for it once.
    Awaited(Option<Sender<SharedPane>>),
    /// The wait, which does not know of the pane yet.
    Opened(PaneId, Weak<OpenedPanes>),
}

impl Begins {
    /// Returns true if the wait lasts.
    fn tell(&mut self, pane: SharedPane) -> bool {
        match self {
            Self::Awaited(begun) => begun
                .take()
                .is_some_and(|begun| begun.try_send(pane).is_ok()),
            Self::Opened(id, opened) => opened
                .upgrade()
                .map(|opened| lock(&opened).push((id.clone(), pane)))
                .is_some(),
        }
    }
}

/// Makes the listeners of panes that open during a wait.
#[derive(Debug)]
struct Openings {
    wait: Wait,
    opened: Weak<OpenedPanes>,
    doorbell: Sender<()>,
    found: Sender<WaitMatch>,
}

impl OpeningListener for Openings {
    fn is_wanted(&self) -> bool {
        self.opened.strong_count() > 0
    }

    fn opens(&self, pane: &PaneId) -> OpenedListeners {
        let of_lines = || WaitListener {
            wait: self.wait.clone(),
            mode: BaselineMode::New,
            before: Vec::new(),
            begins: Begins::Opened(pane.clone(), self.opened.clone()),
            pane: Weak::new(),
            doorbell: self.doorbell.clone(),
        };
        let of_states = || WantedStates::new(&self.wait, pane, &self.found);
        let lines = self.wait.needs_lines().then(of_lines);
        let states = (!self.wait.states.is_empty()).then(of_states);
        OpenedListeners {
            lines: lines.map(|listener| Box::new(listener) as _),
            states: states.map(|listener| Box::new(listener) as _),
        }
    }
}

impl WaitListener {
    fn ring(&self) {
        // A full channel already holds a ring.
        let _ = self.doorbell.try_send(());
    }
}

impl PaneListener for WaitListener {
    fn begin(&mut self, view: StreamedView<'_>) -> bool {
        let before = std::mem::take(&mut self.before);
        let pane = WaitedPane::streamed(&view, before, &self.wait, self.mode);
        let shared = Arc::new(Mutex::new(pane));
        self.pane = Arc::downgrade(&shared);
        let lasts = self.begins.tell(shared);
        self.ring();
        lasts
    }

    fn awaited(&mut self, changes: &[Change]) {
        self.before.extend_from_slice(changes);
    }

    fn changed(&mut self, view: StreamedView<'_>, changes: &[Change]) -> bool {
        let Some(shared) = self.pane.upgrade() else {
            return false;
        };
        if lock(&shared).handle_stream(&view, changes) {
            self.ring();
        }
        true
    }

    fn end(&mut self, end: StreamEnd<'_>) {
        if let Some(shared) = self.pane.upgrade() {
            lock(&shared).handle_stream_end(end);
        }
    }
}

impl Drop for WaitListener {
    fn drop(&mut self) {
        if let Some(shared) = self.pane.upgrade() {
            let mut pane = lock(&shared);
            if pane.is_streamed() {
                // The poller has panicked: what it has read since is unknown.
                pane.source = LineSource::Abandoned;
            }
        }
        self.ring();
    }
}
