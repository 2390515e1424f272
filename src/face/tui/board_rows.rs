//! Manages the rows of the board and of older runs below it: their groups, order and visibility (pure).

use std::collections::{HashMap, HashSet};

use super::effect::Connection;
use super::model::Model;
use crate::board::{Attention, Row, RowKey};
use crate::event::ExecutionId;

/// The maximum number of older runs to show.
const OLDER_MAX: usize = 200;

/// A group of rows, below a heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Board(Attention),
    /// Runs of the history that are no longer on the board.
    Older,
}

impl Model {
    pub(super) fn group_of(&self, index: usize) -> Option<Group> {
        let row = self.rows.get(index)?;
        Some(match index < self.board_len {
            true => Group::Board(row.attention()),
            false => Group::Older,
        })
    }

    pub(super) fn count_of(&self, group: Group) -> usize {
        let groups = (0..self.rows.len()).filter_map(|index| self.group_of(index));
        groups.filter(|other| *other == group).count()
    }

    /// Sets the rows of the board. The selected row stays selected.
    pub(super) fn set_rows(&mut self, rows: Vec<Row>) {
        self.connection = Connection::Connected;
        for row in &rows {
            self.timeline.note(row);
        }
        let index = self.selected_index();
        let was_older = index.is_some_and(|index| index >= self.board_len);
        let before = self.rows.get(..self.board_len).unwrap_or_default();
        let rows = in_stable_order(before, rows);
        let mut active = rows.iter().filter(|row| !row.has_ended());
        let only = active.next().filter(|_| active.next().is_none());
        let is_new = |row: &&Row| before.iter().all(|known| known.key() != row.key());
        // A new execution is selected if it is the only active one, and the reader is following.
        let may_move = self.is_following && self.prompt.is_none() && self.at.is_none();
        let only = only.filter(is_new).filter(|_| may_move).map(Row::key);
        self.board_len = rows.len();
        self.rows = rows;
        self.add_older();
        let chosen = match (index, self.selected_index(), only) {
            (_, _, Some(only)) => Some(only),
            (_, Some(index), None) => {
                if was_older && index < self.board_len {
                    // The run has continued, and is followed again.
                    self.reload();
                }
                return self.scroll_to_selected();
            }
            // The selected row is gone: its neighbour is selected.
            (Some(index), None, None) => {
                let last = self.rows.len().saturating_sub(1);
                self.rows.get(index.min(last)).map(Row::key)
            }
            (None, None, None) => self
                .rows
                .first()
                .filter(|_| self.board_len > 0)
                .map(Row::key),
        };
        self.select(chosen);
    }

    /// Sets the rows of the runs in the history, the latest first.
    pub(super) fn set_history(&mut self, rows: Vec<Row>) {
        self.history = rows;
        self.rows.truncate(self.board_len);
        self.add_older();
        self.scroll_to_selected();
    }

    /// Appends the runs that are not on the board.
    fn add_older(&mut self) {
        let shown: HashSet<&ExecutionId> = self.rows.iter().map(|row| &row.execution_id).collect();
        let older = self.history.iter();
        let older = older.filter(|row| !shown.contains(&row.execution_id));
        let older: Vec<Row> = older.take(OLDER_MAX).cloned().collect();
        self.rows.extend(older);
    }

    /// Selects a row, and loads its last events.
    pub(super) fn select(&mut self, key: Option<RowKey>) {
        let is_same = self.selected == key;
        self.selected = key;
        self.scroll_to_selected();
        if !is_same {
            self.reload();
        }
    }

    /// Scrolls the board so that the selected row is visible, and no further.
    pub(super) fn scroll_to_selected(&mut self) {
        // The title and the bottom line take one line each. The board may be hidden, so its area is not used.
        let rows = usize::from(self.size.1).saturating_sub(2);
        let line = self.selected_index().map_or(0, |at| self.board_line_of(at));
        let count = match self.rows.len().checked_sub(1) {
            Some(last) => self.board_line_of(last) + 1,
            None => 0,
        };
        self.board_top = top_of(self.board_top, line, count, rows);
    }

    /// Returns the line of a row on the board, which also has the headings of the groups.
    pub(super) fn board_line_of(&self, index: usize) -> usize {
        let groups: Vec<_> = (0..=index).map(|at| self.group_of(at)).collect();
        let headings = 1 + groups.windows(2).filter(|pair| pair[0] != pair[1]).count();
        index + headings
    }
}

/// Returns the first line to show, so that `line` is visible with the heading above it, and the screen has no
/// empty rows that earlier lines could fill.
fn top_of(top: usize, line: usize, count: usize, rows: usize) -> usize {
    let rows = rows.max(1);
    let top = top.min(line.saturating_sub(1));
    top.max((line + 1).saturating_sub(rows))
        .min(count.saturating_sub(rows))
}

/// Returns the rows in the order of the board, but rows that stay in their group keep their places.
/// Otherwise, two rows that print in turn would swap under the reader's keys.
fn in_stable_order(before: &[Row], mut rows: Vec<Row>) -> Vec<Row> {
    let places: HashMap<RowKey, (Attention, usize)> = (0..)
        .zip(before)
        .map(|(place, row)| (row.key(), (row.attention(), place)))
        .collect();
    rows.sort_by_cached_key(|row| {
        let attention = row.attention();
        let known = places.get(&row.key());
        let place = known.filter(|(group, _)| *group == attention);
        // Rows in need are sorted by the time since which they wait, which does not change. New rows come
        // before the others.
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
        /// The board never scrolls further than needed: the last line is at the bottom of the screen only if
        /// the board is longer than the screen.
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
