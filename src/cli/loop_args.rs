//! The arguments of `td-observe loop`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};

use super::completers;
use super::duration::parse_duration;
use super::history_args::{TypedKeeping, parse_execution_id};
use super::nearest;
use crate::agent::Format;

const EXAMPLES: &str = "\
Examples:
  td-observe loop --task 'Make the tests pass' --check 'cargo test' \\
      --agent 'claude -p --verbose --output-format stream-json \\
               --permission-mode acceptEdits'
  td-observe loop --spec auth.md --agent 'codex exec --json -' \\
      --check 'make check'
  td-observe loop --task - --agent ./my-agent --as text --check ./check.sh \\
      < task.txt
  td-observe loop --resume loop@1768989600      continues after an interruption
  td-observe loop --resume loop@1768989600 --max-iterations 20
  td-observe loop --task 'Fix it' --agent ./agent --check ./check --junit r.xml

In each iteration the agent gets a prompt on its standard input: the task, the
phase, and the last output of the previous check. Then the check runs. The
phase is done when the check exits with 0. Both run with sh -c. See td-observe
help loops for the format of a spec and the files of a run.

Exit codes: 0 all checks passed; 1 they did not; 2 wrong usage; 124 timeout;
130 Ctrl-C.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct TypedLoop {
    /// The command of the agent, run in each iteration
    #[arg(long, value_name = "CMD")]
    pub agent: Option<String>,
    /// The check, run after the agent: exit code 0 ends the phase
    #[arg(long, value_name = "CMD")]
    pub check: Option<String>,
    /// The task; - reads it from standard input
    #[arg(
        long,
        value_name = "TEXT",
        conflicts_with = "spec",
        allow_hyphen_values = true
    )]
    pub task: Option<String>,
    /// A task in phases: a TOML or Markdown file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub spec: Option<PathBuf>,
    /// The output of the agent: text, or the records of claude, codex, gemini, opencode, sse, json;
    /// auto detects them
    #[arg(
        long = "as",
        value_name = "FORMAT",
        value_parser = nearest::parse_format,
        add = ArgValueCandidates::new(completers::formats)
    )]
    pub format: Option<Format>,
    /// At most N iterations in all [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_iterations: Option<u32>,
    /// End the agent after N answers of its model in an iteration, if its records show them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_turns: Option<u32>,
    /// End the loop after this time: exit code 124
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// End the agent after this time in an iteration
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub agent_timeout: Option<Duration>,
    /// End a check after this time
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub check_timeout: Option<Duration>,
    /// Run the agent and the checks in this directory [default: the current one]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: Option<PathBuf>,
    /// Resume this loop at its next iteration; options that are not given keep their values
    #[arg(
        long,
        value_name = "RUN",
        conflicts_with_all = ["spec", "execution_id"],
        add = ArgValueCompleter::new(completers::loops)
    )]
    pub resume: Option<PathBuf>,
    /// The name of the run [default: loop@SECONDS]
    #[arg(long, value_name = "ID", value_parser = parse_execution_id)]
    pub execution_id: Option<String>,
    /// Write the outcome of each check to this file as JUnit XML, for CI
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub junit: Option<PathBuf>,
    #[command(flatten)]
    pub keeping: TypedKeeping,
}
