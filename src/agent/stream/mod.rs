//! What an agent writes, byte by byte, as events: prompts, tokens, tools, turns and how it ended (pure).
//!
//! Every format is read the same way: bytes are cut into records (`lines`, `sse`), a record is
//! parsed into the few fields that matter (`lenient`), a *grammar* says what it means, and the
//! `scribe` pairs tools, keeps the standing and writes the events. Nothing is decided by a
//! substring: a marker that is quoted in a tool's output is text.

mod event;
mod format;
mod standing;

mod lenient;

mod recent;
mod tools;

mod scribe;

mod messages;

mod grammar;
mod lines;
mod values;

mod aider;
mod claude;
mod codex;
mod copilot;
mod gemini;
mod json;
mod opencode;
mod qwen;
mod sse;

mod choose;
mod parser;

#[cfg(test)]
mod tests;

pub use event::AgentEvent;
pub use format::{Format, ParseFormatError, StreamFormat};
pub use parser::StreamParser;
pub(crate) use sse::{SseRecord, SseRecords};
pub(crate) use standing::Expected;
pub use standing::Standing;
