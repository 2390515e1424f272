//! Faces: render events for terminals, programs and files.
//!
//! ```text
//! console, tree, json (pure):          an event ─> text
//! event_writer (thread td-printer):     events or a subscription ─> standard output, live rows last
//! page:                               the observer's API and the history ─> JSON for the web page
//! tui (threads td-tui-…):             the observer's API and the history ─> a terminal's screen
//! view_lines (pure):                   the events of a row ─> the lines of a view, for tui, pages and agents
//! row_log, find_row:                   the log of a row, in parts; rows by their ids, for pages and agents
//! mcp:                                 the history ─> what agents read and search
//! lines (pure):                        the events of a log ─> each line with its last text and style
//! asciicast, text_export (pure):       the events of a log ─> a file's text
//! sqlite:                              the events of logs ─> a database
//! ```
//!
//! No control character from a pane, a name or a message reaches the terminal: all text passes through
//! `sanitize`, and what programs print through `ansi`, which keeps colours. Renderers own no thread,
//! channel, file or clock.

mod sanitize;

mod ansi;
mod lines;
mod stream_lines;
#[cfg(any(feature = "mcp", feature = "serve", feature = "tui"))]
mod styled_text;

mod describe;

mod conversation;
mod local_time;
mod session_labels;

mod console;
// Used by `run`, `loop`, `kernel` and `agents`.
mod tree;

mod asciicast;
mod markdown_export;
mod text_export;

mod junit;

#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

mod board_table;
mod row_names;
mod server_ends;

mod event_writer;

#[cfg(any(feature = "tui", feature = "serve"))]
mod pattern;
#[cfg(any(feature = "tui", feature = "serve"))]
mod run_stream;
#[cfg(any(feature = "mcp", feature = "serve", feature = "tui"))]
mod view_lines;

#[cfg(any(feature = "mcp", feature = "serve"))]
#[cfg_attr(
    not(feature = "serve"),
    allow(dead_code, reason = "the tools of mcp use it")
)]
mod find_row;
#[cfg(any(feature = "mcp", feature = "serve"))]
mod row_log;

#[cfg(feature = "mcp")]
pub(crate) mod mcp;
#[cfg(feature = "serve")]
pub(crate) mod page;
#[cfg(feature = "report")]
pub(crate) mod report;
#[cfg(feature = "tui")]
pub(crate) mod tui;

#[cfg(test)]
mod samples;

pub(crate) use asciicast::{AsciicastExport, AsciicastOptions};
pub(crate) use board_table::BoardTable;
#[cfg(feature = "tui")]
use board_table::{age_of, agent_of, last_text, phases_of, state_in_words};
pub(crate) use console::{Console, ConsoleOptions};
#[cfg(feature = "notify")]
pub(crate) use conversation::conversation_text;
#[cfg(feature = "redis")]
pub(crate) use describe::duration as time_in_words;
pub(crate) use event_writer::{
    EventWriter, Printer, Renderer, is_dumb, push_line, terminal_size, unless_broken_pipe,
};
pub(crate) use junit::JunitReport;
pub(crate) use lines::{Applied, LastRevisions, Survey};
pub(crate) use local_time::LocalTime;
pub(crate) use markdown_export::MarkdownExport;
#[cfg(feature = "cli")]
pub(crate) use row_names::NAME_WIDTH;
#[cfg(feature = "tui")]
use row_names::name_width;
pub(crate) use row_names::{is_among, names_of, row_names};
#[cfg(any(feature = "notify", feature = "tui"))]
pub(crate) use sanitize::with_ellipsis;
pub(crate) use sanitize::{is_unsafe, one_line, sanitized};
#[cfg(feature = "tui")]
use server_ends::{ServerEnd, server_ends};
pub(crate) use text_export::TextExport;
pub(crate) use tree::{Tree, TreeOptions};
