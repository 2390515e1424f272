//! What a loop does, in a few words a row, and why it goes on (pure).

use super::agents::Row;
use super::tone::Tone;
use crate::event::{IterationOutcome, TdEvent};

/// Of a task so many characters are shown.
const TASK_CHARS_MAX: usize = 200;

/// The row of an event about a loop; `None` for other events.
pub(super) fn row(event: &TdEvent) -> Option<Row> {
    let row = |name, tone, text: String| Some(Row { name, tone, text });
    match event {
        TdEvent::LoopStarted {
            task_description, ..
        } => row("loop", Tone::Plain, beginning(task_description)),
        TdEvent::PhaseStarted {
            phase_index,
            phase_name,
            total_phases,
            ..
        } => {
            let number = phase_index.saturating_add(1);
            let text = format!("{number} of {total_phases}: {phase_name}");
            row("phase", Tone::Plain, text)
        }
        TdEvent::IterationStarted { iteration, .. } => {
            row("iteration", Tone::Plain, format!("{iteration} begins"))
        }
        TdEvent::IterationCompleted {
            iteration, outcome, ..
        } => {
            let (tone, why) = outcome_words(outcome);
            row("iteration", tone, format!("{iteration}: {why}"))
        }
        TdEvent::LoopCompleted {
            success,
            total_iterations,
            ..
        } => {
            let (tone, word) = match success {
                true => (Tone::Good, "SUCCEEDED"),
                false => (Tone::Alarm, "FAILED"),
            };
            let plural = if *total_iterations == 1 { "" } else { "s" };
            let text = format!("{word} after {total_iterations} iteration{plural}");
            row("loop", tone, text)
        }
        _ => None,
    }
}

/// The first line of a task, and not much of it: the whole is in the event.
fn beginning(task: &str) -> String {
    let line = task.trim_start().lines().next().unwrap_or_default();
    let is_whole = line.len() == task.trim().len() && line.chars().count() <= TASK_CHARS_MAX;
    match is_whole {
        true => line.to_owned(),
        false => line.chars().take(TASK_CHARS_MAX).chain(['…']).collect(),
    }
}

fn outcome_words(outcome: &IterationOutcome) -> (Tone, String) {
    match outcome {
        IterationOutcome::ValidationPassed => (Tone::Good, "the check passed".to_owned()),
        IterationOutcome::ValidationFailed { exit_code } => {
            let text = format!("not done: the check failed with exit code {exit_code}");
            (Tone::Caution, text)
        }
        IterationOutcome::MaxTurnsReached => {
            let text = "not done: the agent used up its turns".to_owned();
            (Tone::Caution, text)
        }
        IterationOutcome::ToolError { tool, error } => {
            (Tone::Alarm, format!("the tool {tool} failed: {error}"))
        }
        IterationOutcome::LlmError { error } => (Tone::Alarm, format!("no answer: {error}")),
    }
}
