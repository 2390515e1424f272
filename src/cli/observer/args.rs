//! The arguments of `start`, `stop` and `service`, and of faces with an observer of their own.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Subcommand, ValueHint};

use super::super::options::{SourceKind, TypedKeeping};

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/start.txt").trim_end())]
pub(in crate::cli) struct TypedStart {
    /// Stay in the foreground until a signal
    #[arg(long)]
    pub foreground: bool,
    /// Read the output files of background agents in this directory; repeat for several
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub agents: Vec<PathBuf>,
    /// The way in which panes are observed: auto, or poll, which changes nothing in tmux
    #[arg(long, value_name = "HOW", value_enum, default_value = "auto")]
    pub source: SourceKind,
    /// Let clients of the API type into panes
    #[arg(long)]
    pub allow_input: bool,
    /// Print the path of the socket alone
    #[arg(long)]
    pub print_socket: bool,
    #[command(flatten)]
    pub keeping: TypedKeeping,
    /// Leave the terminal of the starting process
    #[arg(long, hide = true)]
    pub detached: bool,
}

/// What a face is given for an observer of its own, if none runs.
#[cfg(any(feature = "mcp", feature = "tui", feature = "serve"))]
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct TypedOwnObserver {
    /// Without an observer: read the output files of background agents in this directory; repeat for several
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub agents: Vec<PathBuf>,
    /// Without an observer: the way in which panes are observed: auto, or poll, which changes nothing in tmux
    #[arg(long, value_name = "HOW", value_enum, default_value = "auto")]
    pub source: SourceKind,
    #[command(flatten)]
    pub keeping: TypedKeeping,
}

#[cfg(any(feature = "mcp", feature = "tui", feature = "serve"))]
impl TypedOwnObserver {
    /// Returns the start of the observer.
    pub fn start(self, allow_input: bool) -> TypedStart {
        TypedStart {
            print_socket: false,
            foreground: true,
            agents: self.agents,
            source: self.source,
            allow_input,
            keeping: self.keeping,
            detached: false,
        }
    }
}

impl TypedStart {
    /// Returns the options that say how and what is observed and kept, without the servers, each with its value.
    pub fn given(&self) -> BTreeMap<String, String> {
        let mut given = self.keeping.given();
        if !self.agents.is_empty() {
            let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or(path.clone());
            let agents: Vec<PathBuf> = self.agents.iter().map(absolute).collect();
            given.push(("--agents", format!("{agents:?}")));
        }
        if self.source != SourceKind::Auto {
            given.push(("--source", format!("{:?}", self.source)));
        }
        let named = given.into_iter();
        named
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}

/// The end of the help of `stop`.
pub(in crate::cli) const STOP_EXAMPLES: &str = "\
Examples:
  td-observe stop                     ends the observer
  td-observe stop --data-dir /srv/td  the observer of another data directory

Panes and agents are not touched. Their runs read \"detached\", and the next
observer continues them.";

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/service.txt").trim_end())]
pub(in crate::cli) struct TypedService {
    #[command(subcommand)]
    pub action: ServiceAction,
    /// Read the output files of background agents in this directory; repeat for several
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub agents: Vec<PathBuf>,
    /// Let clients of the observer's API type into panes
    #[arg(long, global = true)]
    pub allow_input: bool,
}

/// The action on the unit of systemd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(in crate::cli) enum ServiceAction {
    /// Write the unit, enable and start it
    #[command(after_help = "\
Examples:
  td-observe service install
  td-observe service install --agents ~/tasks  also the agents that write there
  td-observe service install -L work           another tmux server")]
    Install,
    /// Stop and disable the unit, and remove it
    #[command(after_help = "\
Example:
  td-observe service uninstall")]
    Uninstall,
    /// Print the unit
    #[command(after_help = "\
Example:
  td-observe service show > td-observe.service")]
    Show,
}
