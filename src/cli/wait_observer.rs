//! `wait --state` with the states of a running observer, so that no pane is watched twice.
//!
//! `td-wait-ask` requests a state from the observer's API and blocks until the API answers, for at most 100
//! ms after the end of the wait. If the observer ends first, the thread watches the panes itself. The present
//! state of an agent counts, so no state is missed in between.

use std::path::PathBuf;

use crossbeam_channel::{Receiver, Sender, bounded, select_biased};
use serde_json::{Value, json};

use super::failure::Failure;
use super::observer;
use super::options::Options;
use super::output::print_message;
use super::wait_args::TypedWait;
use super::wait_state::{StateCondition, StateWatch};
use crate::api::{percent_encoded, post};
use crate::clock::Clock;
use crate::event::AgentState;
use crate::thread::{Handle, Stop, StopGuard, is_stopped, spawn, stop_pair};
use crate::tmux::{Server, Target};
use crate::wait::WaitMatch;

/// The observer that provides the states.
#[derive(Clone, Debug)]
pub(super) struct ObserverOfStates {
    /// The socket of its API.
    api: PathBuf,
    /// The socket of the tmux server.
    server: PathBuf,
}

impl ObserverOfStates {
    /// Returns the observer of the server. `None` if its answers might differ from a watch by this program:
    /// with a text to send, with the user's own rules for screens, or without redaction.
    pub fn of(
        options: &Options,
        typed: &TypedWait,
        has_own_rules: bool,
    ) -> Result<Option<Self>, Failure> {
        if options.no_log || typed.send.is_some() || has_own_rules || typed.secrets.no_redact {
            return Ok(None);
        }
        let known = observer::running(&options.home()?)?;
        let server = options.server.socket_path();
        let (Some(known), Some(server)) = (known, server) else {
            return Ok(None);
        };
        Ok(known.servers.contains(&server).then_some(Self {
            api: known.socket,
            server,
        }))
    }

    /// Waits for a matching state; `None` if the observer or the wait ends first.
    fn wait(&self, target: &Target, states: &[AgentState], stop: &Stop) -> Option<WaitMatch> {
        let names: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
        let body = json!({"target": target.as_str(), "state": names});
        let server = percent_encoded(&self.server.to_string_lossy());
        let path = format!("/api/v1/wait?socket={server}");
        match post(&self.api, &path, &body, || is_stopped(stop)) {
            Ok(answer) => {
                let outcome: Value = serde_json::from_slice(&answer?.body).ok()?;
                WaitMatch::state_of_json(&outcome)
            }
            Err(error) => {
                log::info!("{error:?}");
                None
            }
        }
    }
}

/// A running request for states to an observer.
pub(super) struct StatesOfObserver {
    running: StopGuard,
    thread: Handle<()>,
    /// Receives the match.
    pub found: Receiver<WaitMatch>,
}

impl StatesOfObserver {
    /// Starts to request the states of a target.
    pub fn start(
        observer: ObserverOfStates,
        server: &Server,
        target: &Target,
        condition: StateCondition,
        clock: &Clock,
    ) -> Result<Self, Failure> {
        let (running, stop) = stop_pair();
        let (sender, found) = bounded(1);
        let (server, target, clock) = (server.clone(), target.clone(), clock.clone());
        let thread = spawn("td-wait-ask", move || {
            match observer.wait(&target, &condition.states, &stop) {
                // The wait may have ended for another reason.
                Some(met) => drop(sender.try_send(met)),
                None if is_stopped(&stop) => {}
                None => watch(&server, &target, condition, (&stop, &sender), &clock),
            }
        })?;
        Ok(Self {
            running,
            thread,
            found,
        })
    }

    /// Ends the request, even if the observer has not answered.
    pub fn end(self) {
        drop(self.running);
        if let Err(panicked) = self.thread.join() {
            print_message(&panicked.to_string());
        }
    }
}

/// Watches for states after the observer has ended.
fn watch(
    server: &Server,
    target: &Target,
    condition: StateCondition,
    (stop, sender): (&Stop, &Sender<WaitMatch>),
    clock: &Clock,
) {
    log::info!("the observer has ended: this program now watches the states itself");
    match StateWatch::start(server, target, condition, stop, clock) {
        Ok(Some(watch)) => {
            select_biased! {
                recv(stop) -> _ => {}
                recv(watch.found) -> met => if let Ok(met) = met {
                    // The wait may have ended for another reason.
                    let _ = sender.try_send(met);
                }
            }
            watch.end();
        }
        Ok(None) => {}
        Err(failure) => print_message(failure.text()),
    }
}
