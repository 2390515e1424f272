//! What a model is told in an iteration: the task, the phase, and how the last check failed (pure).

use std::fmt::Write;

use super::spec::{Phase, Spec};

/// Of each output of a check that failed the last lines go into the next prompt: what failed stands
/// at the end, and a model reads some 2,000 tokens a call without thinking of them.
const TAIL_LINES: usize = 100;
const TAIL_BYTES: usize = 8 << 10;

/// Why another iteration is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setback {
    /// The check failed.
    Check {
        /// The check.
        command: String,
        /// What it exited with.
        exit_code: i32,
        /// The end of what it printed.
        stdout: String,
        /// The end of its errors.
        stderr: String,
    },
    /// The model or a tool failed, or the turns were used up: in words.
    Agent(String),
}

impl Setback {
    /// In a few words, for people.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Check { exit_code, .. } => format!("the check failed with exit code {exit_code}"),
            Self::Agent(why) => why.clone(),
        }
    }
}

/// The prompt of an iteration. `unchanged`: the one before has changed nothing.
#[must_use]
pub fn prompt(spec: &Spec, index: usize, setback: Option<&Setback>, unchanged: bool) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "# Task\n\n{}", spec.task.trim());
    if let Some(phase) = spec.phases.get(index) {
        push_phase(&mut text, spec, index, phase);
    }
    match setback {
        None => {}
        Some(Setback::Check {
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
        Some(Setback::Agent(why)) => {
            let _ = writeln!(text, "\n# The last attempt\n\nIt broke off: {why}");
        }
    }
    if unchanged {
        text.push_str("\nThe last attempt changed no file in the working directory.\n");
    }
    text
}

fn push_phase(text: &mut String, spec: &Spec, index: usize, phase: &Phase) {
    if spec.phases.len() > 1 || !spec.is_one_task() {
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

/// A fence that the text does not end by itself (CommonMark 4.5).
fn fence_for(text: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    "`".repeat(longest.max(2) + 1)
}

/// The last lines of a text.
pub(super) fn tail(text: &str) -> &str {
    let text = text.trim_end_matches('\n');
    let mut start = text.len().saturating_sub(TAIL_BYTES);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    // A line that is cut says the wrong thing, unless there is no other.
    let end = &text[start..];
    let whole = match start {
        0 => end,
        _ => end.split_once('\n').map_or(end, |(_, rest)| rest),
    };
    let lines = whole.rmatch_indices('\n').nth(TAIL_LINES - 1);
    lines.map_or(whole, |(at, _)| &whole[at + 1..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_prompt_says_what_is_to_be_done_and_what_failed() {
        let spec = Spec::from_markdown(
            "# Add OAuth\nWell.\n## One\nCheck: true\n## Two\nRoutes.\nCheck: `make ```x`",
        )
        .unwrap();
        let setback = Setback::Check {
            command: "make".into(),
            exit_code: 2,
            stdout: "a ``` b\n".into(),
            stderr: "\n".into(),
        };
        let text = prompt(&spec, 1, Some(&setback), true);
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
        fn a_tail_is_the_end_and_small(text in "[a-zä\n]{0,300}", times in 0usize..200) {
            let text = text.repeat(times);
            let end = tail(&text);
            prop_assert!(text.trim_end_matches('\n').ends_with(end));
            prop_assert!(end.len() <= TAIL_BYTES && end.lines().count() <= TAIL_LINES);
        }
    }
}
