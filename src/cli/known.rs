//! The existing names, for completions and for "did you mean": targets of a tmux server, and runs. A server
//! that does not answer in time has no names.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::nearest;
use super::server_checks::ANSWER_TIMEOUT;
use super::which_server::WhichServer;
use crate::clock::Clock;
use crate::history::{DataDir, RunKind, RunSummary};

/// The format of a listed pane. Its last field, the session's name, may contain blanks.
const FIELDS: &str = "#{window_index} #{pane_index} #{pane_id} #{session_name}";

/// The sessions, windows and panes of a server, in the form in which users type them.
#[derive(Debug, Default)]
pub(super) struct Targets {
    pub sessions: Vec<String>,
    /// `session:1` and `session:1.0`.
    pub parts: Vec<String>,
    /// `%3`.
    pub panes: Vec<String>,
}

impl Targets {
    /// Requests the targets of the server; empty if no server answers.
    pub fn of(server: &WhichServer, clock: &Clock) -> Self {
        // Without a socket, tmux would create the directory for it.
        if server.socket_path().is_some_and(|path| !path.exists()) {
            return Self::default();
        }
        let server = server.server().with_timeout(ANSWER_TIMEOUT);
        let listed = server.run(["list-panes", "-a", "-F", FIELDS], clock);
        Self::parse(&listed.unwrap_or_default())
    }

    fn parse(listed: &str) -> Self {
        let (mut sessions, mut parts) = (BTreeSet::new(), BTreeSet::new());
        let mut panes = Vec::new();
        for line in listed.lines() {
            let mut fields = line.splitn(4, ' ');
            let (Some(window), Some(pane), Some(id), Some(session)) =
                (fields.next(), fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            sessions.insert(session.to_owned());
            parts.insert(format!("{session}:{window}"));
            parts.insert(format!("{session}:{window}.{pane}"));
            panes.push(id.to_owned());
        }
        Self {
            sessions: sessions.into_iter().collect(),
            parts: parts.into_iter().collect(),
            panes,
        }
    }

    /// Returns the names of the kind that the typed word denotes: panes, parts of sessions, or sessions.
    pub fn like(&self, typed: &str) -> &[String] {
        if typed.starts_with('%') {
            &self.panes
        } else if typed.contains(':') {
            &self.parts
        } else {
            &self.sessions
        }
    }

    /// Returns a hint for an error about a target; empty if the target exists.
    pub fn hint(&self, typed: &str) -> String {
        match self.unless_known(typed) {
            None => String::new(),
            Some(names) => nearest::hint(typed, names, "tmux list-panes -a"),
        }
    }

    /// Returns the target that the user probably meant; `None` if the typed target exists.
    pub fn meant(&self, typed: &str) -> Option<&str> {
        nearest::nearest(typed, self.unless_known(typed)?)
    }

    /// Returns the names of the kind that the typed word denotes, unless it is one of them.
    fn unless_known(&self, typed: &str) -> Option<impl Iterator<Item = &str>> {
        let names = self.like(typed);
        (!names.iter().any(|name| name == typed)).then(|| names.iter().map(String::as_str))
    }
}

/// Returns the ids of all runs, latest first.
pub(super) fn run_ids(data_path: PathBuf, clock: &Clock) -> Vec<String> {
    let runs = latest_first(data_path, clock);
    let ids = runs.iter().map(|run| run.execution_id.to_string());
    ids.collect()
}

/// Returns the names of runs and then their ids, each latest first. `kind` selects runs of one kind.
pub(super) fn runs(data_path: PathBuf, kind: Option<RunKind>, clock: &Clock) -> Vec<String> {
    let runs = latest_first(data_path, clock);
    let runs = || (runs.iter()).filter(|run| kind.as_ref().is_none_or(|kind| run.kind == *kind));
    let names = runs().map(|run| run.label.clone());
    let ids = runs().map(|run| run.execution_id.to_string());
    let mut known = Vec::new();
    for name in names.chain(ids) {
        if !name.is_empty() && !known.contains(&name) {
            known.push(name);
        }
    }
    known
}

fn latest_first(data_path: PathBuf, clock: &Clock) -> Vec<RunSummary> {
    let list = DataDir::new(data_path).runs(clock.wall());
    let mut runs = list.map(|list| list.runs).unwrap_or_default();
    runs.reverse();
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_becomes_names_that_can_be_typed() {
        let targets = Targets::parse("0 0 %1 build\n0 1 %4 build\n2 0 %7 my job\nbroken\n");
        assert_eq!(targets.sessions, ["build", "my job"]);
        assert_eq!(targets.panes, ["%1", "%4", "%7"]);
        assert_eq!(
            targets.like("build:"),
            [
                "build:0",
                "build:0.0",
                "build:0.1",
                "my job:2",
                "my job:2.0"
            ]
        );
        assert_eq!(targets.meant("biuld"), Some("build"));
        assert_eq!(targets.meant("build"), None);
    }
}
