//! The terminal UI: the board, and one view of the selected row.
//!
//! What is shown is a pure function ([`draw`]) of the [`model`] and a size; what a key means is a pure
//! function ([`action`]) of the key and the model; what happens changes the model ([`update`]) and names
//! what is to be done ([`effect`]). [`run`] has the threads around these, the terminal and the log.

mod view;

mod painted;

mod line;
mod lines;

mod content;
mod window;

mod prompt;
mod searching;
mod timeline;

mod layout;
mod model;

mod action;
mod commands;
mod effect;

mod acting;
mod moving;
mod update;

mod theme;

mod draw;

mod mailbox;
mod pacer;

mod feeds;
mod log_files;

mod keyboard;
mod terminal;

mod run;

pub(crate) use run::{TuiOptions, run};
pub(crate) use theme::Theme;
