//! Sources: the threads that observe and emit events, and their contract with the engine.

mod agents;
mod command_events;
mod command_job;
mod conversation;
mod coordinator;
mod file_bytes;
mod file_version;
mod hook_files;
#[cfg(feature = "cli")]
mod hook_report;
mod job;
mod next_capture;
mod pane_observer;
mod pane_recordings;
mod pane_transfers;
mod poller;
mod programs;
mod resume_point;
mod session_outcome;
mod source;
mod watch;

pub(crate) use agents::agents_job;
pub use agents::{AgentRegistry, AgentStatus, AgentWatch, AgentsReport, Polling};
pub(crate) use command_job::command_job;
pub(crate) use coordinator::{Coordinator, request_poll};
#[cfg(feature = "cli")]
pub(crate) use hook_files::HookFiles;
pub(crate) use job::Job;
pub use job::JobHandle;
pub(crate) use next_capture::NextCapture;
#[cfg(feature = "cli")]
pub(crate) use pane_observer::PIPE_CONTEXT;
pub(crate) use pane_observer::turns::{PaneTurns, TurnRules};
pub(crate) use source::{OpenedRun, RunName, RunProvider, Source, SourceContext};
pub use watch::Watch;
#[cfg(feature = "cli")]
pub(crate) use watch::report_absent;
