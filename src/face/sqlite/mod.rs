//! Exports histories as an SQLite database: tables for queries, and a full-text index of all lines.
//!
//! ```text
//! database:     the file, its tables, and how SQLite writes it
//! rows:         events in, rows out
//! texts (pure): the lines that an event has
//! turns (pure): the turns of agents
//! ```
//!
//! The caller chooses the file, and gives it its final name. One thread reads the events and writes all rows.

mod database;
mod rows;
mod texts;
mod turns;

pub(crate) use database::Database;
pub(crate) use rows::{ExportedRun, Rows};
