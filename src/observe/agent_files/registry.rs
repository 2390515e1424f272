//! The registered agents: checks their files, and reports their ends.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::super::{Job, JobHandle, JobIds, JobRun, RunName, Source, SourceContext};
use super::file::resolved;
use super::output_file::{OutputFile, ReadContext, TurnEnd};
use super::search::{Found, Places};
use super::verdict::Verdict;
use crate::bus::EventEmitter;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::{ExecutionId, TdEvent, TurnEvidence};
use crate::history::{RunInfo, RunKind, RunState};
use crate::thread;
use crate::thread::{Handle, Stop, StopGuard, is_stopped, lock, stop_pair};
use crate::timestamp::Timestamp;
use crossbeam_channel::select_biased;
use serde_json::{Map, Value};

/// The most bytes of all files that one tick reads, so that it ends long before the next one.
const TICK_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The wait for the end of the ticker, which may hang while it reads from a dead network.
const TICKER_END: Duration = Duration::from_secs(5);

/// The intervals in which files are polled.
#[derive(Clone, Debug)]
pub struct Polling {
    /// The interval between two checks of all files; defaults to 5 s.
    pub every: Duration,
    /// The time for which a file must be unchanged if its records do not show whether the agent is
    /// done; defaults to 10 s.
    pub stable: Duration,
    /// The source of time.
    pub clock: Clock,
}

impl Default for Polling {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(5),
            stable: Duration::from_secs(10),
            clock: Clock::system(),
        }
    }
}

/// The progress of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AgentStatus {
    /// The agent works, as far as is known.
    Running,
    /// The agent has completed, and its completion is reported.
    Completed,
    /// The agent has failed, and its failure is reported.
    Failed,
}

impl AgentStatus {
    /// Returns the status as one word in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

/// Background agents: each is registered once, and its end is reported once.
///
/// An agent with an output file ends when the records at the end of the file show it; they are read as
/// [`StreamParser`](crate::agent::StreamParser) reads them. If the records do not show it, a file that
/// is unchanged for a while counts as an end, with evidence that begins with `inferred`, but never
/// while a tool or a background task runs. Records that are expected to follow extend the wait: the
/// lines of hooks to `stable`, the next prompt of a person who stopped the agent to three times as
/// long, the rest of a record or the verdict on a goal to six times, the rest of a message to 30 times,
/// and the answer to a prompt or to a tool's result to 180 times as long. A sub-agent of Claude Code
/// also ends as the file of its session says, if that is registered, too. Files may appear later. A
/// session with a person continues after its first end: each end of a turn is a `TurnCompleted`, the
/// first one before the `AgentCompleted`, and each failure after the first end an `Error`. A file that
/// is deleted, replaced, truncated, compressed or unreadable causes one `Warning` and is followed
/// further; but a task whose `tasks/ID.output` is deleted has ended.
///
/// ```no_run
/// use td_observe::{AgentRegistry, EventBus, Polling};
///
/// # fn main() -> td_observe::Result<()> {
/// let bus = EventBus::new(10_000);
/// let agents = AgentRegistry::new(bus.emitter_for("agents"), Polling::default());
/// agents.start_polling()?;
/// agents.register("tests", "/tmp/claude/tasks/a31559.output")?;
/// // …
/// agents.stop_polling();
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AgentRegistry {
    shared: Arc<Shared>,
    ticker: Mutex<Option<(StopGuard, Handle<()>)>>,
}

impl AgentRegistry {
    /// Creates a registry without agents, whose ticker is not started.
    pub fn new(emitter: EventEmitter, polling: Polling) -> Self {
        let shared = Shared {
            emitter,
            polling,
            book: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
            ticker: Mutex::new(None),
        }
    }

    /// Registers an agent, and emits `AgentRegistered`. The next tick checks its output file.
    ///
    /// # Errors
    /// `is_invalid_input()` when an agent of this name exists.
    pub fn register(&self, id: &str, output_file: impl Into<PathBuf>) -> Result<()> {
        let since = self.shared.polling.clock.wall();
        self.register_since(id, output_file.into(), since)
    }

    /// Registers an agent that writes no output file, and emits `AgentRegistered` with an empty `output_file`. It
    /// runs until [`complete`](Self::complete) or [`fail`](Self::fail) is called.
    ///
    /// # Errors
    /// `is_invalid_input()` when an agent of this name exists.
    pub fn register_without_file(&self, id: &str) -> Result<()> {
        self.add(id, None)
    }

    /// Registers an agent whose turns are reported if they end from `since` on.
    pub(super) fn register_since(
        &self,
        id: &str,
        output_file: PathBuf,
        since: Timestamp,
    ) -> Result<()> {
        self.add(id, Some(OutputFile::new(output_file, since)))
    }

    fn add(&self, id: &str, file: Option<OutputFile>) -> Result<()> {
        let mut book = self.shared.book();
        if book.agents.contains_key(id) {
            let what = format!("there is an agent {id} already");
            return Err(Error::invalid(what));
        }
        let path = file.as_ref().map(|file| file.path().to_string_lossy());
        let shown = path.unwrap_or_default();
        self.shared.emitter.agent_registered(id, &shown);
        let entry = Entry {
            status: AgentStatus::Running,
            file: file.map(Box::new),
        };
        book.agents.insert(id.to_owned(), entry);
        Ok(())
    }

    /// Records that an agent has completed, as the caller knows, and emits `AgentCompleted`. Returns
    /// false if the agent is unknown or has ended before.
    pub fn complete(&self, id: &str, result: &str) -> bool {
        let verdict = Verdict::Completed {
            result: result.to_owned(),
            evidence: "complete() was called".to_owned(),
        };
        let mut book = self.shared.book();
        self.shared.settle(&mut book, id, verdict, |_| false)
    }

    /// Records that an agent has failed, as the caller knows, and emits `AgentFailed`. Returns false
    /// if the agent is unknown or has ended before.
    pub fn fail(&self, id: &str, error: &str) -> bool {
        let verdict = Verdict::Failed {
            error: error.to_owned(),
            evidence: "fail() was called".to_owned(),
        };
        let mut book = self.shared.book();
        self.shared.settle(&mut book, id, verdict, |_| false)
    }

    /// Forgets an agent: its file is not checked any more, and nothing is reported about it. Returns
    /// false if the agent is unknown.
    pub fn cleanup(&self, id: &str) -> bool {
        self.shared.book().agents.remove(id).is_some()
    }

    /// Returns the progress of an agent; `None` if it is unknown.
    pub fn status(&self, id: &str) -> Option<AgentStatus> {
        let book = self.shared.book();
        book.agents.get(id).map(|entry| entry.status)
    }

    /// Returns the number of agents with this progress.
    pub fn count(&self, status: AgentStatus) -> usize {
        let book = self.shared.book();
        let entries = book.agents.values();
        entries.filter(|entry| entry.status == status).count()
    }

    /// Checks all files now, on this thread.
    pub fn poll_now(&self) {
        self.shared.tick();
    }

    /// Starts the ticker, one thread for all agents; does nothing if it runs.
    ///
    /// # Errors
    /// When the system cannot start a thread.
    pub fn start_polling(&self) -> Result<()> {
        let mut ticker = self.ticker();
        if ticker.is_none() {
            let shared = Arc::clone(&self.shared);
            let (running, stop) = stop_pair();
            let thread = thread::spawn("td-agents", move || shared.run(&stop))?;
            *ticker = Some((running, thread));
        }
        Ok(())
    }

    /// Stops the ticker and waits for its end; it can be started again.
    pub fn stop_polling(&self) {
        let Some((running, ticker)) = self.ticker().take() else {
            return;
        };
        drop(running);
        let deadline = self.shared.polling.clock.now() + TICKER_END;
        match ticker.join_deadline(deadline) {
            Ok(Ok(())) => {}
            Ok(Err(panicked)) => log::error!("{panicked}"),
            Err(ticker) => log::warn!("{} hangs while it reads a file", ticker.name()),
        }
    }

    fn ticker(&self) -> MutexGuard<'_, Option<(StopGuard, Handle<()>)>> {
        lock(&self.ticker)
    }
}

impl Drop for AgentRegistry {
    fn drop(&mut self) {
        self.stop_polling();
    }
}

#[derive(Debug)]
struct Shared {
    emitter: EventEmitter,
    polling: Polling,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    agents: BTreeMap<String, Entry>,
    /// The file that the next tick reads first, because the last tick had no bytes left for it.
    starved: Option<String>,
}

#[derive(Debug)]
struct Entry {
    status: AgentStatus,
    /// `None` without a file, while the file is checked, and once nothing more is reported about the agent.
    file: Option<Box<OutputFile>>,
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.book)
    }

    fn run(&self, stop: &Stop) {
        let clock = &self.polling.clock;
        loop {
            self.tick();
            let next = clock.after(self.polling.every);
            select_biased! {
                recv(stop) -> _ => return,
                recv(next) -> _ => {}
            }
        }
    }

    fn tick(&self) {
        let mut bytes_left = TICK_BYTES_MAX;
        let ids = self.book().check_order();
        for id in ids {
            // Taken out of the book, so that callers who register or query do not wait for the disk.
            let taken = self
                .book()
                .agents
                .get_mut(&id)
                .and_then(|entry| Some((entry.status, entry.file.take()?)));
            let Some((before, mut file)) = taken else {
                continue;
            };
            let clock = &self.polling.clock;
            let context = ReadContext {
                now: clock.now(),
                wall: clock.wall(),
                stable: self.polling.stable,
            };
            let check = file.check(context, &mut bytes_left);
            let mut book = self.book();
            let ended = book.ended_sub_agents(&file);
            let is_same = |entry: &&mut Entry| entry.status == before;
            let Some(entry) = book.agents.get_mut(&id).filter(is_same) else {
                // The agent has ended or was forgotten meanwhile.
                continue;
            };
            entry.file = Some(file);
            let is_running = before == AgentStatus::Running;
            for warning in check.warnings.iter().filter(|_| is_running) {
                self.emitter.warning(&format!("agent {id}"), warning);
            }
            if let Some(name) = check.title {
                self.emitter.emit(TdEvent::RowRenamed {
                    execution_id: self.emitter.execution_id().clone(),
                    pane: None,
                    agent_id: Some(id.clone()),
                    name,
                });
            }
            for turn in check.turns {
                self.report(&id, turn, is_running);
            }
            if check.is_starved && book.starved.is_none() {
                book.starved = Some(id.clone());
            }
            if let Some(verdict) = check.verdict.filter(|_| is_running) {
                self.settle(&mut book, &id, verdict, |file| file.is_interactive());
            }
            for (id, verdict) in ended {
                self.settle(&mut book, &id, verdict, |_| false);
            }
        }
    }

    /// Reports the end of a turn. A failure that is the agent's first end is reported as that end.
    fn report(&self, id: &str, turn: TurnEnd, is_running: bool) {
        match turn {
            TurnEnd::Completed {
                marker,
                summary,
                is_inferred,
            } => {
                let evidence = if is_inferred {
                    TurnEvidence::Inferred
                } else {
                    TurnEvidence::Transcript
                };
                self.emitter.emit(TdEvent::TurnCompleted {
                    execution_id: self.emitter.execution_id().clone(),
                    marker,
                    summary,
                    pane: None,
                    evidence: Some(evidence.into()),
                    agent_id: Some(Box::new(id.to_owned())),
                });
            }
            TurnEnd::Failed { error } if !is_running => {
                self.emitter.error(&format!("agent {id}"), &error);
            }
            TurnEnd::Failed { .. } => {}
        }
    }

    /// Reports the end of an agent once. The caller holds the lock. `goes_on` decides on further
    /// checks.
    fn settle(
        &self,
        book: &mut Book,
        id: &str,
        verdict: Verdict,
        goes_on: impl Fn(&OutputFile) -> bool,
    ) -> bool {
        let Some(entry) = book.agents.get_mut(id) else {
            return false;
        };
        if entry.status != AgentStatus::Running {
            return false;
        }
        entry.file = entry.file.take().filter(|file| goes_on(file));
        entry.status = match verdict {
            Verdict::Completed { result, evidence } => {
                self.emitter.agent_completed(id, &result, evidence);
                AgentStatus::Completed
            }
            Verdict::Failed { error, evidence } => {
                self.emitter.agent_failed(id, &error, evidence);
                AgentStatus::Failed
            }
        };
        true
    }
}

impl Book {
    /// Returns the running sub-agents that have ended as the file of their session says.
    fn ended_sub_agents(&self, session: &OutputFile) -> Vec<(String, Verdict)> {
        let running = self.agents.iter();
        let running = running.filter(|(_, entry)| entry.status == AgentStatus::Running);
        let ended = running.filter_map(|(id, entry)| {
            let verdict = session.end_of_sub_agent(entry.file.as_ref()?)?;
            Some((id.clone(), verdict))
        });
        ended.collect()
    }

    /// Returns the agents to check, beginning with the starved one.
    fn check_order(&mut self) -> Vec<String> {
        let first = self.starved.take().unwrap_or_default();
        let (before, from): (Vec<_>, Vec<_>) = self
            .agents
            .iter()
            .filter(|(_, entry)| entry.file.is_some())
            .map(|(id, _)| id.clone())
            .partition(|id| *id < first);
        from.into_iter().chain(before).collect()
    }
}

// Background agents as a source of an engine: found, checked until all have ended, and counted.

/// The interval of searches of more directories: 20,000 take some 30 ms.
const SEARCH_INTERVAL: Duration = Duration::from_secs(5);

/// Describes which agents' files to check, and how.
///
/// ```
/// use std::time::Duration;
/// use td_observe::AgentWatch;
/// # fn main() -> td_observe::Result<()> {
/// let watch = AgentWatch::new()
///     .path("tasks/*.output")?
///     .every(Duration::from_secs(1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "give it to Engine::watch_agents"]
pub struct AgentWatch {
    places: Places,
    polling: Polling,
    execution_id: Option<ExecutionId>,
    follows: bool,
}

impl AgentWatch {
    /// Creates a watch without any files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file, which may appear later; a directory, in which all `*.jsonl` and `*.output` are
    /// agents' files, at any depth; or a pattern with `*` and `?` in its last part. New files are
    /// found while others are observed.
    ///
    /// # Errors
    /// `is_invalid_input()` when it is none of these.
    pub fn path(mut self, path: impl AsRef<Path>) -> Result<Self> {
        self.places.add(path.as_ref())?;
        Ok(self)
    }

    /// Adds the home directories of all known agents: Claude Code, Codex, Gemini CLI and Qwen Code.
    /// `variable` reads the environment: `HOME`, and `CLAUDE_CONFIG_DIR`, `CODEX_HOME`,
    /// `GEMINI_CLI_HOME` and `QWEN_RUNTIME_DIR` if they are set. Sessions count if they were written
    /// to in the last 10 minutes, or are written to from now on.
    pub fn homes(mut self, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        self.places.add_homes(variable);
        self
    }

    /// Continues after all agents have ended, until the engine is shut down: sessions with a person
    /// may have more turns, and more agents may appear.
    pub fn follow(mut self) -> Self {
        self.follows = true;
        self
    }

    /// Returns the existing homes of agents.
    #[cfg(feature = "cli")]
    pub(crate) fn existing_homes(&self) -> Vec<String> {
        self.places.homes()
    }

    /// Returns messages about the paths without any file yet.
    #[cfg(feature = "cli")]
    pub(crate) fn empty_paths(&self) -> Vec<String> {
        self.places.empty()
    }

    /// Sets the interval between two checks of all files; defaults to 5 s.
    pub fn every(mut self, interval: Duration) -> Self {
        self.polling.every = interval;
        self
    }

    /// Sets how long a file must be unchanged if its records do not show whether the agent is done;
    /// defaults to 10 s.
    pub fn stable(mut self, quiet: Duration) -> Self {
        self.polling.stable = quiet;
        self
    }

    /// Sets the name of the run; defaults to `agents@SECONDS`.
    pub fn execution_id(mut self, id: impl Into<ExecutionId>) -> Self {
        self.execution_id = Some(id.into());
        self
    }
}

/// The number of agents that completed, failed and still run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentsReport {
    /// The number of agents that have completed.
    pub completed: usize,
    /// The number of agents that have failed.
    pub failed: usize,
    /// The number of agents that had not ended when the engine was shut down.
    pub running: usize,
}

/// Creates the job that polls the files of `watch` until all agents have ended.
///
/// # Errors
/// `is_invalid_input()` when `watch` has no places, or its interval is zero.
pub(crate) fn agents_job(
    mut watch: AgentWatch,
    ids: &JobIds,
    wall: Timestamp,
) -> Result<(impl Source, JobHandle<AgentsReport>)> {
    if watch.places.is_empty() {
        return Err(Error::invalid("there are no agents to follow"));
    }
    if watch.polling.every.is_zero() {
        return Err(Error::invalid("the interval is zero"));
    }
    let name = ids.claim(match watch.execution_id.take() {
        Some(id) => RunName::Exact(id),
        None => RunName::at("agents", wall),
    })?;
    let work = move |context: &SourceContext, run: JobRun<'_>| follow(watch, context, run);
    Ok(Job::new("td-agents".to_owned(), name, (), work))
}

fn follow(watch: AgentWatch, context: &SourceContext, run: JobRun<'_>) -> Result<AgentsReport> {
    let AgentWatch {
        mut places,
        mut polling,
        follows,
        ..
    } = watch;
    polling.clock = context.clock.clone();
    let every = polling.every;
    let since = context.clock.wall();
    let found = places.find(since);
    let mut searched_at = context.clock.now();
    let emitter = run.open(context, info(&found.new))?.emitter;
    let agents = AgentRegistry::new(emitter.clone(), polling);
    take(&agents, &emitter, found, since);
    let mut is_full_reported = false;
    let report = loop {
        // Read before the check, so that the last check comes after the stop.
        let is_last = is_stopped(&context.stop);
        let now = context.clock.now();
        if is_last || is_due(&places, searched_at, now) {
            take(&agents, &emitter, places.find(context.clock.wall()), since);
            searched_at = now;
        }
        if places.are_full() && !std::mem::replace(&mut is_full_reported, true) {
            emitter.warning("agents", "there are more files than are followed");
        }
        agents.poll_now();
        let report = AgentsReport {
            completed: agents.count(AgentStatus::Completed),
            failed: agents.count(AgentStatus::Failed),
            running: agents.count(AgentStatus::Running),
        };
        let is_over = !follows && report.running == 0 && report.completed + report.failed > 0;
        if is_last || is_over {
            break report;
        }
        let next = context.clock.after(every);
        select_biased! {
            recv(context.stop) -> _ => {}
            recv(next) -> _ => {}
        }
    };
    let (state, exit_status) = match report {
        AgentsReport { failed: 1.., .. } => (RunState::Failed, Some(1)),
        AgentsReport { running: 0, .. } => (RunState::Completed, Some(0)),
        _ => (RunState::Detached, None),
    };
    let id = emitter.execution_id().clone();
    context.runs.close(&id, state, exit_status);
    Ok(report)
}

/// Returns true if a search for new files is due.
fn is_due(places: &Places, searched_at: Instant, now: Instant) -> bool {
    // The number of directories that each check searches for new files, within a millisecond.
    let is_small = places.directories() <= 500;
    is_small || now.saturating_duration_since(searched_at) >= SEARCH_INTERVAL
}

fn take(agents: &AgentRegistry, emitter: &EventEmitter, found: Found, since: Timestamp) {
    for warning in found.warnings {
        emitter.warning("agents", &warning);
    }
    for name in found.gone {
        agents.cleanup(&name);
    }
    for (name, path) in found.new {
        let path = resolved(&path);
        // `Places` returns each name once.
        if let Err(error) = agents.register_since(&name, path, since) {
            log::warn!("{error}");
        }
    }
}

fn info(files: &[(String, PathBuf)]) -> RunInfo {
    let mut extra = Map::new();
    let shown = files.iter().map(|(_, path)| path.to_string_lossy().into());
    extra.insert("files".to_owned(), Value::Array(shown.take(100).collect()));
    RunInfo {
        kind: RunKind::Agents,
        label: "agents".to_owned(),
        identity: None,
        extra,
    }
}
