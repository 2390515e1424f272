//! The arguments of `log`, `runs`, `replay` and `export`, and the arguments that all writers of runs share.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::engine::ArgValueCompleter;

use super::completers;
use super::duration::{
    Limit, TimePoint, parse_age_limit, parse_duration, parse_rotation, parse_size_limit,
    parse_speed, parse_time_point,
};
use crate::history::SyncPolicy;

/// Parses the name of a new run.
pub(super) fn parse_execution_id(text: &str) -> Result<String, String> {
    match text {
        "" => Err("the id is empty".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

/// Rotation, retention and redaction, for every command that writes runs.
#[derive(Debug, Args)]
#[command(next_help_heading = "History options")]
pub(super) struct TypedKeeping {
    /// Sync the log to the disk: none, interval (once a second) or always
    #[arg(long, value_name = "WHEN", default_value = "interval", value_parser = parse_sync)]
    pub sync: SyncPolicy,
    /// Continue a log in a new file at this size; closed files are compressed
    #[arg(long, value_name = "SIZE|none", default_value = "64MiB", value_parser = parse_rotation)]
    pub rotate_size: Limit<u64>,
    /// Continue a log in a new file at this age
    #[arg(long, value_name = "TIME|none", default_value = "1d", value_parser = parse_age_limit)]
    pub rotate_age: Limit<Duration>,
    /// Remove the oldest ended runs beyond this total size
    #[arg(long, value_name = "SIZE|none", default_value = "10GiB", value_parser = parse_size_limit)]
    pub keep_size: Limit<u64>,
    /// Remove runs that ended longer ago than this [default: none]
    #[arg(long, value_name = "TIME")]
    #[arg(value_parser = parse_duration)]
    pub keep_age: Option<Duration>,
    /// Keep at most N runs [default: none]
    #[arg(long, value_name = "N")]
    pub keep_runs: Option<usize>,
    #[command(flatten)]
    pub secrets: TypedSecrets,
}

/// The options of an empty command line.
#[derive(Debug, Parser)]
struct Defaults {
    #[command(flatten)]
    keeping: TypedKeeping,
}

impl TypedKeeping {
    /// Returns the first option that differs from its default.
    pub fn first_given(&self) -> Option<&'static str> {
        let default = Defaults::try_parse_from(["td-observe"]).ok()?.keeping;
        let secrets = &self.secrets;
        let options = [
            ("--sync", self.sync != default.sync),
            ("--rotate-size", self.rotate_size != default.rotate_size),
            ("--rotate-age", self.rotate_age != default.rotate_age),
            ("--keep-size", self.keep_size != default.keep_size),
            ("--keep-age", self.keep_age.is_some()),
            ("--keep-runs", self.keep_runs.is_some()),
            ("--redact", secrets.redact.is_some()),
            ("--redact-env", !secrets.redact_env.is_empty()),
            ("--redact-env-file", !secrets.redact_env_file.is_empty()),
            ("--no-redact", secrets.no_redact),
        ];
        let given = options.iter().find(|(_, is_given)| *is_given);
        given.map(|(option, _)| *option)
    }
}

/// The options for secrets.
#[derive(Debug, Args)]
#[command(next_help_heading = "Secrets")]
pub(super) struct TypedSecrets {
    /// A file with more rules for secrets [default: redact.toml in the data directory]
    #[arg(long, value_name = "FILE", conflicts_with = "no_redact", value_hint = ValueHint::FilePath)]
    pub redact: Option<PathBuf>,
    /// Redact the value of this environment variable wherever it appears; repeat for several, or use
    /// '*_TOKEN' for all names with this ending
    #[arg(long, value_name = "NAME", conflicts_with = "no_redact")]
    pub redact_env: Vec<String>,
    /// Redact the values of the variables in this file of NAME=VALUE lines
    #[arg(long, value_name = "FILE", conflicts_with = "no_redact", value_hint = ValueHint::FilePath)]
    pub redact_env_file: Vec<PathBuf>,
    /// Show and keep secrets in clear
    #[arg(long)]
    pub no_redact: bool,
}

/// A selection of events.
#[derive(Debug, Args)]
pub(super) struct TypedFilter {
    /// Only events of this type, such as OutputUpdate; several: --type A,B
    #[arg(
        long = "type",
        value_name = "TYPE",
        value_delimiter = ',',
        add = ArgValueCompleter::new(completers::event_types)
    )]
    pub types: Vec<String>,
    /// Only events of this execution
    #[arg(long, value_name = "ID", add = ArgValueCompleter::new(completers::executions))]
    pub execution: Vec<String>,
    /// Only events whose printed text matches
    #[arg(long, value_name = "REGEX")]
    pub grep: Option<String>,
    /// Only from this time on: 10m (ago), 13:14, yesterday, '2026-01-21 13:14' (local time), or
    /// 2026-01-21T10:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time_point)]
    pub since: Option<TimePoint>,
    /// Only before this time
    #[arg(long, value_name = "TIME", value_parser = parse_time_point)]
    pub until: Option<TimePoint>,
}

const LOG_EXAMPLES: &str = "\
Examples:
  td-observe log build                  the latest run called build
  td-observe log build@1768989600 -f    one run, until it ends
  td-observe log build --grep 'error|panic' -C 3
                                        the matching lines and those around them
  td-observe log 'agent-*' --since yesterday --timestamps
                                        several runs, merged by time
  td-observe log --since 10m -n 50      the last lines of all runs
  td-observe log build --json --type OutputGap,Warning --since 1h
  td-observe log ./copy/events.jsonl.gz
                                        any file, compressed or not

Lines that are not events are skipped and counted on standard error. See
td-observe help history for runs, and help events for the types.

Exit codes: 0; 1 --grep matches nothing, or a part cannot be read; 2 wrong usage.";

#[derive(Debug, Args)]
#[command(after_help = LOG_EXAMPLES)]
pub(super) struct TypedLog {
    /// An execution id, a name (its latest run), a path, or a pattern for ids and names ('agent-*');
    /// several are merged by time [default: all runs]
    #[arg(value_name = "RUN", add = ArgValueCompleter::new(completers::runs))]
    pub runs: Vec<PathBuf>,
    /// Continue with new events until the runs end; with a pattern or without a run also with new
    /// runs, until Ctrl-C
    #[arg(short, long)]
    pub follow: bool,
    /// Only the last N lines
    #[arg(short = 'n', long, value_name = "LINES")]
    pub lines: Option<usize>,
    /// With --grep: also N lines before and after each match, of the same pane or command
    #[arg(short = 'C', long, value_name = "LINES")]
    pub context: Option<usize>,
    /// Begin each line with the local time
    #[arg(long)]
    pub timestamps: bool,
    #[command(flatten)]
    pub filter: TypedFilter,
}

const RUNS_EXAMPLES: &str = "\
Examples:
  td-observe runs                              all runs, the latest last
  td-observe runs --timestamps                 with the time of the last event
  td-observe runs --json | jq .size_bytes
  td-observe runs prune --keep-age 30d --dry-run
  td-observe runs prune --keep-size 1GiB

States: running, completed, failed, detached (its observer was stopped), cut off
(its writer died without recording an end).";

#[derive(Debug, Args)]
#[command(after_help = RUNS_EXAMPLES)]
pub(super) struct TypedRuns {
    /// Show times to the millisecond, and the time of the last event
    #[arg(long)]
    pub timestamps: bool,
    #[command(subcommand)]
    pub action: Option<RunsAction>,
}

#[derive(Debug, Subcommand)]
pub(super) enum RunsAction {
    /// Remove the oldest runs, except runs that are being written
    Prune(TypedPrune),
    /// Any other word, which is refused with a list of the valid ones
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

#[derive(Debug, Args)]
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

const REPLAY_EXAMPLES: &str = "\
Examples:
  td-observe replay build                     as it happened
  td-observe replay build --speed 10 --idle-limit 2s
  td-observe replay build --from 5m --to 6m   the sixth minute
  td-observe replay build --json              for programs, at the same speed

On a terminal, space pauses and resumes, . shows the next event, q ends.";

#[derive(Debug, Args)]
#[command(after_help = REPLAY_EXAMPLES)]
pub(super) struct TypedReplay {
    /// An execution id, a name (its latest run), or a path
    #[arg(value_name = "RUN", add = ArgValueCompleter::new(completers::runs))]
    pub run: PathBuf,
    /// Play N times as fast
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_speed)]
    pub speed: f64,
    /// Shorten every silence to at most this
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub idle_limit: Option<Duration>,
    /// Begin 5m after the start of the run, or at 2026-01-21T10:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time_point)]
    pub from: Option<TimePoint>,
    /// End there
    #[arg(long, value_name = "TIME", value_parser = parse_time_point)]
    pub to: Option<TimePoint>,
}

const EXPORT_EXAMPLES: &str = "\
Examples:
  td-observe export build --format text > build.txt
  td-observe export build --format cast -o build.cast
  asciinema play build.cast
  td-observe export build --format cast --pane %3 --idle-limit 2s";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Cast,
    Text,
}

#[derive(Debug, Args)]
#[command(after_help = EXPORT_EXAMPLES)]
pub(super) struct TypedExport {
    /// An execution id, a name (its latest run), or a path
    #[arg(value_name = "RUN", add = ArgValueCompleter::new(completers::runs))]
    pub run: PathBuf,
    /// cast: a recording in the format asciicast v3; text: the final text of all lines
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Format,
    /// Only this pane, such as %3
    #[arg(long, value_name = "PANE")]
    pub pane: Option<String>,
    /// With --format cast: use the log, even where watch --raw recorded the bytes
    #[arg(long)]
    pub from_log: bool,
    /// Shorten every silence to at most this
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub idle_limit: Option<Duration>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
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
