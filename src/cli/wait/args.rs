//! The arguments of `td-observe wait`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use clap_complete::engine::ArgValueCompleter;
use serde_json::{Value, json};

use crate::cli::duration::parse_duration;
use crate::cli::known;
use crate::cli::options::{SourceKind, TypedSecrets};

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/wait.txt").trim_end())]
pub(in crate::cli) struct TypedWait {
    /// session, session:window, session:window.pane or %pane
    #[arg(value_name = "TARGET", required = true, add = ArgValueCompleter::new(known::panes))]
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
    /// With --send: answer the question with this id, which a pane that waits has; without it, nothing is
    /// typed there
    #[arg(long, value_name = "ID", requires = "send")]
    pub answers: Option<String>,
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
        add = ArgValueCompleter::new(known::states)
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
    /// auto: have the panes streamed, by the observer or for as long as the wait lasts, and poll those that
    /// another program has piped; poll: poll all, and change nothing in tmux
    #[arg(
        long,
        value_name = "HOW",
        value_enum,
        default_value = "auto",
        hide_possible_values = true
    )]
    pub source: SourceKind,
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
    #[cfg(feature = "hosts")]
    #[command(flatten)]
    pub hosts: crate::cli::hosts::TypedHosts,
}

impl TypedWait {
    /// Returns the conditions as the API takes them, and more of them as far as they have values.
    pub fn conditions<const N: usize>(&self, more: [(&str, Option<Value>); N]) -> Value {
        let mut conditions = json!({
            "text": self.text,
            "regex": self.regex,
            "stop": self.stop,
            "turn": self.turn,
            "marker": self.marker,
            "exit": self.exit,
            "interval_ms": milliseconds(self.interval),
            "include_existing": self.include_existing,
        });
        let idle = self.idle.map(|idle| json!(milliseconds(idle)));
        for (name, value) in more.into_iter().chain([("idle_ms", idle)]) {
            if let Some(value) = value {
                conditions[name] = value;
            }
        }
        conditions
    }
}

/// Returns a time as the API takes it.
pub(super) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
