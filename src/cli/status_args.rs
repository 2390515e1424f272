//! The arguments of `td-observe status`.

use clap_complete::engine::ArgValueCompleter;

use super::completers;

const EXAMPLES: &str = "\
Examples:
  td-observe status                all rows; those that need you come first
  td-observe status --watch        the same, redrawn when it changes
  td-observe status agent-1 %7     only these sessions and panes
  td-observe status --check || notify-send 'An agent waits'
  td-observe status --json | jq -r 'select(.asks).asks'

In ~/.tmux.conf:
  set -g status-right '#(td-observe status --format \"{needs_you} waiting\")'

With an observer (td-observe start), the board shows the present state. Without
one, it shows the last state in the history, and a message on standard error
reports this.

--format replaces {needs_you}, {finished}, {working}, {quiet} and {total} by
counts, and {first} by the name of the first row that needs you.

Exit codes: 0; 4 with --check, if something needs you; 2 wrong usage, or no
such target.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct TypedStatus {
    /// A session, a run or a %pane; all by default
    #[arg(value_name = "TARGET", add = ArgValueCompleter::new(completers::rows))]
    pub targets: Vec<String>,
    /// Print the board again when it changes, until Ctrl-C
    #[arg(long, conflicts_with_all = ["format", "check"])]
    pub watch: bool,
    /// Exit with 4 if something needs you
    #[arg(long)]
    pub check: bool,
    /// Print one line with these counts
    #[arg(long, value_name = "TEXT")]
    pub format: Option<String>,
}
