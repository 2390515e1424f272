//! The prompt of an iteration: the task, the phase, and the previous failure (pure).

use std::fmt::Write;

use super::spec::{Phase, Spec};
use crate::event::IterationOutcome;
use crate::text::last_bytes;

/// Limits of the end of a failed check's output in the next prompt. Failures are at the end of an
/// output, and some 2,000 tokens per call are cheap.
const TAIL_LINES: usize = 100;
const TAIL_BYTES: usize = 8 << 10;

/// The failure of the previous iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PreviousFailure {
    /// The check failed.
    Check {
        /// The command of the check.
        command: String,
        /// The exit code of the check.
        exit_code: i32,
        /// The end of the check's standard output.
        stdout: String,
        /// The end of the check's standard error.
        stderr: String,
    },
    /// The model or a tool failed, or the turns were used up. The text is the reason.
    Agent(String),
}

impl PreviousFailure {
    /// Describes an iteration that failed with this outcome, without a failed check.
    pub(super) fn of_outcome(outcome: &IterationOutcome) -> Self {
        Self::Agent(match outcome {
            IterationOutcome::ToolError { tool, error } => {
                format!("the tool {tool} failed: {error}")
            }
            IterationOutcome::LlmError { error } => error.clone(),
            _ => "the turns were used up".to_owned(),
        })
    }
}

/// Returns the prompt of an iteration in the phase with this index. `unchanged`: the previous iteration
/// changed no file.
pub(super) fn prompt(
    spec: &Spec,
    index: usize,
    previous_failure: Option<&PreviousFailure>,
    unchanged: bool,
) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "# Task\n\n{}", spec.task.trim());
    if let Some(phase) = spec.phases.get(index) {
        push_phase(&mut text, spec, index, phase);
    }
    match previous_failure {
        None => {}
        Some(PreviousFailure::Check {
            command,
            exit_code,
            stdout,
            stderr,
        }) => {
            let _ = writeln!(
                text,
                "\n# The last attempt\n\nThe check failed: `{command}` exited with {exit_code}."
            );
            for (name, output) in [("standard output", stdout), ("standard error", stderr)] {
                let end = tail(output);
                if !end.trim().is_empty() {
                    let fence = fence_for(end);
                    let _ = writeln!(
                        text,
                        "\nThe end of its {name}:\n\n{fence}\n{}\n{fence}",
                        end.trim_end_matches('\n')
                    );
                }
            }
        }
        Some(PreviousFailure::Agent(reason)) => {
            let _ = writeln!(text, "\n# The last attempt\n\nIt broke off: {reason}");
        }
    }
    if unchanged {
        text.push_str("\nThe last attempt changed no file in the working directory.\n");
    }
    text
}

fn push_phase(text: &mut String, spec: &Spec, index: usize, phase: &Phase) {
    if !spec.is_one_task() {
        let _ = writeln!(
            text,
            "\n# Phase {} of {}: {}",
            index + 1,
            spec.phases.len(),
            phase.name
        );
        if !phase.task.is_empty() {
            let _ = writeln!(text, "\n{}", phase.task);
        }
    }
    if let Some(check) = &phase.check {
        let fence = fence_for(check);
        let _ = writeln!(
            text,
            "\nThe work is done when this command exits with 0:\n\n{fence}sh\n{check}\n{fence}"
        );
    }
}

/// Returns a code fence that is longer than any in the text (CommonMark 4.5).
fn fence_for(text: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    "`".repeat(longest.max(2) + 1)
}

/// Returns the last lines of a text, within the limits.
pub(super) fn tail(text: &str) -> &str {
    let text = text.trim_end_matches('\n');
    let end = last_bytes(text, TAIL_BYTES);
    // A partial line may be misleading, so it is left out unless it is the only line.
    let whole = match end.len() == text.len() {
        true => end,
        false => end.split_once('\n').map_or(end, |(_, rest)| rest),
    };
    let lines = whole.rmatch_indices('\n').nth(TAIL_LINES - 1);
    lines.map_or(whole, |(at, _)| &whole[at + 1..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_prompt_contains_the_task_and_the_previous_failure() {
        let spec = Spec::from_markdown(
            "# Add OAuth\nWell.\n## One\nCheck: true\n## Two\nRoutes.\nCheck: `make ```x`",
        )
        .unwrap();
        let previous_failure = PreviousFailure::Check {
            command: "make".into(),
            exit_code: 2,
            stdout: "a ``` b\n".into(),
            stderr: "\n".into(),
        };
        let text = prompt(&spec, 1, Some(&previous_failure), true);
        let expected = "# Task\n\nAdd OAuth\n\nWell.\n\n# Phase 2 of 2: Two\n\nRoutes.\n\n\
            The work is done when this command exits with 0:\n\n````sh\nmake ```x\n````\n\n\
            # The last attempt\n\nThe check failed: `make` exited with 2.\n\n\
            The end of its standard output:\n\n````\na ``` b\n````\n\n\
            The last attempt changed no file in the working directory.\n";
        assert_eq!(text, expected);
        let alone = prompt(&Spec::of_task("Do it"), 0, None, false);
        assert_eq!(alone, "# Task\n\nDo it\n");
    }

    proptest! {
        #[test]
        fn a_tail_is_a_bounded_end_of_the_text(text in "[a-zä\n]{0,300}", times in 0usize..200) {
            let text = text.repeat(times);
            let end = tail(&text);
            prop_assert!(text.trim_end_matches('\n').ends_with(end));
            prop_assert!(end.len() <= TAIL_BYTES && end.lines().count() <= TAIL_LINES);
        }
    }
}
