//! Describes commands, checks and the progress of loops (pure).

use super::description::{Description, beginning};
use super::phrases::{count, verdict};
use crate::event::{IterationOutcome, TdEvent};
use crate::face::tone::Tone;

/// The maximum number of characters to show of a task; the event has all of it.
const TASK_CHARS_MAX: usize = 200;

pub(super) fn describe(event: &TdEvent) -> Option<Description> {
    let labelled = Description::labelled;
    Some(match event {
        TdEvent::ExecutionStarted { command, cell, .. } => match cell {
            Some(_) => labelled("code", Tone::Plain, first_line_of_code(command)),
            None => labelled("command", Tone::Plain, command.clone()),
        },
        TdEvent::ExecutionCompleted {
            exit_code,
            signal,
            duration_ms,
            ..
        } => {
            let (tone, verdict) = verdict((*exit_code, *signal), ("SUCCESS", "FAILURE"));
            labelled("execution_status", tone, verdict).after(*duration_ms)
        }
        TdEvent::ValidationStarted { command, .. } => {
            labelled("validation", Tone::Plain, command.clone())
        }
        TdEvent::ValidationCompleted {
            exit_code,
            duration_ms,
            ..
        } => {
            let (tone, verdict) = verdict((Some(*exit_code), None), ("PASSED", "FAILED"));
            labelled("validation", tone, verdict).after(*duration_ms)
        }
        TdEvent::LoopStarted {
            task_description, ..
        } => labelled("loop", Tone::Plain, first_line(task_description)),
        TdEvent::PhaseStarted {
            phase_index,
            phase_name,
            total_phases,
            ..
        } => {
            let number = phase_index.saturating_add(1);
            let text = format!("{number} of {total_phases}: {phase_name}");
            labelled("phase", Tone::Plain, text)
        }
        TdEvent::IterationStarted { iteration, .. } => {
            labelled("iteration", Tone::Plain, format!("{iteration} begins"))
        }
        TdEvent::IterationCompleted {
            iteration, outcome, ..
        } => {
            let (tone, reason) = outcome_words(outcome);
            labelled("iteration", tone, format!("{iteration}: {reason}"))
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
            let iterations = count(u64::from(*total_iterations), "iteration");
            labelled("loop", tone, format!("{word} after {iterations}"))
        }
        _ => return None,
    })
}

/// Returns the first line of code, and the number of lines after it.
fn first_line_of_code(code: &str) -> String {
    let mut lines = code.lines().skip_while(|line| line.trim().is_empty());
    let first = lines.next().unwrap_or_default().trim_end();
    match lines.count() {
        0 => first.to_owned(),
        1 => format!("{first} (and 1 more line)"),
        more => format!("{first} (and {more} more lines)"),
    }
}

/// Returns the first line of a task, with an ellipsis if more follows.
fn first_line(task: &str) -> String {
    let task = task.trim();
    let line = task.lines().next().unwrap_or_default();
    let shown = beginning(line, TASK_CHARS_MAX);
    match line.len() < task.len() && shown.len() == line.len() {
        true => shown + "…",
        false => shown,
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
