//! The conversations of agents in panes: finds the agents and their files, and reads these.
//!
//! ```text
//! poller ─active─> reader ─searches─> /proc (process::RunningAgent)
//!    ^               ├──finds───> status file, transcript (places)
//!    └──claims───────┤
//!                    └──reads───> transcript ─bytes─> StreamParser (pure) ──> events of the run
//! ```
//!
//! One thread per watched server, `td-agents`, reads for all panes: files may be on a network that
//! hangs, for which no poller may wait. It blocks on requests and, while an agent runs, on its ticker.
//! Files are polled, because no notification arrives for a file that is written through a symbolic
//! link or on a network. It never writes an agent's files and does not read its keys.

mod events;
mod joined;
mod places;
mod reader;
mod screens;
mod sub_agents;
mod transcript;

pub(super) use events::AgentEventConverter;
pub(super) use reader::{
    AgentChange, AgentUpdate, ConversationReader, ConversationSink, Conversations, UPDATES_MAX,
};
pub(super) use transcript::first_line;
