//! The rows of the board and below them those of older runs: their groups, and which are visible (pure).

use std::collections::{HashMap, HashSet};

use super::effect::Effect;
use super::model::{Connection, Model};
use crate::board::{Attention, Row, RowKey};
use crate::event::ExecutionId;

/// The older runs that are shown.
const OLDER_MAX: usize = 200;

/// A group of rows, below a heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Board(Attention),
    /// Runs of the history that are not on the board any more.
    Older,
}

impl Model {
    /// Returns the group of a row.
    pub(super) fn group_of(&self, index: usize) -> Option<Group> {
        let row = self.rows.get(index)?;
        Some(match index < self.on_board {
            true => Group::Board(row.attention()),
            false => Group::Older,
        })
    }

    /// Returns the number of rows in a group.
    pub(super) fn count_of(&self, group: Group) -> usize {
        let groups = (0..self.rows.len()).filter_map(|index| self.group_of(index));
        groups.filter(|of| *of == group).count()
    }

    /// Takes the rows of the board. The selected row stays, wherever it is.
    pub(super) fn set_rows(&mut self, rows: Vec<Row>, effects: &mut Vec<Effect>) {
        self.connection = Connection::Connected;
        for row in &rows {
            self.timeline.note(row);
        }
        let index = self.selected_index();
        let was_older = index.is_some_and(|index| index >= self.on_board);
        let before = self.rows.get(..self.on_board).unwrap_or_default();
        let rows = in_stable_order(before, rows);
        let mut active = rows.iter().filter(|row| !row.has_ended());
        let only = active.next().filter(|_| active.next().is_none());
        let is_new = |row: &&Row| before.iter().all(|known| known.key() != row.key());
        // A new execution is followed if it is the only one, and the reader is not elsewhere.
        let may_move = self.is_following && self.prompt.is_none() && self.at.is_none();
        let only = only.filter(is_new).filter(|_| may_move).map(Row::key);
        self.on_board = rows.len();
        self.rows = rows;
        self.add_older();
        let chosen = match (index, self.selected_index(), only) {
            (_, _, Some(only)) => Some(only),
            (_, Some(index), None) => {
                if was_older && index < self.on_board {
                    // It continues, and is followed again.
                    self.reload(effects);
                }
                return self.show_selected();
            }
            // It is gone: its neighbour takes its place.
            (Some(index), None, None) => {
                let last = self.rows.len().saturating_sub(1);
                self.rows.get(index.min(last)).map(Row::key)
            }
            (None, None, None) => self
                .rows
                .first()
                .filter(|_| self.on_board > 0)
                .map(Row::key),
        };
        self.select(chosen, effects);
    }

    /// Takes the rows of the runs in the history, the latest first.
    pub(super) fn set_history(&mut self, rows: Vec<Row>) {
        self.history = rows;
        self.rows.truncate(self.on_board);
        self.add_older();
        self.show_selected();
    }

    /// Adds the runs that are not on the board below it.
    fn add_older(&mut self) {
        let shown: HashSet<&ExecutionId> = self.rows.iter().map(|row| &row.execution_id).collect();
        let older = self.history.iter();
        let older = older.filter(|row| !shown.contains(&row.execution_id));
        let older: Vec<Row> = older.take(OLDER_MAX).cloned().collect();
        self.rows.extend(older);
    }

    /// Selects a row, and loads its last events.
    pub(super) fn select(&mut self, key: Option<RowKey>, effects: &mut Vec<Effect>) {
        let is_same = self.selected == key;
        self.selected = key;
        self.show_selected();
        if !is_same {
            self.reload(effects);
        }
    }

    /// Scrolls the board so that the selected row is visible, and no further.
    pub(super) fn show_selected(&mut self) {
        // A line for the title and the one at the bottom: the board may be hidden now.
        let rows = usize::from(self.size.1).saturating_sub(2);
        let line = self.selected_index().map_or(0, |at| self.board_line_of(at));
        let count = match self.rows.len().checked_sub(1) {
            Some(last) => self.board_line_of(last) + 1,
            None => 0,
        };
        self.board_top = top_of(self.board_top, line, count, rows);
    }

    /// Returns the line of a row on the board, between the headings of the groups.
    pub(super) fn board_line_of(&self, index: usize) -> usize {
        let groups: Vec<_> = (0..=index).map(|at| self.group_of(at)).collect();
        let headings = 1 + groups.windows(2).filter(|pair| pair[0] != pair[1]).count();
        index + headings
    }
}

/// Returns the first line to show of some lines, so that one of them is visible with the heading above it, and
/// no row of the screen stays empty that a line before could fill.
fn top_of(top: usize, line: usize, count: usize, rows: usize) -> usize {
    let rows = rows.max(1);
    let top = top.min(line.saturating_sub(1));
    top.max((line + 1).saturating_sub(rows))
        .min(count.saturating_sub(rows))
}

/// Returns the rows in the order of the board, except that rows which stay in their group keep their places:
/// two that print in turn would change places under the reader's keys.
fn in_stable_order(before: &[Row], mut rows: Vec<Row>) -> Vec<Row> {
    let places: HashMap<RowKey, (Attention, usize)> = (0..)
        .zip(before)
        .map(|(place, row)| (row.key(), (row.attention(), place)))
        .collect();
    rows.sort_by_cached_key(|row| {
        let attention = row.attention();
        let known = places.get(&row.key());
        let place = known.filter(|(group, _)| *group == attention);
        // The longest in need comes first, which does not change. New rows come before the others.
        match attention {
            Attention::NeedsYou => (attention, 0),
            _ => (attention, place.map_or(0, |(_, place)| place + 1)),
        }
    });
    rows
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The board never scrolls further than needed: its last line is at the bottom of the screen only if
        /// it is longer than the screen.
        #[test]
        fn the_board_fills_the_screen(count in 1_usize..60, line in 0_usize..60, top in 0_usize..99, rows in 0_usize..40) {
            let line = line.min(count - 1);
            let top = top_of(top, line, count, rows);
            let rows = rows.max(1);
            prop_assert!((top..top + rows).contains(&line), "{top}");
            prop_assert!(top == 0 || top + rows <= count, "{top}");
            prop_assert!(top > 0 || count <= rows || line < rows);
        }
    }
}
