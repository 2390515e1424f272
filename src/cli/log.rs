//! `td-observe log`: what a run has shown, as it was shown; and what it shows from now on.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use crossbeam_channel::{never, select_biased};

use super::duration::TimePoint;
use super::failure::Failure;
use super::history::{Ended, Which, tell, until_stopped};
use super::history_args::{TypedFilter, TypedLog};
use super::nearest;
use super::options::Options;
use super::signals::Signals;
use crate::clock::Clock;
use crate::event::{Envelope, EventKind, TdEvent};
use crate::face::{Applied, Console, ConsoleOptions, EventWriter, LastRevisions, Renderer};
use crate::history::{Follower, LogRecord, Query, RunDirectory, RunState};
use crate::thread::{Stop, is_stopped};
use crate::timestamp::Timestamp;

/// The poll interval of a log that is followed: soon enough for eyes, and cheap for the disk.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(50);

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
    run: std::path::PathBuf,
    follows: bool,
    query: Query,
    /// The revisions of what is shown, where each line is shown once, as it reads at last.
    revisions: Option<Query>,
}

impl Config {
    pub fn from_typed(typed: TypedLog, options: &Options) -> Result<Self, Failure> {
        let is_of_lines = typed.filter.types.is_empty() && typed.filter.grep.is_none();
        let mut query = query(typed.filter, Clock::system().wall())?;
        // A search finds each state of a line, and programs read what is there.
        let revisions = (is_of_lines && !options.json)
            .then(|| query.clone().kind(EventKind::OutputRevised.as_str()));
        if !options.json && !query.wants_all() {
            query = with_context(query);
        }
        Ok(Self {
            run: typed.run,
            follows: typed.follow,
            query,
            revisions,
        })
    }
}

fn query(typed: TypedFilter, now: Timestamp) -> Result<Query, Failure> {
    let mut query = Query::all();
    for kind in typed.types {
        if EventKind::from_name(&kind).is_none() {
            let names = EventKind::ALL.iter().map(|kind| kind.as_str());
            let hint = nearest::hint(&kind, names, "td-observe help events");
            super::output::say(&format!(
                "no event type is called {kind:?} in this version{hint}; searching for it anyway"
            ));
        }
        query = query.kind(kind);
    }
    for id in typed.execution {
        query = query.execution(id);
    }
    if let Some(pattern) = typed.grep {
        query = query
            .text(&pattern)
            .map_err(|error| Failure::usage(format!("--grep: {error}")))?;
    }
    if let Some(since) = typed.since {
        query = query.since(before(since, now));
    }
    if let Some(until) = typed.until {
        query = query.until(before(until, now));
    }
    if query.is_empty_span() {
        return Err(Failure::usage(
            "--since is not before --until: no event can be between them",
        ));
    }
    Ok(query)
}

fn before(moment: TimePoint, now: Timestamp) -> Timestamp {
    match moment {
        TimePoint::At(ts) => ts,
        TimePoint::Off(ago) => {
            let micros = i64::try_from(ago.as_micros()).unwrap_or(i64::MAX);
            Timestamp::from_micros(now.micros().saturating_sub(micros))
        }
    }
}

/// Adds what the console has to know.
pub(super) fn with_context(query: Query) -> Query {
    let add = |query: Query, kind: EventKind| query.context(kind.as_str());
    CONTEXT.into_iter().fold(query, add)
}

/// Returns the output settings for history on standard output.
pub(super) fn page(options: &Options, which: &Which, clock: &Clock) -> Shown {
    let view = if options.json {
        Renderer::Json
    } else {
        let mut console = Console::new(ConsoleOptions {
            coloured: options.coloured,
            aligned: std::io::stdout().is_terminal(),
            verbose: options.verbose > 0,
        });
        if let (Which::Run(run), Some(session)) = (which, which.label()) {
            // Until the log names the session: that event may be filtered out, or precede the shown part.
            console.note_context(&TdEvent::SessionStarted {
                execution_id: run.execution_id().clone(),
                session,
                panes: Vec::new(),
            });
        }
        Renderer::Console(console, never())
    };
    Shown {
        view: Some(view),
        quiet: options.quiet,
        clock: clock.clone(),
    }
}

/// A page that is opened by the thread that writes it.
pub(super) struct Shown {
    view: Option<Renderer>,
    pub quiet: bool,
    clock: Clock,
}

impl Shown {
    /// The page rests while nothing comes: lines that may be rewritten are held until then.
    fn hold(&mut self) {
        self.view = self.view.take().map(|view| match view {
            Renderer::Console(console, standing) => Renderer::Console(console.holding(), standing),
            other => other,
        });
    }

    pub fn open(&mut self) -> EventWriter<std::io::StdoutLock<'static>> {
        let view = self.view.take().unwrap_or(Renderer::Json);
        EventWriter::stdout(view, self.clock.clone())
    }
}

/// Shows the log.
pub(super) fn run(options: &Options, config: Config) -> Result<ExitCode, Failure> {
    let signals = Signals::catch(|| {})?;
    let clock = Clock::system();
    let which = Which::typed(&config.run, options)?;
    let mut shown = page(options, &which, &clock);
    match (which, config.follows) {
        (Which::Run(run), true) => {
            let time = clock.clone();
            shown.hold();
            until_stopped(&signals, &clock, move |stop| {
                follow(run, config, shown, &time, stop)
            })
        }
        (which, false) => until_stopped(&signals, &clock, move |stop| {
            print(&which, config, shown, stop)
        }),
        (Which::File(path), true) => Err(Failure::usage(format!(
            "--follow: {path:?} is a file; name a run, or its directory"
        ))),
    }
}

/// Returns the last text of each line, as far as it is known before the lines are shown.
fn finals(which: &Which, config: &Config, stop: &Stop) -> Result<LastRevisions, Ended> {
    let mut finals = LastRevisions::default();
    // What is no file cannot be read twice.
    let is_read_once = match which {
        Which::Run(_) => false,
        Which::File(path) => !path.is_file(),
    };
    if let (Some(revisions), false) = (&config.revisions, is_read_once) {
        for record in which.read(revisions.clone())? {
            if is_stopped(stop) {
                break;
            }
            finals.note(&record.envelope);
        }
    }
    Ok(finals)
}

fn print(which: &Which, config: Config, mut shown: Shown, stop: &Stop) -> Result<ExitCode, Ended> {
    let mut finals = finals(which, &config, stop)?;
    let mut log = which.read(config.query.clone())?;
    let mut page = shown.open();
    for record in &mut log {
        if is_stopped(stop) {
            break;
        }
        if !shown.quiet {
            show(&mut page, &record, &config.query, &mut finals)?;
        }
    }
    page.finish()?;
    Ok(tell(which, log.report()))
}

fn follow(
    run: RunDirectory,
    config: Config,
    mut shown: Shown,
    clock: &Clock,
    stop: &Stop,
) -> Result<ExitCode, Ended> {
    let which = Which::Run(run.clone());
    let mut finals = finals(&which, &config, stop)?;
    let mut log = Follower::open(&run, config.query.clone())?;
    let mut page = shown.open();
    loop {
        // Asked first: what was written before the writer went is read then.
        let is_written = log.is_written()?;
        while let Some(record) = log.next()? {
            if is_stopped(stop) {
                break;
            }
            if !shown.quiet {
                show(&mut page, &record, &config.query, &mut finals)?;
            }
        }
        if !is_written || is_stopped(stop) {
            break;
        }
        page.flush()?;
        select_biased! {
            recv(stop) -> _ => break,
            recv(clock.after(FOLLOW_INTERVAL)) -> _ => {}
        }
    }
    page.finish()?;
    let state = run.metadata().ok().flatten().map(|known| known.state);
    if state == Some(RunState::Running) && !is_stopped(stop) {
        super::output::say("the run is cut off here: its writer is gone without a word");
    }
    Ok(tell(&which, log.report()))
}

fn show<W: std::io::Write>(
    page: &mut EventWriter<W>,
    record: &LogRecord,
    query: &Query,
    finals: &mut LastRevisions,
) -> Result<(), Ended> {
    if !record.is_wanted {
        page.note_context(&record.envelope.event);
        return Ok(());
    }
    if page.is_json() {
        return Ok(page.write_record(&record.envelope, record.line())?);
    }
    if let Some(part) = matching(&record.envelope, query) {
        return Ok(page.write_event(&part)?);
    }
    match finals.apply(&record.envelope) {
        Applied::Replaced(parts) => {
            for part in parts {
                page.write_event(&part)?;
            }
        }
        Applied::Unchanged => page.write_record(&record.envelope, record.line())?,
    }
    Ok(())
}

/// Of several lines in one event, those that match.
fn matching(envelope: &Envelope, query: &Query) -> Option<Envelope> {
    let regex = query.text_regex()?;
    let TdEvent::OutputUpdate { chunk, .. } = &envelope.event else {
        return None;
    };
    // The place of each line among the matching ones, if it matches.
    let (mut matching, mut places, mut count) = (String::new(), Vec::new(), 0);
    for line in chunk.split_inclusive('\n') {
        let is_match = regex.is_match(line.trim_end_matches('\n'));
        places.push(is_match.then_some(count));
        if is_match {
            matching.push_str(line);
            count += 1;
        }
    }
    // What matches over several lines is shown whole.
    if matching.is_empty() || matching.len() == chunk.len() {
        return None;
    }
    let mut part = envelope.clone();
    if let TdEvent::OutputUpdate { chunk, styles, .. } = &mut part.event {
        *chunk = matching;
        styles.move_lines(|line| places.get(line as usize).copied().flatten());
    }
    Some(part)
}
