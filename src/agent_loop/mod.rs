//! The agentic loop: a model works, with tools, until it has nothing more to do.
//!
//! ```text
//!            request                    bytes               chunks (bounded)
//! converse ──────────> LlmClient: command, HTTP, recorded ──────────────────> events, files
//!    ^  └─ tool calls ──> Toolbox ──┐
//!    └──────── results ─────────────┘
//! ```
//!
//! [`converse`] is one iteration's talk with a model: it streams an answer, runs the tools that the
//! answer calls, and asks again with their results, until an answer calls none. Who the model is,
//! nobody here knows but its [`LlmClient`]. A command that works by itself, as Claude Code does,
//! has tools of its own, and answers once.
//!
//! A conversation runs in the thread that asks for it. A second thread, which lives as long as one
//! answer, takes the chunks from the model and makes events of them; it ends when the model's end
//! of the channel is dropped, and is joined. A client over HTTP has a third one, which waits for
//! the network. All of it ends when its [`Cancel`] says so.

mod prompt;
mod spec;

mod running;

mod model;
mod tool;

mod telling;
mod turns;

mod agent;
mod files;
mod record;
mod resume;
mod workdir;

mod attempt;
mod looping;

mod job;

pub(crate) use job::loop_job;
pub use looping::{LoopEnd, LoopEngine, LoopOutcome, Progress};
#[cfg(feature = "http")]
pub use model::{Api, HttpClient, Secret};
pub use model::{
    Block, BrokenInput, CHUNKS, Cancel, CommandClient, LlmClient, LlmError, Message,
    RecordedClient, Request, Response, Role, StopReason, StreamChunk, ToolCall, ToolSpec, Usage,
};
pub use prompt::{Setback, prompt};
pub use spec::{Phase, Spec};
pub use tool::{Tool, ToolError, ToolOutcome, Toolbox};
pub use turns::{Conversation, Converse, Part, TurnsEnd, converse};
