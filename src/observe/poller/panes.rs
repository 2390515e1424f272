//! The panes of one watched session: opened, request for, update apart, handed over and closed.

mod agents;
mod departures;
mod opening;
mod programs;
mod streams;
mod unopened;

use unopened::UnopenedPane;

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::agent::StateRules;
use crate::event::PaneId;
use crate::observe::conversation::{AgentUpdate, Conversations, UPDATES_MAX};
use crate::observe::pane_observer::Pane;
use crate::observe::pane_observer::turns::TurnRules;
use crate::observe::pane_output::PaneOutput;
use crate::observe::pane_recordings::PaneRecordings;
use crate::observe::pane_transfers::PaneTransfers;
use crate::observe::poller::pipes::SessionPipes;
use crate::observe::programs::PanePrograms;
use crate::observe::session_emitter::SessionEmitter;
use crate::observe::session_outcome::SessionOutcome;
use crate::process::ProcessWatcher;
use crate::tmux::{
    DepartedPane, Drains, GatewayHandle, PaneReply, PaneRequest, PollSchedule, SessionId,
};

/// Which panes of the session are watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::observe) struct Selection {
    /// All, if it names none.
    pub only: Option<HashSet<PaneId>>,
    /// Panes that would show the observer itself.
    pub leave_out: HashSet<PaneId>,
}

impl Selection {
    /// Returns whether the pane is watched.
    pub fn contains(&self, pane: &PaneId) -> bool {
        !self.leave_out.contains(pane) && self.only.as_ref().is_none_or(|only| only.contains(pane))
    }
}

/// The configuration of the panes of a session.
pub(in crate::observe) struct PanesConfig {
    pub session_id: SessionId,
    /// The tmux server's process.
    pub server_pid: u32,
    pub gateway: GatewayHandle,
    pub schedule: PollSchedule,
    /// Where turns end, in AI mode.
    pub turns: Option<TurnRules>,
    /// The rules by which agents' screens are read, where configured.
    pub states: Option<StateRules>,
    pub selection: Selection,
    /// The session appeared while the server was observed.
    pub fresh: bool,
    /// The panes that stand present are captured before their pipes are opened.
    pub captured_first: bool,
    /// Where panes come from that were another session's.
    pub transfers: PaneTransfers,
    /// The programs in the foreground of the panes, as far as they are known.
    pub commands: HashMap<PaneId, String>,
    /// Gets what stood on the panes when observation began.
    /// The lines of the baseline that are reported.
    pub baseline_lines: usize,
    /// Where the panes are streamed.
    pub drains: Option<Drains>,
    /// Where they are recorded, too.
    pub recording: Option<PaneRecordings>,
    /// Where programs are held open, to learn how they end.
    pub exits: ProcessWatcher,
    /// Where the conversations of agents are read.
    pub conversations: Conversations,
    /// Rows of panes are reported though their agents' conversations are.
    pub shows_screens: bool,
    /// Views of panes by attached clients are reported.
    pub reports_views: bool,
}

/// An reply about all panes, as far as it matters to each.
#[derive(Clone, Copy)]
pub(in crate::observe) struct ReplyContext<'a> {
    /// The session's name.
    pub name: &'a str,
    pub first: bool,
    /// It came of a second capture, at those panes of which the first was too short.
    pub again: bool,
    pub now: Instant,
}

pub(in crate::observe) struct SessionPanes {
    config: PanesConfig,
    panes: HashMap<PaneId, Pane>,
    /// Where the panes are streamed.
    pipes: Option<SessionPipes>,
    /// Panes that are gone, and of whose bytes the last have not come yet.
    leaving: HashMap<PaneId, (Pane, Option<DepartedPane>)>,
    emitter: SessionEmitter,
    programs: PanePrograms,
    outcome: SessionOutcome,
    /// Panes that are not watched.
    unwatched: HashSet<PaneId>,
    /// Panes that are to be reported from their first line, or from a place to be found: all of them
    /// is looked at before they are opened.
    unopened: HashMap<PaneId, UnopenedPane>,
    /// Some of them were found by a second capture, and so wait for a third.
    needs_another_round: bool,
    /// Panes that another session's poller has not let go yet, and since when that is so.
    arriving: HashMap<PaneId, Instant>,
    agent_sender: Sender<AgentUpdate>,
    agent_updates: Receiver<AgentUpdate>,
}

impl SessionPanes {
    pub fn new(mut config: PanesConfig, emitter: SessionEmitter) -> Self {
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

    /// Returns whether the pane is watched.
    pub fn is_watched(&self, pane: &PaneId) -> bool {
        self.config.selection.contains(pane)
    }

    /// Returns whether a capture is needed beside those that tell what is new: one that is deeper
    /// than the last, one that bytes follow or one to compare with them.
    pub fn needs_more_captures(&self, now: Instant) -> bool {
        let streams = self.pipes.is_some();
        let needs = |(id, pane): (&PaneId, &Pane)| {
            pane.needs_full_capture()
                || streams && self.is_watched(id) && pane.has_urgent_request(now)
        };
        !self.unopened.is_empty() || self.panes.iter().any(needs)
    }

    /// Panes that were listed and have not been captured yet.
    pub fn unopened(&self) -> Vec<PaneId> {
        let mut panes: Vec<PaneId> = self.unopened.keys().cloned().collect();
        panes.sort();
        panes
    }

    /// Returns whether a pane is on its way from another session, or is listed and could not be
    /// captured yet. No listing brings it again: it is to be request for after a while.
    pub fn has_pending_panes(&self) -> bool {
        !self.arriving.is_empty() || !self.unopened.is_empty()
    }

    /// Returns what to ask for, until present is something to tell.
    pub fn requests(&self) -> HashMap<PaneId, PaneRequest> {
        let requests = self.panes.iter().map(|(id, pane)| {
            let request = if self.is_watched(id) {
                pane.next_request()
            } else {
                PaneRequest::Presence
            };
            (id.clone(), request)
        });
        let unwatched = self.unwatched.iter().filter(|id| !self.is_watched(id));
        // What is known of a pane that is followed counts.
        let unopened = self.unopened.keys();
        unwatched
            .chain(unopened)
            .map(|id| (id.clone(), PaneRequest::Presence))
            .chain(requests)
            .collect()
    }

    /// Returns the panes that are known to be viewed; `None` where views are not reported.
    pub fn viewed(&self) -> Option<HashSet<PaneId>> {
        let viewed = self.panes.iter().filter(|(_, pane)| pane.views.is_viewed());
        let viewed = viewed.map(|(id, _)| id.clone());
        self.config.reports_views.then(|| viewed.collect())
    }

    /// Returns when [`SessionPanes::handle_timeout`] is due if nothing arrives; with `may_request`, also when
    /// a pane needs another request.
    pub fn deadline(&self, may_request: bool) -> Option<Instant> {
        let leaving = self.leaving.values().map(|(pane, _)| pane);
        let panes = self.panes.values();
        panes
            .filter_map(|pane| pane.deadline(may_request))
            .chain(leaving.filter_map(|pane| pane.deadline(false)))
            .chain(self.programs.deadline())
            .min()
    }

    /// Emits what is due. Returns true if a pane needs another request.
    pub fn handle_timeout(&mut self, now: Instant) -> bool {
        let mut has_other_request = false;
        for (id, pane) in &mut self.panes {
            let may_wait = self.pipes.is_some();
            let step = |out: &mut PaneOutput<'_>| pane.handle_timeout(out);
            has_other_request |= self.emitter.collect(id, may_wait, now, step);
            // Its drain did not come, and is not waited for any more.
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

    /// Ends the rest of all panes: the caller requests captures.
    pub fn wake(&mut self, now: Instant) {
        self.panes.values_mut().for_each(|pane| pane.wake(now));
    }

    /// Takes in what became of all panes.
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
        let uncaptured: Vec<PaneId> = self
            .unopened
            .keys()
            .filter(|id| !present.contains(*id))
            .cloned()
            .collect();
        for id in uncaptured {
            self.handle_vanished(&id, departed, context.now);
        }
        let gone: Vec<PaneId> = self
            .panes
            .keys()
            .filter(|id| !present.contains(*id))
            .cloned()
            .collect();
        for id in gone {
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
        // While it is worked on, the pane is not in the map: a panic leaves no half-done state
        // behind, and what was reported of it is recalled.
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
                // An agent may be present since before.
                self.search_for_agent(id, context.now);
            }
        }
    }

    /// Passes the reply on to the pane.
    fn update_pane(
        &mut self,
        pane: &mut Pane,
        id: &PaneId,
        mut reply: PaneReply,
        context: ReplyContext<'_>,
    ) {
        if pane.is_respawned(reply.state().pid) {
            // The program that is known is the one that has ended.
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
