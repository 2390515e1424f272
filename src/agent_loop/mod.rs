//! The agentic loop: a model works, with tools, until each check of its task has passed.
//!
//! ```text
//!            request                    bytes               chunks (bounded)
//! converse ──────────> LlmClient: command, HTTP, recorded ──────────────────> events, files
//!    ^  └─ tool calls ──> Toolbox ──┐
//!    └──────── results ─────────────┘
//! ```
//!
//! [`converse`] is the conversation of one iteration with a model: it streams an answer, runs the tools
//! that the answer calls, and sends their results, until an answer calls no tool. Only the
//! [`LlmClient`] knows the kind of model. A command that works on its own, such as Claude Code, has its
//! own tools and answers once.
//!
//! A conversation runs in the caller's thread. For each answer, a second thread receives the chunks
//! from the model and emits events; it ends when the model drops its end of the channel, and is joined.
//! An HTTP client has a third thread, which waits for the network. All threads end when their
//! [`Cancel`] is cancelled.

mod progress;
mod spec;

mod model;
mod tool;

mod conversation;

mod reporting;

mod engine;

pub use conversation::ConversationPart;
pub use conversation::{Conversation, ConversationEnd, Converse, converse};
pub use engine::LoopEngine;
pub(crate) use engine::loop_job;
#[cfg(feature = "http")]
pub(crate) use model::SECRET_LOG_TARGETS;
#[cfg(feature = "http")]
pub use model::{Api, HttpClient, Secret};
pub use model::{
    BrokenInput, Cancel, CommandClient, ContentBlock, LlmClient, LlmError, Message, RecordedClient,
    Request, Response, Role, StopReason, StreamChunk, ToolCall, ToolSpec, Usage,
};
#[cfg(feature = "notify")]
pub(crate) use model::{RetryPolicy, SafeUri, logged_target, requested_delay};
pub use progress::{LoopEnd, LoopOutcome, Progress};
pub use spec::{Phase, Spec};
pub use tool::{Tool, ToolError, ToolOutcome, Toolbox};
