//! `td-observe agents`: polls the output files of background agents until all agents have ended.

use std::process::ExitCode;
use std::time::Instant;

use crossbeam_channel::never;

use super::agent_args::TypedAgents;
use super::failure::Failure;
use super::keeping;
use super::live;
use super::options::Options;
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
    let (mut engine, _) = keeping::start(options, &typed.keeping, id, &clock)?;
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
