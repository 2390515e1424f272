//! Selects the events of an observer that belong to the targets of `watch`.

use std::collections::HashMap;
use std::path::PathBuf;

use super::checks::ANSWER_TIMEOUT;
use crate::clock::Clock;
use crate::event::{Envelope, PaneId, TdEvent};
use crate::history::DataDir;
use crate::tmux::{Listing, Server, Target};

/// Selects the events of the targets.
pub(super) struct EventFilter {
    data: DataDir,
    server: Server,
    /// The socket of the tmux server.
    socket: String,
    targets: Vec<WantedTarget>,
    /// The name of the session of each execution; `None` if it is not a session of this server.
    executions: HashMap<String, Option<String>>,
    clock: Clock,
}

/// A target and its panes when it was found.
struct WantedTarget {
    target: Target,
    panes: TargetPanes,
}

/// The panes of a target.
#[derive(Debug, PartialEq, Eq)]
enum TargetPanes {
    /// A target that may name a part of a session and does not exist yet.
    Unknown,
    /// All panes of the session with this name.
    Session(String),
    /// These panes, until they are closed. As without an observer, later panes of the same window are not
    /// included.
    Fixed(Vec<PaneId>),
    Ended,
}

impl EventFilter {
    pub fn new(
        data: DataDir,
        (server, socket): (Server, PathBuf),
        targets: Vec<Target>,
        clock: Clock,
    ) -> Self {
        let targets = targets.into_iter().map(|target| {
            let panes = match target.pane() {
                Some(pane) => TargetPanes::Fixed(vec![pane]),
                None if target.as_str().contains([':', '@', '$', '.']) => TargetPanes::Unknown,
                None => TargetPanes::Session(target.as_str().to_owned()),
            };
            WantedTarget { target, panes }
        });
        let mut filter = Self {
            data,
            server: server.with_timeout(ANSWER_TIMEOUT),
            socket: socket.to_string_lossy().into_owned(),
            targets: targets.collect(),
            executions: HashMap::new(),
            clock,
        };
        filter.find();
        filter
    }

    /// Finds the panes of targets that did not exist before.
    fn find(&mut self) {
        let is_unknown = |wanted: &WantedTarget| wanted.panes == TargetPanes::Unknown;
        if !self.targets.iter().any(is_unknown) {
            return;
        }
        match Listing::fetch(&self.server, &self.clock) {
            Ok(listing) => {
                for wanted in self.targets.iter_mut().filter(|wanted| is_unknown(wanted)) {
                    wanted.find(&listing);
                }
            }
            // Retried at the next session or pane.
            Err(error) => log::debug!("{error}"),
        }
    }

    /// Returns true if the event belongs to a target.
    pub fn selects(&mut self, envelope: &Envelope) -> bool {
        let event = &envelope.event;
        let Some(session) = self.session_after(event) else {
            return false;
        };
        if self.targets.is_empty() {
            return true;
        }
        if matches!(
            event,
            TdEvent::SessionStarted { .. } | TdEvent::PaneOpened { .. }
        ) {
            self.find();
        }
        self.takes(event, &session)
    }

    /// Keeps the events of a session's past that belong to a target and name what is there now. A target names
    /// the session by its present name.
    pub fn keep_present(&mut self, past: &mut Vec<Envelope>) {
        // The starts before the last one are those of earlier observers.
        let is_start =
            |envelope: &Envelope| matches!(envelope.event, TdEvent::SessionStarted { .. });
        past.drain(..past.iter().rposition(is_start).unwrap_or(0));
        let mut session = None;
        for envelope in past.iter() {
            session = self.session_after(&envelope.event);
        }
        let Some(session) = session else {
            past.clear();
            return;
        };
        if self.targets.is_empty() {
            return;
        }
        // A target that is a former name does not follow a past rename.
        let is_rename = |event: &TdEvent| matches!(event, TdEvent::SessionRenamed { .. });
        let has_target = (past.iter())
            .any(|Envelope { event, .. }| !is_rename(event) && self.takes(event, &session));
        // These two name the session, also of a pane that was opened later.
        past.retain(|Envelope { event, .. }| match event {
            TdEvent::SessionStarted { .. } | TdEvent::SessionRenamed { .. } => has_target,
            _ => self.takes(event, &session),
        });
    }

    /// Returns the name of the event's session, which is its new one after a rename; `None` if the session is
    /// not one of this server.
    fn session_after(&mut self, event: &TdEvent) -> Option<String> {
        let execution = event.execution_id();
        if !self.executions.contains_key(execution) {
            let session = self.session_of(execution);
            self.executions.insert(execution.to_owned(), session);
        }
        let session = self.executions.get_mut(execution)?.as_mut()?;
        match event {
            TdEvent::SessionStarted { session: name, .. } => session.clone_from(name),
            TdEvent::SessionRenamed { to, .. } => session.clone_from(to),
            _ => {}
        }
        Some(session.clone())
    }

    /// Returns true if an event of this session belongs to a target.
    fn takes(&mut self, event: &TdEvent, session: &str) -> bool {
        let mut is_taken = false;
        for wanted in &mut self.targets {
            is_taken |= wanted.takes(event, session);
        }
        is_taken
    }

    fn session_of(&self, execution: &str) -> Option<String> {
        let metadata = self.data.run(&execution.into()).metadata().ok().flatten()?;
        let identity = metadata.identity?;
        (identity.socket == self.socket).then_some(metadata.label)
    }

    /// Returns true if all targets have ended.
    pub fn is_over(&self) -> bool {
        let has_ended = |wanted: &WantedTarget| wanted.panes == TargetPanes::Ended;
        !self.targets.is_empty() && self.targets.iter().all(has_ended)
    }
}

impl WantedTarget {
    /// Updates the panes from a listing, if the target exists.
    fn find(&mut self, listing: &Listing) {
        let found = self.target.resolve(listing);
        let Some(first) = found.first() else { return };
        self.panes = match self.target.may_be_part(listing) {
            true => TargetPanes::Fixed(found.into_iter().map(|state| state.pane()).collect()),
            false => TargetPanes::Session(first.session_name.clone()),
        };
    }

    /// Returns true if an event of this session belongs to the target. Also records the target's end.
    fn takes(&mut self, event: &TdEvent, session: &str) -> bool {
        match &mut self.panes {
            TargetPanes::Unknown | TargetPanes::Ended => false,
            TargetPanes::Session(name) => {
                if let TdEvent::SessionRenamed { from, to, .. } = event
                    && name == from
                {
                    name.clone_from(to);
                }
                let is_taken = name == session;
                if is_taken && matches!(event, TdEvent::SessionEnded { .. }) {
                    self.panes = TargetPanes::Ended;
                }
                is_taken
            }
            TargetPanes::Fixed(panes) => {
                if let TdEvent::SessionStarted { panes: of, .. } = event {
                    return panes.iter().any(|pane| of.contains(pane));
                }
                let Some(at) = panes.iter().position(|pane| Some(pane) == event.pane()) else {
                    return false;
                };
                if matches!(event, TdEvent::PaneClosed { .. }) {
                    panes.swap_remove(at);
                    if panes.is_empty() {
                        self.panes = TargetPanes::Ended;
                    }
                }
                true
            }
        }
    }
}
