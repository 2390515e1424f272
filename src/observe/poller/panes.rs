//! The panes of one watched session: opened, asked for, told apart, handed over and closed.

mod agents;
mod departures;
mod opening;
mod programs;
mod streams;
mod to_open;

use to_open::ToOpen;

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::agent::StateRules;
use crate::event::PaneId;
use crate::observe::conversation::{AgentUpdate, Conversations, UPDATES_MAX};
use crate::observe::pane_observer::Pane;
use crate::observe::pane_observer::turns::TurnRules;
use crate::observe::pane_output::PaneOutputs;
use crate::observe::pane_recordings::PaneRecordings;
use crate::observe::pane_transfers::PaneTransfers;
use crate::observe::poller::pipes::SessionPipes;
use crate::observe::programs::PanePrograms;
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
    pub fn shows(&self, pane: &PaneId) -> bool {
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
    /// The panes that stand there are captured before their pipes are opened.
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

/// An answer about all panes, as far as it matters to each.
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
    outputs: PaneOutputs,
    programs: PanePrograms,
    outcome: SessionOutcome,
    /// Panes that are not watched.
    passed_over: HashSet<PaneId>,
    /// Panes that are to be reported from their first line, or from a place to be found: all of them
    /// is looked at before they are opened.
    to_open: HashMap<PaneId, ToOpen>,
    /// Some of them were found by a second capture, and so wait for a third.
    found_late: bool,
    /// Panes that another session's poller has not let go yet, and since when that is so.
    arriving: HashMap<PaneId, Instant>,
    agent_sender: Sender<AgentUpdate>,
    agent_news: Receiver<AgentUpdate>,
}

impl SessionPanes {
    pub fn new(mut config: PanesConfig, outputs: PaneOutputs) -> Self {
        let (agent_sender, agent_news) = bounded(UPDATES_MAX);
        Self {
            agent_sender,
            agent_news,
            pipes: config.drains.take().map(SessionPipes::new),
            leaving: HashMap::new(),
            programs: PanePrograms::new(config.exits.clone(), config.server_pid),
            outcome: SessionOutcome::default(),
            outputs,
            config,
            panes: HashMap::new(),
            passed_over: HashSet::new(),
            to_open: HashMap::new(),
            found_late: false,
            arriving: HashMap::new(),
        }
    }

    pub fn select(&mut self, selection: Selection) {
        self.config.selection = selection;
    }

    /// Returns whether the pane is watched.
    pub fn shows(&self, pane: &PaneId) -> bool {
        self.config.selection.shows(pane)
    }

    /// Returns whether a capture is needed beside those that tell what is new: one that is deeper
    /// than the last, one that bytes follow or one to compare with them.
    pub fn needs_more(&self, now: Instant) -> bool {
        let streams = self.pipes.is_some();
        let needs = |(id, pane): (&PaneId, &Pane)| {
            pane.deeper
                || streams
                    && self.shows(id)
                    && (pane.wants_pipe(now)
                        || pane.wants_pipe_recheck(now)
                        || pane.wants_look()
                        || pane.wants_check(now))
        };
        !self.to_open.is_empty() || self.panes.iter().any(needs)
    }

    /// Panes that were listed and have not been captured yet.
    pub fn unopened(&self) -> Vec<PaneId> {
        let mut panes: Vec<PaneId> = self.to_open.keys().cloned().collect();
        panes.sort();
        panes
    }

    /// Returns whether a pane is on its way from another session, or is listed and could not be
    /// captured yet. No listing brings it again: it is to be asked for after a while.
    pub fn awaits_panes(&self) -> bool {
        !self.arriving.is_empty() || !self.to_open.is_empty()
    }

    /// Returns what to ask for, until there is something to tell.
    pub fn wants(&self) -> HashMap<PaneId, PaneRequest> {
        let wants = self.panes.iter().map(|(id, pane)| {
            let want = if self.shows(id) {
                pane.want()
            } else {
                PaneRequest::Presence
            };
            (id.clone(), want)
        });
        let passed_over = self.passed_over.iter().filter(|id| !self.shows(id));
        // What is known of a pane that is followed counts.
        let to_open = self.to_open.keys();
        passed_over
            .chain(to_open)
            .map(|id| (id.clone(), PaneRequest::Presence))
            .chain(wants)
            .collect()
    }

    /// Returns the panes that are known to be viewed; `None` where views are not reported.
    pub fn viewed(&self) -> Option<HashSet<PaneId>> {
        let viewed = self.panes.iter().filter(|(_, pane)| pane.views.is_viewed());
        let viewed = viewed.map(|(id, _)| id.clone());
        self.config.reports_views.then(|| viewed.collect())
    }

    /// When something that was held back is to be reported; `asks`: or when more is to be asked for.
    pub fn next_due(&self, asks: bool) -> Option<Instant> {
        let leaving = self.leaving.values().map(|(pane, _)| pane);
        let said = self
            .panes
            .values()
            .chain(leaving)
            .filter_map(Pane::next_due);
        let checks = self.panes.values().filter_map(Pane::next_check);
        said.chain(checks.filter(|_| asks))
            .chain(self.programs.deadline())
            .min()
    }

    /// Reports what was held back and is due. Whether other things are to be asked for from now on.
    pub fn emit_due(&mut self, now: Instant) -> bool {
        let mut asks_otherwise = false;
        for (id, pane) in &mut self.panes {
            asks_otherwise |= pane.emit_due(&mut self.outputs.of(id, self.pipes.is_some(), now));
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
        asks_otherwise
    }

    /// Ends the rest of all panes: the caller wants captures.
    pub fn wake(&mut self, now: Instant) {
        self.panes.values_mut().for_each(|pane| pane.wake(now));
    }

    /// Takes in what became of all panes.
    pub fn answered(
        &mut self,
        panes: Vec<PaneReply>,
        left: &HashMap<PaneId, DepartedPane>,
        context: ReplyContext<'_>,
    ) {
        let mut there = HashSet::new();
        for answer in panes {
            let id = answer.state().pane();
            if self.shows(&id) {
                self.programs.pane_listed(&id, answer.state(), context.now);
            }
            there.insert(id.clone());
            self.pane_answered(&id, answer, context);
        }
        self.arriving.retain(|id, _| there.contains(id));
        self.passed_over.retain(|id| there.contains(id));
        let never_seen: Vec<PaneId> = self
            .to_open
            .keys()
            .filter(|id| !there.contains(*id))
            .cloned()
            .collect();
        for id in never_seen {
            self.vanished(&id, left, context.now);
        }
        let gone: Vec<PaneId> = self
            .panes
            .keys()
            .filter(|id| !there.contains(*id))
            .cloned()
            .collect();
        for id in gone {
            self.close_pane(&id, left, context.now);
        }
        if context.again {
            self.unanswered(context.now);
        }
    }

    fn pane_answered(&mut self, id: &PaneId, answer: PaneReply, context: ReplyContext<'_>) {
        if !self.shows(id) {
            self.pass_over(id, context.now);
            return;
        }
        // While it is worked on, the pane is not in the map: a panic leaves no half-done state
        // behind, and what was reported of it is recalled.
        let is_viewed = answer.state().viewed && self.config.reports_views;
        let pane = match (self.panes.remove(id), answer) {
            (Some(mut pane), answer) => {
                self.go_on(&mut pane, id, answer, context);
                Some(pane)
            }
            (None, PaneReply::Captured(mut captured)) => {
                let mut pane = self.found(id, &mut captured, context);
                match &mut pane {
                    Some(pane) => self.pipe_answered(pane, id, *captured, context.now),
                    None => self.drop_opening(id),
                }
                pane
            }
            (None, PaneReply::Listed(state)) if self.pipes.is_some() => {
                self.is_to_be_opened(id, state, context);
                None
            }
            (None, PaneReply::Unchanged(..) | PaneReply::Listed(_)) => None,
        };
        if let Some(mut pane) = pane {
            pane.views.set_viewed(is_viewed, context.now);
            self.programs.begin_reporting(id);
            let has_news = pane.has_news_of(context.now);
            let looks = has_news || !pane.was_looked_through();
            self.config.transfers.hold(id, self.config.session_id);
            self.panes.insert(id.clone(), pane);
            if has_news {
                self.programs.note_output(id, context.now);
            }
            if looks {
                // An agent may be there since before.
                self.look_for_agent(id, context.now);
            }
        }
    }

    /// Passes the answer on to the pane.
    fn go_on(
        &mut self,
        pane: &mut Pane,
        id: &PaneId,
        mut answer: PaneReply,
        context: ReplyContext<'_>,
    ) {
        if pane.is_respawned(answer.state().pid) {
            // The program that is known is the one that has ended.
            self.config.commands.remove(id);
            self.add_command(answer.state_mut());
        }
        let mut out = self.outputs.of(id, false, context.now);
        match answer {
            PaneReply::Captured(captured) if captured.resync.is_some() && pane.is_streamed() => {
                if pane.compare(*captured, context.now)
                    && let (Some(pipes), Some(token)) = (&self.pipes, pane.pipe())
                {
                    pipes.request_mark(token);
                }
            }
            PaneReply::Captured(mut captured) => {
                let is_resync = captured.resync.is_some();
                if !context.again || pane.deeper || is_resync {
                    let is_whole = context.again && pane.requests_all();
                    pane.handle_capture(&mut captured, is_whole, &mut out);
                    self.pipe_answered(pane, id, *captured, context.now);
                }
            }
            PaneReply::Unchanged(state, proof) if !context.again => {
                pane.handle_unchanged(&state, proof, &mut out);
            }
            PaneReply::Listed(state) => {
                if pane.there(&state, &mut out)
                    && let Some(recording) = &self.config.recording
                {
                    recording.add_resize(id, (state.width, state.height));
                }
            }
            PaneReply::Unchanged(..) => {}
        }
    }
}
