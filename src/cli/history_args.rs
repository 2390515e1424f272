//! What may be typed after `log`, `runs`, `replay` and `export`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::duration::{
    Limit, Moment, parse_age_limit, parse_duration, parse_moment, parse_rotation, parse_size_limit,
    parse_speed,
};
use crate::history::SyncPolicy;

/// How logs are begun anew and how much of them is kept; for every command that writes them.
#[derive(Debug, Args)]
#[command(next_help_heading = "History")]
pub(super) struct TypedKeeping {
    /// When the log is made to survive a power cut: none, interval or always
    #[arg(long, value_name = "WHEN", default_value = "interval", value_parser = parse_sync)]
    pub sync: SyncPolicy,
    /// A log goes on in a new file at this size; the closed ones are compressed
    #[arg(long, value_name = "SIZE|none", default_value = "64MiB", value_parser = parse_rotation)]
    pub rotate_size: Limit<u64>,
    /// ... and when it is so old
    #[arg(long, value_name = "TIME|none", default_value = "1d", value_parser = parse_age_limit)]
    pub rotate_age: Limit<Duration>,
    /// All runs together; beyond it the oldest that have ended are removed
    #[arg(long, value_name = "SIZE|none", default_value = "10GiB", value_parser = parse_size_limit)]
    pub keep_size: Limit<u64>,
    /// Runs that ended longer ago are removed [default: none]
    #[arg(long, value_name = "TIME")]
    #[arg(value_parser = parse_duration)]
    pub keep_age: Option<Duration>,
    /// So many runs are kept at most [default: none]
    #[arg(long, value_name = "N")]
    pub keep_runs: Option<usize>,
    /// What else is a secret, beside what is known: a file of rules [default: redact.toml in the
    /// data directory, if there is one]
    #[arg(long, value_name = "FILE", conflicts_with = "no_redact")]
    pub redact: Option<PathBuf>,
    /// Show and keep secrets in clear
    #[arg(long)]
    pub no_redact: bool,
}

/// Which events.
#[derive(Debug, Args)]
pub(super) struct TypedFilter {
    /// Only events of this type, as OutputUpdate; several: --type A,B
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    pub types: Vec<String>,
    /// Only events of this execution
    #[arg(long, value_name = "ID")]
    pub execution: Vec<String>,
    /// Only what this regular expression matches, in the text as it was printed
    #[arg(long, value_name = "REGEX")]
    pub grep: Option<String>,
    /// Only from this time on: 2026-01-21T10:00:00Z, or so long ago, as 10m
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub since: Option<Moment>,
    /// Only before this time
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub until: Option<Moment>,
}

const LOG_EXAMPLES: &str = "\
Examples:
  td-observe log build                       what the latest run called build has shown
  td-observe log build@1768989600 --follow   and what it shows from now on, until it ends
  td-observe log build --grep 'error|panic'  lines that match
  td-observe log build --json --type OutputGap,Warning --since 1h
  td-observe log ./copy/events.jsonl.gz      a file, wherever it is

RUN is an execution id, a name (its latest run), or a path to a run or a file. Lines that are no
events are passed over and counted on standard error.";

#[derive(Debug, Args)]
#[command(after_help = LOG_EXAMPLES)]
pub(super) struct TypedLog {
    /// An execution id, a name, or a path
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Go on with what is written from now on, until the run ends
    #[arg(short, long)]
    pub follow: bool,
    #[command(flatten)]
    pub filter: TypedFilter,
}

const RUNS_EXAMPLES: &str = "\
Examples:
  td-observe runs                              all runs, the latest last
  td-observe runs --json | jq .size_bytes
  td-observe runs prune --keep-age 30d --dry-run
  td-observe runs prune --keep-size 1GiB

States: running, completed, failed, detached (its observer was stopped), cut off (its writer is gone
without a word).";

#[derive(Debug, Args)]
#[command(after_help = RUNS_EXAMPLES)]
pub(super) struct TypedRuns {
    #[command(subcommand)]
    pub action: Option<RunsAction>,
}

#[derive(Debug, Subcommand)]
pub(super) enum RunsAction {
    /// Remove the oldest runs; never one that is being written
    Prune(TypedPrune),
    /// Any other word, which is refused with what can be typed instead
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

#[derive(Debug, Args)]
pub(super) struct TypedPrune {
    /// Remove runs whose last event is longer ago
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub keep_age: Option<Duration>,
    /// Keep so many runs
    #[arg(long, value_name = "N")]
    pub keep_runs: Option<usize>,
    /// Keep so much of them [default, when nothing else is given: 10GiB]
    #[arg(long, value_name = "SIZE|none", value_parser = parse_size_limit)]
    pub keep_size: Option<Limit<u64>>,
    /// Only say which
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}

const REPLAY_EXAMPLES: &str = "\
Examples:
  td-observe replay build                        as it happened
  td-observe replay build --speed 10 --idle-limit 2s
  td-observe replay build --from 5m --to 6m      the sixth minute
  td-observe replay build --json                 for programs, at the same pace

On a terminal: space pauses and goes on, . shows the next event while paused, q ends.";

#[derive(Debug, Args)]
#[command(after_help = REPLAY_EXAMPLES)]
pub(super) struct TypedReplay {
    /// An execution id, a name, or a path
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// So many times as fast
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_speed)]
    pub speed: f64,
    /// No silence lasts longer than this
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub idle_limit: Option<Duration>,
    /// Begin here: so long after the run's start, as 5m, or a time, as 2026-01-21T10:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub from: Option<Moment>,
    /// End here
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub to: Option<Moment>,
}

const EXPORT_EXAMPLES: &str = "\
Examples:
  td-observe export build --format text > build.txt
  td-observe export build --format cast -o build.cast && asciinema play build.cast
  td-observe export build --format cast --pane %3 --idle-limit 2s";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A recording for terminals, asciicast v3
    Cast,
    /// The lines as they read at the end
    Text,
}

#[derive(Debug, Args)]
#[command(after_help = EXPORT_EXAMPLES)]
pub(super) struct TypedExport {
    /// An execution id, a name, or a path
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// What it becomes
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Format,
    /// Only this pane, as %3
    #[arg(long, value_name = "PANE")]
    pub pane: Option<String>,
    /// With --format cast: make it of the log, though the pane was recorded byte for byte (watch
    /// --raw)
    #[arg(long)]
    pub from_log: bool,
    /// No silence lasts longer than this
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub idle_limit: Option<Duration>,
    /// Where to; standard output otherwise
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

fn parse_sync(text: &str) -> Result<SyncPolicy, String> {
    match text {
        "none" => Ok(SyncPolicy::Never),
        "interval" => Ok(SyncPolicy::default()),
        "always" => Ok(SyncPolicy::Always),
        _ => Err("use none, interval or always".to_owned()),
    }
}
