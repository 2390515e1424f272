//! The tmux sessions that the sources of an engine observe, through which a wait listens to their streamed panes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::Sender;

use super::pane_observer::listener::{
    OpeningListener, PaneListener, StateListener, StreamEnd, StreamedView,
};
use super::poller::Control;
use crate::event::PaneId;
use crate::thread::{StopGuard, lock};
use crate::tmux::{ServerIdentity, SessionId};
use crate::track::Change;

/// The time that a poller has to take a listener. It takes messages within a few milliseconds.
const TAKE_TIMEOUT: Duration = Duration::from_secs(1);

/// The identity of a session, independent of its name. The server is part of it, because a restarted
/// server assigns the same ids again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SessionKey {
    pub server_pid: u32,
    pub server_started: i64,
    pub session: SessionId,
}

impl SessionKey {
    pub fn new(server: &ServerIdentity, session: SessionId) -> Self {
        Self {
            server_pid: server.pid,
            server_started: server.start_time,
            session,
        }
    }
}

/// The pollers of an engine. Shared by its sources, and locked briefly.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObservedSessions(Arc<Mutex<HashMap<SessionKey, Sender<Control>>>>);

impl ObservedSessions {
    /// Adds a session's poller, in place of one that has ended.
    pub(super) fn add(&self, key: SessionKey, poller: &Sender<Control>) {
        lock(&self.0).insert(key, poller.clone());
    }

    /// Removes a session whose poller has ended.
    pub(super) fn remove(&self, key: SessionKey, poller: &Sender<Control>) {
        let mut sessions = lock(&self.0);
        if sessions
            .get(&key)
            .is_some_and(|known| known.same_channel(poller))
        {
            sessions.remove(&key);
        }
    }

    /// Adds a listener to a pane; drops it if the pane is not streamed here.
    pub fn listen(
        &self,
        (server, session): (&ServerIdentity, SessionId),
        pane: &PaneId,
        listener: Box<dyn PaneListener>,
    ) {
        let pane = pane.clone();
        self.send(server, session, Control::Listen { pane, listener });
    }

    /// Adds a listener of a pane's states; drops it if they are not observed here.
    pub fn listen_to_states(
        &self,
        (server, session): (&ServerIdentity, SessionId),
        pane: &PaneId,
        listener: Box<dyn StateListener>,
    ) {
        let pane = pane.clone();
        self.send(server, session, Control::ListenToStates { pane, listener });
    }

    /// Adds a listener of panes that open in a session from now on; drops it if the session is not observed here.
    pub fn listen_to_openings(
        &self,
        (server, session): (&ServerIdentity, SessionId),
        listener: Box<dyn OpeningListener>,
    ) {
        self.send(server, session, Control::ListenToOpenings(listener));
    }

    fn send(&self, server: &ServerIdentity, session: SessionId, message: Control) {
        let key = SessionKey::new(server, session);
        let poller = lock(&self.0).get(&key).cloned();
        if let Some(poller) = poller {
            // A poller that has ended, or does not take the message, drops it.
            let _ = poller.send_timeout(message, TAKE_TIMEOUT);
        }
    }
}

/// Drops a guard once everything that tmux had read from a pane has been heard, or the pane is not streamed.
#[derive(Debug)]
pub(crate) struct HeardMark {
    pub _guard: Arc<StopGuard>,
}

impl PaneListener for HeardMark {
    fn begin(&mut self, _: StreamedView<'_>) -> bool {
        false
    }

    fn changed(&mut self, _: StreamedView<'_>, _: &[Change]) -> bool {
        false
    }

    fn end(&mut self, _: StreamEnd<'_>) {}
}
