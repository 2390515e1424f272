//! `td-observe report`: what everything did within a span of time, and what still needs the user.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueHint;
use clap_complete::engine::ArgValueCompleter;

use super::duration::{TimePoint, parse_time_point};
use super::failure::Failure;
use super::history::{Which, data_dir, until_stopped};
use super::log::before;
use super::log_show::Selection;
use super::options::Options;
use super::private_file::NewFile;
use super::progress::Progress;
use super::signals::Signals;
use super::{known, output};
use crate::clock::Clock;
use crate::face::report::{
    PassProgress, Report, ReportQuery, TerminalReport, Texts, html, markdown, read_report,
};
use crate::face::{LocalTime, terminal_size};
use crate::history::{RunList, RunSummary};
use crate::redact::Rules;
use crate::thread::Stop;
use crate::timestamp::Timestamp;

/// The time that a report covers by default: a night.
const SINCE: &str = "12h";

pub(super) fn run(options: &Options, typed: TypedReport) -> Result<ExitCode, Failure> {
    let signals = Signals::catch(|| {})?;
    let clock = Clock::system();
    let options = options.clone();
    until_stopped(&signals, &clock.clone(), move |stop| {
        report(&options, &typed, &clock, stop)
    })
}

fn report(
    options: &Options,
    typed: &TypedReport,
    clock: &Clock,
    stop: &Stop,
) -> Result<ExitCode, Failure> {
    if options.json && (typed.markdown || typed.html.is_some()) {
        return Err(usage!(
            "--json, --markdown and --html are different formats: give one of them"
        ));
    }
    let now = clock.wall();
    let until = typed.until.map_or(now, |until| before(until, now));
    let since = before(typed.since, now);
    if since >= until {
        return Err(usage!(
            "--since is not before --until: the time span is empty"
        ));
    }
    let query = ReportQuery {
        since,
        until,
        texts: Texts::new(Rules::builtin(), typed.metadata_only),
    };
    #[cfg(feature = "hosts")]
    let named = (typed.hosts.as_slice(), typed.runs.as_slice());
    #[cfg(feature = "hosts")]
    let report = super::report_hosts::report(options, named, &query, (stop, clock), |runs| {
        report_here(options, runs, &query, (stop, clock))
    })?;
    #[cfg(not(feature = "hosts"))]
    let report = report_here(options, &typed.runs, &query, (stop, clock))?;
    let local = LocalTime::of_system();
    if let Some(path) = &typed.html {
        let page = html(&report, local);
        let written = NewFile::beside(path).and_then(|mut file| {
            file.write_all(page.as_bytes())?;
            file.persist()
        });
        written.map_err(|cause| usage!("--html: cannot write {path:?}: {cause}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if options.quiet {
        return Ok(ExitCode::SUCCESS);
    }
    let text = if options.json {
        output::json_lines([&report])
    } else if typed.markdown {
        markdown(&report, local)
    } else {
        let terminal = TerminalReport {
            width: terminal_size().0,
            is_coloured: options.coloured,
            is_verbose: options.verbose > 0,
        };
        terminal.render(&report, local)
    };
    output::print(&text)
}

/// Returns the report of this host.
fn report_here(
    options: &Options,
    typed: &[PathBuf],
    query: &ReportQuery,
    (stop, clock): (&Stop, &Clock),
) -> Result<Report, Failure> {
    let RunList { runs, problems } = runs_of(options, typed, clock.wall())?;
    let is_within = |run: &RunSummary| {
        run.started < query.until && (run.last_event >= query.since || run.is_open())
    };
    let runs: Vec<RunSummary> = runs.into_iter().filter(is_within).collect();
    let total = runs.iter().map(|run| run.directory.log_bytes()).sum();
    let progress = Progress::start("reading", total, options.quiet, clock);
    let pass = PassProgress {
        counter: progress.counter(),
        stop: stop.clone(),
    };
    let list = RunList { runs, problems };
    let report = read_report(&data_dir(options)?, list, query, clock, &pass);
    progress.finish();
    report?.ok_or_else(|| Failure::interrupted("interrupted: there is no report"))
}

/// Returns the summaries of the chosen runs, and why some cannot be read.
fn runs_of(options: &Options, typed: &[PathBuf], now: Timestamp) -> Result<RunList, Failure> {
    let data = data_dir(options)?;
    if typed.is_empty() {
        return Ok(data.runs_in_brief(now)?);
    }
    let selection = Selection {
        typed: typed.to_vec(),
    };
    let mut list = RunList::default();
    for which in selection.resolve(options)? {
        match which {
            Which::Run(run) => match run.summary_in_brief(now) {
                Ok(summary) => list.runs.extend(summary),
                Err(error) => list.problems.push(error),
            },
            Which::File(path) => {
                return Err(usage!(
                    "{path:?} is a file, and a report needs runs: put it as events.jsonl into a directory of its own \
                     below runs"
                ));
            }
        }
    }
    Ok(list)
}

// The arguments of `report`.

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/report.txt").trim_end())]
pub(super) struct TypedReport {
    /// Execution ids, names (their latest runs) or patterns [default: all runs]
    #[arg(value_name = "RUN", add = ArgValueCompleter::new(known::runs))]
    pub runs: Vec<PathBuf>,
    /// From this time on: 12h (ago), 22:00, yesterday, '2026-01-21 22:00' (local time), or 2026-01-21T22:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time_point, default_value = SINCE)]
    pub since: TimePoint,
    /// Up to this time [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_time_point)]
    pub until: Option<TimePoint>,
    /// Write a page into this file, which needs no other file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["markdown"])]
    pub html: Option<PathBuf>,
    /// Print Markdown
    #[arg(long)]
    pub markdown: bool,
    /// Leave out all text, names too: states, times and numbers only
    #[arg(long)]
    pub metadata_only: bool,
    /// Also ask this host for its report, over ssh; repeat for several; local is this one
    #[cfg(feature = "hosts")]
    #[arg(long = "host", value_name = "HOST", add = ArgValueCompleter::new(known::hosts))]
    pub hosts: Vec<String>,
    #[cfg(feature = "redis")]
    #[command(flatten)]
    pub from: super::from::TypedFrom,
}
