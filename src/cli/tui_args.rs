//! The arguments of `td-observe tui`.

use std::path::PathBuf;

use clap::ValueHint;

use super::options::{SourceKind, TypedKeeping};

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/tui.txt").trim_end())]
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
