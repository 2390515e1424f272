//! The registered agents: checks their files, and reports their ends.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crossbeam_channel::select_biased;

use super::content::TurnEnd;
use super::file::{OutputFile, ReadContext};
use super::verdict::Verdict;
use crate::bus::EventEmitter;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::{TdEvent, TurnEvidence};
use crate::thread::{self, Handle, Stop, StopGuard, lock, stop_pair};
use crate::timestamp::Timestamp;

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
/// long, the rest of a record or the verdict on a goal to six times as long. Files may appear later. A
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

    /// Registers an agent whose turns are reported if they end from `since` on.
    pub(super) fn register_since(
        &self,
        id: &str,
        output_file: PathBuf,
        since: Timestamp,
    ) -> Result<()> {
        let file = OutputFile::new(output_file, since);
        let mut book = self.shared.book();
        if book.agents.contains_key(id) {
            let what = format!("there is an agent {id} already");
            return Err(Error::invalid(what));
        }
        let shown = file.path().to_string_lossy();
        self.shared.emitter.agent_registered(id, &shown);
        let entry = Entry {
            status: AgentStatus::Running,
            file: Some(Box::new(file)),
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
    /// `None` while the file is checked, and once nothing more is reported about the agent.
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
            let taken = self.book().agents.get_mut(&id).and_then(Entry::take);
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
            for turn in check.turns {
                self.report(&id, turn, is_running);
            }
            if check.is_starved && book.starved.is_none() {
                book.starved = Some(id.clone());
            }
            if let Some(verdict) = check.verdict.filter(|_| is_running) {
                self.settle(&mut book, &id, verdict, |file| file.is_interactive());
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
                let evidence = match is_inferred {
                    true => TurnEvidence::Inferred,
                    false => TurnEvidence::Transcript,
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

impl Entry {
    fn take(&mut self) -> Option<(AgentStatus, Box<OutputFile>)> {
        Some((self.status, self.file.take()?))
    }
}
