//! Copies of the hosts' runs in a directory of this program, for faces that read logs.
//!
//! The list of the runs is known from the start, so that faces find them; the log of a run is copied when it is read, and
//! continued at the next reading. With [`CopyKind::Followed`], a stream continues all of them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::select_biased;
use serde::Deserialize;

use super::board::{Copied, HostBoard, HostState};
use super::link::Link;
use super::rewrite::Rewriter;
use crate::api::{EventReader, EventSource, Unavailable, get_lines, percent_encoded};
use crate::clock::Clock;
use crate::event::{Envelope, ExecutionId};
use crate::feed::Next;
use crate::history::{
    CopySource, DataDir, RunCopy, RunKind, RunMetadata, RunState, SESSION, glob_matches, is_glob,
    parse_line,
};
use crate::thread::{Stop, is_stopped, lock, park};
use crate::timestamp::Timestamp;

/// The most events of a log that is read for the first time by a face that shows its end: minutes of a flood, or days of
/// an agent.
const EVENTS_MAX: u64 = 50_000;

/// The time for which a copy counts as up to date, so that the pages of one view do not each ask the host.
const FRESH: Duration = Duration::from_millis(200);

/// The time after which a silent host is not awaited any more.
const SILENCE: Duration = Duration::from_secs(10);

/// The interval at which the list of a host's runs is read.
const LIST_INTERVAL: Duration = Duration::from_secs(30);

/// The interval at which copies are continued that were read.
const READ_INTERVAL: Duration = Duration::from_secs(10);

/// The interval at which a followed list is read, because its runs end; one that begins is seen in the stream.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(3);

/// The most runs of a host that are listed, the latest first.
const RUNS_MAX: usize = 1_000;

/// The pause while there is nothing to read, and the longest time for which events are held back.
const PAUSE: Duration = Duration::from_millis(100);

/// The state of a run that has a writer.
const RUNNING: &str = "running";

/// What is copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CopyKind {
    /// Nothing: the face shows the board alone.
    None,
    /// The ends of the logs that are read.
    Ends,
    /// The whole logs that are read.
    Whole,
    /// All events of the runs with these names, or of all, as they are logged.
    Followed(Vec<String>),
}

impl CopyKind {
    /// Returns the names of the runs that are followed, as a host knows them; none for all.
    fn names_on(&self, link: &Link) -> Vec<String> {
        let Self::Followed(names) = self else {
            return Vec::new();
        };
        let host = link.rewriter.0.as_ref();
        let own = |name: &String| {
            // A pattern may begin with one for hosts.
            let pattern = name.split_once('/').zip(host);
            let rest = pattern.and_then(|((of, rest), host)| {
                (is_glob(of) && glob_matches(of, host.as_str())).then_some(rest)
            });
            let own = link.rewriter.own_id(name).or(rest);
            own.unwrap_or(name).to_owned()
        };
        names.iter().map(own).collect()
    }
}

/// The copies of the runs of all hosts.
pub(super) struct Copies {
    data: DataDir,
    links: Arc<[Arc<Link>]>,
    board: Arc<HostBoard>,
    kind: CopyKind,
    runs: Mutex<HashMap<ExecutionId, Arc<Mutex<CopiedRun>>>>,
    clock: Clock,
    stop: Stop,
}

/// A run that is copied.
struct CopiedRun {
    copy: RunCopy,
    /// The number of the link to its host.
    host: usize,
    /// The number of its last event, as listed.
    events: u64,
    /// It has a writer now, or had one since this program began.
    is_written: bool,
    was_written: bool,
    refreshed: Option<Instant>,
}

impl CopiedRun {
    /// Returns true if nothing follows in the copy.
    fn is_over(&self, kind: &CopyKind) -> bool {
        match kind {
            // The next observer may continue what one has left.
            CopyKind::Followed(_) => {
                let is_left = self.was_written && self.copy.metadata().may_continue();
                !self.is_written && !is_left && self.copy.last_seq() >= self.events
            }
            _ => !self.is_written,
        }
    }
}

/// What a host says of a run.
#[derive(Clone, Debug, Deserialize)]
struct Summary {
    execution_id: ExecutionId,
    #[serde(default)]
    kind: RunKind,
    #[serde(default)]
    label: String,
    state: String,
    started: Timestamp,
    #[serde(default)]
    last_event: Timestamp,
    #[serde(default)]
    events: u64,
    #[serde(default)]
    exit_status: Option<i32>,
}

impl Summary {
    fn metadata(&self, rewriter: &Rewriter) -> RunMetadata {
        let host = rewriter.0.as_ref();
        // It is found by its name with and without the host.
        let label = match host {
            Some(host) if !self.label.is_empty() => host.id(&self.label).to_string(),
            _ => self.label.clone(),
        };
        let session = (SESSION.to_owned(), self.label.as_str().into());
        let has_session = host.is_some() && !self.label.is_empty();
        let state = match self.state.as_str() {
            // Nobody writes it any more, which the missing lock shows.
            "cut off" => RunState::Running,
            state => serde_json::from_value(state.into()).unwrap_or_default(),
        };
        RunMetadata {
            execution_id: self.execution_id.clone(),
            kind: self.kind.clone(),
            label,
            identity: None,
            created: self.started,
            updated: self.last_event,
            pid: 0,
            host: host.map_or_else(crate::history::host, ToString::to_string),
            state,
            exit_status: self.exit_status,
            next_seq: None,
            dropped_from: None,
            extra: Some(session).filter(|_| has_session).into_iter().collect(),
            unknown: serde_json::Map::new(),
        }
    }
}

impl Copies {
    pub fn new(
        data: &DataDir,
        (links, board): (Arc<[Arc<Link>]>, Arc<HostBoard>),
        kind: CopyKind,
        (stop, clock): (&Stop, &Clock),
    ) -> Self {
        Self {
            data: data.clone(),
            links,
            board,
            kind,
            runs: Mutex::default(),
            clock: clock.clone(),
            stop: stop.clone(),
        }
    }

    /// Keeps the list of a host's runs until a stop, and continues their copies if they are followed.
    pub fn keep(&self, host: usize) {
        let mut listed = Listed::default();
        if let CopyKind::Followed(_) = self.kind {
            self.follow(host, &mut listed);
            self.flush(host);
            return;
        }
        let mut list_at = self.clock.now();
        while !is_stopped(&self.stop) {
            let is_read = self.links[host].socket().is_ok();
            if is_read && self.clock.now() >= list_at {
                self.list(host, &mut listed);
                list_at = self.clock.now() + LIST_INTERVAL;
            }
            self.read_again(host);
            let pause = if is_read { READ_INTERVAL } else { PAUSE };
            select_biased! {
                recv(self.stop) -> _ => return,
                recv(self.clock.after(pause)) -> _ => {}
            }
        }
    }

    /// Continues the copies of a host's runs until a stop.
    fn follow(&self, host: usize, listed: &mut Listed) {
        let link = &self.links[host];
        let mut stream = Stream::new(link, &self.kind.names_on(link), &self.clock);
        let mut list_at = self.clock.now();
        while !is_stopped(&self.stop) {
            let Ok(socket) = link.socket() else {
                self.flush(host);
                park(Some(PAUSE));
                continue;
            };
            let now = self.clock.now();
            if now >= list_at {
                self.list(host, listed);
                list_at = now + FOLLOW_INTERVAL;
            }
            if let Some(envelope) = stream.next(socket, &self.clock) {
                if !lock(&self.runs).contains_key(envelope.event.execution_id()) {
                    // It has just begun, or goes on.
                    self.list(host, listed);
                }
                self.append(&envelope);
            }
            if now >= stream.flush_at {
                stream.flush_at = now + PAUSE;
                self.flush(host);
            }
        }
    }

    /// Reads the list of a host's runs, and keeps it in the directory.
    fn list(&self, host: usize, listed: &mut Listed) {
        let link = &self.links[host];
        let runs = match link.runs() {
            Ok(runs) => runs,
            Err(why) => {
                log::info!("{why}");
                // Nothing comes that could be waited for, such as from an observer that is older than lists.
                return self.note_copied(host, Copied::Level);
            }
        };
        let names = self.kind.names_on(link);
        let runs = runs.into_iter().filter_map(|run| {
            let run: Summary = serde_json::from_value(run).ok()?;
            // What a host says of others is nothing.
            let id = link.rewriter.own_id(&run.execution_id)?;
            let is_named = |name: &String| {
                let is_it = |text: &str| name == text || is_glob(name) && glob_matches(name, text);
                is_it(id) || is_it(&run.label)
            };
            (names.is_empty() || names.iter().any(is_named)).then_some(run)
        });
        let mut runs: Vec<Summary> = runs.collect();
        runs.sort_by_key(|run| std::cmp::Reverse(run.last_event));
        runs.truncate(RUNS_MAX);
        for run in runs {
            let known = (run.state.clone(), run.events);
            if listed.0.insert(run.execution_id.clone(), known.clone()) != Some(known)
                && let Err(error) = self.note(host, &run)
            {
                log::info!("{error:?}");
            }
        }
        self.note_copied(host, Copied::Listed);
    }

    /// Continues the copies of a host that were read before, for faces that read them again and again.
    fn read_again(&self, host: usize) {
        let runs: Vec<_> = lock(&self.runs).values().cloned().collect();
        for copied in runs {
            let id = {
                let copied = lock(&copied);
                let is_read =
                    copied.host == host && copied.refreshed.is_some() && copied.is_written;
                is_read.then(|| copied.copy.metadata().execution_id.clone())
            };
            if let Some(Err(why)) = id.map(|id| self.read(&id)) {
                log::info!("{why}");
            }
        }
    }

    /// Records how far the runs of a host are copied, for those who wait for it.
    fn note_copied(&self, host: usize, copied: Copied) {
        let is_new = |hosts: &[HostState]| hosts.get(host).is_some_and(|of| of.copied < copied);
        if self.board.with(is_new) {
            self.board.note(host, |of| of.copied = copied);
        }
    }

    /// Keeps what a host says of a run.
    fn note(&self, host: usize, run: &Summary) -> crate::Result<()> {
        let copied = self.copied(host, run)?;
        let mut copied = lock(&copied);
        copied.events = run.events;
        copied.is_written = run.state == RUNNING;
        copied.was_written |= copied.is_written;
        let metadata = run.metadata(&self.links[host].rewriter);
        copied.copy.set_metadata(metadata)?;
        let is_over = copied.is_over(&self.kind);
        if is_over {
            copied.copy.release()?;
        }
        drop(copied);
        if is_over {
            // Its descriptors are closed; it is opened again when it is read.
            lock(&self.runs).remove(&run.execution_id);
        }
        Ok(())
    }

    /// Returns the copy of a run, which is begun if there is none.
    fn copied(&self, host: usize, run: &Summary) -> crate::Result<Arc<Mutex<CopiedRun>>> {
        let mut runs = lock(&self.runs);
        if let Some(copied) = runs.get(&run.execution_id) {
            return Ok(Arc::clone(copied));
        }
        let metadata = run.metadata(&self.links[host].rewriter);
        let copy = RunCopy::open(&self.data.run(&run.execution_id), metadata)?;
        let copied = CopiedRun {
            copy,
            host,
            events: run.events,
            is_written: run.state == RUNNING,
            was_written: run.state == RUNNING,
            refreshed: None,
        };
        let copied = Arc::new(Mutex::new(copied));
        runs.insert(run.execution_id.clone(), Arc::clone(&copied));
        Ok(copied)
    }

    fn append(&self, envelope: &Envelope) {
        let copied = lock(&self.runs).get(envelope.event.execution_id()).cloned();
        let Some(copied) = copied else {
            return log::debug!("a run is not listed: {}", envelope.event.execution_id());
        };
        if let Err(error) = lock(&copied).copy.append(envelope) {
            log::warn!("{error:?}");
        }
    }

    /// Writes what was added to the copies of a host's runs, and ends those that are complete.
    fn flush(&self, host: usize) {
        let runs: Vec<_> = lock(&self.runs).values().cloned().collect();
        let (mut ended, mut is_level) = (Vec::new(), true);
        for copied in runs {
            let mut copied = lock(&copied);
            if copied.host != host {
                continue;
            }
            is_level &= copied.copy.last_seq() >= copied.events;
            let is_over = copied.is_over(&self.kind);
            let flushed = if is_over {
                ended.push(copied.copy.metadata().execution_id.clone());
                copied.copy.release()
            } else {
                copied.copy.flush()
            };
            if let Err(error) = flushed {
                log::warn!("{error:?}");
            }
        }
        for id in ended {
            lock(&self.runs).remove(&id);
        }
        let is_listed = |hosts: &[HostState]| hosts[host].copied >= Copied::Listed;
        if is_level && self.board.with(is_listed) {
            self.note_copied(host, Copied::Level);
        }
    }

    /// Appends to a copy what the host has logged since.
    fn read(&self, id: &ExecutionId) -> Result<(), String> {
        let hosts = self.links.iter().enumerate();
        let named = hosts.clone().filter(|(_, link)| link.rewriter.0.is_some());
        let local = hosts.filter(|(_, link)| link.rewriter.0.is_none());
        let found = named
            .chain(local)
            .find_map(|(number, link)| Some((number, link, link.rewriter.own_id(id)?)));
        let (number, link, own) = found.ok_or_else(|| format!("no host has {id}"))?;
        let now = self.clock.now();
        if let Some(copied) = lock(&self.runs).get(id)
            && lock(copied).refreshed.is_some_and(|at| now < at + FRESH)
        {
            return Ok(());
        }
        let path = format!("/api/v1/runs/{}", percent_encoded(own));
        let mut summary = link.get_json(&path).map_err(|problem| problem.detail())?;
        link.rewriter.summary(&mut summary);
        let summary: Summary =
            serde_json::from_value(summary).map_err(|cause| format!("{path}: {cause}"))?;
        if summary.execution_id != *id {
            // The host took the id for the name of another run.
            return Err(format!("no run of the host is called {own:?}"));
        }
        let copied = self
            .copied(number, &summary)
            .map_err(|error| error.to_string())?;
        let mut copied = lock(&copied);
        let last = copied.copy.last_seq();
        let is_begun = last > 0;
        let from = match self.kind {
            CopyKind::Ends if !is_begun => summary.events.saturating_sub(EVENTS_MAX) + 1,
            _ => last + 1,
        };
        let socket = link.socket()?;
        let path = format!("{path}/events?from_seq={from}");
        let mut failed = None;
        let read = get_lines(
            (&socket, &path),
            (SILENCE, &self.clock),
            || is_stopped(&self.stop),
            |line| {
                if let Ok(mut envelope) = parse_line(line)
                    && envelope.event.execution_id() == own
                {
                    link.rewriter.envelope(&mut envelope);
                    failed = copied.copy.append(&envelope).err();
                }
            },
        );
        copied.refreshed = Some(self.clock.now());
        let flushed = copied.copy.flush();
        drop(copied);
        let noted = self.note(number, &summary);
        let failed = failed.or(read.err()).or(flushed.err()).or(noted.err());
        failed.map_or(Ok(()), |error| Err(error.to_string()))
    }
}

impl CopySource for Copies {
    fn refresh(&self, execution: &ExecutionId) {
        let is_read = matches!(self.kind, CopyKind::Ends | CopyKind::Whole);
        if is_read && let Err(why) = self.read(execution) {
            log::info!("{execution}: {why}");
        }
    }
}

/// The runs of a host, with their states and the numbers of their last events.
#[derive(Debug, Default)]
struct Listed(HashMap<ExecutionId, (String, u64)>);

/// The stream that continues copies.
struct Stream {
    reader: EventReader,
    link: Arc<Link>,
    flush_at: Instant,
}

impl Stream {
    fn new(link: &Arc<Link>, names: &[String], clock: &Clock) -> Self {
        let names = names
            .iter()
            .map(|name| format!("&execution={}", percent_encoded(name)));
        let path = format!(
            "/api/v1/events?since={}{}",
            percent_encoded(&Timestamp::default().to_string()),
            names.collect::<String>()
        );
        Self {
            reader: EventReader::new(Path::new(""), path, clock),
            link: Arc::clone(link),
            flush_at: clock.now(),
        }
    }

    /// Returns the next event, with the name of its host; `None` if none comes soon.
    fn next(&mut self, socket: PathBuf, clock: &Clock) -> Option<Envelope> {
        self.reader.socket = socket;
        match self.reader.next(clock.now() + PAUSE) {
            Ok(Next::Event(envelope)) => {
                let mut envelope = envelope.into_envelope();
                self.link.rewriter.envelope(&mut envelope);
                Some(envelope)
            }
            // The numbers show what is missing to who reads the copy.
            Ok(Next::Timeout | Next::Missed(_)) => None,
            Ok(Next::End) | Err(Unavailable::Broken(_)) => {
                park(Some(PAUSE));
                None
            }
            Err(Unavailable::Refused(why)) => {
                log::info!("a host refuses its events: {why}");
                park(Some(FOLLOW_INTERVAL));
                None
            }
        }
    }
}
