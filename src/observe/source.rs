//! The contract between a source and the engine: a thread that observes, and the runs it emits to.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::observed_sessions::ObservedSessions;
use super::watch_claims::WatchClaims;
use crate::bus::EventEmitter;
use crate::clock::Clock;
use crate::error::Result;
use crate::event::ExecutionId;
use crate::history::{IterationDirectory, RunDirectory, RunInfo, RunState, TmuxIdentity};
use crate::thread::Stop;
use crate::timestamp::Timestamp;

/// An observer with a thread of its own.
pub(crate) trait Source: Send + 'static {
    /// Returns the thread's name.
    fn name(&self) -> String;

    /// Observes until the observed execution has ended or the source is stopped. Then it observes one
    /// last time, emits its end and returns.
    fn run(self: Box<Self>, context: SourceContext);
}

/// The services that the engine provides to a source.
#[derive(Clone)]
pub(crate) struct SourceContext {
    /// Closes when the source is to stop.
    pub stop: Stop,
    pub clock: Clock,
    pub runs: Arc<dyn RunProvider>,
    /// The observed tmux sessions.
    pub sessions: ObservedSessions,
    /// The panes that the watches of the engine observe.
    pub claims: WatchClaims,
}

/// Opens and closes runs; implemented by the engine, which knows the bus and the history.
pub(crate) trait RunProvider: Send + Sync {
    /// Opens the run of a tmux session, or of the execution that the user named.
    ///
    /// If the history cannot be written, because another observer writes it or the disk is not
    /// writable, the failure is reported once and the run continues without a history.
    ///
    /// # Errors
    /// When the engine is shutting down.
    fn open(&self, name: RunName, info: RunInfo) -> Result<OpenedRun>;

    /// Returns the runs of the sessions of a tmux server, the last written one first: those that existed when the first
    /// run was opened, and those that were opened since. There are none without a history, or if the user named the
    /// execution.
    fn runs_of_server(&self, server: &TmuxIdentity) -> Vec<RunDirectory>;

    /// Returns true if another process writes an open run, so that this one observes it without a history.
    #[cfg(feature = "notify")]
    fn is_written_elsewhere(&self, id: &ExecutionId) -> bool;

    /// Adds to the metadata of an open run.
    fn add_metadata(&self, id: &ExecutionId, extra: Map<String, Value>);

    /// Creates the directory of an iteration of a run; `None` for a run without a history.
    fn create_iteration(
        &self,
        id: &ExecutionId,
        iteration: u32,
    ) -> Option<Result<IterationDirectory>>;

    /// Starts the recording of a run's panes, whose files carry the title; `None` for a run without a
    /// history. The caller drops the recorder before it closes the run.
    fn start_recording(
        &self,
        id: &ExecutionId,
        title: &str,
    ) -> Option<Result<crate::recording::RunRecorder>>;

    /// Releases a run. The run is closed when its last user has released it.
    fn close(&self, id: &ExecutionId, state: RunState, exit_status: Option<i32>);
}

/// The rule by which a run is named.
#[derive(Clone, Debug)]
pub(crate) enum RunName {
    /// This id, which several sources may share.
    Exact(ExecutionId),
    /// The id of the run with the same identity, else a new one after this label.
    Labelled(String),
}

impl RunName {
    /// Returns the name of an execution that begins now: `LABEL@SECONDS`.
    pub fn at(label: &str, now: Timestamp) -> Self {
        Self::Labelled(format!("{label}@{}", now.seconds()))
    }
}

pub(crate) struct OpenedRun {
    pub emitter: EventEmitter,
    /// The history, if the run resumes an earlier one.
    pub history: Option<RunDirectory>,
    /// The run that another observer writes: until its lock is free, the events are not stored.
    pub locked: Option<RunDirectory>,
}
