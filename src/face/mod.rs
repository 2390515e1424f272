//! Faces: render events for terminals, programs and files.
//!
//! ```text
//! console, tree, json (pure):          an event ─> text
//! event_writer:                        events ─> standard output, live rows last
//! tui (threads td-tui-…):             the observer's API and the history ─> a terminal's screen
//! printer (thread td-printer):         a subscription ─> an event_writer
//! last_revisions (pure):               the events of a log ─> each line with its last text
//! asciicast, text_export (pure):       the events of a log ─> a file's text
//! ```
//!
//! No control character from a pane, a name or a message reaches the terminal: all text passes through
//! `sanitize`, and what programs print through `ansi`, which keeps colours. Renderers own no thread,
//! channel, file or clock.

mod sanitize;
mod tone;

mod ansi;
mod line_styles;
mod stream_lines;

mod describe;

mod conversation;
mod execution_lines;
mod local_time;
mod plain_text;
mod session_labels;

mod console;
mod json;
// Used by `run`, `loop`, `kernel` and `agents`.
mod tree;

mod last_revisions;
mod survey;

mod asciicast;
mod text_export;

mod junit;
mod xml;

mod live_rows;

mod board_table;

mod event_writer;

mod printer;

#[cfg(feature = "tui")]
pub(crate) mod tui;

#[cfg(test)]
mod samples;

pub(crate) use asciicast::{AsciicastExport, AsciicastOptions};
pub(crate) use board_table::{BoardTable, server_names};
#[cfg(feature = "tui")]
use board_table::{age_of, agent_of, last_text, row_names, state_in_words};
pub(crate) use console::{Console, ConsoleOptions};
#[cfg(feature = "tui")]
pub(crate) use event_writer::is_dumb;
pub(crate) use event_writer::{EventWriter, Renderer, terminal_size, unless_broken_pipe};
pub(crate) use json::push_line;
pub(crate) use junit::JunitReport;
pub(crate) use last_revisions::{Applied, LastRevisions};
pub(crate) use local_time::LocalTime;
pub(crate) use printer::{Deliveries, Printer};
pub(crate) use sanitize::one_line;
pub(crate) use survey::Survey;
pub(crate) use text_export::TextExport;
pub(crate) use tree::{Tree, TreeOptions};
