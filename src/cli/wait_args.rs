//! The arguments of `td-observe wait`.

use std::time::Duration;

use clap_complete::engine::ArgValueCompleter;

use super::completers;
use super::duration::parse_duration;
use super::history_args::TypedSecrets;

const EXAMPLES: &str = "\
Examples:
  td-observe wait build --text 'BUILD SUCCESS' --stop '^(ERROR|FAILED)' \\
      --timeout 10m
  td-observe wait %7 --regex 'listening on port \\d+'
  td-observe wait agent --turn --timeout 30m  for [Output Complete] on a line
  td-observe wait agent --idle 5s             for five seconds of silence
  td-observe wait build --exit                for the end of its programs
  td-observe wait build --channel done        for tmux wait-for -S done

Text that is on the panes at the beginning does not match, nor does the echo of
a command typed at a prompt, as far as td-observe can tell. The line that was
found is printed. See td-observe help waiting.

--json prints one object: outcome (found, stopped, ended, timed_out, lost,
interrupted), condition, pane, line, text, needle, exit_status as far as they
are known, ts, elapsed_ms, lost_lines and last_lines.

Exit codes: 0 found; 1 a stop came first, the target ended, or (--exit) its
program failed; 2 wrong usage, or no such target; 3 the time was up and lines
were lost; 124 the time was up; 130 Ctrl-C.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct TypedWait {
    /// session, session:window, session:window.pane or %pane
    #[arg(value_name = "TARGET", add = ArgValueCompleter::new(completers::targets))]
    pub target: String,
    /// Wait for a line that contains TEXT; repeat for any of several
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub text: Vec<String>,
    /// Wait for a line that matches; repeat for any of several
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true)]
    pub regex: Vec<String>,
    /// Wait for the end of an agent's turn
    #[arg(long)]
    pub turn: bool,
    /// With --turn: the marker, alone on its line; repeat for any of several [default: "[Output
    /// Complete]"]
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        requires = "turn"
    )]
    pub marker: Vec<String>,
    /// Wait for the end of the target: its panes are gone, or their programs have ended
    #[arg(long)]
    pub exit: bool,
    /// Wait for a silence of this length
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub idle: Option<Duration>,
    /// Wait for tmux wait-for -S NAME
    #[arg(long, value_name = "NAME")]
    pub channel: Option<String>,
    /// End the wait with exit code 1 at a line that matches; repeat for any of several
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true)]
    pub stop: Vec<String>,
    /// Wait at most this long [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// The interval of polling
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = parse_duration)]
    pub interval: Duration,
    /// Also match what is on the screen at the beginning
    #[arg(long)]
    pub include_existing: bool,
    #[command(flatten)]
    pub secrets: TypedSecrets,
}
