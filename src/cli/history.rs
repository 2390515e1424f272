//! Code that the commands that read history share: selects the run, and reads it to its end or until stopped.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use crossbeam_channel::select_biased;

use super::failure::Failure;
use super::known;
use super::nearest;
use super::options::Options;
use super::signals::Signals;
use crate::clock::Clock;
use crate::error::Error;
use crate::event::TdEvent;
use crate::history::{DataDir, LogReader, LogSource, Query, ReadReport, RunDirectory};
use crate::thread::{self, Stop, stop_pair};

/// The time that output may take after the user has asked for the end.
const PRINT_REST: Duration = Duration::from_millis(400);

/// The selection of history to read.
#[derive(Clone, Debug)]
pub(super) enum Which {
    Run(RunDirectory),
    File(PathBuf),
}

impl Which {
    /// The run that was typed: an id or a name, else a path. (Names may have slashes in them.)
    pub fn typed(typed: &Path, options: &Options) -> Result<Self, Failure> {
        let unknown = match (typed.to_str(), data_dir(options)) {
            (Some(name), Ok(data)) => match data.named_run(name) {
                Ok(run) => return Ok(Self::Run(run)),
                Err(error) if error.is_invalid_input() => match data.check_owner() {
                    Ok(()) => unknown_run(&error.to_string(), name, options),
                    Err(refused) => Failure::usage(format!("{refused:?}")),
                },
                Err(error) => error.into(),
            },
            (None, Ok(_)) => Failure::usage(format!(
                "no run is called {typed:?}; td-observe runs lists them"
            )),
            (_, Err(failure)) => failure,
        };
        if !typed.as_os_str().as_bytes().contains(&b'/') {
            return Err(unknown);
        }
        if typed.is_dir() {
            let run = RunDirectory::at(typed)?;
            return match run.has_history() {
                true => Ok(Self::Run(run)),
                false => Err(Failure::usage(format!(
                    "there is no run in {typed:?}; td-observe runs lists them"
                ))),
            };
        }
        match typed.exists() {
            true => Ok(Self::File(typed.to_owned())),
            false => Err(unknown),
        }
    }

    /// Returns true if an observer writes it now; false where that is unknown.
    pub fn is_written(&self) -> bool {
        match self {
            Self::Run(run) => run.is_written().unwrap_or(false),
            Self::File(_) => false,
        }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        match self {
            Self::Run(run) => run.path(),
            Self::File(path) => path,
        }
    }

    /// Returns it as one of several logs.
    pub fn source(&self) -> LogSource {
        match self {
            Self::Run(run) => LogSource::Run(run.clone()),
            Self::File(path) => LogSource::File(path.clone()),
        }
    }

    /// Reads it from its beginning, keeping lines.
    pub fn read(&self, query: Query) -> Result<LogReader, Failure> {
        match self {
            Self::Run(run) => Ok(LogReader::open_lines(run, query)?),
            Self::File(path) => LogReader::open_file(path, query)
                .map_err(|error| Failure::usage(format!("{error:?}"))),
        }
    }

    /// Returns what names the session of a run until its log does: that event may be filtered out, or precede
    /// the part that is shown.
    pub fn session(&self) -> Option<TdEvent> {
        let Self::Run(run) = self else {
            return None;
        };
        Some(TdEvent::SessionStarted {
            execution_id: run.execution_id().clone(),
            session: self.label()?,
            panes: Vec::new(),
        })
    }

    /// Returns its name for people.
    pub fn label(&self) -> Option<String> {
        match self {
            Self::Run(run) => {
                let metadata = run.metadata().ok().flatten()?;
                Some(metadata.label).filter(|label| !label.is_empty())
            }
            Self::File(_) => None,
        }
    }
}

/// There is no such run; the one that was probably meant, and those that there are.
fn unknown_run(complaint: &str, name: &str, options: &Options) -> Failure {
    let path = options.data_path().ok().flatten();
    let runs = path.map_or_else(Vec::new, |path| known::runs(path, None, &Clock::system()));
    let hint = nearest::hint(name, runs.iter().map(String::as_str), "");
    Failure::usage(format!("{complaint}{hint}; td-observe runs lists them"))
}

/// Where runs are kept; to read them there has to be such a place.
pub(super) fn data_dir(options: &Options) -> Result<DataDir, Failure> {
    match options.data_path()? {
        Some(path) => Ok(DataDir::new(path)),
        None => Err(Failure::usage(
            "--no-log: there is no history without a log; leave it out",
        )),
    }
}

/// Why work on a thread of its own ended early.
#[derive(Debug)]
pub(super) enum Ended {
    /// Standard output, or the file in its place.
    Output(io::Error),
    Failed(Failure),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Does work on a thread of its own, `td-history`, until it is done or a signal comes: it may be
/// blocked in its output then.
pub(super) fn until_stopped(
    signals: &Signals,
    clock: &Clock,
    work: impl FnOnce(&Stop) -> Result<ExitCode, Ended> + Send + 'static,
) -> Result<ExitCode, Failure> {
    let (running, stop) = stop_pair();
    let (alive, done) = stop_pair();
    let thread = thread::spawn("td-history", move || {
        let _alive = alive;
        work(&stop)
    })?;
    select_biased! {
        recv(signals.first()) -> _ => {}
        recv(done) -> _ => {}
    }
    drop(running);
    match thread.join_deadline(clock.now() + PRINT_REST) {
        Ok(Ok(Ok(code))) => Ok(code),
        // The reader has read enough.
        Ok(Ok(Err(Ended::Output(error)))) if error.kind() == io::ErrorKind::BrokenPipe => {
            Ok(ExitCode::SUCCESS)
        }
        Ok(Ok(Err(Ended::Output(error)))) => Err(Failure::other(format!(
            "cannot write to standard output: {error}"
        ))),
        Ok(Ok(Err(Ended::Failed(failure)))) => Err(failure),
        Ok(Err(panicked)) => Err(Failure::other(panicked.to_string())),
        Err(_blocked) => {
            super::output::print_message(
                "stopped in the middle of reading or writing: the rest is not printed",
            );
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Says what was not as it should be in what was read.
pub(super) fn report_problems(which: &Which, report: &ReadReport) -> ExitCode {
    if let Some((path, at)) = &report.first_invalid {
        let lines = match report.invalid {
            1 => "1 line is no event, or too long, and was".to_owned(),
            broken => format!("{broken} lines are no events, or too long, and were"),
        };
        super::output::print_message(&format!(
            "{lines} passed over, the first at byte {at} of {path:?}"
        ));
    }
    // Half a line that is just being written is no matter.
    if report.torn > 0 && !which.is_written() {
        super::output::print_message(
            "the last line is cut off: its writer was stopped in the middle of it",
        );
    }
    for problem in &report.problems {
        super::output::print_message(&format!("{problem:?}"));
    }
    if report.problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
