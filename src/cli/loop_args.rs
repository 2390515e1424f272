//! What may be typed for `td-observe loop`.

use std::path::PathBuf;
use std::time::Duration;

use super::duration::parse_duration;
use super::history_args::TypedKeeping;
use crate::agent::Format;

const EXAMPLES: &str = "\
Examples:
  td-observe loop --task 'Make the tests pass' --check 'cargo test' --max-iterations 5 \\
      --agent 'claude -p --verbose --output-format stream-json --permission-mode acceptEdits'
  td-observe loop --spec auth.md --agent 'codex exec --json -' --check 'make check'
  td-observe loop --task - --agent ./my-agent --as text --check ./check.sh < task.txt
  td-observe loop --resume loop@1768989600           goes on where it was cut off
  td-observe loop --resume loop@1768989600 --max-iterations 20

In each iteration the agent gets a prompt on its standard input: the task, the phase, and the end of
what the last check printed. TD_PROMPT has it, too, unless it is beyond 127 KiB, and TD_PROMPT_FILE
names the file that keeps it (secrets taken out), if anything is kept. Then the check is run, with sh -c as the agent is; the phase is done when it exits with 0. Prompts, answers and
what checks print are kept in the run's iterations/N/.

A spec in TOML has task, check, and [[phase]] with name, task, check, max_iterations. In Markdown the
first heading and the text below it are the task, headings one level below begin phases; a line
Check: `COMMAND` gives a phase (or, above all phases, the spec) its check.

Exit codes: 0 all checks have passed; 1 they have not; 2 wrong usage; 124 the time was up; 130 Ctrl-C.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct TypedLoop {
    /// Run this with sh -c in each iteration
    #[arg(long, value_name = "CMD")]
    pub agent: Option<String>,
    /// Run this with sh -c after the agent: the phase is done when it exits with 0
    #[arg(long, value_name = "CMD")]
    pub check: Option<String>,
    /// What is to be done; -: read it from standard input
    #[arg(
        long,
        value_name = "TEXT",
        conflicts_with = "spec",
        allow_hyphen_values = true
    )]
    pub task: Option<String>,
    /// A task in phases: a file, *.toml or Markdown
    #[arg(long, value_name = "FILE")]
    pub spec: Option<PathBuf>,
    /// What the agent prints: text, or records: claude, codex, gemini, opencode, sse, json; auto finds out
    #[arg(long = "as", value_name = "FORMAT")]
    pub format: Option<Format>,
    /// How many iterations there may be in all [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_iterations: Option<u32>,
    /// How many answers of its model the agent may have in an iteration, as far as its records tell
    /// them; then it is ended, and the check decides
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_turns: Option<u32>,
    /// How long all of it may take: exit code 124
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// How long the agent may take in an iteration
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub agent_timeout: Option<Duration>,
    /// How long a check may take
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub check_timeout: Option<Duration>,
    /// Where the agent works and checks run [default: here]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Go on with this loop, at its next iteration; what is not given is as it was
    #[arg(long, value_name = "RUN", conflicts_with_all = ["spec", "execution_id"])]
    pub resume: Option<PathBuf>,
    /// The name of the run [default: loop@SECONDS]
    #[arg(long, value_name = "ID")]
    pub execution_id: Option<String>,
    #[command(flatten)]
    pub keeping: TypedKeeping,
}
