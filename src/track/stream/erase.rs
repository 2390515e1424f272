//! Erases, inserts and deletes on a terminal (pure).

use super::ink::Ink;
use super::terminal::{Pen, Position, Terminal, every_eighth};

impl Terminal {
    pub fn erase_right(&mut self) {
        let Position { x, y } = self.cursor;
        if x == 0 {
            self.erase_row();
        } else if x < self.width() {
            let cells = self.width() - x;
            self.clear(x, y, cells);
        }
    }

    pub fn erase_left(&mut self) {
        let Position { x, y } = self.cursor;
        if x + 1 >= self.width() {
            self.erase_row();
        } else {
            self.clear(0, y, x + 1);
        }
    }

    pub fn erase_row(&mut self) {
        let (y, room) = (self.cursor.y, self.room());
        if self.grid.row(y).room > 0 || room > 0 {
            self.grid.clear_rows(y, 1, room);
        }
    }

    fn clear(&mut self, x: usize, y: usize, cells: usize) {
        let room = self.room();
        self.grid.clear(x, y, cells, room);
    }

    pub fn erase_below(&mut self) {
        let Position { x, y } = self.cursor;
        if (x, y) == (0, 0) && self.grid.keeps_history {
            // tmux treats this as erasing the whole screen.
            self.erase_screen();
            return;
        }
        if x < self.width() {
            self.clear(x, y, self.width() - x);
        }
        let (below, room) = (self.height() - y - 1, self.room());
        self.grid.clear_rows(y + 1, below as isize, room);
    }

    pub fn erase_above(&mut self) {
        let Position { x, y } = self.cursor;
        let room = self.room();
        self.grid.clear_rows(0, y as isize, room);
        self.clear(0, y, (x + 1).min(self.width()));
    }

    pub fn erase_screen(&mut self) {
        let room = self.room();
        self.grid.clear_screen(room);
    }

    pub fn erase_cells(&mut self, cells: usize) {
        let Position { x, y } = self.cursor;
        if x < self.width() {
            self.clear(x, y, cells.min(self.width() - x));
        }
    }

    pub fn insert_cells(&mut self, cells: usize) {
        let (Position { x, y }, width) = (self.cursor, self.width());
        if x < width {
            self.grid.row(y).insert(x, cells.min(width - x), width);
        }
    }

    pub fn delete_cells(&mut self, cells: usize) {
        let (Position { x, y }, width) = (self.cursor, self.width());
        if x < width {
            let room = self.room();
            self.grid.delete_cells(x, y, cells.min(width - x), room);
        }
    }

    /// Fills the screen with E.
    pub fn align(&mut self) {
        let full = vec![b'E'; self.width()];
        let width = self.width();
        for row in &mut self.grid.rows {
            row.set_ascii(0, &full, width);
            row.inks.clear();
        }
        self.cursor = Position::default();
        (self.upper, self.lower) = (0, self.height() - 1);
    }

    /// Executes `ESC c`. The alternate screen stays, as in tmux.
    pub fn reset(&mut self) {
        self.tabs = every_eighth(self.width());
        self.set_region(0, self.height() - 1);
        (self.wrap, self.insert, self.origin) = (true, false, false);
        (self.pen, self.ink, self.saved_ink) = (Pen::default(), Ink::default(), Ink::default());
        self.saved_cursor = Default::default();
        self.erase_screen();
        self.cursor = Position::default();
    }
}
