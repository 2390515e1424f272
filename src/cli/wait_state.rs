//! `wait --state`: the states of the agents in a target, from a watch of its own that keeps no history.
//!
//! `td-wait-state` blocks on its subscription and ends when a state is met, or when the watch is stopped.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select_biased};

use super::failure::Failure;
use crate::agent::StateRules;
use crate::bus::{Delivery, RecvTimeoutError, SubscribeOptions, Subscription};
use crate::clock::Clock;
use crate::engine::{Builder, Engine};
use crate::event::{AgentState, PaneId, TdEvent};
use crate::observe::Watch;
use crate::redact::Rules;
use crate::thread::{self, Handle, Stop, stop_pair};
use crate::tmux::{DrainProgram, Server, Target};
use crate::wait::{WaitCondition, WaitMatch};

/// The time that a state takes to be recognised at the start, at most: it has to last.
const FIRST_STATE: Duration = Duration::from_secs(3);

/// The time that the start of the watch may take.
const START: Duration = Duration::from_secs(5);

/// The silence after which an agent that was sent a text, showed something and is in the wanted state has
/// been faster than a state lasts.
const SETTLED: Duration = Duration::from_secs(5);

/// The states that end a wait.
#[derive(Clone)]
pub(super) struct StateCondition {
    pub states: Vec<AgentState>,
    pub rules: StateRules,
    pub redact: Rules,
    /// A text is sent: only what comes after it counts.
    pub is_sent: bool,
}

/// A watch for states.
pub(super) struct StateWatch {
    engine: Engine,
    thread: Handle<()>,
    /// Gets the match.
    pub found: Receiver<WaitMatch>,
}

impl StateWatch {
    /// Starts the watch. With a text to send, it returns when the present state is known, as far as there is
    /// one; `None` when it was stopped.
    pub fn start(
        server: &Server,
        target: &Target,
        condition: StateCondition,
        stop: &Stop,
        clock: &Clock,
    ) -> Result<Option<Self>, Failure> {
        let mut engine = Builder::new().redact(condition.redact.clone()).start()?;
        let events = engine.subscribe_with(SubscribeOptions {
            // Bounded by its bytes.
            capacity: Some(usize::MAX),
            ..Default::default()
        });
        let watch = Watch::new(server.clone())
            .target(target.clone())
            .states(condition.rules.clone())
            .stream(DrainProgram::this()?);
        engine.watch(watch)?;
        let (sender, found) = bounded(1);
        let (unready, ready) = stop_pair();
        let mut observer = StateObserver {
            states: HashMap::new(),
            condition,
            clock: clock.clone(),
            sent_at: None,
            shown_at: None,
        };
        let thread = thread::spawn("td-wait-state", move || {
            let mut events = events;
            if observer.condition.is_sent {
                observer.until_known(&mut events);
            }
            drop(unready);
            observer.run(&mut events, &sender);
        })?;
        let started = Self {
            engine,
            thread,
            found,
        };
        select_biased! {
            recv(stop) -> _ => {
                started.end();
                Ok(None)
            }
            recv(ready) -> _ => Ok(Some(started)),
        }
    }

    /// Ends the watch, which restores the panes' pipes.
    pub fn end(self) {
        let report = self.engine.shutdown();
        super::report::tell(&report);
        if let Err(panicked) = self.thread.join() {
            super::output::say(&panicked.to_string());
        }
    }
}

struct StateObserver {
    condition: StateCondition,
    clock: Clock,
    /// The last state of each pane.
    states: HashMap<PaneId, (AgentState, String)>,
    sent_at: Option<Instant>,
    /// When something was shown after the text was sent.
    shown_at: Option<Instant>,
}

impl StateObserver {
    /// Reads until a state is known.
    fn until_known(&mut self, events: &mut Subscription) {
        let mut deadline = self.clock.now() + START;
        while let Ok(Delivery::Event(event)) = events.recv_deadline(deadline) {
            if matches!(event.event, TdEvent::SessionStarted { .. }) {
                deadline = deadline.min(self.clock.now() + FIRST_STATE);
            }
            if self.note(&event.event).is_some() {
                break;
            }
        }
        self.sent_at = Some(self.clock.now());
    }

    fn run(&mut self, events: &mut Subscription, found: &Sender<WaitMatch>) {
        loop {
            let settled_at = self.shown_at.map(|at| at + SETTLED);
            let met = match events.recv_until(settled_at) {
                Ok(Delivery::Event(event)) => self.handle(&event.event),
                Ok(Delivery::Lagged { .. }) => None,
                Err(RecvTimeoutError::Timeout) => {
                    self.shown_at = None;
                    self.any_wanted()
                }
                Err(RecvTimeoutError::Closed) => return,
            };
            if let Some(met) = met {
                // The wait may have ended for another reason.
                let _ = found.try_send(met);
                return;
            }
        }
    }

    fn handle(&mut self, event: &TdEvent) -> Option<WaitMatch> {
        if let Some(pane) = self.note(event) {
            return self.wanted(&pane);
        }
        // What comes after a text was sent.
        self.sent_at?;
        match event {
            // The turn was over before its state had lasted.
            TdEvent::TurnCompleted {
                pane: Some(pane), ..
            } => self.wanted(pane),
            TdEvent::OutputUpdate { .. }
            | TdEvent::OutputRevised { .. }
            | TdEvent::ScreenUpdate { .. }
            | TdEvent::TokenReceived { .. } => {
                self.shown_at = Some(self.clock.now());
                None
            }
            _ => None,
        }
    }

    /// Notes the state of a pane; returns the pane.
    fn note(&mut self, event: &TdEvent) -> Option<PaneId> {
        let TdEvent::AgentState {
            pane: Some(pane),
            state,
            asks,
            ..
        } = event
        else {
            return None;
        };
        let asks = asks.as_deref().cloned().unwrap_or_default();
        match state.known() {
            Some(state) => self.states.insert(pane.clone(), (state, asks)),
            None => self.states.remove(pane),
        };
        Some(pane.clone())
    }

    /// Returns a match if the pane is in a wanted state.
    fn wanted(&self, pane: &PaneId) -> Option<WaitMatch> {
        let (state, asks) = self.states.get(pane)?;
        if !self.condition.states.contains(state) {
            return None;
        }
        let text = if asks.is_empty() {
            state.as_str()
        } else {
            asks
        };
        Some(WaitMatch {
            pane: Some(pane.clone()),
            text: Some(text.to_owned()),
            pattern: Some(state.as_str().to_owned()),
            ..WaitMatch::of(WaitCondition::State)
        })
    }

    fn any_wanted(&self) -> Option<WaitMatch> {
        self.states.keys().find_map(|pane| self.wanted(pane))
    }
}
