//! The thread that reads the conversations of all panes of a server, and the handle for pollers.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::directory::directory_name;
use super::joined::{ConversationPlace, FoundConversation, Joined, ReadResult};
use super::transcript::{SubAgentEvent, choose};
use crate::agent::{AgentEvent, AgentProgram, Markers, StateClaim, StateSource};
use crate::bus::EventEmitter;
use crate::clock::Clock;
use crate::error::Result;
use crate::event::{ExecutionId, PaneId, TdEvent, TurnEvidence};
use crate::observe::resume_point::ReportedConversation;
use crate::process::{Presence, RunningAgent, stat};
use crate::text::{first_bytes, last_bytes};
use crate::thread;
use crate::thread::{Handle, Panicked, Stop, StopGuard, stop_pair};
use crate::timestamp::Timestamp;
use crate::tmux::foreground_directory;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, never, select_biased};

/// The interval of reads of agents' files: an agent's status is known within half a second.
const TICK: Duration = Duration::from_millis(100);

/// The interval of searches for an agent in a pane that shows something new or has an agent.
const SEARCH_INTERVAL: Duration = Duration::from_millis(500);

/// The longest interval of searches in a pane without an agent that shows nothing new.
const QUIET_SEARCH_INTERVAL: Duration = Duration::from_secs(60);

/// The shortest time between two reads of a pane's directory.
const DIRECTORY_INTERVAL: Duration = Duration::from_secs(2);

/// The capacity of the request queue: two for each pane of a very busy server. A request that finds no
/// room is repeated with the pane's next output.
const REQUESTS_MAX: usize = 2048;

/// The capacity of a poller's queue of updates, which the poller takes at once. An update that finds
/// no room is held until the next tick.
pub(in crate::observe) const UPDATES_MAX: usize = 256;

/// Sends requests to the reader; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(in crate::observe) struct Conversations(Option<Sender<Request>>);

/// The thread behind [`Conversations`].
#[derive(Debug)]
pub(in crate::observe) struct ConversationReader {
    requests: Sender<Request>,
    running: StopGuard,
    thread: Handle<()>,
}

/// An update for a poller about the agent in one of its panes.
#[derive(Debug)]
pub(in crate::observe) struct AgentUpdate {
    pub pane: PaneId,
    pub change: AgentChange,
}

/// A change of an agent, or of the claims of its sources.
#[derive(Debug)]
pub(in crate::observe) enum AgentChange {
    /// An agent runs in the pane.
    Started {
        agent: Box<RunningAgent>,
        place: ConversationPlace,
    },
    /// The agent is suspended, or continues.
    Suspended(bool),
    /// The agent's conversation is found and read.
    ConversationFound(Box<FoundConversation>),
    /// The claims of the agent's sources that have changed.
    Claims(Vec<(StateSource, Option<StateClaim>)>),
    /// The name of the directory of the program in the pane's foreground.
    Directory(Option<String>),
    /// The reader needs the text of the screen.
    ScreenRequested,
    /// No agent is in the pane any more, though the process of the last one may live.
    Ended { lives: bool },
}

impl AgentChange {
    /// Returns true if an agent begins or ends.
    pub fn is_turning(&self) -> bool {
        matches!(self, Self::Started { .. } | Self::Ended { .. })
    }
}

/// The recipient of a pane's events and updates.
#[derive(Clone, Debug)]
pub(in crate::observe) struct ConversationSink {
    pub emitter: EventEmitter,
    /// The markers that end a turn, if configured: an answer may contain one.
    pub markers: Option<Markers>,
    /// What an earlier observer has reported of the conversation.
    pub reported: Option<ReportedConversation>,
    pub updates: Sender<AgentUpdate>,
}

#[derive(Debug)]
enum Request {
    /// The pane shows something new.
    Active {
        pane: PaneId,
        pid: u32,
        declared: Option<AgentProgram>,
        recipient: ConversationSink,
    },
    Screen {
        pane: PaneId,
        text: String,
    },
    /// A source other than the transcript shows that the agent's turn is over.
    EndTurn {
        pane: PaneId,
    },
    /// The pane is gone, or belongs to another poller.
    Forget {
        pane: PaneId,
    },
}

impl ConversationReader {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system cannot start a thread.
    pub fn start(clock: Clock) -> Result<Self> {
        let (requests, received) = bounded(REQUESTS_MAX);
        let (running, stop) = stop_pair();
        let reader = Reader {
            clock,
            panes: HashMap::new(),
            ticks: None,
        };
        let thread = thread::spawn("td-agents", move || reader.run(&received, &stop))?;
        Ok(Self {
            requests,
            running,
            thread,
        })
    }

    /// Returns the handle for requests.
    pub fn conversations(&self) -> Conversations {
        Conversations(Some(self.requests.clone()))
    }

    /// Ends the thread, or abandons it at the deadline: a file may be on a network that hangs.
    ///
    /// # Errors
    /// When the thread has panicked.
    pub fn shutdown(self, deadline: Instant) -> Result<(), Panicked> {
        drop(self.running);
        match self.thread.join_deadline(deadline) {
            Ok(ended) => ended,
            Err(thread) => {
                log::warn!("{} hangs while it reads a file", thread.name());
                Ok(())
            }
        }
    }
}

impl Conversations {
    pub fn are_read(&self) -> bool {
        self.0.is_some()
    }

    /// Notes that a pane shows something new: the program that tmux started in it, and the agent that it declares.
    pub fn active(
        &self,
        pane: &PaneId,
        (pid, declared): (u32, Option<AgentProgram>),
        recipient: &ConversationSink,
    ) {
        self.send(|| Request::Active {
            pane: pane.clone(),
            pid,
            declared,
            recipient: recipient.clone(),
        });
    }

    /// Sends the requested text of a pane's screen.
    pub fn screen(&self, pane: &PaneId, mut text: String) {
        // The bytes of a screen that are compared with conversations.
        text.truncate(first_bytes(&text, 64 * 1024).len());
        self.send(|| Request::Screen {
            pane: pane.clone(),
            text,
        });
    }

    /// Reports that a source other than the transcript shows the end of the agent's turn.
    pub fn end_turn(&self, pane: &PaneId) {
        self.send(|| Request::EndTurn { pane: pane.clone() });
    }

    /// Forgets a pane that is gone, or belongs to another poller.
    pub fn forget(&self, pane: &PaneId) {
        self.send(|| Request::Forget { pane: pane.clone() });
    }

    fn send(&self, request: impl FnOnce() -> Request) {
        // A request that finds no room is repeated with the next output, and a pane whose poller is
        // gone is forgotten with its next update.
        if let Some(requests) = &self.0 {
            let _ = requests.try_send(request());
        }
    }
}

struct Reader {
    clock: Clock,
    panes: HashMap<PaneId, ObservedPane>,
    /// The time of the next read of the files, or of the next search.
    ticks: Option<Instant>,
}

struct ObservedPane {
    pid: u32,
    /// The start of the pane's program, which tells it from a later process with its id.
    started: Option<u64>,
    /// The agent that the pane declares.
    declared: Option<AgentProgram>,
    /// The pane has declared another agent, or none any more, since the last search.
    is_redeclared: bool,
    recipient: ConversationSink,
    /// The last time at which the pane has shown something new.
    active_at: Instant,
    /// The last search of the pane's processes.
    searched_at: Option<Instant>,
    /// The time of the next one, unless the pane's program has ended.
    search_at: Option<Instant>,
    directory: Option<String>,
    directory_read_at: Option<Instant>,
    /// The pane has shown something since the last read of its directory.
    is_directory_due: bool,
    joined: Option<Joined>,
    candidates: Vec<PathBuf>,
    converter: AgentEventConverter,
    /// Updates that found no room in the queue.
    held: VecDeque<AgentChange>,
}

impl Reader {
    fn run(mut self, requests: &Receiver<Request>, stop: &Stop) {
        loop {
            let timer = self.ticks.map_or_else(never, |at| self.clock.at(at));
            select_biased! {
                recv(stop) -> _ => return,
                recv(requests) -> request => match request {
                    Ok(request) => self.take(request),
                    Err(_) => return,
                },
                recv(timer) -> _ => self.tick(),
            }
            let now = self.clock.now();
            let is_soon = |at: &Instant| *at > now && *at <= now + TICK;
            if !self.ticks.as_ref().is_some_and(is_soon) {
                self.ticks = self.next_tick(now);
            }
        }
    }

    fn next_tick(&self, now: Instant) -> Option<Instant> {
        let mut panes = self.panes.values();
        if panes.any(ObservedPane::needs_ticks) {
            return Some(now + TICK);
        }
        let searches = self.panes.values().filter_map(|pane| pane.search_at);
        searches.min().map(|due| due.max(now + TICK))
    }

    fn take(&mut self, request: Request) {
        match request {
            Request::Active {
                pane,
                pid,
                declared,
                recipient,
            } => {
                let now = self.clock.now();
                let observed = self.panes.entry(pane).or_insert_with(|| ObservedPane {
                    pid,
                    started: None,
                    declared: None,
                    is_redeclared: false,
                    recipient: recipient.clone(),
                    active_at: now,
                    searched_at: None,
                    search_at: None,
                    directory: None,
                    directory_read_at: None,
                    is_directory_due: true,
                    joined: None,
                    candidates: Vec::new(),
                    converter: AgentEventConverter::default(),
                    held: VecDeque::new(),
                });
                if observed.started.is_none() || observed.pid != pid {
                    observed.started = start_of(pid);
                }
                (observed.pid, observed.recipient, observed.active_at) = (pid, recipient, now);
                let searched = observed.searched_at.map(|at| at + SEARCH_INTERVAL);
                let due = observed.search_at.into_iter().chain(searched).min();
                observed.search_at = Some(due.unwrap_or(now));
                if observed.declared != declared {
                    (observed.declared, observed.is_redeclared) = (declared, true);
                }
                observed.is_directory_due = true;
            }
            Request::Screen { pane, text } => {
                if let Some(observed) = self.panes.get_mut(&pane) {
                    observed.choose(&text);
                }
            }
            Request::EndTurn { pane } => {
                let wall = self.clock.wall();
                if let Some(observed) = self.panes.get_mut(&pane)
                    && let Some(joined) = &mut observed.joined
                {
                    for event in joined.end_turn(wall) {
                        observed.emit(&pane, event);
                    }
                }
            }
            Request::Forget { pane } => drop(self.panes.remove(&pane)),
        }
    }

    fn tick(&mut self) {
        let now = self.clock.now();
        let wall = self.clock.wall();
        self.ticks = None;
        self.panes.retain(|pane, observed| {
            observed.search(now, wall);
            observed.read_directory(now);
            let result = match &mut observed.joined {
                Some(joined) => joined.read(now, wall),
                None => ReadResult::default(),
            };
            observed.report(pane, result)
        });
    }
}

/// Returns when a process was started, in clock ticks since boot.
fn start_of(pid: u32) -> Option<u64> {
    stat(pid).map(|stat| stat.started)
}

impl ObservedPane {
    fn needs_ticks(&self) -> bool {
        self.is_directory_due || self.joined.is_some() || !self.held.is_empty()
    }

    /// Returns the agent's relation to its terminal, and reports if it is suspended or continues.
    fn presence(&mut self) -> Presence {
        let Some(joined) = &mut self.joined else {
            return Presence::Gone;
        };
        let presence = joined.agent.presence(self.pid);
        let is_suspended = match presence {
            Presence::Suspended => true,
            Presence::Foreground => false,
            Presence::Hidden | Presence::Gone => joined.is_suspended,
        };
        if std::mem::replace(&mut joined.is_suspended, is_suspended) != is_suspended {
            self.held.push_back(AgentChange::Suspended(is_suspended));
        }
        presence
    }

    /// Searches the processes of the pane for an agent, if that is due.
    fn search(&mut self, now: Instant, wall: Timestamp) {
        let presence = self.presence();
        // The end of an agent is noticed without a search.
        let is_due = self.is_redeclared
            || presence != Presence::Foreground && self.search_at.is_some_and(|at| at <= now);
        if !is_due {
            return;
        }
        let is_redeclared = std::mem::take(&mut self.is_redeclared);
        let is_first_search = self.searched_at.replace(now).is_none();
        let is_alive = self.started.is_some() && start_of(self.pid) == self.started;
        let declared = self.declared.as_ref();
        let find = || {
            RunningAgent::find(self.pid)
                .or_else(|| RunningAgent::in_front(self.pid, declared?.clone()))
        };
        let found = is_alive.then(find).flatten();
        self.search_at = if found.is_some() || self.joined.is_some() {
            Some(now + SEARCH_INTERVAL)
        } else if is_alive {
            // A program may execute an agent that prints nothing. The longer the pane is quiet, the rarer the searches.
            let quiet = now.saturating_duration_since(self.active_at);
            Some(now + (quiet / 4).clamp(SEARCH_INTERVAL, QUIET_SEARCH_INTERVAL))
        } else {
            None
        };
        let is_same = |joined: &Joined| {
            let found = found.as_ref();
            found.is_some_and(|found| {
                (found.pid, found.started) == (joined.agent.pid, joined.agent.started)
            })
        };
        let is_known = self.joined.as_ref().is_some_and(is_same)
            || found.is_none() && presence != Presence::Gone;
        if is_known && !is_redeclared {
            return;
        }
        self.candidates.clear();
        if self.joined.take().is_some() {
            let lives = presence != Presence::Gone;
            self.held.push_back(AgentChange::Ended { lives });
        }
        let Some(agent) = found else { return };
        let age = i64::try_from(agent.age().as_micros()).unwrap_or(0);
        let started = Timestamp::from_micros(wall.micros().saturating_sub(age));
        let reported = self.recipient.reported.filter(|_| is_first_search);
        let observed = is_first_search.then_some(wall);
        let joined = Joined::new(agent, started, reported, observed);
        self.held.push_back(AgentChange::Started {
            agent: Box::new(joined.agent.clone()),
            place: joined.conversation_place(),
        });
        self.joined = Some(joined);
        self.presence();
    }

    /// Reads the directory of the program in the foreground, if that is due.
    fn read_directory(&mut self, now: Instant) {
        let is_later = |at: Instant| now.saturating_duration_since(at) >= DIRECTORY_INTERVAL;
        if !self.is_directory_due || !self.directory_read_at.is_none_or(is_later) {
            return;
        }
        (self.is_directory_due, self.directory_read_at) = (false, Some(now));
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let path = foreground_directory(self.pid);
        let name = path.and_then(|path| directory_name(&path, home.as_deref()));
        if self.directory != name {
            self.directory.clone_from(&name);
            self.held.push_back(AgentChange::Directory(name));
        }
    }

    /// Reports the result of a read. Returns false when the poller is gone.
    fn report(&mut self, pane: &PaneId, result: ReadResult) -> bool {
        for event in result.events {
            self.emit(pane, event);
        }
        for event in result.of_sub_agents {
            let emitter = &self.recipient.emitter;
            emitter.emit(of_sub_agent(event, emitter.execution_id(), pane));
        }
        if let Some(found) = result.found {
            self.held
                .push_back(AgentChange::ConversationFound(Box::new(found)));
        }
        if !result.claims.is_empty() {
            self.held.push_back(AgentChange::Claims(result.claims));
        }
        if !result.candidates.is_empty() && result.candidates != self.candidates {
            self.candidates = result.candidates;
            self.held.push_back(AgentChange::ScreenRequested);
        }
        while let Some(change) = self.held.pop_front() {
            let pane = pane.clone();
            match self
                .recipient
                .updates
                .try_send(AgentUpdate { pane, change })
            {
                Ok(()) => {}
                Err(TrySendError::Full(unsent)) => {
                    self.held.push_front(unsent.change);
                    break;
                }
                Err(TrySendError::Disconnected(_)) => return false,
            }
        }
        true
    }

    /// Chooses among the candidate files by the content of the screen.
    fn choose(&mut self, screen: &str) {
        let candidates = std::mem::take(&mut self.candidates);
        let Some(joined) = &mut self.joined else {
            return;
        };
        if let Some(path) = choose(&candidates, joined.format(), screen, joined.started()) {
            joined.join(path);
        }
    }

    fn emit(&mut self, pane: &PaneId, event: AgentEvent) {
        let emitter = &self.recipient.emitter;
        let markers = self.recipient.markers.as_ref();
        let agent = self
            .joined
            .as_ref()
            .map_or("", |joined| joined.agent.program.name());
        if let Some(event) =
            self.converter
                .convert(event, emitter.execution_id(), (agent, markers), Some(pane))
        {
            emitter.emit(event);
        }
    }
}

// Converts the actions of a pane's agent into events of the pane's run (pure).

/// Converts the actions of one agent into events.
#[derive(Debug, Default)]
pub(in crate::observe) struct AgentEventConverter {
    /// The number of prompts since the observation began.
    turn: u32,
    /// The end of the agent's answer since the last prompt.
    answer: String,
    /// The failure that was reported since the last prompt: agents retry, and fail again.
    failure: Option<String>,
    /// True if the actions are read from a screen, not from a transcript.
    is_of_screen: bool,
}

impl AgentEventConverter {
    /// Creates a converter for actions that are read from a screen.
    pub fn for_screen() -> Self {
        Self {
            is_of_screen: true,
            ..Self::default()
        }
    }

    /// Returns the event of the run of a pane or of an agent without one; `None` for actions that only matter to readers
    /// of files, and for those that were reported before.
    pub fn convert(
        &mut self,
        event: AgentEvent,
        id: &ExecutionId,
        (agent, markers): (&str, Option<&Markers>),
        of: Option<&PaneId>,
    ) -> Option<TdEvent> {
        let event = match event {
            // Interactive agents continue after an error.
            AgentEvent::AgentFailed { error, .. } => {
                if self.failure.as_ref() == Some(&error) {
                    return None;
                }
                self.failure = Some(error.clone());
                return Some(TdEvent::Error {
                    execution_id: id.clone(),
                    context: agent.to_owned(),
                    message: error,
                });
            }
            AgentEvent::AgentCompleted { .. } => return None,
            AgentEvent::Warning { message, .. } => {
                log::debug!("{id} {of:?}: {agent}: {message}");
                return None;
            }
            AgentEvent::PromptSent { .. } => {
                self.turn = self.turn.saturating_add(1);
                self.failure = None;
                self.answer.clear();
                event
            }
            AgentEvent::TokenReceived { ref token } => {
                self.answer.push_str(token);
                // The bytes at the end of an agent's answer that are searched for a marker.
                let surplus = self.answer.len() - last_bytes(&self.answer, 16 * 1024).len();
                self.answer.drain(..surplus);
                event
            }
            // The user's marker takes precedence over the agent's name for the end.
            AgentEvent::TurnCompleted { marker, summary } => {
                let found = markers.and_then(|markers| markers.last_in(&self.answer));
                let marker = found.map_or(marker, str::to_owned);
                self.answer.clear();
                AgentEvent::TurnCompleted { marker, summary }
            }
            event => event,
        };
        let evidence = if self.is_of_screen {
            TurnEvidence::Screen
        } else {
            TurnEvidence::Transcript
        };
        Some(event.into_pane_event(id, agent, self.turn, (of, Some(evidence))))
    }
}

/// Returns the event for a sub-agent's action.
pub(super) fn of_sub_agent(event: SubAgentEvent, id: &ExecutionId, of: &PaneId) -> TdEvent {
    match event {
        SubAgentEvent::Registered { id: agent_id, file } => TdEvent::AgentRegistered {
            execution_id: id.clone(),
            agent_id,
            output_file: file,
            pane: Some(of.clone()),
        },
        SubAgentEvent::Ended { id: agent_id, how } => {
            how.into_pane_event(id, &agent_id, 0, (Some(of), Some(TurnEvidence::Transcript)))
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn convert(converter: &mut AgentEventConverter, event: AgentEvent) -> Option<TdEvent> {
        let markers = Markers::default();
        let id = ExecutionId::from("x");
        converter.convert(event, &id, ("claude", Some(&markers)), Some(&"%1".into()))
    }

    fn token(token: &str) -> AgentEvent {
        AgentEvent::TokenReceived {
            token: token.into(),
        }
    }

    fn turn() -> AgentEvent {
        AgentEvent::TurnCompleted {
            marker: "end_turn".into(),
            summary: String::new(),
        }
    }

    #[test]
    fn a_turn_has_the_marker_that_its_answer_has() {
        let mut converter = AgentEventConverter::default();
        convert(&mut converter, token("It is [Output Complete] soon."));
        let marker = |event| match event {
            Some(TdEvent::TurnCompleted { marker, .. }) => marker,
            other => panic!("{other:?}"),
        };
        assert_eq!(marker(convert(&mut converter, turn())), "end_turn");
        convert(&mut converter, token(&"long ".repeat(10_000)));
        convert(&mut converter, token("\n\n[Output Complete]\n"));
        assert_eq!(marker(convert(&mut converter, turn())), "[Output Complete]");
        assert_eq!(marker(convert(&mut converter, turn())), "end_turn", "once");
    }

    #[test]
    fn a_failure_that_is_repeated_is_reported_once() {
        let mut converter = AgentEventConverter::default();
        let failed = || AgentEvent::AgentFailed {
            error: "429".into(),
            evidence: String::new(),
        };
        assert!(convert(&mut converter, failed()).is_some());
        assert!(convert(&mut converter, failed()).is_none());
        let prompt = AgentEvent::PromptSent {
            prompt_summary: "again".into(),
            token_count: None,
        };
        convert(&mut converter, prompt);
        assert!(convert(&mut converter, failed()).is_some());
    }
}
