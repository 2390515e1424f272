//! What happened, in a few words: the markers of a cast (pure).

use crate::event::{EventKind, GapEvidence, IterationOutcome, TdEvent};
use crate::face::clean::{cut, one_line};

/// A player shows markers in a list or on its time bar.
const COLUMNS_MAX: usize = 80;

/// The marker of an event; none for text.
pub(super) fn mark(event: &TdEvent) -> Option<String> {
    let text = match event {
        TdEvent::OutputUpdate { .. }
        | TdEvent::OutputRevised { .. }
        | TdEvent::ScreenUpdate { .. } => return None,
        TdEvent::TokenReceived { .. }
        | TdEvent::ValidationOutput { .. }
        | TdEvent::ExecutionOutput { .. } => return None,
        // A resize is an event of the format itself.
        TdEvent::PaneResized { .. } | TdEvent::LogOpened { .. } => return None,
        TdEvent::OutputGap {
            lost_lines,
            reason,
            evidence,
            ..
        } => gap(*lost_lines, reason, *evidence)?,
        TdEvent::LogGap {
            first_seq,
            last_seq,
            ..
        } => log_gap(*first_seq, *last_seq),
        TdEvent::SessionStarted { session, .. } => format!("watching {session}"),
        TdEvent::SessionRenamed { from, to, .. } => format!("{from} is called {to}"),
        TdEvent::SessionEnded {
            session, reason, ..
        } => format!("{session} ended: {reason}"),
        TdEvent::PaneOpened { pane, command, .. } => format!("{pane} opened: {command}"),
        TdEvent::PaneClosed {
            pane,
            reason,
            exit_status,
            ..
        } => match exit_status {
            Some(status) => format!("{pane} {reason}: {status}"),
            None => format!("{pane} {reason}"),
        },
        TdEvent::LoopStarted {
            task_description, ..
        } => format!("loop: {task_description}"),
        TdEvent::PhaseStarted { phase_name, .. } => format!("phase: {phase_name}"),
        TdEvent::IterationStarted { iteration, .. } => format!("iteration {iteration}"),
        TdEvent::IterationCompleted {
            iteration, outcome, ..
        } => {
            format!("iteration {iteration}: {}", outcome_words(outcome))
        }
        TdEvent::LoopCompleted { success: true, .. } => "loop done".to_owned(),
        TdEvent::LoopCompleted { success: false, .. } => "loop failed".to_owned(),
        TdEvent::ToolCallStarted { tool_name, .. } => format!("tool: {tool_name}"),
        TdEvent::ValidationStarted { command, .. } => format!("check: {command}"),
        TdEvent::ValidationCompleted { exit_code, .. } => format!("check: exit {exit_code}"),
        TdEvent::ExecutionStarted { command, .. } => format!("run: {command}"),
        TdEvent::AgentState { state, .. } => format!("agent: {state}"),
        TdEvent::AgentCompleted { agent_id, .. } => format!("agent {agent_id} done"),
        TdEvent::AgentFailed {
            agent_id, error, ..
        } => format!("agent {agent_id} failed: {error}"),
        TdEvent::Error {
            context, message, ..
        } => format!("error, {context}: {message}"),
        TdEvent::Warning {
            context, message, ..
        } => format!("warning, {context}: {message}"),
        TdEvent::PollerRestarted { source, .. } => format!("{source} crashed and is back"),
        TdEvent::Unknown(_) => event.type_name().to_owned(),
        other => words(other.kind()),
    };
    Some(cut(&one_line(&text), COLUMNS_MAX).to_owned())
}

/// What is missing in a pane's output; nothing where that is only possible. A count is as good as a
/// confirmation: logs that were written before gaps had evidence have no other.
pub(in crate::face) fn gap(
    lost_lines: Option<u64>,
    reason: &str,
    evidence: GapEvidence,
) -> Option<String> {
    Some(match (lost_lines, evidence) {
        (Some(1), _) => format!("1 line lost: {reason}"),
        (Some(lost), _) => format!("{lost} lines lost: {reason}"),
        (None, GapEvidence::Confirmed) => format!("lines lost: {reason}"),
        (None, GapEvidence::Possible) => return None,
    })
}

/// What is missing in the log.
pub(in crate::face) fn log_gap(first_seq: u64, last_seq: u64) -> String {
    format!("events {first_seq} to {last_seq} are not in the log")
}

fn outcome_words(outcome: &IterationOutcome) -> String {
    match outcome {
        IterationOutcome::ValidationPassed => "check passed".to_owned(),
        IterationOutcome::ValidationFailed { exit_code } => format!("check failed: {exit_code}"),
        IterationOutcome::MaxTurnsReached => "out of turns".to_owned(),
        IterationOutcome::ToolError { tool, .. } => format!("tool {tool} failed"),
        IterationOutcome::LlmError { .. } => "the model failed".to_owned(),
    }
}

/// `TurnCompleted` as `turn completed`.
fn words(kind: EventKind) -> String {
    let mut words = String::new();
    for c in kind.as_str().chars() {
        if c.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(c.to_ascii_lowercase());
    }
    words
}
