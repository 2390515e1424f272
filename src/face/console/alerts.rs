//! Alerts for the user: waiting agents, failed commands, the last error message of each pane (pure).

use crate::event::{AgentState, PaneId, TdEvent};
use crate::face::describe::{HUNG_UP, agent_and_detail, agent_phrase, duration, end_in_words};

/// The display time of an error message, in microseconds.
const MESSAGE_SHOWN: i64 = 30_000_000;

/// The display time of a failed command, in microseconds, unless another command starts in its pane.
const FAILURE_SHOWN: i64 = 300_000_000;

/// The maximum number of alerts to keep: more than fit on a screen.
const ALERTS_MAX: usize = 64;

/// The kind of an alert, in ascending urgency: the most urgent alert of a pane is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AlertKind {
    ErrorMessage,
    CommandFailed,
    /// An agent cannot continue by itself.
    AgentStopped,
    /// An agent asks its user.
    AgentWaits,
}

#[derive(Clone, Debug)]
pub(super) struct Alert {
    pub execution_id: String,
    pub pane: Option<PaneId>,
    pub kind: AlertKind,
    pub text: String,
    since: i64,
    until: i64,
}

#[derive(Debug, Default)]
pub(super) struct Alerts {
    alerts: Vec<Alert>,
    /// The commands running in panes.
    commands: Vec<(String, PaneId, String)>,
}

impl Alerts {
    pub fn note(&mut self, event: &TdEvent, at: i64) {
        let id = event.execution_id();
        match event {
            TdEvent::AgentState {
                pane: Some(pane),
                state,
                ..
            } => {
                self.remove_where(id, Some(pane), |kind| kind > AlertKind::CommandFailed);
                let (agent, detail) = agent_and_detail(event);
                let Some(phrase) = agent_phrase(state.known()) else {
                    return;
                };
                let kind = match *state == AgentState::Waiting {
                    true => AlertKind::AgentWaits,
                    false => AlertKind::AgentStopped,
                };
                let text = match detail.is_empty() {
                    true => format!("{agent} {phrase}"),
                    false => format!("{agent} {phrase}: {detail}"),
                };
                self.add(id, Some(pane), (kind, text), (at, i64::MAX));
            }
            TdEvent::ExecutionStarted {
                pane: Some(pane),
                command,
                ..
            } => {
                self.remove_where(id, Some(pane), |kind| kind <= AlertKind::CommandFailed);
                self.take_command(id, pane);
                if self.commands.len() < ALERTS_MAX {
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
                let command = self.take_command(id, pane);
                // The user knows about a command that they interrupted.
                let is_expected = matches!(exit_code, None | Some(0 | HUNG_UP | 130));
                if signal.is_none() && is_expected {
                    return;
                }
                let command = command.unwrap_or_else(|| "a command".to_owned());
                let words = end_in_words(*exit_code, *signal);
                let took = duration(*duration_ms);
                let text = format!("{command} failed: {words} after {took}");
                let until = at.saturating_add(FAILURE_SHOWN);
                self.add(
                    id,
                    Some(pane),
                    (AlertKind::CommandFailed, text),
                    (at, until),
                );
            }
            TdEvent::SessionEnded {
                exit_status: Some(status @ 1..),
                ..
            } if *status != HUNG_UP => {
                self.remove(id, None);
                let text = format!("failed: exit status {status}");
                let until = at.saturating_add(FAILURE_SHOWN);
                self.add(id, None, (AlertKind::CommandFailed, text), (at, until));
            }
            TdEvent::SessionEnded { .. } => self.remove(id, None),
            TdEvent::PaneClosed { pane, .. } => self.remove(id, Some(pane)),
            _ => {}
        }
    }

    /// Adds an error message that a program printed.
    pub fn add_error_message(&mut self, id: &str, pane: &PaneId, line: &str, at: i64) {
        self.remove_where(id, Some(pane), |kind| kind == AlertKind::ErrorMessage);
        let until = at.saturating_add(MESSAGE_SHOWN);
        let text = line.trim().to_owned();
        self.add(id, Some(pane), (AlertKind::ErrorMessage, text), (at, until));
    }

    /// Returns the most urgent alert of each pane, the most urgent and newest first.
    pub fn current(&self, at: i64) -> Vec<&Alert> {
        let mut now: Vec<&Alert> = Vec::new();
        for alert in self.alerts.iter().filter(|alert| alert.until > at) {
            let same = |other: &&mut &Alert| {
                (&other.execution_id, &other.pane) == (&alert.execution_id, &alert.pane)
            };
            match now.iter_mut().find(same) {
                Some(other) if (other.kind, other.since) < (alert.kind, alert.since) => {
                    *other = alert;
                }
                Some(_) => {}
                None => now.push(alert),
            }
        }
        now.sort_by_key(|alert| std::cmp::Reverse((alert.kind, alert.since)));
        now
    }

    /// Returns the next time, in microseconds, at which an alert expires.
    pub fn deadline(&self, at: i64) -> Option<i64> {
        let ends = self.alerts.iter().map(|alert| alert.until);
        ends.filter(|until| *until > at && *until < i64::MAX).min()
    }

    fn add(
        &mut self,
        id: &str,
        pane: Option<&PaneId>,
        (kind, text): (AlertKind, String),
        (since, until): (i64, i64),
    ) {
        self.alerts.retain(|alert| alert.until > since);
        if self.alerts.len() >= ALERTS_MAX {
            self.alerts.remove(0);
        }
        self.alerts.push(Alert {
            execution_id: id.to_owned(),
            pane: pane.cloned(),
            kind,
            text,
            since,
            until,
        });
    }

    fn remove_where(
        &mut self,
        id: &str,
        pane: Option<&PaneId>,
        is_obsolete: impl Fn(AlertKind) -> bool,
    ) {
        self.alerts.retain(|alert| {
            let belongs = alert.execution_id == id && alert.pane.as_ref() == pane;
            !(belongs && is_obsolete(alert.kind))
        });
    }

    /// Drops the alerts and commands of a closed pane, or of an ended execution.
    fn remove(&mut self, id: &str, pane: Option<&PaneId>) {
        let belongs =
            |owner: &str, other: Option<&PaneId>| owner == id && (pane.is_none() || other == pane);
        self.alerts
            .retain(|alert| !belongs(&alert.execution_id, alert.pane.as_ref()));
        self.commands
            .retain(|(owner, other, _)| !belongs(owner, Some(other)));
    }

    fn take_command(&mut self, id: &str, pane: &PaneId) -> Option<String> {
        let mut commands = self.commands.iter();
        let at = commands.position(|(owner, other, _)| owner == id && other == pane)?;
        Some(self.commands.swap_remove(at).2)
    }
}
