//! Checks tmux, the server and the targets, before anything is observed.

use std::time::Duration;

use super::failure::Failure;
use crate::clock::Clock;
use crate::tmux::{Server, Target};
use crate::track::TmuxVersion;

/// The timeout of a tmux server for a question of this program. A healthy server answers within a few
/// milliseconds; a hung one must not block the program.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

pub(super) fn check_tmux(server: &Server, clock: &Clock) -> Result<(), Failure> {
    match server.run(["-V"], clock) {
        Ok(_) => Ok(()),
        Err(error) if error.is_missing_program() => Err(Failure::missing(
            "tmux is not installed, or not in PATH: install tmux 3.3 or newer",
        )),
        Err(error) => Err(failure!("tmux 3.3 or newer is needed: {error}")),
    }
}

/// Returns the version of the server, if it answers. A server that is absent or silent is no error,
/// because the program waits for it.
///
/// # Errors
/// When no server can ever be observed there.
pub(super) fn check_socket(server: &Server, clock: &Clock) -> Result<Option<TmuxVersion>, Failure> {
    let answer = server
        .clone()
        .with_timeout(ANSWER_TIMEOUT)
        .check_version(clock);
    match answer {
        Err(error) if error.is_invalid_input() => {
            Err(usage!("{error}; name another server with -L or -S"))
        }
        answer => Ok(answer.ok()),
    }
}

/// Checks that each target exists or may appear later.
///
/// # Errors
/// When a target can never exist: the program would wait for it in vain.
pub(super) fn check_targets(
    server: &Server,
    version: Option<TmuxVersion>,
    targets: &[Target],
    clock: &Clock,
) -> Result<(), Failure> {
    let whys = targets
        .iter()
        .filter_map(|target| Some((target, target.never_matches(version)?)));
    let whys: Vec<(&Target, String)> = whys.collect();
    if whys.is_empty() {
        return Ok(());
    }
    let server = server.clone().with_timeout(ANSWER_TIMEOUT);
    // A server that does not answer has no known sessions.
    let names = server.run(["list-sessions", "-F", "#{session_name}"], clock);
    let names = names.unwrap_or_default();
    match whys
        .into_iter()
        .find(|(target, _)| !target.names_session_of(names.lines()))
    {
        Some((target, why)) => Err(usage!(
            "the target {:?} does not exist and can never appear: {why}",
            target.as_str()
        )),
        None => Ok(()),
    }
}
