//! Parses the output of agents, byte by byte, into events: prompts, tokens, tools, turns and the
//! ends of runs (pure).
//!
//! All formats are read in the same way. `lines` and `sse` split bytes into records, `lenient`
//! parses the few relevant fields of a record, the `RecordHandler` of the format interprets them,
//! and the `EventWriter` pairs tools, tracks the status and writes the events. Substrings never
//! decide: a marker that is quoted in a tool's output is text.

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

// The vocabulary of the formats.
use any_text::{AnyText, ErrorText};
use event_writer::{EventWriter, TokenUsage};
use lenient::{Count, ErrorBody, Flag, Int, List, Maybe, Str, Time, default_visits, token_counts};
use messages::{OpenMessages, PartialCall};
use recent_ids::{RecentIds, hash};
use tools::EventTime;
use traits::{FormatReader, RecordHandler};

pub use event::AgentEvent;
pub use format::{Format, ParseFormatError, StreamFormat};
pub use parser::StreamParser;
pub(crate) use sse::{SseRecord, SseRecords};
pub(crate) use status::FollowUp;
pub use status::StreamStatus;
