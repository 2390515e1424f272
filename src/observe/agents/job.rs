//! Background agents as a source of an engine: found, checked until all have ended, and counted.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crossbeam_channel::select_biased;
use serde_json::{Map, Value};

use super::places::{Found, Places};
use super::registry::{AgentRegistry, AgentStatus, Polling};
use crate::bus::EventEmitter;
use crate::error::{Error, Result};
use crate::event::ExecutionId;
use crate::history::{RunInfo, RunKind, RunState};
use crate::observe::{Job, JobHandle, RunName, Source, SourceContext};
use crate::thread::is_stopped;
use crate::timestamp::Timestamp;

/// The number of directories that each check searches for new files, within a millisecond.
const SMALL_DIRECTORIES: usize = 500;

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
pub(crate) fn agents_job(watch: AgentWatch) -> Result<(impl Source, JobHandle<AgentsReport>)> {
    if watch.places.is_empty() {
        return Err(Error::invalid("there are no agents to follow"));
    }
    if watch.polling.every.is_zero() {
        return Err(Error::invalid("the interval is zero"));
    }
    let work = move |context: &SourceContext| follow(watch, context);
    Ok(Job::new("td-agents".to_owned(), (), work))
}

fn follow(watch: AgentWatch, context: &SourceContext) -> Result<AgentsReport> {
    let AgentWatch {
        mut places,
        mut polling,
        execution_id,
        follows,
    } = watch;
    polling.clock = context.clock.clone();
    let every = polling.every;
    let name = match execution_id {
        Some(id) => RunName::Exact(id),
        None => RunName::at("agents", context.clock.wall()),
    };
    let since = context.clock.wall();
    let found = places.find(since);
    let mut searched_at = context.clock.now();
    let emitter = context.runs.open(name, info(&found.new))?.emitter;
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
    let is_small = places.directories() <= SMALL_DIRECTORIES;
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
        let path = std::path::absolute(&path).unwrap_or(path);
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
