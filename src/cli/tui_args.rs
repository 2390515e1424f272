//! The arguments of `td-observe tui`.

use std::path::PathBuf;

use clap::ValueHint;

use super::options::TypedKeeping;
use super::watch_args::SourceKind;

const EXAMPLES: &str = "\
Examples:
  td-observe tui                  td-observe without arguments does the same
  td-observe tui --allow-input    r answers agents that wait
  td-observe tui -L work          the tmux server that tmux -L work uses
  td-observe demo                 the UI at work on a private tmux server

With an observer (td-observe start), the UI shows its board. Without one, the UI
runs its own observer, which ends with the UI; the history is kept.

Keys: j k move, o l s t e show output, logs, screen, timeline and events,
/ searches, f filters, ] goes to the next row that needs you, Enter jumps to its
pane, r answers, ? lists all keys, q quits, which stops no pane and no agent.

NO_COLOR turns colours off. See td-observe help tui.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct TypedTui {
    /// Let the key r type answers into panes
    #[arg(long)]
    pub allow_input: bool,
    /// If the UI runs its own observer: read the output files of background agents in this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub agents: Vec<PathBuf>,
    /// If the UI runs its own observer: the way in which panes are observed: auto, or poll, which
    /// changes nothing in tmux
    #[arg(long, value_name = "HOW", value_enum, default_value = "auto")]
    pub source: SourceKind,
    #[command(flatten)]
    pub keeping: TypedKeeping,
}
