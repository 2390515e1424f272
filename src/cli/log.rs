//! `td-observe log`: prints the events of runs, and follows them: everything that is appended, until their writers
//! end, and new runs. A run that a background observer leaves is followed further when the next observer continues it,
//! unless its execution has ended.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap_complete::engine::ArgValueCompleter;
use crossbeam_channel::select_biased;
use regex::Regex;

use super::duration::{TimePoint, parse_time_point};
use super::failure::Failure;
use super::history::{Which, data_dir, report_failure, report_problems, until_stopped};
use super::log_show::{PageOptions, Selection, Show, page_options};
use super::options::Options;
use super::signals::Signals;
use super::{known, live, observer};
use crate::clock::Clock;
use crate::event::EventKind;
use crate::feed::{FOLLOW_INTERVAL, LogItem, RunLogs};
use crate::history::{DataDir, Query, RunDirectory, RunState};
use crate::thread::{Stop, is_stopped};
use crate::timestamp::Timestamp;

/// Events that the console needs to label the lines of other events.
const CONTEXT: [EventKind; 5] = [
    EventKind::SessionStarted,
    EventKind::SessionRenamed,
    EventKind::SessionEnded,
    EventKind::PaneOpened,
    EventKind::PaneClosed,
];

/// The configuration of `log`.
#[derive(Debug)]
pub(super) struct Config {
    selection: Selection,
    follows: bool,
    query: Query,
    /// The expression for lines, and the number of lines around each match.
    grep: (Option<Regex>, Option<usize>),
    /// The query for revisions, if each line is shown once with its final text.
    revisions: Option<Query>,
    last_lines: Option<usize>,
    has_timestamps: bool,
    /// The ids given with `--execution`.
    executions: BTreeSet<String>,
    /// The types that this version does not know. Embedders and later versions have others.
    unknown_types: BTreeSet<String>,
    data_path: Option<PathBuf>,
}

impl Config {
    pub fn from_typed(typed: TypedLog, options: &Options) -> Result<Self, Failure> {
        let is_of_lines = typed.filter.types.is_empty() && typed.filter.grep.is_none();
        if typed.context.is_some() && typed.filter.grep.is_none() {
            return Err(usage!(
                "-C shows the lines around the matches of --grep: give --grep as well"
            ));
        }
        let executions = typed.filter.execution.iter().cloned().collect();
        let is_unknown = |kind: &&String| EventKind::from_name(kind).is_none();
        let unknown_types = typed.filter.types.iter().filter(is_unknown);
        let unknown_types: BTreeSet<String> = unknown_types.cloned().collect();
        let mut query = query(typed.filter, Clock::system().wall())?;
        let grep = query.text_regex().cloned();
        if typed.context.is_some() {
            // The reader must also return the lines around a match.
            query = query.any_text();
        }
        // A search covers each revision of a line, and programs get the events as stored.
        let revisions = (is_of_lines && !options.json)
            .then(|| query.clone().kind(EventKind::OutputRevised.as_str()));
        if !options.json && !query.wants_all() {
            query = with_context(query);
        }
        Ok(Self {
            selection: Selection { typed: typed.runs },
            follows: typed.follow,
            query,
            grep: (grep, typed.context),
            revisions,
            last_lines: typed.lines,
            has_timestamps: typed.timestamps,
            executions,
            unknown_types,
            data_path: options.home().ok(),
        })
    }
}

fn query(typed: TypedFilter, now: Timestamp) -> Result<Query, Failure> {
    let mut query = Query::all();
    for kind in typed.types {
        query = query.kind(kind);
    }
    for id in typed.execution {
        query = query.execution(id);
    }
    if let Some(pattern) = typed.grep {
        query = query
            .text(&pattern)
            .map_err(|error| usage!("--grep: {error}"))?;
    }
    in_span(query, typed.since, typed.until, now)
}

/// Returns the query for a time span only.
pub(super) fn in_span(
    mut query: Query,
    since: Option<TimePoint>,
    until: Option<TimePoint>,
    now: Timestamp,
) -> Result<Query, Failure> {
    if let Some(since) = since {
        query = query.since(before(since, now));
    }
    if let Some(until) = until {
        query = query.until(before(until, now));
    }
    if query.is_empty_span() {
        return Err(usage!(
            "--since is not before --until: the time span is empty"
        ));
    }
    Ok(query)
}

pub(super) fn before(point: TimePoint, now: Timestamp) -> Timestamp {
    match point {
        TimePoint::At(ts) => ts,
        TimePoint::Off(ago) => {
            let micros = i64::try_from(ago.as_micros()).unwrap_or(i64::MAX);
            Timestamp::from_micros(now.micros().saturating_sub(micros))
        }
    }
}

/// Adds the events that the console needs as context.
pub(super) fn with_context(query: Query) -> Query {
    let add = |query: Query, kind: EventKind| query.context(kind.as_str());
    CONTEXT.into_iter().fold(query, add)
}

pub(super) fn run(options: &Options, config: Config) -> Result<ExitCode, Failure> {
    let signals = Signals::catch(|| {})?;
    let clock = Clock::system();
    let whiches = config.selection.resolve(options)?;
    if whiches.is_empty() {
        message!("there are no runs yet");
    }
    if whiches.len() > 1 {
        super::checks::raise_descriptors();
    }
    // A search also shows matching rows of screens.
    let is_search = config.grep.0.is_some();
    let page = page_options(
        options,
        config.has_timestamps,
        config.last_lines,
        is_search,
        &clock,
    );
    if !config.follows {
        return until_stopped(&signals, &clock, move |stop| {
            print(&whiches, config, page, stop)
        });
    }
    let runs = whiches
        .into_iter()
        .map(|which| match which {
            Which::Run(run) => Ok(run),
            Which::File(path) => Err(usage!(
                "--follow: {path:?} is a file; give a run or its directory"
            )),
        })
        .collect::<Result<Vec<RunDirectory>, _>>()?;
    for kind in &config.unknown_types {
        message!("{}", unknown_type(kind));
    }
    let page = page.holding();
    // An open selection includes runs that begin later.
    let later = if config.selection.is_open() {
        Some((data_dir(options)?, config.selection))
    } else {
        None
    };
    let data = options.home()?;
    let logs = RunLogs::following(config.query, &clock);
    let (grep, revisions, time) = (config.grep, config.revisions, clock.clone());
    let greps = grep.0.is_some();
    until_stopped(&signals, &clock, move |stop| {
        let mut show = Show::new(page, grep, revisions);
        // What is found is shown at once.
        show.looks_ahead = false;
        let has_failed = follow(data, runs, later, logs, &mut show, &time, stop)?;
        // A search without a match fails, unless it was stopped.
        let has_missed = greps && !show.has_matched && !is_stopped(stop);
        Ok(live::code(has_failed || has_missed))
    })
}

fn print(
    whiches: &[Which],
    config: Config,
    page: PageOptions,
    stop: &Stop,
) -> Result<ExitCode, Failure> {
    // A mistaken name is reported before any event is printed. A single execution without events prints none.
    if let Some(kind) = missing(whiches, &config.unknown_types, Query::kind, stop) {
        return Err(Failure::usage(unknown_type(kind)));
    }
    if config.executions.len() > 1
        && let Some(id) = missing(whiches, &config.executions, Query::execution, stop)
    {
        return Err(Failure::usage(no_execution(id, config.data_path)));
    }
    let greps = config.grep.0.is_some();
    let mut show = Show::new(page, config.grep, config.revisions);
    show.unseen_types = config.unknown_types;
    show.unseen_executions = config.executions;
    let has_failed = match whiches {
        [which] => {
            show.begin(which, stop)?;
            let mut log = which.read(config.query)?;
            for record in &mut log {
                if is_stopped(stop) {
                    break;
                }
                show.record(&record)?;
            }
            show.finish()?;
            report_problems(which, log.report())
        }
        _ => {
            let has_failed = show.merged(whiches, config.query, stop)?;
            show.finish()?;
            has_failed
        }
    };
    if is_stopped(stop) {
        return Ok(live::code(has_failed));
    }
    if let Some(kind) = show.unseen_types.first() {
        return Err(Failure::usage(unknown_type(kind)));
    }
    if let Some(id) = missing(whiches, &show.unseen_executions, Query::execution, stop) {
        return Err(Failure::usage(no_execution(id, config.data_path)));
    }
    Ok(live::code(has_failed || greps && !show.has_matched))
}

/// Returns a message about a type that no selected event has.
fn unknown_type(kind: &str) -> String {
    let names = || EventKind::ALL.iter().map(|kind| kind.as_str());
    let hint = known::suggestion(kind, names());
    let all: Vec<&str> = names().collect();
    format!(
        "--type: there is no event of the type {kind:?}{hint} there are {}",
        all.join(", ")
    )
}

/// Returns the first of these names by which `select` finds no event in the logs. A log that cannot be read again may have
/// all of them, and so may one with an error, which is reported when it is printed.
fn missing<'a>(
    whiches: &[Which],
    names: &'a BTreeSet<String>,
    select: impl Fn(Query, &'a String) -> Query,
    stop: &Stop,
) -> Option<&'a String> {
    names.iter().find(|name| {
        whiches.iter().all(|which| {
            let query = select(Query::all(), name);
            let is_over = is_stopped(stop) || which.is_read_once();
            !is_over && which.read(query).is_ok_and(|mut log| log.next().is_none())
        })
    })
}

/// Returns a message about an execution that no selected event is of.
fn no_execution(id: &str, data_path: Option<PathBuf>) -> String {
    let known = data_path.map_or_else(Vec::new, |path| known::run_ids(path, &Clock::system()));
    let hint = known::hint(id, known.iter().map(String::as_str), "td-observe runs");
    format!("--execution: no event here is of the execution {id:?}{hint}")
}

// The arguments of `log`.

/// A selection of events.
#[derive(Debug, clap::Args)]
pub(super) struct TypedFilter {
    /// Only events of this type, such as OutputUpdate; several: --type A,B
    #[arg(
        long = "type",
        value_name = "TYPE",
        value_delimiter = ',',
        add = ArgValueCompleter::new(known::event_types)
    )]
    pub types: Vec<String>,
    /// Only events of this execution
    #[arg(long, value_name = "ID", add = ArgValueCompleter::new(known::executions))]
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

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/log.txt").trim_end())]
pub(super) struct TypedLog {
    /// An execution id, a name (its latest run), a path, or a pattern for ids and names ('agent-*');
    /// several are merged by time [default: all runs]
    #[arg(value_name = "RUN", add = ArgValueCompleter::new(known::runs))]
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
    #[cfg(feature = "hosts")]
    #[command(flatten)]
    pub hosts: super::hosts::TypedHosts,
}

/// The interval of the search for new runs.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);

/// Follows logs to their ends; returns true if a part cannot be read. `data` is the directory whose observer may
/// continue runs, and `later` selects the runs that begin later.
pub(super) fn follow(
    data: PathBuf,
    runs: Vec<RunDirectory>,
    later: Option<(DataDir, Selection)>,
    mut logs: RunLogs,
    show: &mut Show,
    clock: &Clock,
    stop: &Stop,
) -> Result<bool, Failure> {
    let mut observers = Observers::of(data);
    observers.check(false, clock.now());
    show.open_stream()?;
    let is_single = runs.len() == 1 && later.is_none();
    let mut known: HashSet<PathBuf> = runs.iter().map(|run| run.path().into()).collect();
    logs.follow(runs.into_iter().map(|run| (run, 0)));
    let (mut has_failed, mut has_left, mut is_first) = (false, false, true);
    let mut search_at = clock.now() + SEARCH_INTERVAL;
    while !is_stopped(stop) {
        let next = logs.next(Some(clock.now()));
        match next {
            LogItem::Opened(run) => show.begin(&Which::Run(run), stop)?,
            LogItem::Event(_, record) => show.record(&record)?,
            LogItem::Ended(log) if observers.may_continue(&log.run, clock.now()) => {
                has_left = true;
                logs.follow_on(*log);
            }
            LogItem::Ended(log) => {
                let state = log.run.metadata().ok().flatten().map(|known| known.state);
                if is_single && state == Some(RunState::Running) {
                    message!("the run is cut off here: its writer has died");
                }
                let which = Which::Run(log.run);
                has_failed |= show.end(&which, &log.log.into_report());
            }
            LogItem::Failed(_, error) if is_single => return Err(error.into()),
            LogItem::Failed(run, error) => has_failed |= report_failure(&Which::Run(run), &error),
            LogItem::Missed(_) => {}
            LogItem::Timeout | LogItem::End => {
                observers.check(std::mem::take(&mut has_left), clock.now());
                if std::mem::take(&mut is_first) {
                    show.page.flushed()?.release()?;
                } else {
                    show.page.flush()?;
                }
                match &later {
                    None if matches!(next, LogItem::End) => break,
                    Some((data, selection)) if clock.now() >= search_at => {
                        search_at = clock.now() + SEARCH_INTERVAL;
                        let runs = selection.runs_in(data)?.into_iter();
                        let new = runs.filter(|run| known.insert(run.path().into()));
                        logs.follow(new.map(|run| (run, 0)));
                    }
                    _ => {}
                }
                select_biased! {
                    recv(stop) -> _ => break,
                    recv(clock.after(FOLLOW_INTERVAL)) -> _ => {}
                }
            }
        }
    }
    show.finish()?;
    Ok(has_failed)
}

/// The interval at which the running observer is checked.
const INTERVAL: Duration = Duration::from_millis(250);

/// The time without an observer after which a message reports it.
const ABSENCE_MAX: Duration = Duration::from_secs(2);

/// The time within which a new observer continues the runs of existing sessions.
const CONTINUES_WITHIN: Duration = Duration::from_secs(5);

/// The known observers of a data directory.
#[derive(Default)]
pub(super) struct Observers {
    data: PathBuf,
    /// The pids of all observers so far.
    seen: BTreeSet<u32>,
    /// The pid of the running observer, and the time of its detection.
    running: Option<(u32, Instant)>,
    checked_at: Option<Instant>,
    absence: Absence,
}

impl Observers {
    pub fn of(data: PathBuf) -> Self {
        Self {
            data,
            ..Self::default()
        }
    }

    /// Checks for a running observer at most every [`INTERVAL`]. `is_waiting` states that a run waits for one.
    pub fn check(&mut self, is_waiting: bool, now: Instant) {
        if is_waiting {
            self.absence.begin(now)
        } else {
            self.absence.end()
        }
        let since = |at: Instant| now.saturating_duration_since(at);
        if self.checked_at.is_some_and(|at| since(at) < INTERVAL) {
            return;
        }
        self.checked_at = Some(now);
        // An unreadable announcement counts as no observer.
        let known = observer::running(&self.data).ok().flatten();
        let pid = known.map(|known| known.pid);
        self.seen.extend(pid);
        if pid != self.running.map(|(pid, _)| pid) {
            self.running = pid.map(|pid| (pid, now));
        }
    }

    /// Returns true if an observer has left a run without a writer, and the next one may continue it.
    pub fn may_continue(&self, run: &RunDirectory, now: Instant) -> bool {
        let Ok(Some(metadata)) = run.metadata() else {
            return false;
        };
        let is_left = matches!(metadata.state, RunState::Detached | RunState::Running);
        if !is_left || !self.seen.contains(&metadata.pid) {
            return false;
        }
        match self.running {
            // The observer that left the run is about to end.
            Some((pid, _)) if pid == metadata.pid => true,
            Some((_, since)) => now.saturating_duration_since(since) < CONTINUES_WITHIN,
            None => true,
        }
    }
}

/// Reports on standard error that no observer runs, and that one runs again.
#[derive(Default)]
pub(super) struct Absence {
    since: Option<Instant>,
    has_reported: bool,
}

impl Absence {
    /// Records that no observer runs.
    pub fn begin(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= ABSENCE_MAX && !self.has_reported {
            self.has_reported = true;
            message!("the observer has ended; waiting for another one (td-observe start)");
        }
    }

    /// Records that an observer runs.
    pub fn end(&mut self) {
        self.since = None;
        if std::mem::take(&mut self.has_reported) {
            message!("an observer runs again");
        }
    }
}
