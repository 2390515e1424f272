//! The values that a shell completes at run time: targets, runs, formats, types of events. Completion is
//! read-only, takes at most a second, and never prints an error.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};

use super::known::{self, Targets};
use super::which_server::WhichServer;
use crate::agent::Format;
use crate::clock::Clock;
use crate::event::{AgentState, EventKind};
use crate::history::{DataDir, RunKind};
use crate::thread;

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

/// Offers the rows of the board: targets, and the names and ids of runs.
pub(super) fn rows(typed: &OsStr) -> Vec<CompletionCandidate> {
    let mut rows = targets(typed);
    for run in runs_of(typed, None) {
        if rows.iter().all(|row| row.get_value() != run.get_value()) {
            rows.push(run);
        }
    }
    rows
}

fn runs_of(typed: &OsStr, kind: Option<RunKind>) -> Vec<CompletionCandidate> {
    known_runs(typed, |path, clock| known::runs(path, kind, clock))
}

/// Offers the ids of executions.
pub(super) fn executions(typed: &OsStr) -> Vec<CompletionCandidate> {
    known_runs(typed, known::run_ids)
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
        let quoted = match is_bash && !name.chars().all(is_plain) {
            // Only a NUL cannot be quoted, and names contain no control characters.
            true => shlex::try_quote(&name).map_or_else(|_| name.clone(), |name| name.into_owned()),
            false => name,
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
