//! The names that exist, for completions and for "did you mean": targets of a tmux server, runs, formats,
//! types of events.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
#[cfg(feature = "hosts")]
use std::fs::File;
#[cfg(feature = "hosts")]
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};

use super::checks::ANSWER_TIMEOUT;
use super::observer;
use super::options::WhichServer;
use crate::agent::Format;
use crate::api::get_board;
use crate::clock::Clock;
use crate::event::{AgentState, EventKind};
use crate::face::row_names;
use crate::history::{DataDir, RunKind, RunSummary};
use crate::thread;

// The values that a shell completes at run time: targets, runs, formats, types of events. Completion is
// read-only, takes at most a second, and never prints an error.

/// The environment variable in which the script names its shell when it requests candidates.
pub(super) const ASKS: &str = "TD_OBSERVE_COMPLETE";

/// The time after which no candidates are offered: the shell blocks its user's input until the answer.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// Offers sessions; after a colon, their windows and panes; after `%`, the ids of panes.
pub(super) fn targets(typed: &OsStr) -> Vec<CompletionCandidate> {
    let server = match (option("-L", "-L"), option("-S", "-S")) {
        (Some(name), _) => WhichServer::Named(name),
        (None, Some(path)) => WhichServer::Socket(path.into()),
        (None, None) => WhichServer::Default,
    };
    let typed = typed.to_string_lossy().into_owned();
    let like = typed.clone();
    let names = in_time(move |clock| Targets::of(&server, clock).like(&like).to_vec());
    candidates(&typed, names)
}

/// Offers the names and ids of runs. A word with a slash is completed as a path.
pub(super) fn runs(typed: &OsStr) -> Vec<CompletionCandidate> {
    if typed.to_string_lossy().contains('/') {
        return PathCompleter::any().complete(typed);
    }
    runs_of(typed, None)
}

pub(super) fn loops(typed: &OsStr) -> Vec<CompletionCandidate> {
    runs_of(typed, Some(RunKind::Loop))
}

/// Offers the rows of the board: panes, and the names and ids of runs.
pub(super) fn rows(typed: &OsStr) -> Vec<CompletionCandidate> {
    with_others(panes(typed), runs_of(typed, None))
}

/// Offers targets, and the names that the board of an observer shows.
pub(super) fn panes(typed: &OsStr) -> Vec<CompletionCandidate> {
    let shown = known_runs(typed, |path, _| shown_names(path));
    with_others(targets(typed), shown)
}

fn with_others(
    mut known: Vec<CompletionCandidate>,
    others: Vec<CompletionCandidate>,
) -> Vec<CompletionCandidate> {
    for other in others {
        if known.iter().all(|one| one.get_value() != other.get_value()) {
            known.push(other);
        }
    }
    known
}

fn runs_of(typed: &OsStr, kind: Option<RunKind>) -> Vec<CompletionCandidate> {
    known_runs(typed, |path, clock| run_names(path, kind, clock))
}

/// Offers the ids of executions.
pub(super) fn executions(typed: &OsStr) -> Vec<CompletionCandidate> {
    known_runs(typed, run_ids)
}

fn known_runs(
    typed: &OsStr,
    names: impl FnOnce(PathBuf, &Clock) -> Vec<String> + Send + 'static,
) -> Vec<CompletionCandidate> {
    let set = |name: &str| std::env::var_os(name);
    let path = match option("--data-dir", "--data-dir=") {
        Some(path) => Ok(path.into()),
        None => DataDir::default_path(set("TD_DATA_DIR"), set("HOME")),
    };
    let Ok(path) = path else {
        return Vec::new();
    };
    let names = in_time(move |clock| names(path, clock));
    candidates(&typed.to_string_lossy(), names)
}

/// Offers the connection files of running kernels.
#[cfg(feature = "kernel")]
pub(super) fn connections() -> Vec<CompletionCandidate> {
    let names = crate::kernel::running_kernels();
    let names = names.iter().filter_map(|path| path.file_name());
    names.map(CompletionCandidate::new).collect()
}

/// The largest configuration of ssh whose hosts are offered.
#[cfg(feature = "hosts")]
const SSH_CONFIG_BYTES_MAX: u64 = 1024 * 1024;

/// Offers the hosts of the configuration and those that ssh's names, and this one.
#[cfg(feature = "hosts")]
pub(super) fn hosts(typed: &OsStr) -> Vec<CompletionCandidate> {
    let names = in_time(|_| {
        let configured = super::config::host_names();
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let path = home.map(|home| home.join(".ssh/config"));
        let file = path.and_then(|path| File::open(path).ok());
        let mut text = String::new();
        if let Some(file) = file {
            // What is no text has no hosts.
            let _ = file.take(SSH_CONFIG_BYTES_MAX).read_to_string(&mut text);
        }
        let mut names = vec![super::config::LOCAL.to_owned()];
        for name in configured.into_iter().chain(ssh_hosts(&text)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    });
    candidates(&typed.to_string_lossy(), names)
}

/// Returns the names in a configuration of ssh that are those of hosts, not patterns.
#[cfg(feature = "hosts")]
fn ssh_hosts(config: &str) -> Vec<String> {
    let words = config.lines().filter_map(|line| {
        let line = line.trim_start();
        // ssh takes a blank or an equals sign between the word and its value.
        let (word, names) = line.split_once(|c: char| c.is_whitespace() || c == '=')?;
        word.eq_ignore_ascii_case("host").then_some(names)
    });
    let names = words.flat_map(|names| names.split(|c: char| c.is_whitespace() || c == '='));
    let names = names.map(|name| name.trim_matches('"'));
    let is_host = |name: &&str| name.parse::<crate::hosts::HostName>().is_ok();
    names.filter(is_host).map(str::to_owned).collect()
}

pub(super) fn formats() -> Vec<CompletionCandidate> {
    let formats = Format::ALL.iter();
    formats
        .map(|format| CompletionCandidate::new(format.name()))
        .collect()
}

pub(super) fn event_types(typed: &OsStr) -> Vec<CompletionCandidate> {
    let names = EventKind::ALL.iter().map(|kind| kind.as_str().to_owned());
    candidates(&typed.to_string_lossy(), names.collect())
}

pub(super) fn states(typed: &OsStr) -> Vec<CompletionCandidate> {
    let names = AgentState::ALL
        .iter()
        .map(|state| state.as_str().to_owned());
    candidates(&typed.to_string_lossy(), names.collect())
}

/// Returns the candidates that begin with the typed word. Names are quoted for bash, which inserts a candidate
/// unchanged; the other shells quote by themselves.
pub(super) fn candidates(typed: &str, names: Vec<String>) -> Vec<CompletionCandidate> {
    let is_bash = std::env::var_os(ASKS).is_some_and(|shell| shell == "bash");
    let names = names.into_iter().filter(|name| {
        name.starts_with(typed) && !name.is_empty() && !name.contains(char::is_control)
    });
    let order = names.enumerate().map(|(order, name)| {
        let is_plain = |c: char| c.is_alphanumeric() || "_-./:@%+=,".contains(c);
        let quoted = if is_bash && !name.chars().all(is_plain) {
            // Only a NUL cannot be quoted, and names contain no control characters.
            shlex::try_quote(&name).map_or_else(|_| name.clone(), |name| name.into_owned())
        } else {
            name
        };
        CompletionCandidate::new(quoted).display_order(Some(order))
    });
    order.collect()
}

/// Returns the value of an option on the line that is completed: `-L work`, `-Lwork` and the like.
fn option(name: &str, joined: &str) -> Option<OsString> {
    let mut words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let mut value = None;
    while let Some(word) = words.next() {
        if word == name {
            value = words.next();
        } else if let Some(rest) = word.to_str().and_then(|word| word.strip_prefix(joined))
            && !rest.is_empty()
        {
            value = Some(rest.into());
        }
    }
    let value = value.filter(|value| !value.is_empty())?;
    // The shell has not expanded the line yet.
    let home = std::env::var_os("HOME").map(PathBuf::from);
    match (
        value.to_str().and_then(|value| value.strip_prefix("~/")),
        home,
    ) {
        (Some(rest), Some(home)) => Some(home.join(rest).into()),
        _ => Some(value),
    }
}

/// Runs `work` on its own thread and gives up after [`ANSWER_MAX`], because a disk or a server may hang.
fn in_time(work: impl FnOnce(&Clock) -> Vec<String> + Send + 'static) -> Vec<String> {
    let clock = Clock::system();
    let deadline = clock.now() + ANSWER_MAX;
    let Ok(thread) = thread::spawn("td-complete", move || work(&clock)) else {
        return Vec::new();
    };
    match thread.join_deadline(deadline) {
        Ok(Ok(names)) => names,
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

// The existing names, for completions and for "did you mean": targets of a tmux server, and runs. A server
// that does not answer in time has no names.

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

    /// Returns true if tmux knows a session, window or pane by this name.
    pub fn contains(&self, name: &str) -> bool {
        self.like(name).iter().any(|known| known == name)
    }

    /// Returns a hint for an error about a target; empty if the target exists.
    pub fn hint(&self, typed: &str) -> String {
        match self.unless_known(typed) {
            None => String::new(),
            Some(names) => hint(typed, names, "tmux list-panes -a"),
        }
    }

    /// Returns the target that the user probably meant; `None` if the typed target exists.
    pub fn meant(&self, typed: &str) -> Option<&str> {
        nearest(typed, self.unless_known(typed)?)
    }

    /// Returns the names of the kind that the typed word denotes, unless it is one of them.
    fn unless_known(&self, typed: &str) -> Option<impl Iterator<Item = &str>> {
        let names = self.like(typed);
        (!names.iter().any(|name| name == typed)).then(|| names.iter().map(String::as_str))
    }
}

/// Returns the display names of the rows on the board of an observer; empty without one.
fn shown_names(data_path: PathBuf) -> Vec<String> {
    let board = || {
        let observer = observer::running(&data_path).ok()??;
        get_board(&observer.socket, None, Duration::ZERO).ok()?
    };
    let rows = board().map(|(rows, _)| rows).unwrap_or_default();
    row_names(&rows, usize::MAX)
}

/// Returns the ids of all runs, latest first.
pub(super) fn run_ids(data_path: PathBuf, clock: &Clock) -> Vec<String> {
    let runs = latest_first(data_path, clock);
    let ids = runs.iter().map(|run| run.execution_id.to_string());
    ids.collect()
}

/// Returns the names of runs and then their ids, each latest first. `kind` selects runs of one kind.
pub(super) fn run_names(data_path: PathBuf, kind: Option<RunKind>, clock: &Clock) -> Vec<String> {
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

// "Did you mean": finds the known name that is most similar to a mistyped one (pure).

/// Maximum number of names in a list; further names are only counted.
const LISTED: usize = 10;

/// Returns the name that is most similar to the typed one, if one is similar enough.
pub(super) fn nearest<'a>(
    typed: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let score = |name: &str| {
        let name = name.to_lowercase();
        if typed.chars().count() > 1 && name.starts_with(&typed) {
            1.0
        } else {
            strsim::jaro(&typed, &name)
        }
    };
    let scored = names.into_iter().map(|name| (score(name), name));
    // The first of several equal scores wins.
    let best = scored.reduce(|best, next| if next.0 > best.0 { next } else { best });
    // The minimum similarity, from 0 to 1, at which a name is suggested.
    best.filter(|(score, _)| *score > 0.75)
        .map(|(_, name)| name)
}

/// Returns the end of a clause about an unknown name: `; did you mean "build"?`, or `;` without a similar name.
pub(super) fn suggestion<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(typed, names) {
        Some(name) => format!("; did you mean {name:?}?"),
        None => ";".to_owned(),
    }
}

/// Returns a hint for an error about the typed name: `; did you mean "build"? there are: build, make`. `more`
/// names the command that prints the rest of a long list.
pub(super) fn hint<'a>(
    typed: &str,
    names: impl IntoIterator<Item = &'a str>,
    more: &str,
) -> String {
    let mut known: Vec<&str> = Vec::new();
    for name in names {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    if known.is_empty() {
        return "; there is none".to_owned();
    }
    let mut out = suggestion(typed, known.iter().copied());
    let meant = nearest(typed, known.iter().copied());
    // The suggested name must be in the list.
    if let Some(at) = known.iter().position(|name| Some(*name) == meant)
        && at >= LISTED
    {
        known.swap(0, at);
    }
    let listed = known.iter().take(LISTED).copied().collect::<Vec<_>>();
    // Writing to a string does not fail.
    let _ = write!(out, " there are: {}", listed.join(", "));
    if known.len() > LISTED {
        let _ = write!(out, " and {} more", known.len() - LISTED);
        if !more.is_empty() {
            let _ = write!(out, " ({more})");
        }
    }
    out
}

pub(super) fn parse_format(typed: &str) -> Result<Format, String> {
    typed.parse().map_err(|_| {
        let names = Format::ALL.iter().map(|format| format.name());
        format!("unknown output format{}", hint(typed, names, ""))
    })
}

#[cfg(test)]
mod tests {
    mod completers {

        use super::super::*;

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

    mod nearest {

        use super::super::*;

        #[test]
        fn the_likely_name_is_offered_and_others_are_listed() {
            let names = ["build", "agent", "make"];
            assert_eq!(nearest("biuld", names), Some("build"));
            assert_eq!(nearest("BUILD", names), Some("build"));
            assert_eq!(nearest("ag", names), Some("agent"));
            assert_eq!(nearest("xyz", names), None);
            assert_eq!(
                hint("biuld", names, ""),
                "; did you mean \"build\"? there are: build, agent, make"
            );
            assert_eq!(hint("xyz", names, ""), "; there are: build, agent, make");
            assert_eq!(hint("xyz", [], ""), "; there is none");
        }

        #[test]
        fn a_long_list_is_cut_and_has_the_likely_name() {
            let names: Vec<String> = (10..40).map(|number| format!("job-{number}")).collect();
            let hint = hint("job-39x", names.iter().map(String::as_str), "see runs");
            assert!(
                hint.contains("did you mean \"job-39\"? there are: job-39, "),
                "{hint}"
            );
            assert!(hint.ends_with("and 20 more (see runs)"), "{hint}");
        }
    }
}
