//! The board: who needs the user, as a fold over events and time (pure).
//!
//! [`Board::apply`] takes one envelope after the other, [`Board::tick`] the time that passes without any.
//! Both report the rows that have changed. Faces render [`Board::rows`] and compute nothing of their own.
//!
//! ```
//! use td_observe::board::{Attention, Board};
//! use td_observe::{Envelope, TdEvent, Timestamp};
//!
//! let mut board = Board::default();
//! let event = TdEvent::Error {
//!     execution_id: "nightly".into(),
//!     context: "backup".into(),
//!     message: "no space left".into(),
//! };
//! board.apply(&Envelope::new(Some(1), Timestamp::from_micros(0), event));
//! let row = board.rows().next().unwrap();
//! assert_eq!((row.name.as_str(), row.errors), ("nightly", 1));
//! assert_eq!(row.attention(), Attention::Working);
//! ```

mod attention;
mod line;
mod row;
mod rows;

mod fold;
mod schema;
#[cfg(feature = "cli")]
mod stored;

pub use attention::Attention;
#[doc(hidden)]
pub use schema::json_schema;

pub use row::{ExecutionKind, Row, RowKey, RowState};

use std::collections::BTreeSet;

use rows::Rows;

use crate::agent::StateRules;
use crate::event::Envelope;
#[cfg(feature = "cli")]
use crate::event::ExecutionId;
use crate::timestamp::Timestamp;

/// One row for each pane, command, loop and background agent that events have mentioned.
#[derive(Debug)]
pub struct Board {
    rows: Rows,
    now: Timestamp,
}

impl Default for Board {
    /// Creates an empty board with the built-in rules.
    fn default() -> Self {
        Self::new(StateRules::builtin())
    }
}

impl Board {
    /// Creates an empty board that recognizes the decoration of agents' screens by these rules.
    pub fn new(rules: StateRules) -> Self {
        Self {
            rows: Rows::new(rules),
            now: Timestamp::default(),
        }
    }

    /// Takes the next event of any execution; returns the keys of the rows that have changed. The
    /// events of one execution come in their order.
    pub fn apply(&mut self, envelope: &Envelope) -> BTreeSet<RowKey> {
        self.now = self.now.max(envelope.ts);
        let changed = fold::apply(&mut self.rows, envelope);
        self.rows.forget_ended();
        changed
    }

    /// Takes the time; returns the keys of the rows that are quiet from now on.
    pub fn tick(&mut self, now: Timestamp) -> BTreeSet<RowKey> {
        self.now = self.now.max(now);
        let now = self.now;
        let rows = self.rows.map.iter_mut();
        let changed = rows.filter_map(|(key, row)| row.tick(now).then(|| key.clone()));
        changed.collect()
    }

    /// Returns the rows: those that need the user first, the longest in that state before the
    /// others; then by attention, and the most recent first.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        let mut rows: Vec<&Row> = self.rows.map.values().collect();
        rows.sort_by_cached_key(|row| row.rank());
        rows.into_iter()
    }

    /// Adds a row that was stored; events that follow change it.
    #[cfg(feature = "cli")]
    pub(crate) fn restore(&mut self, row: Row) {
        self.rows.restore(row);
    }

    /// Notes the tmux server of an execution, whose rows name it.
    #[cfg(feature = "cli")]
    pub(crate) fn place(&mut self, id: &ExecutionId, server: &str) {
        for (_, row) in self.rows.of(id) {
            row.server = row.pane.as_ref().map(|_| server.to_owned());
        }
        let servers = &mut self.rows.servers;
        servers.insert(id.clone(), server.to_owned());
    }

    /// Ends the rows of an execution that are not known to run any more; returns true if there were any.
    #[cfg(feature = "cli")]
    pub(crate) fn end(
        &mut self,
        id: &ExecutionId,
        exit_status: Option<i32>,
        at: Timestamp,
    ) -> bool {
        let mut has_changed = false;
        for (_, row) in self.rows.of(id) {
            if !row.has_ended() {
                row.end_observed(exit_status, at);
                has_changed = true;
            }
        }
        has_changed
    }

    /// Returns the rows of an execution.
    #[cfg(feature = "cli")]
    pub(crate) fn rows_of(&self, id: &ExecutionId) -> impl Iterator<Item = &Row> {
        let rows = self.rows.map.values();
        rows.filter(move |row| row.execution_id == *id)
    }

    /// Returns the row with this key.
    pub fn row(&self, key: &RowKey) -> Option<&Row> {
        self.rows.map.get(key)
    }

    /// Returns the number of rows that ask for this attention.
    pub fn count(&self, attention: Attention) -> usize {
        let rows = self.rows.map.values();
        rows.filter(|row| row.attention() == attention).count()
    }
}

#[cfg(test)]
mod tests;
