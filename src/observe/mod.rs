//! Sources: the threads that observe and emit events, and their contract with the engine.

mod agent_files;
mod client_views;
mod command_events;
mod command_job;
mod coordinator;
mod job;
mod observed_sessions;
mod pane_names;
mod pane_observer;
mod pane_recordings;
mod pane_transfers;
mod polled_pane;
mod poller;
mod programs;
mod resume_point;
mod session_outcome;
mod source;
mod watch;
mod watch_claims;

pub(crate) use agent_files::agents_job;
pub use agent_files::{AgentRegistry, AgentStatus, AgentWatch, AgentsReport, Polling};
#[cfg(feature = "cli")]
pub(crate) use agent_files::{BackgroundSessions, HookFiles};
#[cfg(feature = "cli")]
#[cfg_attr(
    not(feature = "report"),
    allow(unused_imports, reason = "the report uses them")
)]
pub(crate) use agent_files::{RecordReader, Recorded, RecordedFact};
pub(crate) use command_job::command_job;
pub(crate) use coordinator::Coordinator;
pub use job::JobHandle;
pub(crate) use job::{Job, JobIds, JobName, JobRun, place};
pub(crate) use observed_sessions::{HeardMark, ObservedSessions};
#[cfg(feature = "cli")]
pub(crate) use pane_observer::PIPE_CONTEXT;
#[cfg(all(test, feature = "notify"))]
pub(crate) use pane_observer::PaneViews;
pub(crate) use pane_observer::listener::{
    OpenedListeners, OpeningListener, PaneListener, StateListener, StreamEnd, StreamedView,
};
pub(crate) use pane_observer::turns::{PaneTurns, TurnRules};
pub(crate) use polled_pane::PolledPane;
pub(crate) use source::{OpenedRun, RunName, RunProvider, Source, SourceContext};
pub(crate) use watch::RunningWatch;
#[cfg(feature = "cli")]
pub(crate) use watch::report_absent;
pub use watch::{Watch, WatchHandle};
pub(crate) use watch_claims::WatchClaims;
