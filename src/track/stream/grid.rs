//! The rows of the screen and their movements, exactly as in tmux (pure).
//!
//! Wraps determine lines, so each operation ends lines exactly where tmux does. Rows that scroll off the
//! normal screen go to the history, even from a scroll region below the top. Rows that are erased,
//! deleted, or scrolled on the alternate screen do not.

use std::collections::VecDeque;

use super::cell::Clusters;
use super::grid_row::GridRow;
use super::scrolled::Scrolled;
use crate::track::version::TmuxVersion;

/// A screen, and the rows that have scrolled off it.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub width: usize,
    pub rows: VecDeque<GridRow>,
    pub clusters: Clusters,
    pub scrolled: Scrolled,
    /// Counts of deleted cells and rows are exact, as in tmux from 3.6 on.
    is_exact: bool,
    /// Rows that scroll off go to the history, as on the normal screen.
    pub keeps_history: bool,
}

impl Grid {
    pub fn new(width: usize, height: usize, version: TmuxVersion) -> Self {
        Self {
            width: width.max(1),
            rows: std::iter::repeat_n(GridRow::default(), height.max(1)).collect(),
            clusters: Clusters::new(version),
            is_exact: version >= TmuxVersion::new(3, 6),
            scrolled: Scrolled::default(),
            keeps_history: true,
        }
    }

    pub fn height(&self) -> usize {
        self.rows.len()
    }

    /// Clears the wrap of the row above, which ends its line there.
    fn unwrap_above(&mut self, row: usize) {
        match row.checked_sub(1) {
            Some(above) => {
                if let Some(row) = self.rows.get_mut(above) {
                    row.wrapped = false;
                }
            }
            // When a full-screen program begins or erases its screen, tmux breaks the line of the
            // normal screen whose beginning has scrolled off. It is one line for its program, so it
            // stays whole here.
            None if self.keeps_history => self.scrolled.close(),
            None => {}
        }
    }

    /// Empties rows. A negative count empties none, but still ends the line above, as in tmux, whose
    /// count is unsigned.
    pub fn clear_rows(&mut self, from: usize, count: isize, room: usize) {
        if count == 0 {
            return;
        }
        let count = usize::try_from(count).unwrap_or(0);
        for row in self.rows.iter_mut().skip(from).take(count) {
            row.reset(room);
        }
        self.unwrap_above(from);
    }

    /// Moves rows over others and empties their old places.
    fn move_rows(&mut self, to: usize, from: usize, count: usize, room: usize) {
        let height = self.height();
        if count == 0 || to == from || to + count > height || from + count > height {
            return;
        }
        self.unwrap_above(to);
        let empty = GridRow {
            room,
            ..GridRow::default()
        };
        let mut move_one = |row: usize| {
            self.rows[to + row] = std::mem::replace(&mut self.rows[from + row], empty.clone());
        };
        // In this order, no row is overwritten before it has moved.
        if to < from {
            (0..count).for_each(&mut move_one);
        } else {
            (0..count).rev().for_each(&mut move_one);
        }
        if from < to || from >= to + count {
            self.unwrap_above(from);
        }
    }

    /// Scrolls a region up by one row.
    pub fn scroll_up(&mut self, upper: usize, lower: usize, room: usize) {
        if !self.keeps_history {
            self.move_rows(upper, upper + 1, lower - upper, room);
            return;
        }
        let is_all = upper == 0 && lower + 1 == self.rows.len();
        let row = match is_all {
            true => self.rows.pop_front(),
            false => self.rows.remove(upper),
        };
        let Some(mut row) = row else {
            return;
        };
        self.scrolled.push(&row, &self.clusters, self.width);
        row.reset(room);
        match is_all {
            true => self.rows.push_back(row),
            false => self.rows.insert(lower, row),
        }
    }

    /// Scrolls a region down by one row.
    pub fn scroll_down(&mut self, upper: usize, lower: usize, room: usize) {
        self.move_rows(upper + 1, upper, lower - upper, room);
    }

    /// Inserts rows in a region that ends with `lower`, or with the screen.
    pub fn insert_rows(&mut self, at: usize, rows: usize, lower: Option<usize>, room: usize) {
        let Some(lower) = lower else {
            let count = self.height().saturating_sub(at + rows);
            self.move_rows(at + rows, at, count, room);
            return;
        };
        let count = (lower + 1).saturating_sub(at + rows);
        self.move_rows(lower + 1 - count, at, count, room);
        self.clear_rows(at + count, rows as isize - count as isize, room);
    }

    /// Deletes rows, which do not go to the history.
    pub fn delete_rows(&mut self, at: usize, rows: usize, lower: Option<usize>, room: usize) {
        let end = lower.map_or(self.height(), |lower| lower + 1);
        let count = end.saturating_sub(at + rows);
        self.move_rows(at, at + rows, count, room);
        if lower.is_some() {
            self.clear_rows(at + count, rows as isize - count as isize, room);
        } else if self.is_exact {
            self.clear_rows(end - rows, rows as isize, room);
        } else {
            self.clear_rows(end - rows, (at + 2 * rows) as isize - end as isize, room);
        }
    }

    /// Adapts the screen to the pane's present height. Rows below the cursor are dropped, rows above it
    /// scroll off.
    pub fn set_height(&mut self, height: usize, cursor_row: &mut usize) {
        while self.height() > height.max(*cursor_row + 1) {
            self.rows.pop_back();
        }
        while self.height() > height {
            if let Some(row) = self.rows.pop_front() {
                self.scrolled.push(&row, &self.clusters, self.width);
            }
            *cursor_row -= 1;
        }
        self.rows.resize_with(height, GridRow::default);
    }

    /// Erases the screen. On the normal screen, rows up to the last one in use scroll off.
    pub fn clear_screen(&mut self, room: usize) {
        let used = self.rows.iter().rposition(|row| !row.cells.is_empty());
        let used = match used {
            Some(last) if self.keeps_history => last + 1,
            _ => 0,
        };
        let last = self.height() - 1;
        for _ in 0..used {
            self.scroll_up(0, last, room);
        }
        self.clear_rows(0, (self.height() - used) as isize, room);
    }

    /// Erases part of a row.
    pub fn clear(&mut self, x: usize, y: usize, cells: usize, room: usize) {
        if x == 0 && cells == self.width {
            self.clear_rows(y, 1, room);
        } else if let Some(row) = self.rows.get_mut(y) {
            row.clear(x, cells);
            row.room = row.room.max(room);
        }
    }

    /// Deletes cells of a row. If none is left, the row counts as erased.
    pub fn delete_cells(&mut self, x: usize, y: usize, cells: usize, room: usize) {
        let width = self.width;
        self.row(y).delete(x, cells, width);
        let tail = width.saturating_sub(cells);
        let left = match self.is_exact {
            true => cells,
            false => (x + cells).saturating_sub(tail),
        };
        if left > 0 {
            self.clear(tail, y, left, room);
        }
    }

    /// Returns a row of the screen. Cursor and scroll region are always inside.
    pub fn row(&mut self, y: usize) -> &mut GridRow {
        let last = self.rows.len() - 1;
        &mut self.rows[y.min(last)]
    }
}
