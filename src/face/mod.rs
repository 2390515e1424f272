//! Views: events in, lines on standard output out.
//!
//! ```text
//! console, tree, json (pure): an event ─> text
//! page:                       events ─> standard output, the live rows last
//! printer (td-printer):       a subscription ─> a page
//! finals (pure):              the events of a log ─> each line as it reads at last
//! cast, transcript (pure):    the events of a log ─> a file's text
//! ```
//!
//! Whatever a pane, a name or a message holds, no control character of it reaches the terminal:
//! everything passes through `clean`, and what programs print through `sgr`, which leaves them their
//! colours. The renderers own no thread, channel, file or clock.

mod printer;

mod event_writer;
mod live_rows;

mod console;
mod json;
mod session_labels;
// The command `run` shows it.
mod tree;

mod asciicast;
mod last_revisions;
mod survey;
mod text_export;

mod agents;
mod conversation;
mod execution_lines;
mod loops;
mod plain_text;

mod sgr;
mod stream_lines;

mod clean;
mod tone;
mod words;

#[cfg(test)]
mod samples;

pub(crate) use asciicast::{AsciicastExport, AsciicastOptions};
pub(crate) use clean::one_line;
pub(crate) use console::{BaselineLines, Console, ConsoleOptions};
pub(crate) use event_writer::{EventWriter, Renderer, unless_broken_pipe};
pub(crate) use json::push_line;
pub(crate) use last_revisions::{Applied, LastRevisions};
pub(crate) use printer::Printer;
pub(crate) use survey::Survey;
pub(crate) use text_export::TextExport;
pub(crate) use tree::{Tree, TreeOptions};
