//! What an agent writes, byte by byte, as events: prompts, tokens, tools, turns and how it ended (pure).
//!
//! Every format is read the same way: bytes are cut into records (`lines`, `sse`), a record is
//! parsed into the few fields that matter (`lenient`), a *handler* says what it means, and the
//! `writer` pairs tools, keeps the standing and writes the events. Nothing is decided by a
//! substring: a marker that is quoted in a tool's output is text.

mod event;
mod format;
mod status;

mod lenient;

mod any_text;
mod recent_ids;

mod tools;

mod event_writer;

mod messages;
mod probe;
mod traits;

mod values;

mod lines;

mod aider;
mod claude;
mod codex;
mod copilot;
mod gemini;
mod json;
mod opencode;
mod qwen;
mod sse;

mod detect;

mod parser;

#[cfg(test)]
mod tests;

pub use event::AgentEvent;
pub use format::{Format, ParseFormatError, StreamFormat};
pub use parser::StreamParser;
pub(crate) use sse::{SseRecord, SseRecords};
pub(crate) use status::FollowUp;
pub use status::StreamStatus;
