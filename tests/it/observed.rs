//! An engine that watches a test's tmux server, and its events so far.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use td_observe::event::GapEvidence;
use td_observe::history::{LogReader, Query, RunDirectory};
use td_observe::tmux::{Server, Target};
use td_observe::{
    Builder, Clock, Delivery, Engine, Envelope, Report, Subscription, TdEvent, Watch,
};

use crate::support::{CEILING, TmuxServer};

/// Reads a run, which must be intact.
#[track_caller]
pub fn read(run: &RunDirectory) -> Vec<Envelope> {
    let mut log = LogReader::open(run, Query::all()).unwrap();
    let events = (&mut log).map(|record| record.envelope).collect();
    let report = log.report();
    assert!(
        report.invalid == 0 && report.torn == 0 && report.problems.is_empty(),
        "{report:?}"
    );
    events
}

/// A running engine and its events.
pub struct Observed {
    engine: Option<Engine>,
    events: Subscription,
    pub seen: Vec<Envelope>,
    data: PathBuf,
}

impl Observed {
    /// Watches all sessions of a server, with a log in the server's directory.
    pub fn all(server: &TmuxServer) -> Self {
        Self::start(server, |watch| watch)
    }

    /// Watches with the options of `set`.
    #[track_caller]
    pub fn start(server: &TmuxServer, set: impl FnOnce(Watch) -> Watch) -> Self {
        Self::watching(server, set(Self::watch(server.server())))
    }

    /// Watches all sessions of a server that is accessed through `access`.
    #[track_caller]
    pub fn with(server: &TmuxServer, access: Server) -> Self {
        Self::watching(server, Self::watch(access))
    }

    fn watch(server: Server) -> Watch {
        Watch::new(server)
            .interval(Duration::from_millis(100))
            .poll()
    }

    /// Watches all sessions of a server with another clock. The caller must wait, because deadlines
    /// follow that clock, too.
    #[track_caller]
    pub fn by_clock(server: &TmuxServer, clock: Clock) -> Self {
        Self::built(
            server,
            Self::watch(server.server()),
            Builder::new().clock(clock),
        )
    }

    #[track_caller]
    fn watching(server: &TmuxServer, watch: Watch) -> Self {
        Self::built(server, watch, Builder::new())
    }

    #[track_caller]
    fn built(server: &TmuxServer, watch: Watch, builder: Builder) -> Self {
        let data = server.directory().join("data");
        let mut engine = builder.data_dir(&data).capacity(1_000_000).start().unwrap();
        let events = engine.subscribe();
        engine.watch(watch).unwrap();
        Self {
            engine: Some(engine),
            events,
            seen: Vec::new(),
            data,
        }
    }

    #[track_caller]
    pub fn session(server: &TmuxServer, name: &str) -> Self {
        Self::start(server, |watch| watch.target(Target::parse(name).unwrap()))
    }

    pub fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().unwrap()
    }

    /// Receives events until they satisfy the predicate.
    #[track_caller]
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&[Envelope]) -> bool) {
        let deadline = Instant::now() + CEILING;
        while !done(&self.seen) {
            match self.events.recv_deadline(deadline) {
                Ok(Delivery::Event(envelope)) => self.seen.push(envelope.into_envelope()),
                Ok(Delivery::Lagged { missed }) => panic!("the test's lane lost {missed} events"),
                Err(why) => panic!("waited for {what} ({why:?}); seen:\n{}", shown(&self.seen)),
            }
        }
    }

    /// Receives the events that have already arrived.
    pub fn take_ready(&mut self) {
        while let Ok(delivery) = self.events.try_recv() {
            self.seen.extend(delivery.into_envelope());
        }
    }

    /// Waits until this many sessions are observed.
    #[track_caller]
    pub fn until_started(&mut self, sessions: usize) {
        self.until("the sessions' start", |seen| {
            let started =
                |envelope: &&Envelope| matches!(envelope.event, TdEvent::SessionStarted { .. });
            seen.iter().filter(started).count() >= sessions
        });
    }

    /// Waits until any pane has a settled line with this text.
    #[track_caller]
    pub fn until_line(&mut self, line: &str) {
        // Each event is checked once, because a flood has many.
        let mut checked = 0;
        self.until(&format!("the line {line:?}"), |seen| {
            let new = &seen[std::mem::replace(&mut checked, seen.len())..];
            new.iter().any(|envelope| match &envelope.event {
                TdEvent::OutputUpdate { chunk, .. } => chunk.lines().any(|other| other == line),
                _ => false,
            })
        });
    }

    /// Waits until the replay of a pane ends with the rows that the pane shows.
    #[track_caller]
    pub fn until_replayed(&mut self, pane: &str, shows: &[&str], what: &str) {
        let same = |seen: &[Envelope]| {
            let text = Replay::of(seen, pane).text();
            let replayed: Vec<&str> = text.lines().collect();
            let same = replayed.len().min(shows.len());
            let mut pairs = shows[shows.len() - same..]
                .iter()
                .zip(&replayed[replayed.len() - same..]);
            // The pane may have lost the beginning of the oldest line.
            let oldest = pairs
                .next()
                .is_some_and(|(shown, replayed)| replayed.ends_with(shown));
            oldest && pairs.all(|(shown, replayed)| shown == replayed)
        };
        let deadline = Instant::now() + CEILING;
        while !same(&self.seen) {
            match self.events.recv_deadline(deadline) {
                Ok(delivery) => self.seen.extend(delivery.into_envelope()),
                Err(_) => {
                    let text = self.replay(pane).text();
                    let replayed: Vec<&str> = text.lines().collect();
                    let pairs = shows.iter().rev().zip(replayed.iter().rev()).enumerate();
                    let differing: Vec<_> = pairs.filter(|(_, (a, b))| a != b).take(8).collect();
                    panic!(
                        "{what}: from the end, shown and replayed: {differing:#?}\n{}",
                        shown(&self.seen)
                    )
                }
            }
        }
    }

    /// Stops the engine and receives the remaining events.
    #[track_caller]
    pub fn stop(&mut self) -> Report {
        let report = self.engine.take().unwrap().shutdown();
        assert!(
            report.panicked.is_empty() && report.left.is_empty(),
            "{report:?}"
        );
        while let Ok(delivery) = self.events.recv() {
            self.seen.extend(delivery.into_envelope());
        }
        report
    }

    #[track_caller]
    pub fn replay(&self, pane: &str) -> Replay {
        Replay::of(&self.seen, pane)
    }

    /// Returns the events of all logged runs, by the name of the run's directory.
    #[track_caller]
    pub fn logs(&self) -> BTreeMap<String, Vec<Envelope>> {
        logs(&self.data)
    }
}

/// Returns the events of all runs in a data directory, after checking their numbers.
#[track_caller]
pub fn logs(data: &Path) -> BTreeMap<String, Vec<Envelope>> {
    let named = |run: std::fs::DirEntry| {
        let log = read_log(&run.path()).unwrap_or_else(|fault| panic!("{fault}"));
        (run.file_name().into_string().unwrap(), log)
    };
    let runs = std::fs::read_dir(data.join("runs")).unwrap();
    runs.map(|run| named(run.unwrap())).collect()
}

/// Returns the events of one run, or an error if its numbers are not contiguous.
pub fn read_log(run: &Path) -> Result<Vec<Envelope>, String> {
    let fault = |what: String| format!("{}: {what}", run.display());
    let text = std::fs::read_to_string(run.join("events.jsonl"))
        .map_err(|error| fault(error.to_string()))?;
    if !text.ends_with('\n') {
        return Err(fault("it ends with a torn line".to_owned()));
    }
    let (mut envelopes, mut next) = (Vec::new(), 1);
    for line in text.lines() {
        let envelope: Envelope =
            serde_json::from_str(line).map_err(|error| fault(format!("{error}: {line}")))?;
        let (first, after) = match (&envelope.event, envelope.seq) {
            (TdEvent::LogOpened { first_seq, .. }, Some(0)) => (Some(*first_seq), next),
            (
                TdEvent::LogGap {
                    first_seq,
                    last_seq,
                    ..
                },
                _,
            ) => (Some(*first_seq), last_seq + 1),
            (_, seq) => (seq, next + 1),
        };
        if first != Some(next) {
            return Err(fault(format!("a hole before {next}: {line}")));
        }
        next = after;
        envelopes.push(envelope);
    }
    Ok(envelopes)
}

/// The replay of one pane's events.
#[derive(Debug, Default)]
pub struct Replay {
    /// The last state of each line, by number.
    pub lines: BTreeMap<i64, String>,
    /// Settled lines in the order of their reports, with their numbers.
    pub settled: Vec<(i64, String)>,
    /// Gaps: first line, count, reason, and the number of lines that had settled before.
    pub gaps: Vec<(i64, Option<u64>, String, usize)>,
    /// The number of confirmed gaps.
    pub confirmed: usize,
    pub revisions: usize,
    pub complete: bool,
}

impl Replay {
    #[track_caller]
    pub fn of(events: &[Envelope], of: &str) -> Self {
        let mut replay = Self::default();
        let mut next = i64::MIN;
        for envelope in events
            .iter()
            .filter(|e| e.event.pane().is_some_and(|pane| pane == of))
        {
            match &envelope.event {
                TdEvent::OutputUpdate {
                    first_line,
                    chunk,
                    is_complete,
                    ..
                } => {
                    assert!(*first_line >= next, "numbers go on:\n{}", shown(events));
                    assert!(chunk.is_empty() || chunk.ends_with('\n'), "{chunk:?}");
                    for (number, line) in (*first_line..).zip(chunk.split_terminator('\n')) {
                        replay.settled.push((number, line.to_owned()));
                        replay.lines.insert(number, line.to_owned());
                        next = number + 1;
                    }
                    replay.complete |= is_complete;
                }
                TdEvent::OutputRevised { line, text, .. } => {
                    replay.revisions += 1;
                    replay.lines.insert(*line, text.clone());
                }
                TdEvent::OutputGap {
                    first_line,
                    lost_lines,
                    reason,
                    evidence,
                    ..
                } => {
                    replay.confirmed += usize::from(*evidence == GapEvidence::Confirmed);
                    assert!(*first_line >= next, "numbers go on:\n{}", shown(events));
                    let gap = (
                        *first_line,
                        *lost_lines,
                        reason.to_string(),
                        replay.settled.len(),
                    );
                    replay.gaps.push(gap);
                }
                _ => {}
            }
        }
        replay
    }

    pub fn texts(&self) -> Vec<&str> {
        self.settled.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// Returns the text after the last `cleared` gap, without trailing blanks.
    pub fn text(&self) -> String {
        let cleared = self
            .gaps
            .iter()
            .rev()
            .find(|(_, _, reason, _)| reason == "cleared");
        let from = cleared.map_or(i64::MIN, |(number, ..)| *number);
        let mut text = String::new();
        for line in self.lines.range(from..).map(|(_, line)| line) {
            writeln!(text, "{}", line.trim_end()).unwrap();
        }
        text.trim_end().to_owned()
    }
}

/// Returns the last hundred events for a failure message.
pub fn shown(events: &[Envelope]) -> String {
    let from = events.len().saturating_sub(100);
    events[from..]
        .iter()
        .map(|e| serde_json::to_string(e).unwrap() + "\n")
        .collect()
}
