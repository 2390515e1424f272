//! The arguments of `td-observe run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use clap_complete::engine::ArgValueCandidates;

use super::duration::parse_duration;
use super::known;
use super::options::{TypedKeeping, parse_execution_id};
use crate::agent::Format;

const EXAMPLES: &str = "\
Examples:
  td-observe run make test                     live output, kept; its exit code
  td-observe run --timeout 10m -- ./check -v   ends its group after ten minutes
  td-observe run --pty cargo build             with a terminal: colours, progress
  td-observe run --stdin sudo apt upgrade      the command reads your terminal
  td-observe run --as claude -- \\
      claude -p --verbose --output-format stream-json 'fix the tests'
                                               an agent's work as events
  td-observe run --json make | jq -j '.event.text // empty'
  head=$(td-observe run git rev-parse HEAD)    the output as it is, and kept
  td-observe run --timestamps --junit test.xml make test > test.log
                                               for CI
  td-observe log make                          what the last make printed

Options of td-observe come before the command. On a terminal, standard error is
marked [stderr]. Elsewhere both outputs are passed on byte for byte, secrets
included, and td-observe prints its own messages on standard error. The history
is always redacted. The first Ctrl-C is passed to the command's group, which is
killed if it has not ended after --grace; the second one ends everything at once.

Exit codes: the command's own; 128 plus the signal that ended it; 124 timeout;
126 the command cannot be started; 127 it is missing; 2 wrong usage.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct TypedRun {
    /// The program and its arguments
    #[arg(
        value_name = "CMD",
        required = true,
        trailing_var_arg = true,
        value_hint = ValueHint::CommandWithArguments
    )]
    pub command: Vec<OsString>,
    /// End the command and its group after this time: exit code 124
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// Kill the group if it has not ended this long after TERM
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub grace: Duration,
    /// Read standard output as text, or as the records of an agent: claude, codex, gemini, opencode,
    /// sse, json; auto detects them. Records become events
    #[arg(
        long = "as",
        value_name = "FORMAT",
        value_parser = known::parse_format,
        default_value = "text",
        add = ArgValueCandidates::new(known::formats)
    )]
    pub format: Format,
    /// The name of the run [default: PROGRAM@SECONDS]
    #[arg(long, value_name = "ID", value_parser = parse_execution_id)]
    pub execution_id: Option<String>,
    /// Give the command a terminal as large as yours; both outputs become one
    #[arg(long)]
    pub pty: bool,
    /// Let the command read the input of td-observe; on a terminal it gets the keys, including
    /// Ctrl-C. With --pty it also has the whole screen
    #[arg(long)]
    pub stdin: bool,
    /// Show and keep at most N lines; a warning marks the cut
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_lines: Option<u64>,
    /// Begin each line with the local time
    #[arg(long)]
    pub timestamps: bool,
    /// Write the outcome to this file as JUnit XML, for CI
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub junit: Option<PathBuf>,
    #[command(flatten)]
    pub keeping: TypedKeeping,
}
