//! `td-observe runs`: lists the runs in the history, and prunes them.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use unicode_width::UnicodeWidthStr;

use super::duration::{Limit, parse_duration, parse_size_limit};
use super::failure::Failure;
use super::history::{Which, data_dir, missing_in_words, print_problems, report_problems};
use super::options::Options;
use super::{known, live, output};
use crate::clock::Clock;
use crate::error::Error;
use crate::face::{LocalTime, one_line};
use crate::history::{MissingEvents, Retention, RunSummary};
use crate::timestamp::Timestamp;

/// Lists the runs, or removes some.
pub(super) fn run(options: &Options, typed: TypedRuns) -> Result<ExitCode, Failure> {
    match typed.action {
        None => list(options, &typed),
        Some(RunsAction::Prune(typed)) => prune(options, typed),
        Some(RunsAction::Other(words)) => {
            let word = words
                .first()
                .map(OsString::as_os_str)
                .unwrap_or_default()
                .to_string_lossy();
            let hint = known::suggestion(&word, ["prune"]);
            Err(usage!(
                "runs: {word:?} is not known here{hint} \"td-observe runs\" lists all runs, \
                 \"td-observe runs prune\" removes some, and \"td-observe log RUN\" shows one"
            ))
        }
    }
}

fn list(options: &Options, typed: &TypedRuns) -> Result<ExitCode, Failure> {
    let data = data_dir(options)?;
    let mut list = data.runs(Clock::system().wall())?;
    let mut is_whole = true;
    if typed.verify {
        for run in &mut list.runs {
            match run.verify() {
                Ok(report) => {
                    let which = Which::Run(run.directory.clone());
                    is_whole &= !report_problems(&which, &report) && !run.is_incomplete;
                }
                // The run was pruned in the meantime.
                Err(_) if !run.directory.exists() => {}
                Err(error) => list.problems.push(error),
            }
        }
    } else {
        report_missing(&list.runs);
    }
    if list.runs.is_empty() && list.problems.is_empty() && !options.json {
        message!("there are no runs in {:?} yet", data.runs_path());
    }
    let printed = print_runs(options, &list.runs, &list.problems, || {
        table(&list.runs, typed.timestamps)
    })?;
    Ok(if is_whole { printed } else { live::code(true) })
}

/// The number of incomplete runs whose missing events a message states; the list marks all.
const INCOMPLETE_LISTED: usize = 8;

/// Reports the events that are missing at the beginnings and ends of the files of runs.
fn report_missing(runs: &[RunSummary]) {
    let incomplete = || runs.iter().filter(|run| run.is_incomplete);
    for run in incomplete().take(INCOMPLETE_LISTED) {
        let path = run.directory.path();
        match run.missing.iter().map(MissingEvents::count).sum() {
            0 => message!("the log in {path:?} is empty or was removed"),
            missing => message!("{}", missing_in_words(path, missing, &run.missing)),
        }
    }
    match incomplete().count().saturating_sub(INCOMPLETE_LISTED) {
        0 => {}
        more => message!("{more} more runs are incomplete"),
    }
}

/// Prints runs as JSON or as `text` returns them, and the problems of listing them.
fn print_runs(
    options: &Options,
    runs: &[RunSummary],
    problems: &[Error],
    text: impl FnOnce() -> String,
) -> Result<ExitCode, Failure> {
    let text = match (options.quiet, options.json) {
        (true, _) => String::new(),
        (false, true) => output::json_lines(runs),
        (false, false) => text(),
    };
    output::print(&text)?;
    Ok(live::code(print_problems(problems)))
}

fn prune(options: &Options, typed: TypedPrune) -> Result<ExitCode, Failure> {
    let has_other_limit = typed.keep_age.is_some() || typed.keep_runs.is_some();
    let retention = Retention {
        age_max: typed.keep_age,
        runs_max: typed.keep_runs,
        bytes_max: match typed.keep_size {
            Some(limit) => limit.0,
            None if has_other_limit => None,
            None => Retention::default().bytes_max,
        },
    };
    let (data, now) = (data_dir(options)?, Clock::system().wall());
    let pruned = if typed.dry_run {
        data.prunable(retention, now)?
    } else {
        data.prune(retention, now)?
    };
    print_runs(options, &pruned.runs, &pruned.problems, || {
        let verb = if typed.dry_run {
            "would be removed"
        } else {
            "removed"
        };
        let count = pruned.runs.len();
        let runs = if count == 1 { "run" } else { "runs" };
        let bytes = pruned.runs.iter().map(|run| run.size_bytes).sum();
        table(&pruned.runs, false) + &format!("{count} {runs} {verb}, {}\n", size(bytes))
    })
}

/// The columns of the list; true for columns of numbers, which are aligned to the right.
const COLUMNS: [(&str, bool); 9] = [
    ("RUN", false),
    ("KIND", false),
    ("STATE", false),
    ("EXIT", true),
    ("STARTED", false),
    (LAST_EVENT, false),
    ("DURATION", true),
    ("EVENTS", true),
    ("SIZE", true),
];

/// The column that only `--timestamps` shows.
const LAST_EVENT: &str = "LAST-EVENT";

fn table(runs: &[RunSummary], has_timestamps: bool) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let mut local = LocalTime::of_system();
    // A time without blanks, which --since also accepts.
    let mut time = |ts: Timestamp| {
        let mut text = String::new();
        if has_timestamps {
            local.push(&mut text, ts)
        } else {
            text.push_str(local.second(ts))
        }
        text.trim_end().replacen(' ', "T", 1)
    };
    let rows = runs.iter().map(|run| {
        [
            one_line(&run.execution_id),
            one_line(run.kind.as_str()),
            one_line(run.state.as_str())
                + if run.is_incomplete {
                    ", incomplete"
                } else {
                    ""
                },
            run.exit_status
                .map_or_else(String::new, |status| status.to_string()),
            time(run.started),
            time(run.last_event),
            duration(run.duration_ms),
            run.events.to_string(),
            size(run.size_bytes),
        ]
    });
    let head = COLUMNS.map(|(name, _)| name.to_owned());
    let rows: Vec<[String; 9]> = std::iter::once(head).chain(rows).collect();
    let mut widths = [0; 9];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let mut out = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).zip(COLUMNS);
        for ((cell, width), (name, is_number)) in cells {
            if name == LAST_EVENT && !has_timestamps {
                continue;
            }
            if name != "RUN" {
                out.push_str("  ");
            }
            let padding = " ".repeat(width.saturating_sub(cell.width()));
            if is_number {
                out.push_str(&(padding + cell))
            } else {
                out.push_str(&(cell.to_owned() + &padding))
            }
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out
}

fn duration(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0 => format!("{ms}ms"),
        1..60 => format!("{s}s"),
        60..3600 => format!("{}m{:02}s", s / 60, s % 60),
        3600..86400 => format!("{}h{:02}m", s / 3600, s % 3600 / 60),
        _ => format!("{}d{:02}h", s / 86400, s % 86400 / 3600),
    }
}

/// Returns a number of bytes in words.
pub(super) fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value < 100.0);
    format!(
        "{value:.digits$}{}",
        units.get(unit).copied().unwrap_or_default()
    )
}

// The arguments of `runs`.

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/runs.txt").trim_end())]
pub(super) struct TypedRuns {
    /// Show times to the millisecond, and the time of the last event
    #[arg(long)]
    pub timestamps: bool,
    /// Read all logs, and report what is missing or damaged in them; exit with 1 if a run is incomplete
    #[arg(long)]
    pub verify: bool,
    #[command(subcommand)]
    pub action: Option<RunsAction>,
}

#[derive(Debug, clap::Subcommand)]
pub(super) enum RunsAction {
    /// Remove the oldest runs, except runs that are being written
    Prune(TypedPrune),
    /// Any other word, which is refused with a list of the valid ones
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  td-observe runs prune                        beyond 10 GiB in all
  td-observe runs prune --keep-runs 100        all but the latest hundred
  td-observe runs prune --keep-age 30d -n      lists what would be removed")]
pub(super) struct TypedPrune {
    /// Remove runs whose last event is older than this
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub keep_age: Option<Duration>,
    /// Keep at most N runs
    #[arg(long, value_name = "N")]
    pub keep_runs: Option<usize>,
    /// Keep at most this total size [default, without another limit: 10GiB]
    #[arg(long, value_name = "SIZE|none", value_parser = parse_size_limit)]
    pub keep_size: Option<Limit<u64>>,
    /// List the runs without removing them
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn durations_and_sizes_are_human_readable() {
        for (ms, text) in [
            (7, "7ms"),
            (59_999, "59s"),
            (200_000, "3m20s"),
            (18_120_000, "5h02m"),
            (273_600_000, "3d04h"),
        ] {
            assert_eq!(duration(ms), text);
        }
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1536, "1.5KiB"),
            (200 << 20, "200MiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
