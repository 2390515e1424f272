//! `td-observe agents`: polls the output files of background agents until all agents have ended.

use std::process::ExitCode;
use std::time::Instant;

use crossbeam_channel::never;

use super::agent_args::TypedAgents;
use super::failure::Failure;
use super::history_args::TypedKeeping;
use super::keeping;
use super::live;
use super::options::Options;
use super::signals::Signals;
use crate::clock::Clock;
use crate::observe::AgentWatch;

/// The configuration of `agents`.
#[derive(Debug)]
pub(super) struct Config {
    watch: AgentWatch,
    execution_id: Option<String>,
    keeping: TypedKeeping,
}

impl Config {
    pub fn from_typed(typed: TypedAgents) -> Result<Self, Failure> {
        keeping::refuse_empty_id(typed.execution_id.as_deref())?;
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
        Ok(Self {
            watch,
            execution_id: typed.execution_id,
            keeping: typed.keeping,
        })
    }
}

/// Polls until all agents have ended, or a signal stops the command.
pub(super) fn run(options: &Options, config: Config) -> Result<ExitCode, Failure> {
    let signals = Signals::catch(|| {})?;
    let clock = Clock::system();
    let (builder, rules) = keeping::builder(options, &config.keeping, &clock)?;
    keeping::check_id(&rules, config.execution_id.as_deref())?;
    let mut engine = builder.start().map_err(keeping::unusable)?;
    let printing = live::print_one(&engine, options, false, &clock)?;
    let homes = config.watch.existing_homes();
    if !homes.is_empty() {
        super::output::print_message(&format!(
            "the sessions in {} are watched until Ctrl-C",
            homes.join(", ")
        ));
    }
    for place in config.watch.empty_paths() {
        super::output::print_message(&format!("{place}, and is waited for"));
    }
    let agents = engine.watch_agents(config.watch)?;
    let ended = live::until_done(engine, printing, &signals, &never::<Instant>(), &clock);
    let report = agents.wait()?;
    // One Ctrl-C is a regular stop, as for every command.
    let has_failed = report.failed > 0 && !ended.interrupted;
    Ok(live::code(has_failed || ended.failed))
}
