//! The terminal UI: shows the board, and one view of the selected row.
//!
//! Drawing is a pure function ([`draw`]) of the [`model`] and a size. The meaning of a key is a pure function
//! ([`action`]) of the key and the model. Inputs change the model ([`update`]) and return requests
//! ([`effect`]). [`run`] connects these to the threads, the terminal and the log.

mod view;

mod painted;
mod wrapping;

mod line;
mod lines;

mod content;
mod window;

mod bindings;
mod prompt;

mod input_history;
mod searching;
mod timeline;

mod layout;
mod model;

mod action;
mod commands;
mod effect;

mod acting;
mod answering;
mod board_rows;
mod finding;
mod moving;
mod typing;
mod update;

mod theme;

mod draw;

mod frame_limiter;
mod requests;
mod wake;

mod feeds;
mod log_files;
mod older_runs;

mod terminal;

mod keyboard;
mod loans;

mod threads;

mod run;

pub(crate) use run::{TuiOptions, run};
pub(crate) use theme::Theme;
