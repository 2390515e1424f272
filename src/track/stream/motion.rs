//! Movements of a terminal's cursor: by cells, to tabs, within the scroll region (pure).

use super::cell::Cell;
use super::terminal::{Position, Terminal};
use crate::track::version::TmuxVersion;

impl Terminal {
    pub fn carriage_return(&mut self) {
        self.cursor.x = 0;
    }

    pub fn back(&mut self) {
        let Position { x, y } = self.cursor;
        if x > 0 {
            self.cursor.x -= 1;
        } else if y > 0 && self.grid.row(y - 1).wrapped {
            self.cursor = Position {
                x: self.width() - 1,
                y: y - 1,
            };
        }
    }

    pub fn up(&mut self, rows: usize) {
        let top = if self.cursor.y < self.upper {
            0
        } else {
            self.upper
        };
        self.cursor.y -= rows.min(self.cursor.y - top);
        self.leave_edge();
    }

    pub fn down(&mut self, rows: usize) {
        let below = self.cursor.y > self.lower;
        let bottom = if below { self.height() - 1 } else { self.lower };
        self.cursor.y += rows.min(bottom - self.cursor.y);
        self.leave_edge();
    }

    /// Moves a cursor behind the last column back into it, as vertical movements do.
    fn leave_edge(&mut self) {
        self.cursor.x = self.cursor.x.min(self.width() - 1);
    }

    pub fn right(&mut self, columns: usize) {
        self.go_to_column(self.cursor.x + columns);
    }

    pub fn left(&mut self, columns: usize) {
        self.cursor.x = self.cursor.x.saturating_sub(columns);
    }

    pub fn go_to_column(&mut self, x: usize) {
        self.cursor.x = x.min(self.width() - 1);
    }

    pub fn go_to_row(&mut self, y: usize) {
        let y = match (self.origin, y > self.lower - self.upper) {
            (true, true) => self.lower,
            (true, false) => y + self.upper,
            (false, _) => y,
        };
        self.cursor.y = y.min(self.height() - 1);
    }

    pub fn home(&mut self) {
        self.go_to_row(0);
        self.go_to_column(0);
    }

    pub fn save_cursor(&mut self) {
        self.saved_cursor = (self.cursor, self.origin);
        self.saved_ink = self.ink;
    }

    pub fn restore_cursor(&mut self) {
        let (Position { x, y }, origin) = self.saved_cursor;
        self.origin = origin;
        self.ink = self.saved_ink;
        self.go_to_column(x);
        self.cursor.y = y.min(self.height() - 1);
    }

    pub fn set_region(&mut self, upper: usize, lower: usize) {
        let last = self.height() - 1;
        let (upper, lower) = (upper.min(last), lower.min(last));
        if upper < lower {
            (self.upper, self.lower) = (upper, lower);
            self.cursor = Position::default();
        }
    }

    pub fn tab(&mut self) {
        let last = self.width() - 1;
        let Position { x, y } = self.cursor;
        if x >= last {
            return;
        }
        let stop = (x + 1..last).find(|&x| self.tabs[x]).unwrap_or(last);
        if self.version >= TmuxVersion::new(3, 6) {
            // Over blanks, a tab is a character.
            let row = self.grid.row(y);
            let is_blank = (x..stop).all(|x| row.get(x) == Cell::BLANK);
            self.make_room_for_clusters();
            if let Some(tab) = is_blank.then(|| self.grid.clusters.tab(stop - x)).flatten() {
                self.put(tab, stop - x);
                return;
            }
        }
        self.cursor.x = stop;
    }

    pub fn back_tab(&mut self, count: usize) {
        let mut x = self.cursor.x.min(self.width() - 1);
        for _ in 0..count.min(x) {
            x = (0..x).rev().find(|&x| self.tabs[x]).unwrap_or(0);
        }
        self.cursor.x = x;
    }

    pub fn set_tab(&mut self, stops: bool) {
        if let Some(tab) = self.tabs.get_mut(self.cursor.x) {
            *tab = stops;
        }
    }
}
