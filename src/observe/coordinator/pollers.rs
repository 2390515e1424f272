//! How the pollers of a coordinator begin and end, and with them the runs of their sessions.

use std::collections::HashMap;

use crossbeam_channel::bounded;

use super::super::RunName;
use super::{CONTROL_MESSAGES, Key, POLLER_END, Watched, Work};
use crate::error::Result;
use crate::event::{ExecutionId, PaneId, SessionEndReason};
use crate::history::{RunInfo, RunState, TmuxIdentity};
use crate::observe::pane_recordings::PaneRecordings;
use crate::observe::poller::panes::{Outfit, Roster, Selection};
use crate::observe::poller::{Ended, Poller};
use crate::observe::resume_point::ResumePoint;
use crate::observe::watch::PaneSource;
use crate::thread::{self, stop_pair};
use crate::tmux::{DrainProgram, Drains, ListedSession, Listing, PaneState, ServerIdentity};

impl Work {
    /// Begins to watch a session, with a run of its own.
    pub(super) fn start(
        &mut self,
        key: Key,
        session: &ListedSession<'_>,
        listing: &Listing,
        selection: Selection,
    ) {
        let server = &listing.server;
        let label = format!("{}@{}", session.name, session.created);
        let name = match &self.watch.execution_id {
            Some(id) => RunName::Exactly(id.clone()),
            None => RunName::Labelled(label),
        };
        let info = RunInfo {
            kind: "tmux".to_owned(),
            label: session.name.to_owned(),
            identity: Some(identity(server, session)),
            ..RunInfo::default()
        };
        let run = match self.context.runs.open(name, info) {
            Ok(run) => run,
            Err(error) => return self.tell_trouble(&error),
        };
        let (stop_guard, stop) = stop_pair();
        let (control, controls) = bounded(CONTROL_MESSAGES);
        let execution_id = run.emitter.execution_id().clone();
        let panes: Vec<PaneId> = listing.panes_of(session.id).map(PaneState::pane).collect();
        let recalls = run.history.map_or_else(HashMap::new, |path| {
            ResumePoint::read(&path, &panes).unwrap_or_else(|error| {
                log::warn!("{error:?}");
                HashMap::new()
            })
        });
        let drains = self.drains().unwrap_or_else(|error| {
            run.emitter
                .warning("tmux", &format!("panes are polled, not streamed: {error}"));
            None
        });
        let raw = self.watch.raw && drains.is_some();
        let recorder = raw.then(|| self.context.runs.raw(&execution_id, session.name));
        let recording = match recorder.flatten() {
            Some(Ok(recorder)) => Some(PaneRecordings::new(recorder, self.context.clock.clone())),
            Some(Err(error)) => {
                self.tell_trouble(&error);
                None
            }
            None => None,
        };
        let roster = Roster::new(Outfit {
            session_id: session.id,
            server_pid: server.pid,
            emitter: run.emitter.clone(),
            gateway: self.handle.clone(),
            rhythm: self.watch.rhythm,
            turns: self.watch.turns.clone(),
            states: self.watch.states.clone(),
            selection: selection.clone(),
            // One that was there and not watched has a past that is not said.
            fresh: !self.first && !self.listed.contains(&session.id),
            handover: self.handover.clone(),
            recalls,
            commands: self.commands.clone(),
            baseline: self.watch.baseline.clone(),
            drains,
            recording,
            exits: self.exits.clone(),
            conversations: self.conversations.clone(),
            shows_screens: self.watch.screens,
            clock: self.context.clock.clone(),
        });
        let poller = Poller {
            session_id: session.id,
            name: session.name.to_owned(),
            server: server.clone(),
            emitter: run.emitter,
            gateway: self.handle.clone(),
            clock: self.context.clock.clone(),
            rhythm: self.watch.rhythm,
            stop,
            control: controls,
            roster,
        };
        match thread::spawn(format!("td-{}", session.name), move || poller.run()) {
            Ok(poller) => {
                let stop = Some(stop_guard);
                let watched = Watched {
                    poller,
                    stop,
                    control,
                    selection,
                    execution_id,
                };
                self.sessions.insert(key, watched);
            }
            Err(error) => {
                self.context
                    .runs
                    .close(&execution_id, RunState::Failed, None);
                self.tell_trouble(&error);
            }
        }
    }

    /// What reads the drains of a session, where panes are streamed.
    fn drains(&self) -> Result<Option<Drains>> {
        let program = match &self.watch.source {
            PaneSource::Poll => return Ok(None),
            PaneSource::Auto(Some(program)) => program.clone(),
            PaneSource::Auto(None) => DrainProgram::find()?,
        };
        Drains::start(program, &self.context.clock).map(Some)
    }

    /// Closes the runs of sessions whose pollers have ended.
    pub(super) fn join_ended(&mut self) {
        let ended: Vec<Key> = self
            .sessions
            .iter()
            .filter(|(_, watched)| watched.poller.is_finished())
            .map(|(key, _)| *key)
            .collect();
        for key in ended {
            self.settled = None;
            if let Some(watched) = self.sessions.remove(&key) {
                let ended = watched.poller.join();
                self.close(&watched.execution_id, ended);
            }
        }
    }

    fn close(&self, id: &ExecutionId, ended: Result<Ended, thread::Panicked>) {
        let (state, exit_status) = match ended {
            Ok(Ended {
                reason: SessionEndReason::Detached,
                exit_status,
                ..
            }) => (RunState::Detached, exit_status),
            Ok(Ended {
                exit_status,
                has_failed: true,
                ..
            }) => (RunState::Failed, exit_status),
            Ok(Ended { exit_status, .. }) => (RunState::Completed, exit_status),
            Err(panicked) => {
                log::error!("{panicked}");
                (RunState::Failed, None)
            }
        };
        self.context.runs.close(id, state, exit_status);
    }

    /// Stops all pollers, all at once, and waits for them.
    pub(super) fn end(&mut self) {
        let mut watched: Vec<Watched> = self.sessions.drain().map(|(_, watched)| watched).collect();
        for watched in &mut watched {
            watched.stop = None;
        }
        let deadline = self.context.clock.now() + POLLER_END;
        for watched in watched {
            let Watched {
                poller,
                execution_id,
                ..
            } = watched;
            match poller.join_deadline(deadline) {
                Ok(ended) => self.close(&execution_id, ended),
                Err(poller) => log::error!("{} did not end in time and is left", poller.name()),
            }
        }
    }
}

fn identity(server: &ServerIdentity, session: &ListedSession<'_>) -> TmuxIdentity {
    TmuxIdentity {
        socket: server.socket.to_string_lossy().into_owned(),
        server_pid: server.pid,
        server_started: server.start_time,
        session_id: session.id.to_string(),
        session_created: session.created,
    }
}
