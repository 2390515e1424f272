//! The panes of one watched session: takes replies, drains' messages and timeouts, and emits the panes' output.

mod listening;
mod membership;

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::super::agent_files::{
    AgentChange, AgentUpdate, ConversationSink, Conversations, UPDATES_MAX,
};
use super::pipes::SessionPipes;
use crate::bus::{BlockingEmitter, EventEmitter};
use crate::event::{PaneId, TdEvent};
use crate::observe::client_views::ClientViews;
use crate::observe::command_events::CommandEvent;
use crate::observe::pane_names::PaneNames;
use crate::observe::pane_observer::listener::OpeningListener;
use crate::observe::pane_observer::{Pane, PaneEmission, PaneOutput, PaneRules};
use crate::observe::pane_recordings::PaneRecordings;
use crate::observe::pane_transfers::PaneTransfers;
use crate::observe::programs::{Ending, PanePrograms};
use crate::observe::resume_point::ResumePoint;
use crate::observe::session_outcome::SessionOutcome;
use crate::process::ProcessWatcher;
use crate::tmux::{
    CaptureRequest, DepartedPane, DrainMessage, DrainOrder, DrainOutput, Drains, GatewayHandle,
    GivenNames, Margin, PaneReply, PaneRequest, PaneState, ResyncRequest, ResyncSpec, SessionId,
};

/// The interval of searches for an agent in a pane that prints; processes take longer to start.
const AGENT_SEARCH_INTERVAL: Duration = Duration::from_millis(400);

/// The watched panes of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::observe) struct Selection {
    /// The only panes to watch; `None` for all of them.
    pub only: Option<HashSet<PaneId>>,
    /// Excluded panes, such as those that show what is observed.
    pub leave_out: HashSet<PaneId>,
}

impl Selection {
    /// Returns true if the pane is watched.
    pub fn contains(&self, pane: &PaneId) -> bool {
        !self.leave_out.contains(pane) && self.only.as_ref().is_none_or(|only| only.contains(pane))
    }
}

/// The configuration of the panes of a session.
pub(in crate::observe) struct PanesConfig {
    pub session_id: SessionId,
    /// The pid of the tmux server.
    pub server_pid: u32,
    pub gateway: GatewayHandle,
    pub rules: PaneRules,
    pub selection: Selection,
    /// The session appeared while the server was observed.
    pub fresh: bool,
    /// All panes are captured before any pipe is opened.
    pub captured_first: bool,
    /// The panes that move between sessions.
    pub transfers: PaneTransfers,
    /// The foreground programs of the panes, as far as they are known.
    pub commands: HashMap<PaneId, String>,
    /// The drains, if panes are streamed.
    pub drains: Option<Drains>,
    /// The recordings, if panes are recorded.
    pub recording: Option<PaneRecordings>,
    /// Watches the programs of the panes, to learn how they end.
    pub exits: ProcessWatcher,
    /// Knows which panes are views of others.
    pub views: ClientViews,
    /// Reads the conversations of agents.
    pub conversations: Conversations,
    /// Views of panes by attached clients are reported.
    pub reports_views: bool,
}

/// A pane of the session, or one that has just left it.
enum PaneSlot {
    /// The pane is not watched.
    Unwatched,
    /// The pane must be captured before it is opened, because it is reported from its first line or from a
    /// known position, or because another session's poller still has it.
    Unopened(UnopenedPane),
    Open(Box<Pane>),
    /// The pane is gone, but its last bytes or its program's exit status have not arrived.
    Leaving(Box<Pane>, Option<DepartedPane>),
}

impl PaneSlot {
    fn open(&self) -> Option<&Pane> {
        match self {
            Self::Open(pane) => Some(pane),
            _ => None,
        }
    }

    fn open_mut(&mut self) -> Option<&mut Pane> {
        match self {
            Self::Open(pane) => Some(pane),
            _ => None,
        }
    }
}

/// A pane that the next capture opens.
struct UnopenedPane {
    /// The depth of that capture.
    margin: Margin,
    /// The pane's state in the listing.
    state: Box<PaneState>,
    /// The pane is reported from its first line.
    is_fresh: bool,
    /// The time before which its pipe is not opened.
    pipe_after: Option<Instant>,
    /// Since when another session's poller has not released the pane.
    held_since: Option<Instant>,
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
    /// The present second, since 1970.
    pub second: i64,
}

pub(in crate::observe) struct SessionPanes {
    config: PanesConfig,
    slots: HashMap<PaneId, PaneSlot>,
    /// The pipes, if panes are streamed.
    pipes: Option<SessionPipes>,
    emitter: SessionEmitter,
    programs: PanePrograms,
    outcome: SessionOutcome,
    names: PaneNames,
    /// An extra capture revealed panes that need another one.
    needs_another_round: bool,
    /// Who wants to hear panes that open, from their first lines on.
    openings: Vec<Box<dyn OpeningListener>>,
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
            programs: PanePrograms::new(config.exits.clone(), config.server_pid),
            outcome: SessionOutcome::default(),
            names: PaneNames::default(),
            emitter,
            config,
            slots: HashMap::new(),
            needs_another_round: false,
            openings: Vec::new(),
        }
    }

    /// Returns the panes that have closed while nothing observed them, once. `present` are all panes of the session.
    pub fn take_lost(&mut self, present: &[PaneId]) -> Vec<PaneId> {
        ResumePoint::take_lost(&mut self.emitter.resume_points, present)
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
        let may_wait = self.pipes.is_some();
        for (id, slot) in &mut self.slots {
            let Some(pane) = slot.open_mut() else {
                continue;
            };
            let step = |out: &mut PaneOutput<'_>| {
                if let Some(pid) = pane.judged_pid(now) {
                    pane.set_front(self.config.views.front(pid), out);
                }
                pane.handle_timeout(out)
            };
            has_other_request |= self.emitter.collect(id, may_wait, now, step);
            // Its drain did not connect in time.
            if let Some((pipes, token)) = self.pipes.as_mut().zip(pane.pipe())
                && !pane.is_streamed()
                && pipes.owners.contains_key(token)
            {
                pipes.close(token);
            }
        }
        self.emit_jobs(now);
        self.emit_names(now);
        self.emit_leaving(now);
        has_other_request
    }

    /// Handles a message of a drain. Returns true if the request in progress is outdated.
    pub fn arrived(&mut self, DrainMessage { token, output }: DrainMessage, now: Instant) -> bool {
        let Some(pipes) = &mut self.pipes else {
            return false;
        };
        let Some(id) = pipes.owners.get(&token).cloned() else {
            // The pane was released meanwhile.
            pipes.close(&token);
            return false;
        };
        if !self.config.selection.contains(&id) {
            self.stop_watching(&id, now);
            return true;
        }
        // The pane is out of its slot meanwhile, as in `handle_pane_reply`.
        let (mut pane, departed) = match self.slots.remove(&id) {
            Some(PaneSlot::Open(pane)) => (pane, None),
            Some(PaneSlot::Leaving(pane, departed)) => (pane, Some(departed)),
            other => {
                self.slots.extend(other.map(|slot| (id, slot)));
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
                // What a shell prints shows that its agent has ended.
                if let Some(exit) = self.programs.agent_end(&id, false) {
                    emitter.collect(&id, true, now, |out| pane.agent_ended(exit, out));
                }
                let feed = |out: &mut PaneOutput<'_>| {
                    let marks = pane.feed(&bytes, out);
                    pane.look_if_reported(|pid| self.config.views.front(pid), out);
                    marks
                };
                for mark in emitter.collect(&id, true, now, feed) {
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
                self.finish_departure(&id, *pane, departed, now);
            }
            Some(departed) => {
                self.slots.insert(id, PaneSlot::Leaving(pane, departed));
            }
            None => {
                if self.config.conversations.are_read() {
                    self.names.set_title(&id, pane.work_in_title(), now);
                }
                self.slots.insert(id.clone(), PaneSlot::Open(pane));
                if has_printed {
                    self.search_for_agent(&id, now);
                }
            }
        }
        is_over
    }

    /// Wakes all panes that rest, because the user requests a poll.
    pub fn wake(&mut self, now: Instant) {
        let panes = self.slots.values_mut().filter_map(PaneSlot::open_mut);
        panes.for_each(|pane| pane.wake(now));
    }

    /// Emits what stands on all screens, because the user requested a poll.
    pub fn settle_now(&mut self, now: Instant) {
        let may_wait = self.pipes.is_some();
        for (id, slot) in &mut self.slots {
            if let Some(pane) = slot.open_mut() {
                self.emitter
                    .collect(id, may_wait, now, |out| pane.settle_now(out));
            }
        }
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
        let gone = self.slots.keys().filter(|id| !present.contains(*id));
        let gone: Vec<PaneId> = gone.cloned().collect();
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
        // The pane is out of its slot while it handles the reply. After a panic it is missing, and is
        // resumed from what was reported of it.
        let viewed_for = reply.state().viewed_for(context.second);
        let viewed_for = viewed_for.filter(|_| self.config.reports_views);
        let names = reply.state().given_names();
        let window = names.window.map(str::to_owned);
        let agent = names.agent.map(str::to_owned);
        let pane = match (self.slots.remove(id), reply) {
            (Some(PaneSlot::Open(mut pane)), reply) => {
                self.update_pane(&mut pane, id, reply, context);
                Some(pane)
            }
            // It is back before the last bytes from its former time in this session.
            (Some(leaving @ PaneSlot::Leaving(..)), _) => {
                self.slots.insert(id.clone(), leaving);
                None
            }
            (slot, PaneReply::Captured(mut captured)) => {
                let mut pane = self.start_observing(id, slot, &mut captured, context);
                match &mut pane {
                    Some(pane) => self.handle_pipe_reply(pane, id, *captured, context.now),
                    None => self.drop_opening(id),
                }
                pane
            }
            (slot, PaneReply::Listed(state)) if self.pipes.is_some() => {
                self.await_opening(id, slot, state, context);
                None
            }
            (slot, PaneReply::Unchanged(..) | PaneReply::Listed(_)) => {
                self.slots.extend(slot.map(|slot| (id.clone(), slot)));
                None
            }
        };
        if let Some(mut pane) = pane {
            pane.views.set_viewed(viewed_for, context.now);
            pane.declare_agent(agent.as_deref());
            if self.config.conversations.are_read() {
                self.names.set_window(id, window.as_deref(), context.now);
                self.names.set_agent(id, agent);
                self.names.set_title(id, pane.work_in_title(), context.now);
            }
            self.programs.begin_reporting(id);
            let has_news = pane.has_news_of(context.now);
            let is_search_due = has_news || !pane.was_searched_for_agent();
            self.config.transfers.hold(id, self.config.session_id);
            self.slots.insert(id.clone(), PaneSlot::Open(pane));
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
                let compared = |out: &mut PaneOutput<'_>| pane.compare(*captured, out);
                if self.emitter.collect(id, false, now, compared)
                    && let (Some(pipes), Some(token)) = (&self.pipes, pane.pipe())
                {
                    pipes.drains.order(DrainOrder::Mark(token.clone()));
                }
            }
            PaneReply::Captured(mut captured) => {
                let is_resync = captured.resync.is_some();
                if !context.again || pane.needs_full_capture() || is_resync {
                    let is_whole = context.again && pane.requests_all();
                    self.emitter.collect(id, false, now, |out| {
                        if pane.is_judged() {
                            pane.set_front(self.config.views.front(captured.capture.pid), out);
                        }
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

    /// Returns the channel of updates about agents.
    pub fn agent_updates(&self) -> &Receiver<AgentUpdate> {
        &self.agent_updates
    }

    /// Searches a pane that shows something new for an agent.
    fn search_for_agent(&mut self, id: &PaneId, now: Instant) {
        if !self.config.conversations.are_read() {
            return;
        }
        let Some(pane) = self.slots.get_mut(id).and_then(PaneSlot::open_mut) else {
            return;
        };
        let Some(pid) = pane.begin_agent_search(now, AGENT_SEARCH_INTERVAL) else {
            return;
        };
        let declared = pane.declared_agent().cloned();
        let turns = self.config.rules.turns.as_ref();
        let recipient = ConversationSink {
            emitter: self.emitter.events.clone(),
            markers: turns.map(|turns| turns.markers.clone()),
            reported: self
                .emitter
                .resume_points
                .get(id)
                .and_then(ResumePoint::reported_conversation),
            updates: self.agent_sender.clone(),
        };
        let conversations = &self.config.conversations;
        conversations.active(id, (pid, declared), &recipient);
    }

    /// Handles an update about the agent in a pane.
    pub fn handle_agent_update(&mut self, update: AgentUpdate, now: Instant) {
        let AgentUpdate { pane: id, change } = update;
        if let AgentChange::Directory(name) = &change
            && self.slots.get(&id).and_then(PaneSlot::open).is_some()
        {
            self.names.set_directory(&id, name.as_deref(), now);
        }
        let Some(pane) = self.slots.get_mut(&id).and_then(PaneSlot::open_mut) else {
            // The pane is gone, or belongs to another session's poller.
            return;
        };
        // The process may have ended since.
        let end = self.programs.agent_end(&id, change.is_turning());
        let is_alive = match &change {
            AgentChange::Started { agent, .. } => self.programs.watch_agent(&id, agent, now),
            _ => true,
        };
        let may_wait = self.pipes.is_some();
        self.emitter.collect(&id, may_wait, now, |out| {
            if let Some(exit) = end {
                pane.agent_ended(exit, out);
            }
            match change {
                AgentChange::Started { agent, place } if is_alive => {
                    if pane.is_judged() {
                        pane.set_front(self.config.views.front(pane.pid()), out);
                    }
                    pane.agent_runs(&agent.program, place, out);
                }
                AgentChange::Started { .. } => {}
                AgentChange::ConversationFound(found) => pane.agent_joined(*found, out),
                AgentChange::Suspended(is_suspended) => pane.agent_suspended(is_suspended, out),
                AgentChange::Ended { lives } => pane.agent_left(lives, out),
                AgentChange::Claims(claims) => pane.agent_claims(claims, out),
                AgentChange::Directory(_) => {}
                AgentChange::ScreenRequested => {
                    let text = pane.text_above_input();
                    self.config.conversations.screen(&id, text);
                }
            }
        });
        self.names.set_title(&id, pane.work_in_title(), now);
    }

    /// Emits the names of panes that are due.
    fn emit_names(&mut self, now: Instant) {
        let events = &self.emitter.events;
        for (pane, name) in self.names.take_due(now) {
            events.emit(TdEvent::RowRenamed {
                execution_id: events.execution_id().clone(),
                pane: Some(pane),
                agent_id: None,
                name,
            });
        }
    }

    /// Returns the names that have been given to the panes; `None` if panes are not named.
    pub fn given_names(&self) -> Option<HashMap<PaneId, GivenNames<String>>> {
        let are_named = self.config.conversations.are_read();
        are_named.then(|| self.names.given())
    }

    /// Returns the channel that signals ended processes.
    pub fn exits(&self) -> &Receiver<()> {
        self.programs.exit_signal()
    }

    /// Handles that processes have ended.
    pub fn handle_exits(&mut self, now: Instant) {
        for (id, ending) in self.programs.handle_exits(now) {
            let Some(PaneSlot::Open(pane) | PaneSlot::Leaving(pane, _)) = self.slots.get_mut(&id)
            else {
                continue;
            };
            self.emitter
                .collect(&id, self.pipes.is_some(), now, |out| match ending {
                    Ending::Agent(exit) => pane.agent_ended(exit, out),
                    Ending::Job(group) => pane.group_ended(group, out),
                    Ending::Program(death) => pane.program_ended(death, out),
                });
        }
        self.emit_jobs(now);
        self.emit_leaving(now);
    }

    /// Emits the events of jobs that are due.
    fn emit_jobs(&mut self, now: Instant) {
        for (id, job) in self.programs.handle_timeout(now) {
            if let Some(PaneSlot::Open(_) | PaneSlot::Leaving(..)) = self.slots.get(&id) {
                self.emitter.emit_job(&id, job);
            }
        }
    }

    /// Returns what each pane requests in a regular poll.
    pub fn requests(&self) -> HashMap<PaneId, PaneRequest> {
        let requests = self.slots.iter().filter_map(|(id, slot)| {
            let request = match slot {
                PaneSlot::Open(pane) if self.is_watched(id) => pane.next_request(),
                // The presence of a pane counts even if nothing else is requested of it.
                PaneSlot::Open(_) | PaneSlot::Unopened(_) => PaneRequest::Presence,
                PaneSlot::Unwatched if !self.is_watched(id) => PaneRequest::Presence,
                PaneSlot::Unwatched | PaneSlot::Leaving(..) => return None,
            };
            Some((id.clone(), request))
        });
        requests.collect()
    }

    /// Returns the panes that are listed, but not captured yet.
    pub fn unopened(&self) -> Vec<PaneId> {
        let unopened = self.slots.iter();
        let unopened = unopened.filter(|(_, slot)| matches!(slot, PaneSlot::Unopened(_)));
        let mut panes: Vec<PaneId> = unopened.map(|(id, _)| id.clone()).collect();
        panes.sort();
        panes
    }

    /// Returns true if a pane still has to be requested: it is moving here from another session, or it
    /// could not be captured yet. The gateway does not report such a pane as a change.
    pub fn has_pending_panes(&self) -> bool {
        let mut slots = self.slots.values();
        slots.any(|slot| matches!(slot, PaneSlot::Unopened(_)))
    }

    /// Returns the panes that clients are known to view; `None` if views are not reported.
    pub fn viewed(&self) -> Option<HashSet<PaneId>> {
        let is_viewed = |slot: &PaneSlot| slot.open().is_some_and(|pane| pane.views.is_viewed());
        let viewed = self.slots.iter().filter(|(_, slot)| is_viewed(slot));
        let viewed = viewed.map(|(id, _)| id.clone());
        self.config.reports_views.then(|| viewed.collect())
    }

    /// Returns true if captures are needed besides the regular poll: a deeper one, one that starts a
    /// stream, or one to compare with a stream.
    pub fn needs_more_captures(&self, now: Instant) -> bool {
        let streams = self.pipes.is_some();
        self.slots.iter().any(|(id, slot)| match slot {
            PaneSlot::Unopened(_) => true,
            PaneSlot::Open(pane) => {
                pane.needs_full_capture()
                    || streams && self.is_watched(id) && pane.has_urgent_request(now)
            }
            PaneSlot::Unwatched | PaneSlot::Leaving(..) => false,
        })
    }

    /// Returns the requests of the extra captures; see [`SessionPanes::needs_more_captures`].
    pub fn extra_requests(&mut self, now: Instant) -> HashMap<PaneId, PaneRequest> {
        let mut requests = self.requests();
        for (id, slot) in &mut self.slots {
            let pipes = self.pipes.as_mut();
            let request = match slot {
                PaneSlot::Unopened(unopened) => {
                    let margin = unopened.margin;
                    Some(match pipes.filter(|_| unopened.pipe_after.is_none()) {
                        Some(pipes) => PaneRequest::Resync(ResyncRequest {
                            margin,
                            known: None,
                            spec: ResyncSpec {
                                open_pipe: pipes.open_command(id),
                            },
                        }),
                        None => PaneRequest::Capture(CaptureRequest {
                            known: None,
                            margin,
                            again_at: None,
                            is_resting: false,
                        }),
                    })
                }
                PaneSlot::Open(pane) if self.config.selection.contains(id) => {
                    pipes.and_then(|pipes| pane.urgent_request(now, || pipes.open_command(id)))
                }
                _ => None,
            };
            requests.extend(request.map(|request| (id.clone(), request)));
        }
        if let Some(trouble) = self.pipes.as_mut().and_then(|pipes| pipes.trouble.take()) {
            self.emitter.events.warning("tmux", &trouble);
        }
        requests
    }

    /// Returns true if new panes are only listed, because their first captures open their pipes.
    pub fn lists_new_panes(&self, is_first: bool) -> bool {
        self.pipes.is_some() && !(is_first && self.config.captured_first)
    }

    /// Returns true if one of these panes must be captured before it is opened.
    pub fn lists_unopened_pane(&self, panes: &[PaneReply]) -> bool {
        let mut listed = panes
            .iter()
            .filter(|reply| matches!(reply, PaneReply::Listed(_)));
        self.pipes.is_some() && listed.any(|reply| self.is_watched(&reply.state().pane()))
    }

    /// Returns true if the last extra captures revealed panes that need another round.
    pub fn take_needs_another_round(&mut self) -> bool {
        std::mem::take(&mut self.needs_another_round)
    }

    /// Ends a round of extra captures: openings and comparisons without a reply have failed.
    pub fn end_extra_captures(&mut self, now: Instant) {
        if let Some(pipes) = &mut self.pipes {
            pipes.discard_requested();
        }
        let panes = self.slots.values_mut().filter_map(PaneSlot::open_mut);
        panes.for_each(|pane| pane.check_failed(now));
    }

    /// Returns when [`SessionPanes::handle_timeout`] is due if nothing arrives; with `may_request`, also when
    /// a pane needs another request.
    pub fn deadline(&self, may_request: bool) -> Option<Instant> {
        let due = self.slots.iter().filter_map(|(id, slot)| match slot {
            PaneSlot::Open(pane) => pane.deadline(may_request),
            PaneSlot::Leaving(pane, _) => {
                // While bytes arrive, the end of the wait for an exit changes nothing.
                let end_due = self.programs.end_due(id).filter(|_| !pane.is_streamed());
                [pane.deadline(false), end_due].into_iter().flatten().min()
            }
            PaneSlot::Unwatched | PaneSlot::Unopened(_) => None,
        });
        let others = [self.programs.deadline(), self.names.deadline()];
        due.chain(others.into_iter().flatten()).min()
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

    /// Calls `step` and emits its output; lines wait for room in the log if they `may_wait`. A step that
    /// panics emits nothing, and the pane resumes from what was emitted before.
    fn collect<T>(
        &mut self,
        pane: &PaneId,
        may_wait: bool,
        now: Instant,
        step: impl FnOnce(&mut PaneOutput<'_>) -> T,
    ) -> T {
        let mut out = PaneOutput::new(self.events.execution_id(), now);
        let result = step(&mut out);
        let emissions = out.emissions;
        let resume_point = self.resume_points.entry(pane.clone()).or_default();
        for emission in emissions {
            if let PaneEmission::Event(event)
            | PaneEmission::Lines(event)
            | PaneEmission::Live(event)
            | PaneEmission::Hidden(event) = &emission
            {
                resume_point.note_event(event);
            }
            // A closed bus means that the engine is at its end: no subscriber is left.
            match emission {
                PaneEmission::Lines(event) if may_wait => self.blocking.emit(event),
                PaneEmission::Event(event) | PaneEmission::Lines(event) => {
                    let _ = self.events.emit(event);
                }
                PaneEmission::Live(event) => {
                    let _ = self.events.emit_live(event);
                }
                PaneEmission::Hidden(_) => {}
                PaneEmission::TurnOver => self.conversations.end_turn(pane),
            }
        }
        result
    }
}
