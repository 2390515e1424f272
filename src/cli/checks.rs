//! Checks tmux, the server, the targets and the limits of the process, before anything is observed.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::failure::Failure;
use crate::clock::Clock;
use crate::event::PaneId;
use crate::redact::Rules;
use crate::tmux::{Server, SessionId, Target};
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
    // The names of the sessions matter only to texts that begin like ids.
    if whys.is_empty()
        && !targets
            .iter()
            .any(|target| target.as_str().starts_with(['$', '@', '%']))
    {
        return Ok(());
    }
    let server = server.clone().with_timeout(ANSWER_TIMEOUT);
    // A server that does not answer has no known sessions.
    let listed = server
        .run(
            ["list-sessions", "-F", "#{session_id} #{session_name}"],
            clock,
        )
        .unwrap_or_default();
    let sessions = || {
        let lines = listed.lines().filter_map(|line| line.split_once(' '));
        lines.filter_map(|(id, name)| Some((SessionId::parse(id)?, name)))
    };
    if let Some(why) = targets
        .iter()
        .find_map(|target| target.conflict(sessions()))
    {
        return Err(usage!("the target means two things: {why}"));
    }
    match whys
        .into_iter()
        .find(|(target, _)| !target.names_session_of(sessions().map(|(_, name)| name)))
    {
        Some((target, why)) => Err(usage!(
            "the target {:?} does not exist and can never appear: {why}",
            target.as_str()
        )),
        None => Ok(()),
    }
}

// Queries the titles of panes, for hooks.

/// Queries a tmux server for titles.
pub(super) struct PaneTitles {
    server: Server,
    rules: Rules,
}

impl PaneTitles {
    pub fn new(server: &Server, rules: &Rules) -> Self {
        Self {
            server: server.clone().with_timeout(ANSWER_TIMEOUT),
            rules: rules.clone(),
        }
    }

    /// Returns the title of a pane without secrets; empty for a pane that is gone.
    pub fn of(&self, pane: &PaneId, clock: &Clock) -> String {
        let query = ["display-message", "-p", "-t", pane, "#{pane_title}"];
        let title = self.server.run(query, clock).unwrap_or_default();
        self.rules.text(title.trim_end_matches('\n')).into_owned()
    }
}

/// Minimum address space in bytes. Measured on Linux: a `watch` of one pane needs about 60 MiB, and reading a
/// history with a line of maximum size about 160 MiB.
const BYTES_MIN: u64 = 192 << 20;

/// Enough for two thousand sessions. A higher limit would slow down child programs that close every possible
/// descriptor one by one.
const DESCRIPTORS: u64 = 8192;

/// Checks the limit, which shells set with `ulimit -v`.
pub(super) fn check_address_space() -> Result<(), Failure> {
    match getrlimit(Resource::As).current {
        Some(bytes) if bytes < BYTES_MIN => Err(usage!(
            "the address space is limited to {} MiB, at least {} MiB are needed; raise it with ulimit -v",
            bytes >> 20,
            BYTES_MIN >> 20
        )),
        _ => Ok(()),
    }
}

/// Raises the limit to [`DESCRIPTORS`], or as far as the system allows. A failure is not fatal.
pub(super) fn raise_descriptors() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(DESCRIPTORS, |maximum| maximum.min(DESCRIPTORS));
    if current.is_some_and(|current| current < wanted) {
        let limit = Rlimit {
            current: Some(wanted),
            maximum,
        };
        if let Err(cause) = setrlimit(Resource::Nofile, limit) {
            log::debug!("the limit of open files stays as it is: {cause}");
        }
    }
}
