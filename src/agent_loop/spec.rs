//! The specification of a loop, read from TOML or Markdown: a task in phases, each with a check (pure).

use std::fmt::Write;

use crate::agent::summary::summary;
use crate::error::{Error, Result};
use crate::event::IterationOutcome;
use crate::text::last_bytes;
use serde::{Deserialize, Serialize};

/// Maximum size of a specification, which is a part of each prompt.
const SPEC_BYTES_MAX: usize = 1 << 20;

/// Maximum number of phases; far more than a user writes by hand.
const PHASES_MAX: usize = 1_000;

/// A task in phases.
///
/// ```
/// use td_observe::agent_loop::Spec;
/// let spec = Spec::from_markdown("
/// ## Add OAuth
/// As RFC 6749 has it.
///
/// ### Storage
/// Store the tokens.
/// Check: `cargo test storage`
///
/// ### Routes
/// Check: `cargo test routes`
/// ").unwrap();
/// assert_eq!(spec.task, "Add OAuth\n\nAs RFC 6749 has it.");
/// assert_eq!(spec.phases[0].name, "Storage");
/// assert_eq!(spec.phases[0].task, "Store the tokens.");
/// assert_eq!(spec.phases[1].check.as_deref(), Some("cargo test routes"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The whole task.
    pub task: String,
    /// The phases in order; at least one.
    pub phases: Vec<Phase>,
}

/// A part of the task, which is complete when its check passes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// The phase's name.
    pub name: String,
    /// The task of the phase; empty if the name suffices.
    #[serde(default)]
    pub task: String,
    /// The shell command that exits with 0 when the phase is complete; defaults to that of the loop.
    pub check: Option<String>,
    /// The maximum number of iterations; defaults to that of the loop.
    pub max_iterations: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpecFile {
    task: String,
    check: Option<String>,
    #[serde(default)]
    phase: Vec<Phase>,
}

impl Spec {
    /// Creates a specification of one phase, named after the first line of the task.
    #[must_use]
    pub fn of_task(task: impl Into<String>) -> Self {
        let task = task.into();
        let phase = Phase {
            name: first_line(&task),
            ..Phase::default()
        };
        Self {
            task,
            phases: vec![phase],
        }
    }

    /// Reads TOML: `task`, `check`, and `[[phase]]` tables with `name`, `task`, `check` and
    /// `max_iterations`. Without phases, the task is a single phase.
    ///
    /// # Errors
    /// `is_invalid_input()` for invalid text, with the position and the reason.
    pub fn from_toml(text: &str) -> Result<Self> {
        bounded(text)?;
        let file: SpecFile = toml::from_str(text)
            .map_err(|error| Error::invalid("invalid specification").because(error))?;
        Self {
            task: file.task,
            phases: file.phase,
        }
        .checked(file.check)
    }

    /// Reads Markdown. The first heading and the text below it are the task, and each heading one level
    /// below begins a phase. A line `Check: COMMAND`, with or without backticks, sets the check of its
    /// phase, or of all phases if it precedes them. `Max iterations: N` limits a phase. Fenced code
    /// blocks are text.
    ///
    /// # Errors
    /// `is_invalid_input()` without a heading, and for invalid phases.
    pub fn from_markdown(text: &str) -> Result<Self> {
        bounded(text)?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut title: Option<(usize, String)> = None;
        // The text and the settings below the title.
        let mut intro = Phase::default();
        let mut phases: Vec<Phase> = Vec::new();
        let mut fence: Option<&str> = None;
        for (number, line) in (1..).zip(text.lines()) {
            let section = phases.last_mut().unwrap_or(&mut intro);
            let start = line.trim_start();
            match fence {
                Some(marks) if closes_fence(start, marks) => fence = None,
                Some(_) => {}
                None if fence_marks(start).is_some() => fence = fence_marks(start),
                None => match (heading(line), &title) {
                    (Some((level, name)), None) => {
                        title = Some((level, name.to_owned()));
                        continue;
                    }
                    (Some((level, name)), Some((top, _))) if level == top + 1 => {
                        phases.push(Phase {
                            name: name.to_owned(),
                            ..Phase::default()
                        });
                        continue;
                    }
                    (Some((level, name)), Some((top, _))) if level <= *top => {
                        return Err(Error::invalid(format!(
                            "line {number}: a second heading of the first level, {name:?}: a \
                             specification has one task; phases have headings one level below it"
                        )));
                    }
                    _ => {
                        if section.read_setting(line, number)? {
                            continue;
                        }
                    }
                },
            }
            section.task.push_str(line);
            section.task.push('\n');
        }
        let Some((_, title)) = title else {
            return Err(Error::invalid(
                "the specification has no heading: write the task as `# TASK`, phases as `## PHASE`",
            ));
        };
        let task = format!("{title}\n\n{}", intro.task.trim());
        Self { task, phases }.checked(intro.check)
    }

    /// Returns true if the specification has a single phase that adds nothing to the task.
    pub(super) fn is_one_task(&self) -> bool {
        let [phase] = self.phases.as_slice() else {
            return false;
        };
        phase.task.is_empty() && phase.name == first_line(&self.task)
    }

    /// Sets the check of all phases without a check.
    #[must_use]
    pub fn check(mut self, check: &str) -> Self {
        for phase in &mut self.phases {
            phase.check.get_or_insert_with(|| check.to_owned());
        }
        self
    }

    /// Trims all texts, completes the phases and validates them. `check` is the default check.
    fn checked(mut self, check: Option<String>) -> Result<Self> {
        let phases = self.phases.iter_mut();
        let texts = phases.flat_map(|phase| [&mut phase.name, &mut phase.task]);
        for text in texts.chain([&mut self.task]) {
            *text = text.trim().to_owned();
        }
        if self.task.is_empty() {
            return Err(Error::invalid("the task of the specification is empty"));
        }
        if self.phases.is_empty() {
            self.phases = Self::of_task(self.task.clone()).phases;
        }
        if self.phases.len() > PHASES_MAX {
            return Err(Error::invalid(format!("more than {PHASES_MAX} phases")));
        }
        if let Some(check) = check {
            self = self.check(&check);
        }
        for phase in &self.phases {
            let problem = match phase {
                Phase { name, .. } if name.is_empty() => "a phase has no name".to_owned(),
                Phase {
                    name,
                    check: Some(check),
                    ..
                } if check.trim().is_empty() => format!("the check of phase {name:?} is empty"),
                Phase {
                    name,
                    max_iterations: Some(0),
                    ..
                } => format!("the maximum of phase {name:?} allows no iteration"),
                _ => continue,
            };
            return Err(Error::invalid(problem));
        }
        Ok(self)
    }
}

impl Phase {
    /// Reads a setting of Markdown; returns false if the line is text.
    fn read_setting(&mut self, line: &str, number: usize) -> Result<bool> {
        // A setting may be a list item, and its name may be bold.
        let line = line.trim().trim_start_matches(['-', '*', '+', ' ']);
        let Some((name, value)) = line.split_once(':') else {
            return Ok(false);
        };
        let value = value.trim_start_matches('*').trim();
        match name.trim_end_matches('*').to_ascii_lowercase().as_str() {
            "check" => {
                let command = without_code_marks(value);
                if self.check.replace(command.to_owned()).is_some() {
                    return Err(Error::invalid(format!(
                        "line {number}: a second check; join them with &&"
                    )));
                }
            }
            "max iterations" => {
                let max = value.parse().map_err(|_| {
                    Error::invalid(format!("line {number}: {value:?} is not a number"))
                })?;
                self.max_iterations = Some(max);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Returns a command without the backticks of a code span around all of it (CommonMark 6.1). Others are
/// the shell's.
fn without_code_marks(command: &str) -> &str {
    let inner = command.trim_start_matches('`');
    let marks = &command[..command.len() - inner.len()];
    // A span ends at the first run of as many backticks.
    let is_one_span = |code: &str| code.split(|c| c != '`').all(|run| run != marks);
    match inner.strip_suffix(marks) {
        Some(code) if is_one_span(code) => code.trim(),
        _ if inner.is_empty() => "",
        _ => command,
    }
}

/// Returns the level and the text of a heading (CommonMark 4.2), without closing marks.
fn heading(line: &str) -> Option<(usize, &str)> {
    let rest = line.trim_start_matches('#');
    let level = line.len() - rest.len();
    let text = rest.strip_prefix(' ')?.trim();
    // Closing marks follow a blank: `Port it to C#` ends with none.
    let text = match text.trim_end_matches('#') {
        open if open.is_empty() || open.ends_with([' ', '\t']) => open.trim_end(),
        _ => text,
    };
    ((1..=6).contains(&level) && !text.is_empty()).then_some((level, text))
}

/// Returns the marks with which a line opens a fenced code block (CommonMark 4.5).
fn fence_marks(line: &str) -> Option<&str> {
    let mark = line.chars().next().filter(|mark| "`~".contains(*mark))?;
    let info = line.trim_start_matches(mark);
    let marks = &line[..line.len() - info.len()];
    // A line such as ```` ```code``` ```` is text with a code span.
    (marks.len() >= 3 && !(mark == '`' && info.contains(mark))).then_some(marks)
}

/// Returns true if a line closes the block that these marks opened: it has only marks, at least as many.
fn closes_fence(line: &str, marks: &str) -> bool {
    line.starts_with(marks) && line.trim_end().chars().all(|c| marks.starts_with(c))
}

/// Returns the name of the only phase of a task.
fn first_line(task: &str) -> String {
    let first = task.lines().find(|line| !line.trim().is_empty());
    summary(first.unwrap_or("task").trim())
}

fn bounded(text: &str) -> Result<()> {
    if text.len() <= SPEC_BYTES_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the specification is longer than {} KiB",
        SPEC_BYTES_MAX >> 10
    )))
}

// The prompt of an iteration: the task, the phase, and the previous failure (pure).

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
    let whole = if end.len() == text.len() {
        end
    } else {
        end.split_once('\n').map_or(end, |(_, rest)| rest)
    };
    let lines = whole.rmatch_indices('\n').nth(TAIL_LINES - 1);
    lines.map_or(whole, |(at, _)| &whole[at + 1..])
}

#[cfg(test)]
mod tests {
    mod spec {

        use super::super::*;
        use proptest::prelude::*;

        #[test]
        fn a_specification_is_read_from_toml() {
            let spec = Spec::from_toml(
                "task = 'Add OAuth'\ncheck = 'make test'\n[[phase]]\nname = 'one'\n\
             [[phase]]\nname = 'two'\ntask = 'more'\ncheck = 'true'\nmax_iterations = 3\n",
            )
            .unwrap();
            assert_eq!(spec.phases.len(), 2);
            assert_eq!(spec.phases[0].check.as_deref(), Some("make test"));
            let two = Phase {
                name: "two".into(),
                task: "more".into(),
                check: Some("true".into()),
                max_iterations: Some(3),
            };
            assert_eq!(spec.phases[1], two);
            let alone = Spec::from_toml("task = \"\"\"\nDo it\nwell\"\"\"").unwrap();
            assert_eq!(alone.phases[0].name, "Do it");
            assert_eq!(alone.phases[0].task, "");
        }

        #[test]
        fn code_blocks_contain_no_headings_and_no_checks() {
            let text = "# Task\n```\n# no heading\nCheck: rm -rf /\n```\n## One\n- **Check:** `a | b`\n\
                    * Max iterations: 2\ntext\n### part of one\n~~~\n## not\n~~~\n";
            let spec = Spec::from_markdown(text).unwrap();
            assert_eq!(spec.task, "Task\n\n```\n# no heading\nCheck: rm -rf /\n```");
            let [one] = spec.phases.as_slice() else {
                panic!("{spec:?}")
            };
            assert_eq!(one.check.as_deref(), Some("a | b"));
            assert_eq!(one.max_iterations, Some(2));
            assert_eq!(one.task, "text\n### part of one\n~~~\n## not\n~~~");
        }

        #[test]
        fn a_code_block_ends_at_a_line_with_as_many_marks() {
            for block in [
                "````\n```\n## not\n```\n`````",
                "```rust\n```rust\n## not\n```",
                "~~~\n```\n## not\n~~~ ",
                "```code``` in a line",
            ] {
                let spec = Spec::from_markdown(&format!("# Task\n{block}\n## One\n")).unwrap();
                let names: Vec<&str> = spec.phases.iter().map(|phase| &*phase.name).collect();
                assert_eq!(names, ["One"], "{block}");
            }
        }

        #[test]
        fn a_heading_loses_only_its_closing_marks() {
            for (line, expected) in [
                ("# Port it to C#", Some((1, "Port it to C#"))),
                ("## Routes ##", Some((2, "Routes"))),
                ("## Routes # more", Some((2, "Routes # more"))),
                ("### #", None),
            ] {
                assert_eq!(heading(line), expected, "{line}");
            }
        }

        #[test]
        fn a_check_keeps_the_backticks_of_its_shell() {
            for (command, expected) in [
                ("`make test`", "make test"),
                ("``test -n `cat x` ``", "test -n `cat x`"),
                ("test -n `cat x`", "test -n `cat x`"),
                ("`cat x` = `cat y`", "`cat x` = `cat y`"),
                ("`make ```x`", "make ```x"),
                ("``", ""),
            ] {
                assert_eq!(without_code_marks(command), expected, "{command}");
            }
        }

        #[test]
        fn errors_name_the_problem() {
            for (text, reason) in [
                ("no heading", "no heading"),
                ("# a\n# b", "line 2: a second heading"),
                ("# a\n## b\nCheck: x\nCheck: y", "line 4: a second check"),
                ("# a\n## b\nMax iterations: many", "line 3: \"many\""),
                ("# a\n## b\nMax iterations: 0", "no iteration"),
                ("# a\n## b\nCheck: ``", "is empty"),
            ] {
                let error = Spec::from_markdown(text).unwrap_err();
                assert!(error.to_string().contains(reason), "{error}");
                assert!(error.is_invalid_input());
            }
            for text in [
                "",
                "task = ''",
                "task = 'a'\nphases = 1",
                "task = 'a'\n[[phase]]\nname=''",
            ] {
                assert!(Spec::from_toml(text).unwrap_err().is_invalid_input());
            }
        }

        proptest! {
            #[test]
            fn any_text_is_read_or_refused(text in "(#{0,3} ?[a-z`*:~ ]{0,12}\n|Check: `x`\n|```\n){0,20}") {
                for spec in [Spec::from_markdown(&text), Spec::from_toml(&text)].into_iter().flatten() {
                    prop_assert!(!spec.phases.is_empty() && !spec.task.is_empty());
                }
            }
        }
    }

    mod prompt {

        use super::super::*;
        use proptest::prelude::*;

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
}
