//! What needs a person: agents that wait, programs that failed, the last error of each pane (pure).

use super::super::words::{HUNG_UP, Outcome, duration};
use crate::event::{PaneId, TdEvent};

/// How long an error that a program printed is shown, in microseconds.
const ERROR_STANDS: i64 = 30_000_000;

/// How long the failure of a command is shown, if no other one begins in its pane.
const FAILURE_STANDS: i64 = 300_000_000;

/// What is remembered: more than fits below a screen.
const NEEDS_MAX: usize = 64;

/// How urgent it is: of one pane the most urgent is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// A line that reads like an error.
    Error,
    /// A program has failed.
    Failed,
    /// An agent cannot go on by itself.
    Stuck,
    /// Somebody is asked.
    Waits,
}

/// Something that needs a person.
#[derive(Clone, Debug)]
pub(super) struct Need {
    pub execution_id: String,
    pub pane: Option<PaneId>,
    pub urgency: Urgency,
    pub text: String,
    since: i64,
    until: i64,
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Needs {
    needs: Vec<Need>,
    /// What the shells of panes run.
    commands: Vec<(String, PaneId, String)>,
}

impl Needs {
    /// Takes in what an event says.
    pub fn note(&mut self, event: &TdEvent, at: i64) {
        let id = event.execution_id();
        match event {
            TdEvent::AgentState {
                pane: Some(pane),
                state,
                ..
            } => {
                self.drop_of(id, Some(pane), |urgency| urgency > Urgency::Failed);
                let (agent, line) = told(event);
                let (urgency, what) = match state.as_str() {
                    "waiting" => (Urgency::Waits, "waits for you"),
                    "error" => (Urgency::Stuck, "stopped with an error"),
                    "limited" => (Urgency::Stuck, "reached a limit"),
                    _ => return,
                };
                let text = match line.is_empty() {
                    true => format!("{agent} {what}"),
                    false => format!("{agent} {what}: {line}"),
                };
                self.add(id, Some(pane), (urgency, text), (at, i64::MAX));
            }
            TdEvent::ExecutionStarted {
                pane: Some(pane),
                command,
                ..
            } => {
                self.drop_of(id, Some(pane), |urgency| urgency <= Urgency::Failed);
                self.forget_command(id, pane);
                if self.commands.len() < NEEDS_MAX {
                    let command = (id.to_owned(), pane.clone(), command.clone());
                    self.commands.push(command);
                }
            }
            TdEvent::ExecutionCompleted {
                pane: Some(pane),
                exit_code,
                signal,
                duration_ms,
                ..
            } => {
                let command = self.forget_command(id, pane);
                let outcome = Outcome {
                    exit_code: *exit_code,
                    signal: *signal,
                };
                // What was interrupted by hand is known to the person who did it.
                let is_known = matches!(outcome.exit_code, None | Some(0 | HUNG_UP | 130));
                if outcome.signal.is_none() && is_known {
                    return;
                }
                let command = command.unwrap_or_else(|| "a command".to_owned());
                let (words, took) = (outcome.words(), duration(*duration_ms));
                let text = format!("{command} failed: {words} after {took}");
                let until = at.saturating_add(FAILURE_STANDS);
                self.add(id, Some(pane), (Urgency::Failed, text), (at, until));
            }
            TdEvent::SessionEnded {
                exit_status: Some(status @ 1..),
                ..
            } if *status != HUNG_UP => {
                self.forget(id, None);
                let text = format!("failed: exit status {status}");
                let until = at.saturating_add(FAILURE_STANDS);
                self.add(id, None, (Urgency::Failed, text), (at, until));
            }
            TdEvent::SessionEnded { .. } => self.forget(id, None),
            TdEvent::PaneClosed { pane, .. } => self.forget(id, Some(pane)),
            _ => {}
        }
    }

    /// A program printed a line that reads like an error.
    pub fn printed_error(&mut self, id: &str, pane: &PaneId, line: &str, at: i64) {
        self.drop_of(id, Some(pane), |urgency| urgency == Urgency::Error);
        let until = at.saturating_add(ERROR_STANDS);
        let text = line.trim().to_owned();
        self.add(id, Some(pane), (Urgency::Error, text), (at, until));
    }

    /// What needs a person now, of each pane the most urgent: the most urgent and newest first.
    pub fn now(&self, at: i64) -> Vec<&Need> {
        let mut now: Vec<&Need> = Vec::new();
        for need in self.needs.iter().filter(|need| need.until > at) {
            let same = |other: &&mut &Need| {
                (&other.execution_id, &other.pane) == (&need.execution_id, &need.pane)
            };
            match now.iter_mut().find(same) {
                Some(other) if (other.urgency, other.since) < (need.urgency, need.since) => {
                    *other = need;
                }
                Some(_) => {}
                None => now.push(need),
            }
        }
        now.sort_by_key(|need| std::cmp::Reverse((need.urgency, need.since)));
        now
    }

    /// When something is not shown any more.
    pub fn due(&self, at: i64) -> Option<i64> {
        let ends = self.needs.iter().map(|need| need.until);
        ends.filter(|until| *until > at && *until < i64::MAX).min()
    }

    fn add(
        &mut self,
        id: &str,
        pane: Option<&PaneId>,
        (urgency, text): (Urgency, String),
        (since, until): (i64, i64),
    ) {
        self.needs.retain(|need| need.until > since);
        if self.needs.len() >= NEEDS_MAX {
            self.needs.remove(0);
        }
        self.needs.push(Need {
            execution_id: id.to_owned(),
            pane: pane.cloned(),
            urgency,
            text,
            since,
            until,
        });
    }

    fn drop_of(&mut self, id: &str, pane: Option<&PaneId>, is_over: impl Fn(Urgency) -> bool) {
        self.needs.retain(|need| {
            let is_its = need.execution_id == id && need.pane.as_ref() == pane;
            !(is_its && is_over(need.urgency))
        });
    }

    /// A pane, or all of an execution, is gone.
    fn forget(&mut self, id: &str, pane: Option<&PaneId>) {
        let is_its = |of: &str, its: Option<&PaneId>| of == id && (pane.is_none() || its == pane);
        self.needs
            .retain(|need| !is_its(&need.execution_id, need.pane.as_ref()));
        self.commands.retain(|(of, its, _)| !is_its(of, Some(its)));
    }

    fn forget_command(&mut self, id: &str, pane: &PaneId) -> Option<String> {
        let mut commands = self.commands.iter();
        let at = commands.position(|(of, its, _)| of == id && its == pane)?;
        Some(self.commands.swap_remove(at).2)
    }
}

/// The agent of a state, and what it asks or what shows the state. Logs of earlier versions have both in
/// the evidence: `claude choice (confirmed): 1. Yes`.
pub(super) fn told(event: &TdEvent) -> (&str, &str) {
    let TdEvent::AgentState {
        evidence,
        agent,
        asks,
        detail,
        ..
    } = event
    else {
        return ("", "");
    };
    let Some(agent) = agent else {
        let agent = evidence.split(' ').next().unwrap_or_default();
        let line = evidence
            .split_once("): ")
            .map_or(evidence.as_str(), |(_, line)| line);
        return (agent, line);
    };
    let line = asks.as_ref().or(detail.as_ref());
    (agent, line.map_or("", |line| line.as_str()))
}
