//! The arguments of `config`.

use std::ffi::OsStr;

use clap::Subcommand;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use super::super::known;
use super::keys::names;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/config.txt").trim_end())]
pub(in crate::cli) struct TypedConfig {
    #[command(subcommand)]
    pub action: ConfigAction,
}

/// What is done with the configuration.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ConfigAction {
    /// Print what holds, as the file would say it
    #[command(after_help = "\
Examples:
  td-observe config show --origin          also where each value comes from
  td-observe config show servers keep_age  these keys alone
  td-observe config show --json            {\"key\":…,\"value\":…,\"origin\":…,\"line\":…}")]
    Show(TypedShow),
    /// Report all that is wrong, with line and column
    #[command(after_help = "\
Example:
  td-observe config check && td-observe start

Exit codes: 0 all is well, also without a file; 2 something is wrong.")]
    Check,
    /// Print the path of the file
    #[command(after_help = "\
Example:
  $EDITOR \"$(td-observe config path)\"")]
    Path,
    /// Write a file in which each key is explained and commented out
    #[command(after_help = "\
Example:
  td-observe config init && $EDITOR \"$(td-observe config path)\"

A file that exists is left as it is (exit code 2).")]
    Init,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct TypedShow {
    /// The keys [default: all]
    #[arg(value_name = "KEY", add = ArgValueCompleter::new(keys))]
    pub keys: Vec<String>,
    /// Also print where each value comes from
    #[arg(long)]
    pub origin: bool,
}

fn keys(typed: &OsStr) -> Vec<CompletionCandidate> {
    let names = names().map(str::to_owned);
    #[cfg(feature = "notify")]
    let channels = super::names::channel_names();
    #[cfg(not(feature = "notify"))]
    let channels = Vec::<String>::new();
    let channels = channels.into_iter().map(|name| format!("channel.{name}"));
    known::candidates(&typed.to_string_lossy(), names.chain(channels).collect())
}
