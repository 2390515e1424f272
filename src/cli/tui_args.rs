//! The arguments of `td-observe tui`.

use super::observer::TypedOwnObserver;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/tui.txt").trim_end())]
pub(super) struct TypedTui {
    /// Let the key r type answers into panes
    #[arg(long)]
    pub allow_input: bool,
    #[command(flatten)]
    pub own: TypedOwnObserver,
    #[cfg(feature = "hosts")]
    #[command(flatten)]
    pub hosts: super::hosts::TypedHosts,
}
