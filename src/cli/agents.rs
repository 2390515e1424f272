//! `td-observe agents`: polls the output files of background agents until all agents have ended.

use std::ffi::OsString;
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

// The arguments of `td-observe agents`.

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/agents.txt").trim_end())]
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
