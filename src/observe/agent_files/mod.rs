//! Agents' files: those of background agents, and the conversations of agents in panes.
//!
//! ```text
//! search ─files─> registry ─ticker─> output_file ─bytes─> StreamParser (pure)
//!                    └──> AgentRegistered, AgentCompleted, AgentFailed <── verdict (pure)
//!
//! poller ─active─> conversations ─searches─> /proc (process::RunningAgent)
//!    ^               ├──finds───> status file, transcript (homes)
//!    └──claims───────┤
//!                    └──reads───> transcript ─bytes─> StreamParser (pure) ──> events of the run
//! ```
//!
//! `records` reads what conversations recorded in a span of time, for a report of it, on the thread of its caller.
//!
//! A background session of Claude Code has no pane: `td-sessions` reads its files, and emits to a run of its own.
//!
//! Files are polled, because no notification arrives for a file that is written through a symbolic
//! link, on a network or by another machine. `td-agents` is the ticker of a registry of its own; an
//! engine's source ticks on its own thread. For panes, one thread per watched server, `td-agents`,
//! too, reads for all of them: no poller may wait for a network that hangs. All block on files, and
//! between ticks until the next one is due, a request arrives, or they are stopped. Nothing here writes
//! an agent's files, or reads its keys.

mod file;

mod homes;
mod search;

mod title;

mod output_file;
mod verdict;

mod registry;

#[cfg(feature = "cli")]
mod hook_report;
mod hooks;

mod earlier;
mod transcript;

mod joined;

mod directory;

mod conversations;

#[cfg(feature = "cli")]
mod background;

#[cfg(feature = "cli")]
mod records;

#[cfg(feature = "cli")]
pub(crate) use background::BackgroundSessions;
pub(super) use conversations::{
    AgentChange, AgentEventConverter, AgentUpdate, ConversationReader, ConversationSink,
    Conversations, UPDATES_MAX,
};
#[cfg(feature = "cli")]
pub(crate) use hooks::HookFiles;
pub(super) use joined::{ConversationPlace, FoundConversation};
#[cfg(feature = "cli")]
pub(crate) use records::{RecordReader, Recorded, RecordedFact};
pub(crate) use registry::agents_job;
pub use registry::{AgentRegistry, AgentStatus, AgentWatch, AgentsReport, Polling};
