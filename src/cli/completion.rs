//! `td-observe completions`: the script for a shell, and the answers to what the script asks at run
//! time. An answer is read-only, takes at most a second, and never holds a complaint.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};
use clap_complete::env::Shells;

use super::command_line;
use super::failure::Failure;
use super::guide;
use super::known::{self, Targets};
use super::options::WhichServer;
use crate::agent::Format;
use crate::clock::Clock;
use crate::event::EventKind;
use crate::history::DataDir;
use crate::thread;

/// The variable in which the script names its shell when it asks for candidates.
const ASKS: &str = "TD_OBSERVE_COMPLETE";

/// The time after which nothing is offered: a shell waits for the answer with the keys of its user.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// Our own script for bash, which splits words at colons and joins them again for us.
const BASH: &str = include_str!("completion.bash");

/// The shells that can complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Shell {
    Bash,
    Zsh,
    Fish,
    Elvish,
    Powershell,
}

impl Shell {
    fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
            Self::Elvish => "elvish",
            Self::Powershell => "powershell",
        }
    }
}

/// Prints the script.
pub(super) fn run(shell: Shell) -> Result<ExitCode, Failure> {
    let failed = |error| Failure::other(format!("cannot create the script: {error}"));
    let program = program().map_err(failed)?;
    if shell == Shell::Bash {
        // A quoted path has no line ends; anything else can be quoted.
        let quoted = shlex::try_quote(&program).unwrap_or("td-observe".into());
        super::print(&BASH.replace("PROGRAM", &quoted))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut script = Vec::new();
    if let Some(completer) = Shells::builtins().completer(shell.name()) {
        completer
            .write_registration(ASKS, "td-observe", "td-observe", &program, &mut script)
            .map_err(failed)?;
    }
    super::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// The program as the script starts it: by its name where it was found in `PATH`.
fn program() -> std::io::Result<String> {
    let name = std::env::args_os().next().map(PathBuf::from);
    let name = name.filter(|name| !name.as_os_str().is_empty());
    let name = name.unwrap_or_else(|| PathBuf::from("td-observe"));
    let path = match name.components().count() {
        1 => name,
        _ => std::path::absolute(name)?,
    };
    Ok(path.to_string_lossy().into_owned())
}

/// Answers a script's question, if this process was started for one.
pub(super) fn answer() -> Option<ExitCode> {
    let shell = std::env::var(ASKS).ok()?;
    let completer = Shells::builtins();
    let completer = completer.completer(&shell)?;
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let words: Vec<OsString> = words.collect();
    let directory = std::env::current_dir().ok();
    let mut out = Vec::new();
    // A shell has no place for a complaint: without candidates there is no answer.
    if !words.is_empty()
        && completer
            .write_complete(
                &mut command_line::command(),
                words,
                directory.as_deref(),
                &mut out,
            )
            .is_ok()
    {
        let mut stdout = std::io::stdout().lock();
        let _ = stdout.write_all(&out).and_then(|()| stdout.flush());
    }
    Some(ExitCode::SUCCESS)
}

/// Offers sessions; after a colon their windows and panes; after `%` the ids of panes.
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

/// Offers runs: by their names, and by their ids; a word with a slash is a path.
pub(super) fn runs(typed: &OsStr) -> Vec<CompletionCandidate> {
    if typed.to_string_lossy().contains('/') {
        return PathCompleter::any().complete(typed);
    }
    runs_of(typed, None)
}

/// Offers loops.
pub(super) fn loops(typed: &OsStr) -> Vec<CompletionCandidate> {
    runs_of(typed, Some("loop"))
}

fn runs_of(typed: &OsStr, kind: Option<&'static str>) -> Vec<CompletionCandidate> {
    let set = |name: &str| std::env::var_os(name);
    let path = match option("--data-dir", "--data-dir=") {
        Some(path) => Ok(path.into()),
        None => DataDir::default_path(set("TD_DATA_DIR"), set("HOME")),
    };
    let Ok(path) = path else {
        return Vec::new();
    };
    let names = in_time(move |clock| known::runs(path, kind, clock));
    candidates(&typed.to_string_lossy(), names)
}

/// Offers the chapters of the guide, and the commands.
pub(super) fn topics(typed: &OsStr) -> Vec<CompletionCandidate> {
    let command = command_line::command();
    let topics = guide::names().map(str::to_owned);
    let commands = command
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    let commands = commands.map(|command| command.get_name().to_owned());
    let mut names: Vec<String> = topics.chain(commands).collect();
    names.sort();
    names.dedup();
    candidates(&typed.to_string_lossy(), names)
}

/// Offers the formats of agents' output.
pub(super) fn formats() -> Vec<CompletionCandidate> {
    let formats = Format::ALL.iter();
    formats
        .map(|format| CompletionCandidate::new(format.name()))
        .collect()
}

/// Offers the types of events.
pub(super) fn event_types(typed: &OsStr) -> Vec<CompletionCandidate> {
    let names = EventKind::ALL.iter().map(|kind| kind.as_str().to_owned());
    candidates(&typed.to_string_lossy(), names.collect())
}

/// Those that begin with the typed word, as a shell may show them. bash inserts a candidate as it is,
/// so that a name with blanks or the like is quoted for it; the other shells quote by themselves.
fn candidates(typed: &str, names: Vec<String>) -> Vec<CompletionCandidate> {
    let is_bash = std::env::var_os(ASKS).is_some_and(|shell| shell == "bash");
    let names = names.into_iter().filter(|name| {
        name.starts_with(typed) && !name.is_empty() && !name.contains(char::is_control)
    });
    let order = names.enumerate().map(|(order, name)| {
        let is_plain = |c: char| c.is_alphanumeric() || "_-./:@%+=,".contains(c);
        let quoted = match is_bash && !name.chars().all(is_plain) {
            // It has no NUL, which alone cannot be quoted.
            true => shlex::try_quote(&name).map_or_else(|_| name.clone(), |name| name.into_owned()),
            false => name,
        };
        CompletionCandidate::new(quoted).display_order(Some(order))
    });
    order.collect()
}

/// The value of an option that is on the line that is completed: `-L work`, `-Lwork` and the like.
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

/// Does the work on a thread of its own, and gives up in time: a disk or a server may hang.
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
