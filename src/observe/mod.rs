//! Sources: threads that observe and emit; what they are given, and who starts them.

mod agents;
mod command_events;
mod command_job;
mod conversation;
mod coordinator;
mod file_bytes;
mod hook_files;
#[cfg(feature = "cli")]
mod hook_report;
mod job;
mod pane_observer;
mod pane_recordings;
mod pane_transfers;
mod poller;
mod programs;
mod resume_point;
mod say;
mod session_outcome;
mod watch;
mod watch_targets;

use std::sync::Arc;

use serde_json::{Map, Value};

pub(crate) use agents::agents_job;
pub use agents::{AgentRegistry, AgentStatus, AgentWatch, AgentsReport, Polling};
pub(crate) use command_job::command_job;
pub(crate) use coordinator::{Coordinator, poke};
#[cfg(feature = "cli")]
pub(crate) use hook_files::HookFiles;
pub(crate) use job::Job;
pub use job::JobHandle;
#[cfg(feature = "cli")]
pub(crate) use say::PIPE_CONTEXT;
pub use watch::Watch;

use crate::bus::EventEmitter;
use crate::clock::Clock;
use crate::error::Result;
use crate::event::ExecutionId;
use crate::history::{IterationDirectory, RunDirectory, RunInfo, RunState};
use crate::thread::Stop;

/// Something that observes on a thread of its own.
pub(crate) trait Source: Send + 'static {
    /// The thread's name.
    fn name(&self) -> String;

    /// Observes until there is nothing left to observe, or until it is stopped; then it takes one
    /// last look, emits its end and returns.
    fn run(self: Box<Self>, context: Context);
}

/// What a source works with.
#[derive(Clone)]
pub(crate) struct Context {
    /// Closed when the source is to stop.
    pub stop: Stop,
    /// Where time comes from.
    pub clock: Clock,
    /// Where runs are opened.
    pub runs: Arc<dyn Runs>,
}

/// Opens and closes runs: the engine's side, which knows the bus and the log.
pub(crate) trait Runs: Send + Sync {
    /// Opens the run of a tmux session, or of the execution that the user named.
    ///
    /// Where the log cannot be written, because another observer writes it, or the disk does not
    /// let us, that is said once and the run goes on without.
    ///
    /// # Errors
    /// When the engine is shutting down.
    fn open(&self, name: RunName, info: RunInfo) -> Result<OpenedRun>;

    /// Adds to what the metadata of a run say, while it goes on.
    fn remark(&self, id: &ExecutionId, extra: Map<String, Value>);

    /// Makes the directory of an iteration of a run; `None` for a run that is not kept.
    fn iteration(&self, id: &ExecutionId, iteration: u32) -> Option<Result<IterationDirectory>>;

    /// Where the panes of a run are recorded, byte for byte; `None` for a run that is not kept. The
    /// title gets into the recordings. Drop it when the run is let go of.
    fn raw(&self, id: &ExecutionId, title: &str) -> Option<Result<crate::recording::RunRecorder>>;

    /// Lets go of a run. When its last user has, it is closed.
    fn close(&self, id: &ExecutionId, state: RunState, exit_status: Option<i32>);
}

/// How a run gets its name.
#[derive(Clone, Debug)]
pub(crate) enum RunName {
    /// This one; several sources may share it.
    Exactly(ExecutionId),
    /// The one of the same identity, else one after this label.
    Labelled(String),
}

/// A run that is open.
pub(crate) struct OpenedRun {
    /// Where to emit.
    pub emitter: EventEmitter,
    /// The log, where the run goes on in one.
    pub history: Option<RunDirectory>,
}
