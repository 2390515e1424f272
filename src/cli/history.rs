//! Shared code of the commands that read history: selects a run, and reads it to its end or until stopped.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crossbeam_channel::select_biased;

use super::failure::Failure;
use super::live::PRINT_REST;
use super::options::Options;
use super::signals::Signals;
use super::{known, observer};
use crate::clock::Clock;
use crate::error::Error;
use crate::event::TdEvent;
use crate::face::one_line;
use crate::history::{
    DataDir, LogReader, LogSource, MissingEvents, Query, ReadReport, RunDirectory, RunKind,
};
use crate::thread::{self, Stop, stop_pair};

/// The selection of history to read.
#[derive(Clone, Debug)]
pub(super) enum Which {
    Run(RunDirectory),
    File(PathBuf),
}

impl Which {
    /// Returns the run for a typed id, name or path. A name may contain slashes, so names come first.
    pub fn typed(typed: &Path, options: &Options) -> Result<Self, Failure> {
        let unknown = match (typed.to_str(), data_dir(options)) {
            (Some(name), Ok(data)) => match named_run(&data, name) {
                Ok(run) => return Ok(Self::Run(run)),
                Err(error) if error.is_invalid_input() => match data.check_owner() {
                    Ok(()) => unknown_run(&error.to_string(), name, options),
                    Err(refused) => usage!("{refused:?}"),
                },
                Err(error) => error.into(),
            },
            (None, Ok(_)) => usage!("no run is called {typed:?}; td-observe runs lists them"),
            (_, Err(failure)) => failure,
        };
        if !typed.as_os_str().as_bytes().contains(&b'/') {
            return Err(unknown);
        }
        if typed.is_dir() {
            let run = RunDirectory::at(typed)?;
            if run.has_history() {
                return Ok(Self::Run(run));
            }
            return Err(usage!(
                "there is no run in {typed:?}; td-observe runs lists them"
            ));
        }
        if typed.exists() {
            Ok(Self::File(typed.to_owned()))
        } else {
            Err(unknown)
        }
    }

    /// Returns true if an observer is writing the run; false if that is unknown.
    pub fn is_written(&self) -> bool {
        match self {
            Self::Run(run) => run.is_written().unwrap_or(false),
            Self::File(_) => false,
        }
    }

    /// Returns true for a pipe, which cannot be read twice.
    pub fn is_read_once(&self) -> bool {
        match self {
            Self::Run(_) => false,
            Self::File(path) => !path.is_file(),
        }
    }

    pub fn path(&self) -> &Path {
        match self {
            Self::Run(run) => run.path(),
            Self::File(path) => path,
        }
    }

    /// Returns the source for a reader of several logs.
    pub fn source(&self) -> LogSource {
        match self {
            Self::Run(run) => LogSource::Run(run.clone()),
            Self::File(path) => LogSource::File(path.clone()),
        }
    }

    /// Opens a reader at the beginning, which keeps the lines as they are.
    pub fn read(&self, query: Query) -> Result<LogReader, Failure> {
        match self {
            Self::Run(run) => Ok(LogReader::open_lines(run, query)?),
            Self::File(path) => {
                LogReader::open_file(path, query).map_err(|error| usage!("{error:?}"))
            }
        }
    }

    /// Returns the size of the log on the disk, in bytes; 0 if it cannot be read.
    #[cfg_attr(
        not(feature = "sqlite"),
        allow(dead_code, reason = "the export as a database uses it")
    )]
    pub fn log_bytes(&self) -> u64 {
        match self {
            Self::Run(run) => run.log_bytes(),
            Self::File(path) => path.metadata().map_or(0, |about| about.len()),
        }
    }

    /// Opens a reader at the beginning, which keeps no lines.
    #[cfg(feature = "sqlite")]
    pub fn events(&self, query: Query) -> crate::Result<LogReader> {
        match self {
            Self::Run(run) => LogReader::open(run, query),
            Self::File(path) => LogReader::open_file(path, query),
        }
    }

    /// Returns an event that names the session of a run, if it is of one. The event in the log may be filtered out, or precede
    /// the part that is shown.
    pub fn session(&self) -> Option<TdEvent> {
        let Self::Run(run) = self else {
            return None;
        };
        let metadata = run.metadata().ok().flatten()?;
        let is_session = metadata.kind == RunKind::Tmux && !metadata.label.is_empty();
        is_session.then(|| TdEvent::SessionStarted {
            execution_id: run.execution_id().clone(),
            session: metadata.label,
            panes: Vec::new(),
        })
    }

    pub fn label(&self) -> Option<String> {
        let Self::Run(run) = self else {
            return None;
        };
        let metadata = run.metadata().ok().flatten()?;
        Some(metadata.label).filter(|label| !label.is_empty())
    }
}

/// Returns the run with a name: of several sessions, the one on a server that is observed, else the latest.
fn named_run(data: &DataDir, name: &str) -> crate::Result<RunDirectory> {
    let known = observer::running(data.path()).ok().flatten();
    let servers = known.map_or_else(Vec::new, |known| known.servers);
    data.named_run_of(name, |run| {
        let identity = run.identity.as_ref();
        identity.is_some_and(|identity| servers.iter().any(|of| of == Path::new(&identity.socket)))
    })
}

/// Returns the failure for an unknown run, with a suggestion and the existing runs.
fn unknown_run(problem: &str, name: &str, options: &Options) -> Failure {
    let path = options.data_path().ok().flatten();
    let runs = path.map_or_else(Vec::new, |path| {
        known::run_names(path, None, &Clock::system())
    });
    let hint = known::hint(name, runs.iter().map(String::as_str), "");
    usage!("{problem}{hint}; td-observe runs lists them")
}

/// Returns the directory of the runs, which a command that reads them needs.
pub(super) fn data_dir(options: &Options) -> Result<DataDir, Failure> {
    match options.data_path()? {
        Some(_) => options.data(),
        None => Err(usage!(
            "--no-log: there is no history without a log; leave it out"
        )),
    }
}

/// Runs `work` on the thread `td-history` until it is done or a signal arrives. The signal must be handled even
/// while the work is blocked in its output.
pub(super) fn until_stopped(
    signals: &Signals,
    clock: &Clock,
    work: impl FnOnce(&Stop) -> Result<ExitCode, Failure> + Send + 'static,
) -> Result<ExitCode, Failure> {
    let (running, stop) = stop_pair();
    let (alive, done) = stop_pair();
    let thread = thread::spawn("td-history", move || {
        let _alive = alive;
        work(&stop)
    })?;
    select_biased! {
        recv(signals.first) -> _ => {}
        recv(done) -> _ => {}
    }
    drop(running);
    match thread.join_deadline(clock.now() + PRINT_REST) {
        Ok(Ok(Err(failure))) if failure.is_closed() => Ok(ExitCode::SUCCESS),
        Ok(Ok(ended)) => ended,
        Ok(Err(panicked)) => Err(Failure::other(panicked.to_string())),
        Err(_blocked) => {
            message!("interrupted while reading or writing: the rest is not printed");
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Prints the problems of reading a log; returns true if a part cannot be read.
pub(super) fn report_problems(which: &Which, report: &ReadReport) -> bool {
    if let Some((path, at)) = &report.first_invalid {
        let lines = match report.invalid {
            1 => "1 line is no event or too long, and was".to_owned(),
            invalid => format!("{invalid} lines are no events or too long, and were"),
        };
        message!("{lines} skipped, the first at byte {at} of {path:?}");
    }
    if report.missing() > 0 {
        message!(
            "{}",
            missing_in_words(which.path(), report.missing(), report.missing_places())
        );
    }
    // A partial line that is still being written is no problem.
    if report.torn > 0 && !which.is_written() {
        message!("the last line is cut off, because its writer was interrupted");
    }
    print_problems(&report.problems)
}

/// The number of places of missing events that a message lists.
const PLACES_LISTED: usize = 8;

/// Returns how many events are missing in a log, and where.
pub(super) fn missing_in_words(log: &Path, missing: u64, places: &[MissingEvents]) -> String {
    let verb = if missing == 1 {
        "event is"
    } else {
        "events are"
    };
    let mut out = format!("{missing} {verb} missing in {log:?}:");
    for (at, place) in places.iter().take(PLACES_LISTED).enumerate() {
        out.push_str(if at == 0 { " " } else { ", " });
        out.push_str(&place.first_seq.to_string());
        if place.last_seq > place.first_seq {
            out.push_str(&format!(" to {}", place.last_seq));
        }
        let file = place.file.file_name().unwrap_or_default().to_string_lossy();
        match place.offset {
            Some(offset) => {
                out.push_str(&format!(" (before byte {offset} of {})", one_line(&file)))
            }
            None => out.push_str(" (at the end)"),
        }
    }
    if places.len() > PLACES_LISTED {
        out.push_str(&format!(
            " and in {} more places",
            places.len() - PLACES_LISTED
        ));
    }
    out
}

/// Reports a log that cannot be read, unless the run has been pruned meanwhile; returns true if it is reported.
pub(super) fn report_failure(which: &Which, error: &Error) -> bool {
    let is_there = which.path().exists();
    if is_there {
        message!("{error:?}");
    }
    is_there
}

/// Prints problems of reading the history; returns true if there are any.
pub(super) fn print_problems(problems: &[Error]) -> bool {
    for problem in problems {
        message!("{problem:?}");
    }
    !problems.is_empty()
}
