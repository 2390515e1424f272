//! Parses the output of agents, byte by byte, into events: prompts, tokens, tools, turns and the
//! ends of runs (pure).
//!
//! All formats are read in the same way. `json_lines` and `sse` split bytes into records, `json`
//! parses them, the `RecordHandler` of the format interprets the few relevant fields, and the
//! `EventWriter` pairs tools, tracks the status and writes the events. Substrings never decide: a
//! marker that is quoted in a tool's output is text.

mod event;

mod json;

mod note;
mod usage;

mod event_writer;
mod json_lines;

mod aider;
mod api;
mod claude;
mod cline;
mod cn;
mod codex;
mod copilot;
mod document;
mod gemini;
mod kimi;
mod opencode;
mod qwen;
mod sse;
mod vibe;

mod parser;

#[cfg(test)]
mod tests;

// The vocabulary of the formats.
use event_writer::EventTime;
use event_writer::EventWriter;
use event_writer::OpenMessages;
use event_writer::RecordHandler;
use event_writer::{RecentIds, hash};
use json::{Json, first};
use usage::TokenUsage;

#[cfg(feature = "cli")]
pub(crate) use aider::SESSION_BEGIN as AIDER_SESSION;
pub(crate) use api::{ApiDialect, ApiPart, ApiStream};
pub use event::AgentEvent;
pub(crate) use event::FollowUp;
pub use event::StreamStatus;
pub use event::{Format, ParseFormatError, StreamFormat};
pub(crate) use event_writer::RecordContent;
pub(crate) use kimi::UNTOLD_FAILURE;
#[cfg(feature = "cli")]
pub(crate) use note::RecordNote;
pub use parser::StreamParser;
pub(crate) use parser::record_time;
