//! The panes of one watched session: takes replies, drains' messages and timeouts, and emits the panes' output.

mod agents;
mod config;
mod departures;
mod opening;
mod programs;
mod requests;
mod streams;

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded};

pub(in crate::observe) use config::{PanesConfig, Selection};

use crate::bus::{BlockingEmitter, EventEmitter};
use crate::event::PaneId;
use crate::observe::command_events::CommandEvent;
use crate::observe::conversation::{AgentUpdate, Conversations, UPDATES_MAX};
use crate::observe::pane_observer::Pane;
use crate::observe::pane_observer::{PaneEmission, PaneOutput};
use crate::observe::poller::pipes::SessionPipes;
use crate::observe::programs::PanePrograms;
use crate::observe::resume_point::ResumePoint;
use crate::observe::session_outcome::SessionOutcome;
use crate::tmux::{DepartedPane, DrainMessage, DrainOutput, Margin, PaneReply, PaneState};

/// A pane that the next capture opens.
struct UnopenedPane {
    /// The depth of that capture.
    margin: Margin,
    /// The pane's state in the listing.
    state: PaneState,
    /// The pane is reported from its first line.
    is_fresh: bool,
    /// The time before which its pipe is not opened.
    pipe_after: Option<Instant>,
}

/// The context of a reply about all panes of a session.
#[derive(Clone, Copy)]
pub(in crate::observe) struct ReplyContext<'a> {
    /// The session's name.
    pub name: &'a str,
    pub first: bool,
    /// The reply belongs to extra captures, of panes whose regular capture did not suffice.
    pub again: bool,
    pub now: Instant,
}

pub(in crate::observe) struct SessionPanes {
    config: PanesConfig,
    panes: HashMap<PaneId, Pane>,
    /// The pipes, if panes are streamed.
    pipes: Option<SessionPipes>,
    /// Panes that are gone, but whose last bytes or exit status have not arrived.
    leaving: HashMap<PaneId, (Pane, Option<DepartedPane>)>,
    emitter: SessionEmitter,
    programs: PanePrograms,
    outcome: SessionOutcome,
    /// Panes of the session that are not watched.
    unwatched: HashSet<PaneId>,
    /// Panes that must be captured before they are opened, because they are reported from their first
    /// line or from a known position.
    unopened: HashMap<PaneId, UnopenedPane>,
    /// An extra capture revealed panes that need another one.
    needs_another_round: bool,
    /// Panes that another session's poller has not released yet, and when they were found.
    arriving: HashMap<PaneId, Instant>,
    agent_sender: Sender<AgentUpdate>,
    agent_updates: Receiver<AgentUpdate>,
}

impl SessionPanes {
    /// Begins without panes; `resume_points` come from the history of an earlier observer.
    pub fn new(
        mut config: PanesConfig,
        events: EventEmitter,
        resume_points: HashMap<PaneId, ResumePoint>,
    ) -> Self {
        let emitter = SessionEmitter {
            blocking: BlockingEmitter::new(events.clone()),
            events,
            resume_points,
            conversations: config.conversations.clone(),
        };
        let (agent_sender, agent_updates) = bounded(UPDATES_MAX);
        Self {
            agent_sender,
            agent_updates,
            pipes: config.drains.take().map(SessionPipes::new),
            leaving: HashMap::new(),
            programs: PanePrograms::new(config.exits.clone(), config.server_pid),
            outcome: SessionOutcome::default(),
            emitter,
            config,
            panes: HashMap::new(),
            unwatched: HashSet::new(),
            unopened: HashMap::new(),
            needs_another_round: false,
            arriving: HashMap::new(),
        }
    }

    pub fn select(&mut self, selection: Selection) {
        self.config.selection = selection;
    }

    /// Returns true if the pane is watched.
    pub fn is_watched(&self, pane: &PaneId) -> bool {
        self.config.selection.contains(pane)
    }

    /// Emits what is due. Returns true if a pane needs another request.
    pub fn handle_timeout(&mut self, now: Instant) -> bool {
        let mut has_other_request = false;
        for (id, pane) in &mut self.panes {
            let may_wait = self.pipes.is_some();
            let step = |out: &mut PaneOutput<'_>| pane.handle_timeout(out);
            has_other_request |= self.emitter.collect(id, may_wait, now, step);
            // Its drain did not connect in time.
            if let Some((pipes, token)) = self.pipes.as_mut().zip(pane.pipe())
                && !pane.is_streamed()
                && pipes.owner(token).is_some()
            {
                pipes.close(token);
            }
        }
        self.emit_jobs(now);
        self.emit_leaving(now);
        has_other_request
    }

    /// Handles a message of a drain. Returns true if the request in progress is outdated.
    pub fn arrived(&mut self, DrainMessage { token, output }: DrainMessage, now: Instant) -> bool {
        let Some(pipes) = &mut self.pipes else {
            return false;
        };
        let Some(id) = pipes.owner(&token).cloned() else {
            // The pane was released meanwhile.
            pipes.close(&token);
            return false;
        };
        if !self.config.selection.contains(&id) {
            self.stop_watching(&id, now);
            return true;
        }
        // The pane is out of the maps meanwhile, as in `handle_pane_reply`.
        let leaving = self.leaving.remove(&id);
        let (mut pane, departed) = match (leaving, self.panes.remove(&id)) {
            (Some((pane, departed)), other) => {
                if let Some(other) = other {
                    self.panes.insert(id.clone(), other);
                }
                (pane, Some(departed))
            }
            (None, Some(pane)) => (pane, None),
            (None, None) => {
                pipes.close(&token);
                return false;
            }
        };
        let emitter = &mut self.emitter;
        let mut has_printed = false;
        match output {
            DrainOutput::Connected => pane.drain_connected(),
            DrainOutput::Bytes(bytes) => {
                self.programs.note_output(&id, now);
                has_printed = true;
                for mark in emitter.collect(&id, true, now, |out| pane.feed(&bytes, out)) {
                    for job in self.programs.handle_mark(&id, mark, now) {
                        emitter.emit_job(&id, job);
                    }
                }
                if let Some(recording) = &mut self.config.recording {
                    let was_whole = !recording.needs_screen(&id);
                    recording.add_bytes(&id, &bytes);
                    if was_whole && recording.needs_screen(&id) {
                        pane.check_soon();
                    }
                }
            }
            DrainOutput::Dropped(dropped) => {
                emitter.collect(&id, true, now, |out| pane.bytes_dropped(dropped, out));
                if let Some(recording) = &mut self.config.recording {
                    recording.add_drop(&id, dropped);
                }
            }
            DrainOutput::Mark => {
                let shown = emitter.collect(&id, true, now, |out| pane.handle_mark(out));
                if let Some((recording, (sync_point, differed))) =
                    self.config.recording.as_mut().zip(shown)
                    && (differed || recording.needs_screen(&id))
                {
                    recording.add_screen(&id, &sync_point);
                }
            }
            DrainOutput::Ended => {
                emitter.collect(&id, true, now, |out| pane.pipe_ended(true, out));
            }
            DrainOutput::Lost => {
                emitter.collect(&id, true, now, |out| pane.pipe_ended(false, out));
                if let Some(recording) = &mut self.config.recording {
                    recording.interrupt(&id);
                }
            }
        }
        let is_over = !pane.is_streamed();
        if is_over {
            pipes.close(&token);
        }
        match departed {
            Some(departed) if is_over && self.programs.is_end_known(&id, now) => {
                self.finish_departure(&id, pane, departed, now);
            }
            Some(departed) => drop(self.leaving.insert(id, (pane, departed))),
            None => {
                self.panes.insert(id.clone(), pane);
                if has_printed {
                    self.search_for_agent(&id, now);
                }
            }
        }
        is_over
    }

    /// Wakes all panes that rest, because the user requests a poll.
    pub fn wake(&mut self, now: Instant) {
        self.panes.values_mut().for_each(|pane| pane.wake(now));
    }

    /// Takes the replies for all panes of the session.
    pub fn handle_reply(
        &mut self,
        panes: Vec<PaneReply>,
        departed: &HashMap<PaneId, DepartedPane>,
        context: ReplyContext<'_>,
    ) {
        let mut present = HashSet::new();
        for reply in panes {
            let id = reply.state().pane();
            if self.is_watched(&id) {
                self.programs.pane_listed(&id, reply.state(), context.now);
            }
            present.insert(id.clone());
            self.handle_pane_reply(&id, reply, context);
        }
        self.arriving.retain(|id, _| present.contains(id));
        self.unwatched.retain(|id| present.contains(id));
        let is_gone = |id: &&PaneId| !present.contains(*id);
        let unopened: Vec<_> = self.unopened.keys().filter(is_gone).cloned().collect();
        for id in unopened {
            self.handle_vanished(&id, departed, context.now);
        }
        let opened: Vec<_> = self.panes.keys().filter(is_gone).cloned().collect();
        for id in opened {
            self.pane_departed(&id, departed, context.now);
        }
        if context.again {
            self.end_extra_captures(context.now);
        }
    }

    fn handle_pane_reply(&mut self, id: &PaneId, reply: PaneReply, context: ReplyContext<'_>) {
        if !self.is_watched(id) {
            self.stop_watching(id, context.now);
            return;
        }
        // The pane is out of the map while it handles the reply. After a panic it is missing, and is
        // resumed from what was reported of it.
        let is_viewed = reply.state().viewed && self.config.reports_views;
        let pane = match (self.panes.remove(id), reply) {
            (Some(mut pane), reply) => {
                self.update_pane(&mut pane, id, reply, context);
                Some(pane)
            }
            (None, PaneReply::Captured(mut captured)) => {
                let mut pane = self.start_observing(id, &mut captured, context);
                match &mut pane {
                    Some(pane) => self.handle_pipe_reply(pane, id, *captured, context.now),
                    None => self.drop_opening(id),
                }
                pane
            }
            (None, PaneReply::Listed(state)) if self.pipes.is_some() => {
                self.await_opening(id, state, context);
                None
            }
            (None, PaneReply::Unchanged(..) | PaneReply::Listed(_)) => None,
        };
        if let Some(mut pane) = pane {
            pane.views.set_viewed(is_viewed, context.now);
            self.programs.begin_reporting(id);
            let has_news = pane.has_news_of(context.now);
            let is_search_due = has_news || !pane.was_searched_for_agent();
            self.config.transfers.hold(id, self.config.session_id);
            self.panes.insert(id.clone(), pane);
            if has_news {
                self.programs.note_output(id, context.now);
            }
            if is_search_due {
                // An agent may have run before the pane was observed.
                self.search_for_agent(id, context.now);
            }
        }
    }

    /// Passes a reply on to its pane.
    fn update_pane(
        &mut self,
        pane: &mut Pane,
        id: &PaneId,
        mut reply: PaneReply,
        context: ReplyContext<'_>,
    ) {
        if pane.is_respawned(reply.state().pid) {
            // The known program has ended.
            self.config.commands.remove(id);
            self.add_command(reply.state_mut());
        }
        let now = context.now;
        match reply {
            PaneReply::Captured(captured) if captured.resync.is_some() && pane.is_streamed() => {
                if pane.compare(*captured, now)
                    && let (Some(pipes), Some(token)) = (&self.pipes, pane.pipe())
                {
                    pipes.request_mark(token);
                }
            }
            PaneReply::Captured(mut captured) => {
                let is_resync = captured.resync.is_some();
                if !context.again || pane.needs_full_capture() || is_resync {
                    let is_whole = context.again && pane.requests_all();
                    self.emitter.collect(id, false, now, |out| {
                        pane.handle_capture(&mut captured, is_whole, out);
                    });
                    self.handle_pipe_reply(pane, id, *captured, now);
                }
            }
            PaneReply::Unchanged(state, proof) if !context.again => {
                let unchanged =
                    |out: &mut PaneOutput<'_>| pane.handle_unchanged(&state, proof, out);
                self.emitter.collect(id, false, now, unchanged);
            }
            PaneReply::Listed(state) => {
                let listed = |out: &mut PaneOutput<'_>| pane.handle_listed(&state, out);
                if self.emitter.collect(id, false, now, listed)
                    && let Some(recording) = &self.config.recording
                {
                    recording.add_resize(id, (state.width, state.height));
                }
            }
            PaneReply::Unchanged(..) => {}
        }
    }
}

/// The emitter of a session's panes, with the points from which they resume.
struct SessionEmitter {
    events: EventEmitter,
    resume_points: HashMap<PaneId, ResumePoint>,
    blocking: BlockingEmitter,
    conversations: Conversations,
}

impl SessionEmitter {
    /// Emits what has become of a job in a pane.
    fn emit_job(&self, pane: &PaneId, job: CommandEvent) {
        self.events
            .emit(job.into_event(self.events.execution_id(), pane));
    }

    /// Calls `step` and emits its output; lines wait for room in the log if they `may_wait`.
    fn collect<T>(
        &mut self,
        pane: &PaneId,
        may_wait: bool,
        now: Instant,
        step: impl FnOnce(&mut PaneOutput<'_>) -> T,
    ) -> T {
        let mut pending = PendingEmissions {
            emissions: Vec::new(),
            pane,
            events: &self.events,
            blocking: may_wait.then_some(&mut self.blocking),
            conversations: &self.conversations,
        };
        step(&mut PaneOutput {
            execution_id: self.events.execution_id(),
            emissions: &mut pending.emissions,
            resume_point: self.resume_points.entry(pane.clone()).or_default(),
            now,
        })
    }
}

/// Output that is emitted when it is dropped: also after a panic, because the resume point has it already.
struct PendingEmissions<'a> {
    emissions: Vec<PaneEmission>,
    pane: &'a PaneId,
    events: &'a EventEmitter,
    blocking: Option<&'a mut BlockingEmitter>,
    conversations: &'a Conversations,
}

impl Drop for PendingEmissions<'_> {
    fn drop(&mut self) {
        for emission in self.emissions.drain(..) {
            // A closed bus means that the engine is at its end: no subscriber is left.
            match (emission, &mut self.blocking) {
                (PaneEmission::Lines(event), Some(blocking)) => blocking.emit(event),
                (PaneEmission::Event(event) | PaneEmission::Lines(event), _) => {
                    let _ = self.events.emit(event);
                }
                (PaneEmission::Live(event), _) => {
                    let _ = self.events.emit_live(event);
                }
                (PaneEmission::TurnOver, _) => self.conversations.end_turn(self.pane),
            }
        }
    }
}
