//! `td-observe export --format sqlite`: writes runs as a database, which appears under its name when it is complete.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::duration::TimePoint;
use super::failure::Failure;
use super::history::{Which, data_dir, print_problems, report_problems, until_stopped};
use super::live;
use super::log::in_span;
use super::log_show::Selection;
use super::options::Options;
use super::private_file::NewFile;
use super::progress::Progress;
use super::signals::Signals;
use crate::clock::Clock;
use crate::error::Error;
use crate::face::sqlite::{Database, ExportedRun, Rows};
use crate::history::{Query, ReadReport, RunStatus};
use crate::thread::{Stop, is_stopped};
use crate::timestamp::Timestamp;

/// Writes the selected runs to a file, and only their events of a span of time.
pub(super) fn run(
    options: &Options,
    runs: Selection,
    (since, until): (Option<TimePoint>, Option<TimePoint>),
    output: &Path,
) -> Result<ExitCode, Failure> {
    let clock = Clock::system();
    let query = in_span(Query::all(), since, until, clock.wall())?;
    let whiches = runs.resolve(options)?;
    let unreadable = unreadable(options, &runs, clock.wall())?;
    if whiches.is_empty() && unreadable.is_empty() {
        message!("there are no runs yet");
    }
    let file = NewFile::beside(output).map_err(|cause| unwritten(output, cause))?;
    let path = file.path().to_owned();
    let interrupted = path.clone();
    let signals = Signals::catch(move || drop(fs::remove_file(interrupted)))?;
    let total = whiches.iter().map(Which::log_bytes).sum();
    let progress = Progress::start("exporting", total, options.quiet, &clock);
    let is_complete = Arc::new(AtomicBool::new(false));
    let export = Export {
        whiches,
        query,
        path,
        output: output.to_owned(),
        is_complete: Arc::clone(&is_complete),
    };
    let code = until_stopped(&signals, &clock, move |stop| export.run(progress, stop))?;
    if !is_complete.load(Ordering::Acquire) {
        return Err(Failure::interrupted(format!(
            "interrupted: {output:?} is not written"
        )));
    }
    file.persist().map_err(|cause| unwritten(output, cause))?;
    if print_problems(&unreadable) {
        return Ok(live::code(true));
    }
    Ok(code)
}

/// Returns why runs cannot be read, if all are wanted.
fn unreadable(options: &Options, runs: &Selection, now: Timestamp) -> Result<Vec<Error>, Failure> {
    if !runs.is_all() {
        return Ok(Vec::new());
    }
    Ok(data_dir(options)?.runs_in_brief(now)?.problems)
}

fn unwritten(output: &Path, cause: io::Error) -> Failure {
    usage!("cannot write {output:?}: {cause}")
}

/// The work of an export.
struct Export {
    whiches: Vec<Which>,
    query: Query,
    /// The file until it is complete, and the file that it becomes.
    path: PathBuf,
    output: PathBuf,
    is_complete: Arc<AtomicBool>,
}

impl Export {
    fn run(self, progress: Progress, stop: &Stop) -> Result<ExitCode, Failure> {
        let failed = |cause: rusqlite::Error| unwritten(&self.output, io::Error::other(cause));
        let database = Database::create(&self.path).map_err(failed)?;
        let mut rows = Rows::new(&database).map_err(failed)?;
        let mut reports = Vec::new();
        for which in &self.whiches {
            let log = which.events(self.query.clone());
            // The run has been pruned in the meantime.
            if log.is_err() && !which.path().exists() {
                continue;
            }
            rows.begin(described(which)).map_err(failed)?;
            let report = match log {
                Ok(log) => {
                    let mut log = log.counting_in(progress.counter());
                    while let Some(record) = log.next_until(&|| is_stopped(stop)) {
                        rows.push(&record.envelope).map_err(failed)?;
                    }
                    log.into_report()
                }
                Err(error) => {
                    let mut report = ReadReport::default();
                    report.problems.push(error);
                    report
                }
            };
            if is_stopped(stop) {
                return Ok(ExitCode::SUCCESS);
            }
            rows.end(&report).map_err(failed)?;
            reports.push((which, report));
        }
        drop(rows);
        database.finish().map_err(failed)?;
        let file = File::open(&self.path);
        file.and_then(|file| file.sync_all())
            .map_err(|cause| unwritten(&self.output, cause))?;
        progress.finish();
        let has_failed = report(&reports);
        self.is_complete.store(true, Ordering::Release);
        Ok(live::code(has_failed))
    }
}

/// Reports the problems of all logs; returns true if a part cannot be read.
fn report(reports: &[(&Which, ReadReport)]) -> bool {
    let mut has_failed = false;
    for (which, report) in reports {
        has_failed |= report_problems(which, report);
    }
    has_failed
}

/// Returns the run of a log, as its metadata describe it. The executions of another file are its events'.
fn described(which: &Which) -> ExportedRun {
    let path = which.path().display().to_string();
    let Which::Run(run) = which else {
        return ExportedRun {
            path,
            ..ExportedRun::default()
        };
    };
    // Checked before the metadata are read, because the writer writes them last.
    let is_written = which.is_written();
    let metadata = run.metadata().ok().flatten();
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    ExportedRun {
        execution_id: run.execution_id().to_string(),
        kind: metadata.as_ref().and_then(|of| text(of.kind.as_str())),
        label: metadata.as_ref().and_then(|of| text(&of.label)),
        state: text(RunStatus::of(is_written, metadata.as_ref()).as_str()),
        started: metadata.as_ref().map(|of| of.created),
        exit_status: metadata.as_ref().and_then(|of| of.exit_status),
        path,
    }
}
