//! The private watch of a wait: streams the panes of a target, and knows the states of their agents, without a
//! history.
//!
//! `td-wait-state` blocks on its subscription and ends when a state is met, or when the watch is stopped.

use std::collections::BTreeMap;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, select_biased};

use crate::agent::StateRules;
use crate::bus::{Delivery, RecvTimeoutError, Subscription};
use crate::cli::failure::Failure;
use crate::cli::options::SourceKind;
use crate::cli::{live, output};
use crate::clock::Clock;
use crate::engine::{Builder, Engine};
use crate::event::{AgentState, Envelope, PaneId, TdEvent};
use crate::observe::Watch;
use crate::redact::Rules;
use crate::thread::{self, Handle, Stop, is_stopped, stop_pair};
use crate::timestamp::Timestamp;
use crate::tmux::{Server, Target};
use crate::wait::{FollowedTurn, StateMatcher, WaitMatch, Waiter};

/// Maximum time to detect the first state, which must last for a while before it is reported.
const FIRST_STATE: Duration = Duration::from_secs(3);

/// The time that the start of the watch may take.
const START: Duration = Duration::from_secs(5);

/// The states that end a wait.
#[derive(Clone)]
pub(super) struct StateCondition {
    pub states: Vec<AgentState>,
    pub rules: StateRules,
    pub redact: Rules,
    /// A text is sent: only later events count.
    pub is_sent: bool,
}

/// The interval of checks for a stop while the watch starts.
const CHECK: Duration = Duration::from_millis(100);

/// A watch of one target.
pub(super) struct PrivateWatch {
    engine: Engine,
    states: Option<StateThread>,
}

struct StateThread {
    thread: Handle<()>,
    /// Receives the match.
    found: Receiver<WaitMatch>,
}

impl PrivateWatch {
    /// Starts the watch, and waits until the panes are observed. If a text will be sent, waits also until the
    /// present state is known, or is unlikely to exist. Returns `None` after a stop.
    pub fn start(
        (server, target, source): (&Server, &Target, SourceKind),
        condition: Option<StateCondition>,
        stop: &Stop,
        clock: &Clock,
    ) -> Result<Option<Self>, Failure> {
        let redact = condition.as_ref().map(|condition| condition.redact.clone());
        // Without states, no event is read.
        let redact = redact.unwrap_or_else(Rules::none);
        let mut engine = Builder::new().redact(redact).start()?;
        let mut beginning = engine.subscribe_with(live::everything());
        let events = condition
            .is_some()
            .then(|| engine.subscribe_with(live::everything()));
        let watch = Watch::new(server.clone())
            .target(target.clone())
            .include_observers()
            .known_sessions();
        let watch = source.applied_to(watch)?;
        let watch = match &condition {
            Some(condition) => watch.states(condition.rules.clone()),
            None => watch,
        };
        engine.watch(watch)?;
        let mut started = Self {
            engine,
            states: None,
        };
        if let Some((condition, events)) = condition.zip(events)
            && !started.start_states(condition, events, stop, clock)?
        {
            started.end();
            return Ok(None);
        }
        let deadline = clock.now() + START;
        while !is_stopped(stop) && clock.now() < deadline {
            match beginning.recv_deadline(deadline.min(clock.now() + CHECK)) {
                Ok(Delivery::Event(event)) => {
                    if matches!(event.event, TdEvent::SessionStarted { .. }) {
                        break;
                    }
                }
                Ok(Delivery::Lagged { .. }) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Closed) => break,
            }
        }
        if is_stopped(stop) {
            started.end();
            return Ok(None);
        }
        Ok(Some(started))
    }

    /// Starts the thread for states; returns false after a stop.
    fn start_states(
        &mut self,
        condition: StateCondition,
        mut events: Subscription,
        stop: &Stop,
        clock: &Clock,
    ) -> Result<bool, Failure> {
        let (sender, found) = bounded(1);
        let (unready, ready) = stop_pair();
        let mut observer = StateObserver {
            matcher: StateMatcher::new(condition.states),
            is_sent: condition.is_sent,
            sent_at: Timestamp::default(),
            turns: BTreeMap::new(),
            clock: clock.clone(),
        };
        let thread = thread::spawn("td-wait-state", move || {
            if observer.is_sent {
                observer.until_known(&mut events);
            }
            drop(unready);
            observer.run(&mut events, &sender);
        })?;
        self.states = Some(StateThread { thread, found });
        select_biased! {
            recv(stop) -> _ => Ok(false),
            recv(ready) -> _ => Ok(true),
        }
    }

    /// Returns a waiter that hears the streamed panes.
    pub fn waiter(&self, server: &Server) -> Result<Waiter, Failure> {
        Ok(self.engine.waiter(server.clone())?)
    }

    /// Returns the channel that receives the match of a state, if the watch knows states.
    pub fn found(&self) -> Option<Receiver<WaitMatch>> {
        self.states.as_ref().map(|states| states.found.clone())
    }

    /// Ends the watch, which closes the pipes that it has opened.
    pub fn end(self) {
        let report = self.engine.shutdown();
        live::report_problems(report);
        if let Some(Err(panicked)) = self.states.map(|states| states.thread.join()) {
            output::print_message(&panicked.to_string());
        }
    }
}

struct StateObserver {
    matcher: StateMatcher,
    is_sent: bool,
    /// The time after which events belong to the turn that the sent text begins, and these turns.
    sent_at: Timestamp,
    turns: BTreeMap<PaneId, FollowedTurn>,
    clock: Clock,
}

impl StateObserver {
    /// Reads events until a state is known or the time is up.
    fn until_known(&mut self, events: &mut Subscription) {
        let mut deadline = self.clock.now() + START;
        while let Ok(Delivery::Event(event)) = events.recv_deadline(deadline) {
            if matches!(event.event, TdEvent::SessionStarted { .. }) {
                deadline = deadline.min(self.clock.now() + FIRST_STATE);
            }
            if self.matcher.note(&event.event).is_some() {
                break;
            }
        }
        self.matcher.sent();
        self.sent_at = self.clock.wall();
    }

    fn run(&mut self, events: &mut Subscription, found: &Sender<WaitMatch>) {
        loop {
            let met = match events.recv_until(self.matcher.settles_at()) {
                Ok(Delivery::Event(event)) => {
                    self.follow(&event);
                    self.matcher.handle(&event.event, self.clock.now())
                }
                Ok(Delivery::Lagged { .. }) => None,
                Err(RecvTimeoutError::Timeout) => self.matcher.settled(),
                Err(RecvTimeoutError::Closed) => return,
            };
            if let Some(mut met) = met {
                if self.is_sent {
                    met.answer = self.answer(met.pane.as_ref(), events);
                }
                // The wait may have ended for another reason.
                let _ = found.try_send(met);
                return;
            }
        }
    }

    /// Notes an event for the turn of its pane.
    fn follow(&mut self, envelope: &Envelope) {
        if let Some(pane) = envelope.event.pane().filter(|_| self.is_sent) {
            let begin = || FollowedTurn::begin(pane.clone(), self.sent_at, None);
            let turn = self.turns.entry(pane.clone()).or_insert_with(begin);
            turn.note(envelope, self.clock.now());
        }
    }

    /// Returns the answer of the turn in a pane, once the turn is over; `None` if it has none.
    fn answer(&mut self, pane: Option<&PaneId>, events: &mut Subscription) -> Option<String> {
        let pane = pane?;
        loop {
            let now = self.clock.now();
            let turn = self.turns.get_mut(pane)?;
            if turn.end(now).is_some() {
                break;
            }
            match events.recv_until(Some(turn.deadline()?)) {
                Ok(Delivery::Event(event)) => self.follow(&event),
                Ok(Delivery::Lagged { .. }) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Closed) => break,
            }
        }
        let answer = self.turns.get(pane)?.answer();
        (!answer.is_empty()).then(|| answer.to_owned())
    }
}
