//! The thread that reads the conversations of all panes of a server, and what pollers ask of it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, never, select_biased};

use super::events::{AgentEventConverter, of_sub_agent};
use super::joined::{Joined, Learnt};
use super::screens;
use super::sub_agents::SubAgentEvent;
use crate::agent::{AgentEvent, AgentProgram, Markers, StateClaim, StateSource};
use crate::bus::EventEmitter;
use crate::clock::Clock;
use crate::error::Result;
use crate::event::PaneId;
use crate::process::RunningAgent;
use crate::thread::{self, Handle, Panicked, Stop, StopGuard, stop_pair};
use crate::timestamp::Timestamp;

/// Interval in which the files of agents are looked at: an agent's status is known within half a
/// second.
const TICK: Duration = Duration::from_millis(100);

/// Interval in which the processes of a pane that shows something new are looked through for an
/// agent, and an agent that was found is looked for again.
const WALK_EVERY: Duration = Duration::from_millis(500);

/// Interval in which the processes are looked through after output: at once, and when a program
/// that was started has become another one.
const WALKS: u8 = 2;

/// Requests that wait: two for each pane of a very busy server. One that finds no room is made
/// again with the pane's next output.
const REQUESTS_MAX: usize = 2048;

/// AgentChange that wait for one poller, which takes them at once. What finds no room is held until
/// the next tick.
pub(in crate::observe) const UPDATES_MAX: usize = 256;

/// Bytes of a screen that are compared with a conversation.
const SCREEN_BYTES_MAX: usize = 64 * 1024;

/// Asks for the conversations of panes; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(in crate::observe) struct Conversations(Option<Sender<Request>>);

/// The thread behind [`Conversations`].
#[derive(Debug)]
pub(in crate::observe) struct ConversationReader {
    requests: Sender<Request>,
    running: StopGuard,
    thread: Handle<()>,
}

/// AgentChange for a poller about the agent in one of its panes.
#[derive(Debug)]
pub(in crate::observe) struct AgentUpdate {
    pub pane: PaneId,
    pub news: AgentChange,
}

/// A change of an agent or of what its sources claim.
#[derive(Debug)]
pub(in crate::observe) enum AgentChange {
    /// An agent runs there; whether it keeps a conversation in a file.
    Started {
        program: AgentProgram,
        has_places: bool,
    },
    /// Its conversation is found, and read.
    ConversationFound,
    /// The current claims of its sources, where they have changed.
    Claims(Vec<(StateSource, Option<StateClaim>)>),
    /// The reader needs the text of the screen.
    ScreenRequested,
    /// No agent runs there any more.
    Ended,
}

/// Where events and news of a pane go.
#[derive(Clone, Debug)]
pub(in crate::observe) struct ConversationSink {
    pub emitter: EventEmitter,
    /// The markers that end a turn, where configured: an answer may hold it.
    pub markers: Option<Markers>,
    /// Until when an earlier observer has reported the conversation.
    pub reported_until: Option<Timestamp>,
    pub news: Sender<AgentUpdate>,
}

#[derive(Debug)]
enum Request {
    /// The pane shows something new.
    Active {
        pane: PaneId,
        pid: u32,
        recipient: ConversationSink,
    },
    /// The text of a screen, as requested.
    Screen { pane: PaneId, text: String },
    /// Something else than the transcript says that the agent's turn is over.
    TurnOver { pane: PaneId },
    /// The pane is gone, or another poller's.
    Forget { pane: PaneId },
}

impl ConversationReader {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread to give.
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

    /// Returns what conversations are asked for through.
    pub fn conversations(&self) -> Conversations {
        Conversations(Some(self.requests.clone()))
    }

    /// Ends the thread, or leaves it when it does not end by then: a file may lie on a network that
    /// hangs.
    ///
    /// # Errors
    /// When it had panicked.
    pub fn shutdown(self, deadline: Instant) -> Result<(), Panicked> {
        drop(self.running);
        match self.thread.join_deadline(deadline) {
            Ok(ended) => ended,
            Err(thread) => {
                log::warn!("{} hangs in a look at a file", thread.name());
                Ok(())
            }
        }
    }
}

impl Conversations {
    /// Returns whether conversations are read at all.
    pub fn are_read(&self) -> bool {
        self.0.is_some()
    }

    /// A pane shows something new; `pid` is the program that tmux started in it.
    pub fn active(&self, pane: &PaneId, pid: u32, recipient: &ConversationSink) {
        self.ask(|| Request::Active {
            pane: pane.clone(),
            pid,
            recipient: recipient.clone(),
        });
    }

    /// Passes on the text of a pane's screen, as requested.
    pub fn screen(&self, pane: &PaneId, mut text: String) {
        if text.len() > SCREEN_BYTES_MAX {
            let end = (0..=SCREEN_BYTES_MAX)
                .rev()
                .find(|at| text.is_char_boundary(*at));
            text.truncate(end.unwrap_or(0));
        }
        self.ask(|| Request::Screen {
            pane: pane.clone(),
            text,
        });
    }

    /// Something else than its transcript says that the turn of a pane's agent is over.
    pub fn turn_over(&self, pane: &PaneId) {
        self.ask(|| Request::TurnOver { pane: pane.clone() });
    }

    /// A pane is gone, or another poller's.
    pub fn forget(&self, pane: &PaneId) {
        self.ask(|| Request::Forget { pane: pane.clone() });
    }

    fn ask(&self, request: impl FnOnce() -> Request) {
        // What finds no room is asked for again with the next output, and a pane whose poller is
        // gone is forgotten with its next news.
        if let Some(requests) = &self.0 {
            let _ = requests.try_send(request());
        }
    }
}

struct Reader {
    clock: Clock,
    panes: HashMap<PaneId, Observed>,
    /// When the files are looked at next; `None` while no agent runs.
    ticks: Option<Instant>,
}

/// A pane.
struct Observed {
    pid: u32,
    recipient: ConversationSink,
    /// When its processes were looked through last.
    walked_at: Option<Instant>,
    /// The number of searches of its processes that are left.
    walks: u8,
    joined: Option<Joined>,
    candidates: Vec<PathBuf>,
    telling: AgentEventConverter,
    /// Updates that found no room in the queue.
    held: Vec<AgentChange>,
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
            let is_needed = self.panes.values().any(Observed::needs_ticks);
            let next = self.clock.now() + TICK;
            self.ticks = is_needed.then(|| {
                self.ticks
                    .filter(|at| *at > self.clock.now())
                    .unwrap_or(next)
            });
        }
    }

    fn take(&mut self, request: Request) {
        match request {
            Request::Active {
                pane,
                pid,
                recipient,
            } => {
                let observed = self.panes.entry(pane).or_insert_with(|| Observed {
                    pid,
                    recipient: recipient.clone(),
                    walked_at: None,
                    walks: 0,
                    joined: None,
                    candidates: Vec::new(),
                    telling: AgentEventConverter::default(),
                    held: Vec::new(),
                });
                (observed.pid, observed.recipient, observed.walks) = (pid, recipient, WALKS);
            }
            Request::Screen { pane, text } => {
                if let Some(observed) = self.panes.get_mut(&pane) {
                    observed.choose(&text);
                }
            }
            Request::TurnOver { pane } => {
                let wall = self.clock.wall();
                if let Some(observed) = self.panes.get_mut(&pane)
                    && let Some(joined) = &mut observed.joined
                {
                    for event in joined.turn_over(wall) {
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
            observed.walk(now, wall);
            let learnt = match &mut observed.joined {
                Some(joined) => joined.look(now, wall),
                None => Learnt::default(),
            };
            observed.report(pane, learnt)
        });
    }
}

impl Observed {
    fn needs_ticks(&self) -> bool {
        self.walks > 0 || self.joined.is_some() || !self.held.is_empty()
    }

    /// Captures through the processes of the pane, where that is due.
    fn walk(&mut self, now: Instant, wall: Timestamp) {
        let is_due = |at: Instant| now.saturating_duration_since(at) >= WALK_EVERY;
        if !self.walked_at.is_none_or(is_due) {
            return;
        }
        // An agent that is gone shows it: its shell prints a prompt.
        let is_there = self
            .joined
            .as_ref()
            .is_some_and(|joined| joined.agent.is_in_foreground());
        if is_there || self.walks == 0 && self.joined.is_none() {
            return;
        }
        let is_first_walk = self.walked_at.replace(now).is_none();
        self.walks = self.walks.saturating_sub(1);
        let found = RunningAgent::find(self.pid);
        let is_same = |joined: &Joined| {
            let found = found.as_ref();
            found.is_some_and(|found| {
                (found.pid, found.started) == (joined.agent.pid, joined.agent.started)
            })
        };
        if self.joined.as_ref().is_some_and(is_same) {
            return;
        }
        self.candidates.clear();
        if self.joined.take().is_some() {
            self.held.push(AgentChange::Ended);
        }
        let Some(agent) = found else { return };
        let age = i64::try_from(agent.age().as_micros()).unwrap_or(0);
        let started = Timestamp::from_micros(wall.micros().saturating_sub(age));
        // Of an agent that was there before the pane was observed, what it did then is not
        // reported, but what it did while no observer was there.
        let since = match is_first_walk {
            true => {
                let reported = self.recipient.reported_until;
                reported.map_or(wall, |until| until.max(started))
            }
            false => started,
        };
        let joined = Joined::new(agent, started, since);
        self.held.push(AgentChange::Started {
            program: joined.agent.program.clone(),
            has_places: joined.has_places(),
        });
        self.joined = Some(joined);
    }

    /// Reports what was learnt; false when the poller is gone.
    fn report(&mut self, pane: &PaneId, learnt: Learnt) -> bool {
        if learnt.is_joined {
            self.held.push(AgentChange::ConversationFound);
        }
        for event in learnt.events {
            self.emit(pane, event);
        }
        for event in learnt.of_sub_agents {
            self.emit_of_sub_agent(pane, event);
        }
        if !learnt.claims.is_empty() {
            self.held.push(AgentChange::Claims(learnt.claims));
        }
        if !learnt.candidates.is_empty() && learnt.candidates != self.candidates {
            self.candidates = learnt.candidates;
            self.held.push(AgentChange::ScreenRequested);
        }
        while !self.held.is_empty() {
            let news = AgentUpdate {
                pane: pane.clone(),
                news: self.held.remove(0),
            };
            match self.recipient.news.try_send(news) {
                Ok(()) => {}
                Err(TrySendError::Full(unsent)) => {
                    self.held.insert(0, unsent.news);
                    break;
                }
                Err(TrySendError::Disconnected(_)) => return false,
            }
        }
        true
    }

    /// Chooses among the files that may be the conversation by what the screen shows.
    fn choose(&mut self, screen: &str) {
        let candidates = std::mem::take(&mut self.candidates);
        let Some(joined) = &mut self.joined else {
            return;
        };
        if let Some(path) = screens::choose(&candidates, joined.format(), screen) {
            joined.choose(path);
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
            self.telling
                .convert(event, emitter.execution_id(), (agent, markers), pane)
        {
            emitter.emit(event);
        }
    }

    fn emit_of_sub_agent(&self, pane: &PaneId, event: SubAgentEvent) {
        let emitter = &self.recipient.emitter;
        if let Some(event) = of_sub_agent(event, emitter.execution_id(), pane) {
            emitter.emit(event);
        }
    }
}
