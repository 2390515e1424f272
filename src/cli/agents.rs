//! `td-observe agents`: polls the output files of background agents until all agents have ended.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::ValueHint;
use crossbeam_channel::never;

use super::duration::parse_duration;
use super::failure::Failure;
use super::live;
use super::options::{self, Options, TypedKeeping, parse_execution_id};
use super::signals::Signals;
use crate::clock::Clock;
use crate::observe::AgentWatch;

fn watch_of(typed: &TypedAgents) -> Result<AgentWatch, Failure> {
    let mut watch = AgentWatch::new().every(typed.poll).stable(typed.stable);
    if typed.places.is_empty() {
        watch = watch.homes(|name| std::env::var_os(name));
    }
    if typed.places.is_empty() || typed.follow {
        watch = watch.follow();
    }
    for place in &typed.places {
        watch = watch
            .path(place)
            .map_err(|error| Failure::usage(error.to_string()))?;
    }
    if let Some(id) = &typed.execution_id {
        watch = watch.execution_id(id.as_str());
    }
    Ok(watch)
}

/// Polls until all agents have ended, or a signal stops the command.
pub(super) fn run(options: &Options, typed: &TypedAgents) -> Result<ExitCode, Failure> {
    let watch = watch_of(typed)?;
    let signals = Signals::catch(|| {})?;
    let clock = Clock::system();
    let id = typed.execution_id.as_deref();
    let (mut engine, _) = options::start(options, &typed.keeping, id, &clock)?;
    let printing = live::print_one(&engine, options, false, &clock)?;
    let homes = watch.existing_homes();
    if !homes.is_empty() {
        message!(
            "the sessions in {} are watched until Ctrl-C",
            homes.join(", ")
        );
    }
    for place in watch.empty_paths() {
        message!("{place}, and is waited for");
    }
    let agents = engine.watch_agents(watch)?;
    let ended = live::until_done(engine, printing, &signals, &never::<Instant>(), &clock);
    let report = agents.wait()?;
    // One Ctrl-C is a regular stop, as for every command.
    let has_failed = report.failed > 0 && !ended.interrupted;
    Ok(live::code(has_failed || ended.failed))
}

// The arguments of `td-observe agents` and `td-observe states`.

const AGENTS_EXAMPLES: &str = "\
Examples:
  td-observe agents                  all live sessions of known agents
  td-observe agents ~/.claude/projects --follow
                                     all sessions of Claude Code, and new ones
  td-observe agents /tmp/claude-1000/*/*/tasks
                                     the background tasks of Claude Code
  td-observe agents a.jsonl b.jsonl --poll 1s
                                     two transcripts; waits for missing ones
  td-observe agents 'out/agent-*.jsonl'
                                     a pattern, which also finds new files
  td-observe agents tasks/ --json | \\
      jq -r '.event | select(.result) | .agent_id + \": \" + .result'

In a directory, and in all directories below it, *.jsonl and *.output are the
files of agents. The records in a file show how its agent ended. Where they do
not, a file that has not changed for --stable counts as ended, with inferred
evidence. See td-observe help agents.

Exit codes: 0 all have completed, or Ctrl-C; 1 one has failed; 2 wrong usage.";

#[derive(Debug, clap::Args)]
#[command(after_help = AGENTS_EXAMPLES)]
pub(super) struct TypedAgents {
    /// Files, directories, or patterns with * and ? in the last part of the path [default: the homes
    /// of all known agents]
    #[arg(value_name = "FILE|DIR|GLOB", value_hint = ValueHint::AnyPath)]
    pub places: Vec<OsString>,
    /// Continue until Ctrl-C when all agents have ended
    #[arg(long)]
    pub follow: bool,
    /// The interval of polling
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub poll: Duration,
    /// The time without a change after which a file without an end record counts as ended
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub stable: Duration,
    /// The name of the run [default: agents@SECONDS]
    #[arg(long, value_name = "ID", value_parser = parse_execution_id)]
    pub execution_id: Option<String>,
    #[command(flatten)]
    pub keeping: TypedKeeping,
}

const STATES_EXAMPLES: &str = "\
Examples:
  td-observe states                   the known agents and their rules
  td-observe states --show claude > ~/.taskdaemon/states/claude.toml
                                      a copy to edit, which replaces ours
  tmux capture-pane -p -t agent | td-observe states --try -
                                      the state that the rules find, and why
  td-observe watch --states my-agent.toml
                                      watch with your rules

A rule names the part of the screen in which a text must be: the input box, the
rows above and below it, the last message, the bottom of the screen. The comment
at the top of claude.toml explains the format. The states are working, waiting
(for a human), idle, done, error and limited (by a usage limit).

Exit codes: 0 done; 1 --try recognises nothing; 2 wrong usage.";

#[derive(Debug, clap::Args)]
#[command(after_help = STATES_EXAMPLES)]
pub(super) struct TypedStates {
    /// A file or directory of rules; repeat for several, the last one for an agent counts [default:
    /// states/ in the data directory]
    #[arg(long, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub states: Vec<PathBuf>,
    /// Print the rules of this agent
    #[arg(long, value_name = "AGENT", conflicts_with = "capture")]
    pub show: Option<String>,
    /// Print the state that the rules find in a capture; - reads standard input
    #[arg(long = "try", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub capture: Option<PathBuf>,
}
