//! Parses what an agent writes, byte by byte, into events: prompts, tokens, tools, turns and how
//! the run ended (pure).
//!
//! Every format is read the same way: bytes are cut into records (`lines`, `sse`), a record is
//! parsed into the few fields that matter (`lenient`), the format's `RecordHandler` interprets it,
//! and the `EventWriter` pairs tools, keeps the status and writes the events. No substring decides
//! anything: a marker quoted in a tool's output is text.

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
