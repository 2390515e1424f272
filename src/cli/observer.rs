//! `td-observe start`, `stop` and `service`: the observer in the background.

mod announcement;
mod args;
mod background;
mod foreground;
#[cfg(any(feature = "mcp", feature = "tui", feature = "serve"))]
mod private;
#[cfg(feature = "redis")]
mod replica;
mod service;
mod team_servers;

use std::io::Write;
#[cfg(any(feature = "mcp", feature = "tui", feature = "serve"))]
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use super::failure::Failure;
use super::options::{Options, WhichServer};
#[cfg(any(feature = "mcp", feature = "tui", feature = "serve"))]
use crate::api::Observer;

#[cfg(feature = "hosts")]
pub(super) use announcement::HubLock;
pub(super) use announcement::{Announcement, is_running, left_behind, running};
#[cfg(any(feature = "mcp", feature = "tui", feature = "serve"))]
pub(super) use args::TypedOwnObserver;
pub(super) use args::{STOP_EXAMPLES, TypedService, TypedStart};
pub(super) use background::stop;
#[cfg(any(feature = "mcp", feature = "serve"))]
pub(super) use foreground::wait_until_observing;
#[cfg(any(feature = "mcp", feature = "tui", feature = "serve"))]
pub(super) use private::PrivateObserver;
#[cfg(feature = "redis")]
pub(super) use replica::ReplicaObserver;
pub(super) use service::run as service;

pub(super) fn start(options: &Options, typed: &TypedStart) -> Result<ExitCode, Failure> {
    if typed.foreground {
        foreground::run(options, typed)
    } else {
        background::start(options, typed)
    }
}

/// Finds the observer of a data directory; the error is the reason why there is none, in words.
#[cfg(any(feature = "mcp", feature = "tui", feature = "serve"))]
pub(super) fn find(data: &Path) -> Result<Observer, String> {
    match running(data) {
        Ok(Some(known)) => Ok(Observer::At(known.socket)),
        Ok(None) => Err("no observer runs: td-observe start begins one".to_owned()),
        Err(error) => Err(format!("{error:?}")),
    }
}

/// Returns what a running observer lacks, each in one line: servers of agents' teams, and changes of its configuration.
pub(super) fn lacks(known: &Announcement) -> Vec<String> {
    let teams = team_servers::unobserved(&known.servers);
    teams.into_iter().chain(known.outdated()).collect()
}

/// Uses the observer's tmux server if none is chosen, and the observer does not observe the one that tmux would choose.
pub(super) fn use_observed_server(options: &mut Options) {
    if options.server.chosen().is_some() {
        return;
    }
    // Without a data directory, or with an announcement that cannot be used, the command itself reports that.
    let home = options.home().ok();
    let Some(known) = home.and_then(|home| running(&home).ok().flatten()) else {
        return;
    };
    let is_observed = |socket: PathBuf| known.servers.contains(&socket);
    if !options.server.socket_path().is_some_and(is_observed)
        && let Some(socket) = known.servers.first()
    {
        options.server = WhichServer::Socket(socket.clone());
        options.servers = vec![options.server.clone()];
    }
}

/// Returns the destination of the observer's diagnostics; `None` for standard error.
pub(super) fn log(
    options: &Options,
    typed: &TypedStart,
) -> Result<Option<Box<dyn Write + Send>>, Failure> {
    if !typed.detached {
        return Ok(None);
    }
    let log = background::RotatedLog::new(&options.home()?);
    Ok(Some(Box::new(log)))
}
