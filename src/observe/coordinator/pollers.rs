//! Starts and joins the pollers of a coordinator, and opens and closes the runs of their sessions.

use std::collections::HashMap;

use crossbeam_channel::bounded;

use super::{CONTROL_MESSAGES, CoordinatorThread, POLLER_END_TIMEOUT, SessionKey, WatchedSession};
use crate::error::Result;
use crate::event::{ExecutionId, PaneId, SessionEndReason};
use crate::history::{RunInfo, RunKind, RunState, TmuxIdentity};
use crate::observe::RunName;
use crate::observe::pane_recordings::PaneRecordings;
use crate::observe::poller::panes::{PanesConfig, Selection, SessionPanes};
use crate::observe::poller::{Ended, Poller};
use crate::observe::resume_point::ResumePoint;
use crate::observe::watch::PaneSource;
use crate::thread::{self, stop_pair};
use crate::tmux::{DrainProgram, Drains, ListedSession, Listing, PaneState, ServerIdentity};

/// With more panes on a server when its observation begins, all of them are captured first, and their
/// pipes opened after: opening one takes the server about 5 ms, a capture 0.3 ms.
const PIPED_AT_ONCE: usize = 16;

impl CoordinatorThread {
    /// Starts the poller of a session, and opens its run.
    pub(super) fn start_poller(
        &mut self,
        key: SessionKey,
        session: &ListedSession<'_>,
        listing: &Listing,
        selection: Selection,
    ) {
        let server = &listing.server;
        let label = format!("{}@{}", session.name, session.created);
        let name = match &self.watch.execution_id {
            Some(id) => RunName::Exact(id.clone()),
            None => RunName::Labelled(label),
        };
        let info = RunInfo {
            kind: RunKind::Tmux,
            label: session.name.to_owned(),
            identity: Some(identity(server, session)),
            ..RunInfo::default()
        };
        let run = match self.context.runs.open(name, info) {
            Ok(run) => run,
            Err(error) => return self.log_trouble(&error),
        };
        let (stop_guard, stop) = stop_pair();
        let (control, controls) = bounded(CONTROL_MESSAGES);
        let execution_id = run.emitter.execution_id().clone();
        let panes: Vec<PaneId> = listing.panes_of(session.id).map(PaneState::pane).collect();
        let resume_points = run.history.map_or_else(HashMap::new, |path| {
            ResumePoint::read(&path, &panes).unwrap_or_else(|error| {
                log::warn!("{error:?}");
                HashMap::new()
            })
        });
        let drains = self.start_drains().unwrap_or_else(|error| {
            run.emitter.warning(
                "tmux",
                &format!("cannot stream panes; falling back to polling: {error}"),
            );
            None
        });
        let is_recorded = self.watch.raw && drains.is_some();
        let runs = &self.context.runs;
        let recorder = is_recorded.then(|| runs.start_recording(&execution_id, session.name));
        let recording = match recorder.flatten() {
            Some(Ok(recorder)) => Some(PaneRecordings::new(recorder, self.context.clock.clone())),
            Some(Err(error)) => {
                self.log_trouble(&error);
                None
            }
            None => None,
        };
        let config = PanesConfig {
            session_id: session.id,
            server_pid: server.pid,
            gateway: self.gateway.clone(),
            schedule: self.watch.schedule,
            turns: self.watch.turns.clone(),
            states: self.watch.states.clone(),
            selection: selection.clone(),
            // Earlier output of a session that existed unwatched is not reported.
            fresh: !self.is_first_round && !self.listed_sessions.contains(&session.id),
            captured_first: self.is_first_round && listing.panes.len() > PIPED_AT_ONCE,
            transfers: self.transfers.clone(),
            commands: self.programs.clone(),
            baseline_lines: self.watch.baseline_lines,
            drains,
            recording,
            exits: self.exits.clone(),
            conversations: self.conversations.clone(),
            shows_screens: self.watch.screens,
            reports_views: self.watch.views,
        };
        let panes = SessionPanes::new(config, run.emitter.clone(), resume_points);
        let poller = Poller {
            session_id: session.id,
            name: session.name.to_owned(),
            server: server.clone(),
            emitter: run.emitter,
            gateway: self.gateway.clone(),
            clock: self.context.clock.clone(),
            schedule: self.watch.schedule,
            stop,
            control: controls,
            panes,
        };
        match thread::spawn(format!("td-{}", session.name), move || poller.run()) {
            Ok(poller) => {
                let watched = WatchedSession {
                    poller,
                    stop: Some(stop_guard),
                    control,
                    selection,
                    execution_id,
                    locked: run.locked,
                };
                self.sessions.insert(key, watched);
            }
            Err(error) => {
                self.context
                    .runs
                    .close(&execution_id, RunState::Failed, None);
                self.log_trouble(&error);
            }
        }
    }

    /// Starts the reader of a session's drains; `None` if all panes are polled.
    fn start_drains(&self) -> Result<Option<Drains>> {
        let program = match &self.watch.source {
            PaneSource::Poll => return Ok(None),
            PaneSource::Auto(Some(program)) => program.clone(),
            PaneSource::Auto(None) => DrainProgram::find()?,
        };
        Drains::start(program, &self.context.clock).map(Some)
    }

    /// Joins the pollers that have ended, and closes their runs.
    pub(super) fn join_ended(&mut self) {
        let has_ended = |_: &SessionKey, watched: &mut WatchedSession| watched.poller.is_finished();
        let ended: Vec<_> = self.sessions.extract_if(has_ended).collect();
        for (_, watched) in ended {
            (self.applied_listing, self.needs_fresh_listing) = (None, true);
            self.close_run(&watched.execution_id, watched.poller.join());
        }
    }

    fn close_run(&self, id: &ExecutionId, ended: Result<Ended, thread::Panicked>) {
        let (state, exit_status) = match ended {
            Ok(ended) => {
                let state = match ended.reason {
                    SessionEndReason::Detached => RunState::Detached,
                    _ if ended.has_failed => RunState::Failed,
                    _ => RunState::Completed,
                };
                (state, ended.exit_status)
            }
            Err(panicked) => {
                log::error!("{panicked}");
                (RunState::Failed, None)
            }
        };
        self.context.runs.close(id, state, exit_status);
    }

    /// Stops all pollers at once, and joins them.
    pub(super) fn stop_pollers(&mut self) {
        let mut sessions: Vec<WatchedSession> =
            self.sessions.drain().map(|(_, watched)| watched).collect();
        for watched in &mut sessions {
            watched.stop = None;
        }
        let deadline = self.context.clock.now() + POLLER_END_TIMEOUT;
        for watched in sessions {
            match watched.poller.join_deadline(deadline) {
                Ok(ended) => self.close_run(&watched.execution_id, ended),
                Err(poller) => {
                    log::error!("{} did not end in time and is abandoned", poller.name())
                }
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
