//! The board, which shows who needs the user, as a fold over events and time (pure).
//!
//! [`Board::apply`] takes envelopes, and [`Board::tick`] takes the time between them. Both return the keys of
//! the rows that have changed. Faces render [`Board::rows`] and compute nothing themselves.
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

mod row;
mod rows;
mod state;

#[cfg(any(feature = "report", feature = "serve", feature = "tui"))]
pub(crate) mod bands;

mod earlier;
mod ends;
mod fold;
mod job;
mod last;
mod limit;
mod one_row;
#[cfg(feature = "report")]
mod owner;
mod place;
mod schema;
mod session_end;
mod shown;
mod turn;

#[doc(hidden)]
pub use schema::json_schema;

#[cfg(feature = "cli")]
pub(crate) use limit::end_in_words;
#[cfg(feature = "cli")]
pub(crate) use one_row::listed;
pub use place::Place;
#[cfg(any(feature = "mcp", feature = "serve"))]
pub(crate) use place::is_elsewhere;
#[cfg(any(feature = "notify", feature = "report"))]
pub(crate) use row::is_failure;
pub use row::{Row, RowKey};
#[cfg(feature = "cli")]
pub(crate) use rows::ENDED_AGE_MAX;
pub(crate) use session_end::Fate;
pub use state::{Attention, ExecutionKind, RowState};

use std::collections::BTreeSet;

use rows::Rows;

use crate::agent::StateRules;
use crate::event::Envelope;
use crate::event::ExecutionId;
use crate::event::PaneId;
#[cfg(feature = "report")]
use crate::event::TdEvent;
use crate::timestamp::Timestamp;

/// The board: one row for each pane, command, loop, background agent and kernel in the events so far.
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
    /// Creates an empty board with rules that recognize the decoration of agents' screens.
    pub fn new(rules: StateRules) -> Self {
        Self {
            rows: Rows::new(rules),
            now: Timestamp::default(),
        }
    }

    /// Takes the beginning of each execution's id for the name of its host.
    #[cfg(feature = "redis")]
    pub(crate) fn with_hosts(mut self) -> Self {
        self.rows.have_hosts = true;
        self
    }

    /// Applies the next event of any execution; returns the keys of the rows that have changed. The events of
    /// one execution must be applied in order.
    pub fn apply(&mut self, envelope: &Envelope) -> BTreeSet<RowKey> {
        self.now = self.now.max(envelope.ts);
        let mut changed = fold::apply(&mut self.rows, envelope);
        one_row::tell_ends(&mut self.rows, &mut changed);
        self.rows.remove_oldest_ended();
        changed
    }

    /// Advances the time; returns the keys of the rows that have become quiet, and of those that have left the board
    /// because they ended more than a day ago.
    pub fn tick(&mut self, now: Timestamp) -> BTreeSet<RowKey> {
        self.now = self.now.max(now);
        let now = self.now;
        let rows = self.rows.map.iter_mut();
        let changed = rows.filter_map(|(key, row)| row.tick(now).then(|| key.clone()));
        let mut changed: BTreeSet<RowKey> = changed.collect();
        changed.extend(self.rows.remove_old(now));
        changed
    }

    /// Gives a pane its state that has been under observation for a while and shows none, as [`Board::tick`] does; returns
    /// true if the row has changed. Nothing becomes quiet: a fold over some events does not know what was printed.
    #[cfg(any(feature = "report", feature = "serve", feature = "tui"))]
    pub(crate) fn settle(&mut self, key: &RowKey, now: Timestamp) -> bool {
        let row = self.rows.map.get_mut(key);
        row.is_some_and(|row| row.settle(now))
    }

    /// Reduces the rows to what their JSON keeps, from which the next observer begins.
    #[cfg(any(feature = "report", feature = "serve", feature = "tui"))]
    pub(crate) fn forget_volatile(&mut self) {
        for row in self.rows.map.values_mut() {
            let kept = serde_json::to_value(&*row).and_then(serde_json::from_value);
            // Each row that is written can be read.
            if let Ok(kept) = kept {
                *row = kept;
            }
        }
    }

    /// Returns the row that an event is about: its pane's, its background agent's, or else the execution's own.
    #[cfg(feature = "report")]
    pub(crate) fn owner(&self, event: &TdEvent) -> Option<RowKey> {
        owner::owner(&self.rows, event)
    }

    /// Returns the rows in display order. Rows that need the user come first, sorted by the time for which
    /// they have needed them. The other rows follow by attention, the most recent first. A pane that ended
    /// within 2 s is no row unless it is known to have failed, or had an agent.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        let mut rows: Vec<&Row> = self.shown().collect();
        rows.sort_by_cached_key(|row| row.rank());
        rows.into_iter()
    }

    fn shown(&self) -> impl Iterator<Item = &Row> {
        self.rows.map.values().filter(|row| !row.is_brief())
    }

    /// Adds a stored row. Later events change it.
    #[cfg(feature = "cli")]
    pub(crate) fn restore(&mut self, row: Row) {
        self.rows.restore(row);
    }

    /// Sets the tmux server of an execution and of its rows.
    pub(crate) fn set_server(&mut self, id: &ExecutionId, server: &str) {
        for (_, row) in self.rows.of(id) {
            row.server = row.pane.as_ref().map(|_| server.to_owned());
        }
        let servers = &mut self.rows.servers;
        servers.insert(id.clone(), server.to_owned());
    }

    /// Sets the pane in which a command or a loop runs in the foreground, if it does.
    pub(crate) fn set_place(&mut self, id: &ExecutionId, place: Option<(String, PaneId)>) {
        let place = place.map(|(server, pane)| Place { server, pane });
        for (_, row) in self.rows.of(id) {
            let runs = matches!(row.kind, ExecutionKind::Command | ExecutionKind::Loop);
            row.in_pane = place.clone().filter(|_| runs);
        }
    }

    /// Records that the program of a command or a loop is stopped, or goes on; returns true if a row has changed.
    #[cfg(feature = "cli")]
    pub(crate) fn set_suspended(
        &mut self,
        id: &ExecutionId,
        is_suspended: bool,
        at: Timestamp,
    ) -> bool {
        let mut has_changed = false;
        for (_, row) in self.rows.of(id) {
            has_changed |= row.set_suspended(is_suspended, at);
        }
        has_changed
    }

    /// Records that an execution has no observer any more: rows that go on are not observed, and the others have
    /// ended. Returns true if any row has changed. A background agent that is done or has failed has ended already,
    /// and stays so. The ended rows are cut off if the writer of the run died.
    pub(crate) fn end(
        &mut self,
        id: &ExecutionId,
        exit_status: Option<i32>,
        is_cut_off: bool,
        at: Timestamp,
        fate: impl Fn(&Row) -> Fate,
    ) -> bool {
        let mut has_changed = false;
        for (_, row) in self.rows.of(id) {
            has_changed |= row.lose_observer(fate(row), exit_status, is_cut_off, at);
        }
        has_changed
    }

    /// Lets the rows of panes tell how the commands ended that were their own programs, in whatever order the rows were
    /// added.
    #[cfg(feature = "cli")]
    pub(crate) fn tell_ends(&mut self) {
        let mut keys = self.rows.map.keys().cloned().collect();
        one_row::tell_ends(&mut self.rows, &mut keys);
    }

    /// Returns true if the state of a pane is not known yet, and is about to be.
    pub(crate) fn is_reading(&self) -> bool {
        self.rows.map.values().any(Row::is_unread)
    }

    /// Returns the rows of an execution, also of panes that ended within 2 s.
    pub(crate) fn rows_of(&self, id: &ExecutionId) -> impl Iterator<Item = &Row> {
        let rows = self.rows.map.values();
        rows.filter(move |row| row.execution_id == *id)
    }

    /// Returns the row with a key.
    pub fn row(&self, key: &RowKey) -> Option<&Row> {
        self.rows.map.get(key).filter(|row| !row.is_brief())
    }

    /// Returns the number of rows with an attention.
    pub fn count(&self, attention: Attention) -> usize {
        let rows = self.shown();
        rows.filter(|row| row.attention() == attention).count()
    }
}

/// Brings rows of several boards into the order in which one shows them.
#[cfg(feature = "hosts")]
pub(crate) fn in_order(rows: &mut [Row]) {
    rows.sort_by_cached_key(Row::rank);
}

#[cfg(test)]
mod tests;
