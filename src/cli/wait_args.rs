//! The arguments of `td-observe wait`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
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
  td-observe wait agent --state waiting,done  until it asks, or is done
  td-observe wait agent --send 'Fix it' --state waiting,done
  td-observe wait sh --send 'make; echo made $?' --regex '^made [0-9]+$'
                                              types it; no answer is too fast
  td-observe wait a b c --all --state done    each of them; --any: one of them
  td-observe wait agent --idle 5s             for five seconds of silence
  td-observe wait build --exit                for the end of its programs
  td-observe wait build --channel done        for tmux wait-for -S done

Text that is already on the panes does not match (a hint on standard error
reports it), nor does the echo of a command typed at a recognized prompt. The
matching line is printed; with several targets, as TARGET | LINE. If an observer
runs (td-observe start), it provides the states. See td-observe help waiting.

--json prints one object: outcome (found, stopped, ended, timed_out, lost,
interrupted), condition, pane, line, text, state, needle and exit_status if they
are known, ts, elapsed_ms, lost_lines and last_lines; with several targets, one
object for each, with target.

Exit codes: 0 found; 1 a stop pattern matched first, the target ended, or
(--exit) its program failed; 2 wrong usage, or no such target; 3 timeout, and
lines were lost; 124 timeout; 130 Ctrl-C.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct TypedWait {
    /// session, session:window, session:window.pane or %pane
    #[arg(value_name = "TARGET", required = true, add = ArgValueCompleter::new(completers::targets))]
    pub targets: Vec<String>,
    /// With several targets: wait for one of them
    #[arg(long, conflicts_with = "all")]
    pub any: bool,
    /// With several targets: wait for each of them
    #[arg(long)]
    pub all: bool,
    /// Type this text into the target first and press Enter; no answer is too fast to be found
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        conflicts_with = "include_existing"
    )]
    pub send: Option<String>,
    /// With --send: do not press Enter
    #[arg(long, requires = "send")]
    pub no_enter: bool,
    /// Wait for a line that contains TEXT; repeat for any of several
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub text: Vec<String>,
    /// Wait for a line that matches; repeat for any of several
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true)]
    pub regex: Vec<String>,
    /// Wait until the agent in the target is in this state: working, waiting, idle, done, error or
    /// limited; several: --state idle,done
    #[arg(
        long,
        value_name = "STATE",
        value_delimiter = ',',
        add = ArgValueCompleter::new(completers::states)
    )]
    pub state: Vec<String>,
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
    /// Also match the text that is already on the screen
    #[arg(long)]
    pub include_existing: bool,
    /// With --state: a file or directory of rules for agents' screens; repeat for several [default:
    /// states/ in the data directory]
    #[arg(
        long = "states",
        value_name = "FILE|DIR",
        requires = "state",
        value_hint = ValueHint::AnyPath
    )]
    pub rules: Vec<PathBuf>,
    #[command(flatten)]
    pub secrets: TypedSecrets,
}
