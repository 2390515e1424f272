//! The conversations of agents in panes: who runs there, where it writes, and what it writes.
//!
//! ```text
//! poller ─active─> reader ──walks──> /proc (process::RunningAgent)
//!    ^               ├──finds────> status file, transcript (places)
//!    └──claims───────┤
//!                    └──reads────> transcript ─bytes─> StreamParser (pure) ──> events of the
//! pane's run
//! ```
//!
//! One thread a watched server, `td-agents`, reads for all panes: files may lie on a network that
//! hangs, which no poller may wait for. It blocks on requests and, while an agent runs, on its
//! ticker. Files are polled: a file may be written through a symbolic link or on a network, where
//! no notification comes. Nothing of an agent is ever written, and its keys are not read.

mod events;
mod joined;
mod places;
mod reader;
mod screens;
mod status;
mod sub_agents;
mod transcript;

pub(super) use events::AgentEventConverter;
pub(super) use reader::{
    AgentChange, AgentUpdate, ConversationReader, ConversationSink, Conversations, UPDATES_MAX,
};
pub(super) use transcript::first_line;
