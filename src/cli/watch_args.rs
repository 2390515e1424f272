//! The arguments of `td-observe watch`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ValueEnum, ValueHint};
use clap_complete::engine::ArgValueCompleter;

use super::duration::{parse_duration, parse_schedule, parse_share};
use super::hooks::OnState;
use super::known;
use super::options::{TypedKeeping, parse_execution_id};
use crate::tmux::PollSchedule;

const EXAMPLES: &str = "\
Examples:
  td-observe watch                     everything, until Ctrl-C
  td-observe watch build               until the session build has ended
  td-observe watch build:1.0 %7        one pane of a session, and the pane %7
  td-observe watch -L work --lines 20  another server; the last 20 lines first
  td-observe watch --json build | jq -j '.event.chunk // empty'
  td-observe watch agent --mode ai \\
      --on-turn 'notify-send \"$TD_SESSION\" \"$TD_SUMMARY\"'
  td-observe watch --on-state 'waiting=notify-send \"$TD_SESSION waits\"'
  td-observe watch build --on-end 'echo $TD_SESSION: ${TD_EXIT_STATUS:-?}'

Names are exact: job-1 never means job-10. If a target does not exist yet, watch
waits for it. A line marked ~ was shown before and has changed since.

An agent in a pane (Claude Code, Codex, Gemini, Qwen, Copilot, opencode, aider)
is shown as a conversation: prompts, answers, tools with their results, and
questions to you. See td-observe help agents.

Commands of --on-turn, --on-state and --on-end get the event as JSON on standard
input, and its fields in TD_EVENT, TD_EXECUTION_ID, TD_SESSION, TD_PANE,
TD_MARKER, TD_SUMMARY, TD_STATE, TD_AGENT, TD_TITLE, TD_ASKS, TD_SOURCE,
TD_EVIDENCE, TD_REASON and TD_EXIT_STATUS. See td-observe help watching.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct TypedWatch {
    /// session, session:window, session:window.pane or %pane [default: all sessions, including new
    /// ones]
    #[arg(value_name = "TARGET", add = ArgValueCompleter::new(known::targets))]
    pub targets: Vec<String>,
    /// The interval of polling: a fixed time such as 200ms, or the shortest and the longest one
    #[arg(long, value_name = "TIME[..TIME]", default_value = "20ms..1s", value_parser = parse_schedule)]
    pub interval: PollSchedule,
    /// The share of the tmux server's time that polling may take, unless the interval is fixed
    #[arg(long, value_name = "SHARE", default_value = "20%", value_parser = parse_share)]
    pub budget: f64,
    /// auto (and stream): stream the panes whose pipe is free, poll the others; poll: poll all panes
    /// and change nothing in tmux
    #[arg(
        long,
        value_name = "HOW",
        value_enum,
        default_value = "auto",
        hide_possible_values = true
    )]
    pub source: SourceKind,
    /// Also keep every byte of each streamed pane with its time, in raw/PANE.cast of the run
    #[arg(long)]
    pub raw: bool,
    /// ai: report the end of an agent's turn at its marker, then leave the pane alone until it changes
    #[arg(long, value_name = "MODE", value_enum, default_value = "human")]
    pub mode: Mode,
    /// With --mode ai: the marker, alone on its line; repeat for several [default: "[Output
    /// Complete]"]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub marker: Vec<String>,
    /// With --mode ai: infer the end of a turn without a marker from a silence of this length
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub infer_after: Option<Duration>,
    /// Run CMD with sh -c at the end of each turn of an agent
    #[arg(long, value_name = "CMD")]
    pub on_turn: Option<String>,
    /// Run CMD with sh -c when a session, or the program of a pane, has ended
    #[arg(long, value_name = "CMD")]
    pub on_end: Option<String>,
    /// Run CMD with sh -c when an agent enters a state: working, waiting, idle, done, error, limited
    /// or any; repeat for several. The state at the start counts
    #[arg(long, value_name = "STATE=CMD", value_parser = OnState::parse)]
    pub on_state: Vec<OnState>,
    #[command(flatten)]
    pub reading: TypedReading,
    /// Kill a command of --on-turn, --on-state or --on-end after this time
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = parse_duration)]
    pub on_timeout: Duration,
    /// Show and keep the last N lines of each pane at the start
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub lines: usize,
    /// Keep everything as one run of this name
    #[arg(long, value_name = "ID", value_parser = parse_execution_id)]
    pub execution_id: Option<String>,
    /// Also watch the pane of this program, and panes that run td-observe
    #[arg(long)]
    pub include_self: bool,
    /// Also show the screen rows of an agent whose conversation is shown
    #[arg(long)]
    pub screen: bool,
    /// Do not read the files of agents
    #[arg(long)]
    pub no_conversation: bool,
    #[command(flatten)]
    pub keeping: TypedKeeping,
}

/// The rules that read the state of agents from screens.
#[derive(Debug, clap::Args)]
pub(super) struct TypedReading {
    /// A file or directory of rules for agents' screens; repeat for several, the last one for an
    /// agent counts [default: states/ in the data directory]
    #[arg(long, value_name = "FILE|DIR", conflicts_with = "no_states", value_hint = ValueHint::AnyPath)]
    pub states: Vec<PathBuf>,
    /// Do not report the states of agents
    #[arg(long, conflicts_with = "on_state")]
    pub no_states: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    Human,
    Ai,
}

/// The ways to observe panes. Documentation of the values would make clap print a paragraph for each option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SourceKind {
    // Streams the panes whose pipe is free and polls the others.
    Auto,
    // Polls all panes.
    Poll,
    // The same as auto.
    Stream,
}
