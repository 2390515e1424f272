//! Describes commands and checks: their start, and how they ended (pure).

use super::description::Description;
use super::phrases::ExitOutcome;
use crate::event::TdEvent;
use crate::face::tone::Tone;

pub(super) fn describe(event: &TdEvent) -> Option<Description> {
    let labelled = Description::labelled;
    Some(match event {
        TdEvent::ExecutionStarted { command, cell, .. } => match cell {
            Some(_) => labelled("code", Tone::Plain, first_line(command)),
            None => labelled("command", Tone::Plain, command.clone()),
        },
        TdEvent::ExecutionCompleted {
            exit_code,
            signal,
            duration_ms,
            ..
        } => {
            let outcome = ExitOutcome {
                exit_code: *exit_code,
                signal: *signal,
            };
            let (tone, verdict) = outcome.verdict("SUCCESS", "FAILURE");
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
            let outcome = ExitOutcome {
                exit_code: Some(*exit_code),
                signal: None,
            };
            let (tone, verdict) = outcome.verdict("PASSED", "FAILED");
            labelled("validation", tone, verdict).after(*duration_ms)
        }
        _ => return None,
    })
}

/// Returns the first line of code, and the number of lines after it.
fn first_line(code: &str) -> String {
    let mut lines = code.lines().skip_while(|line| line.trim().is_empty());
    let first = lines.next().unwrap_or_default().trim_end();
    match lines.count() {
        0 => first.to_owned(),
        1 => format!("{first} (and 1 more line)"),
        more => format!("{first} (and {more} more lines)"),
    }
}
