//! The terminal UI: shows the board, and one view of the selected row.
//!
//! Drawing is a pure function ([`draw`]) of the [`model`] and a size. The meaning of a key is a pure function
//! ([`keys`]) of the key and the state. Inputs change the model and return requests ([`effect`]). [`run`]
//! connects these to the threads, the terminal and the log.

mod layout;

mod cells;
mod search;
mod timeline;
mod window;

mod effect;

mod keys;

mod board;
mod prompt;
mod view;

mod model;

mod draw;
mod empty;

mod queues;
mod readers;
mod reports;
mod terminal;

mod jump;

mod run;

#[cfg(test)]
mod tests;

pub(crate) use cells::Theme;
pub(crate) use jump::OwnTerminal;
pub(crate) use run::{TuiOptions, VisitHost, run};
