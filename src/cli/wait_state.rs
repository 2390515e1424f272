//! `wait --state`: observes the states of the agents in a target with a private watch that keeps no history.
//!
//! `td-wait-state` blocks on its subscription and ends when a state is met, or when the watch is stopped.

use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, select_biased};

use super::failure::Failure;
use crate::agent::StateRules;
use crate::bus::{Delivery, RecvTimeoutError, Subscription};
use crate::clock::Clock;
use crate::engine::{Builder, Engine};
use crate::event::{AgentState, TdEvent};
use crate::observe::Watch;
use crate::redact::Rules;
use crate::thread::{self, Handle, Stop, stop_pair};
use crate::tmux::{DrainProgram, Server, Target};
use crate::wait::{StateMatcher, WaitMatch};

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

/// A watch for states.
pub(super) struct StateWatch {
    engine: Engine,
    thread: Handle<()>,
    /// Receives the match.
    pub found: Receiver<WaitMatch>,
}

impl StateWatch {
    /// Starts the watch. If a text will be sent, waits first until the present state is known, or is unlikely
    /// to exist. Returns `None` after a stop.
    pub fn start(
        server: &Server,
        target: &Target,
        condition: StateCondition,
        stop: &Stop,
        clock: &Clock,
    ) -> Result<Option<Self>, Failure> {
        let mut engine = Builder::new().redact(condition.redact.clone()).start()?;
        let events = engine.subscribe_with(super::live::everything());
        let watch = Watch::new(server.clone())
            .target(target.clone())
            .states(condition.rules.clone())
            .stream(DrainProgram::this()?);
        engine.watch(watch)?;
        let (sender, found) = bounded(1);
        let (unready, ready) = stop_pair();
        let mut observer = StateObserver {
            matcher: StateMatcher::new(condition.states),
            is_sent: condition.is_sent,
            clock: clock.clone(),
        };
        let thread = thread::spawn("td-wait-state", move || {
            let mut events = events;
            if observer.is_sent {
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
        super::report::print(&report);
        if let Err(panicked) = self.thread.join() {
            super::output::print_message(&panicked.to_string());
        }
    }
}

struct StateObserver {
    matcher: StateMatcher,
    is_sent: bool,
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
    }

    fn run(&mut self, events: &mut Subscription, found: &Sender<WaitMatch>) {
        loop {
            let met = match events.recv_until(self.matcher.settles_at()) {
                Ok(Delivery::Event(event)) => self.matcher.handle(&event.event, self.clock.now()),
                Ok(Delivery::Lagged { .. }) => None,
                Err(RecvTimeoutError::Timeout) => self.matcher.settled(),
                Err(RecvTimeoutError::Closed) => return,
            };
            if let Some(met) = met {
                // The wait may have ended for another reason.
                let _ = found.try_send(met);
                return;
            }
        }
    }
}
