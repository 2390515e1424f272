//! Waits for several targets, each on its own thread `td-wait`, until one or all have matched.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded, select_biased};

use super::failure::Failure;
use super::signals::Signals;
use super::wait_observer::{ObserverOfStates, StatesOfObserver};
use super::wait_state::{StateCondition, StateWatch};
use crate::clock::Clock;
use crate::error::Error;
use crate::thread::{Handle, Stop, StopGuard, spawn, stop_pair};
use crate::tmux::{Server, Target, Typing};
use crate::wait::{Wait, WaitEnd, WaitOutcome, Waiter};

/// The wait for one target.
pub(super) struct TargetWait {
    pub target: Target,
    pub wait: Wait,
    pub typing: Option<Typing>,
    pub state: Option<StateCondition>,
    /// The observer that already knows the states.
    pub observer: Option<ObserverOfStates>,
    /// Reports a match in text that is already on the screen.
    pub hints: bool,
}

/// The number of targets that must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Any,
    All,
}

/// The reason why a wait has failed.
#[derive(Debug)]
pub(super) enum WaitProblem {
    Waiting(Error),
    Other(Failure),
}

impl From<Error> for WaitProblem {
    fn from(error: Error) -> Self {
        Self::Waiting(error)
    }
}

impl From<Failure> for WaitProblem {
    fn from(failure: Failure) -> Self {
        Self::Other(failure)
    }
}

/// The outcome of a target; `None` if its wait was stopped.
pub(super) type Outcome = Result<Option<WaitOutcome>, WaitProblem>;

/// The running waits.
pub(super) struct TargetWaits {
    threads: Vec<Handle<()>>,
    running: StopGuard,
    outcomes: Receiver<(usize, Outcome)>,
}

impl TargetWaits {
    /// Starts all waits.
    pub fn start(waits: Vec<TargetWait>, server: &Server, clock: &Clock) -> Result<Self, Failure> {
        let waiter = Arc::new(Waiter::new(server.clone())?);
        let (running, stop) = stop_pair();
        // Room for all outcomes, so that no thread blocks.
        let (sender, outcomes) = bounded(waits.len().max(1));
        let mut threads = Vec::new();
        for (number, wait) in waits.into_iter().enumerate() {
            let (waiter, server, clock) = (Arc::clone(&waiter), server.clone(), clock.clone());
            let (stop, sender): (Stop, Sender<_>) = (stop.clone(), sender.clone());
            threads.push(spawn("td-wait", move || {
                let outcome = wait.run(&waiter, &server, &stop, &clock);
                drop(waiter);
                // The receiver may be gone at the end of the program.
                let _ = sender.send((number, outcome));
            })?);
        }
        Ok(Self {
            threads,
            running,
            outcomes,
        })
    }

    /// Returns the next outcome; the number of a signal if one arrives; `None` after all outcomes.
    pub fn next(&self, signals: &Signals) -> Option<Result<(usize, Outcome), i32>> {
        select_biased! {
            recv(self.outcomes) -> outcome => outcome.ok().map(Ok),
            recv(signals.first()) -> signal => signal.ok().map(Err),
        }
    }

    /// Stops the remaining waits.
    pub fn stop(self) -> Result<(), Failure> {
        drop(self.running);
        for thread in self.threads {
            thread
                .join()
                .map_err(|panicked| Failure::other(panicked.to_string()))?;
        }
        Ok(())
    }
}

impl TargetWait {
    fn run(self, waiter: &Waiter, server: &Server, stop: &Stop, clock: &Clock) -> Outcome {
        let mut wait = self.wait;
        let mut end_states: Box<dyn FnOnce()> = Box::new(|| {});
        if let Some(condition) = self.state {
            // A watch would wait for a missing target, so a missing target is refused first.
            drop(waiter.start_until_stopped(&Wait::at(self.target.clone()).exit(), stop)?);
            let target = &self.target;
            if let Some(observer) = self.observer {
                let states = StatesOfObserver::start(observer, server, target, condition, clock)?;
                wait = wait.other(states.found.clone());
                end_states = Box::new(move || states.end());
            } else {
                let Some(states) = StateWatch::start(server, target, condition, stop, clock)?
                else {
                    return Ok(None);
                };
                wait = wait.other(states.found.clone());
                end_states = Box::new(move || states.end());
            }
        }
        let ended = (|| {
            let Some(started) = waiter.start_until_stopped(&wait, stop)? else {
                return Ok(None);
            };
            if self.hints
                && let Some((pane, line)) = started.already_shown()
            {
                message!(
                    "hint: pane {pane} already shows a match, but only new output counts (see \
                     --include-existing): {line}"
                );
            }
            if let Some(typing) = self.typing.filter(|_| !started.has_ended()) {
                let sent = typing.send(server, &started.panes(), stop, clock);
                sent.map_err(|error| match error.is_invalid_input() {
                    true => usage!("--send: {error}"),
                    false => error.into(),
                })?;
            }
            let outcome = started.finish()?;
            Ok(Some(outcome).filter(|outcome| outcome.end != WaitEnd::Interrupted))
        })();
        end_states();
        ended
    }
}
