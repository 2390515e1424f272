//! Prints into a terminal's cells: wrapping, wide characters, marks and joiners (pure).

use super::cell::{Cell, JOINER};
use super::grid::Grid;
use super::terminal::{Pen, Position, Terminal};
use crate::track::version::TmuxVersion;

impl Terminal {
    /// Prints characters from space to tilde.
    pub fn print_ascii(&mut self, mut text: &[u8]) {
        self.last = text.last().map(|last| char::from(*last)).or(self.last);
        if !self.wrap || self.insert {
            for byte in text {
                match std::mem::take(&mut self.joins) {
                    true => self.join(char::from(*byte)),
                    false => self.put(Cell::ascii(*byte), 1),
                }
            }
            return;
        }
        let width = self.width();
        while !text.is_empty() {
            if self.cursor.x >= width {
                self.line_feed(true);
                self.cursor.x = 0;
            }
            let (now, rest) = text.split_at(text.len().min(width - self.cursor.x));
            let x = self.cursor.x;
            self.split(now.len());
            let ink = self.ink;
            let row = self.grid.row(self.cursor.y);
            row.set_ascii(x, now, width);
            row.inks.set(x, x + now.len(), ink);
            self.cursor.x += now.len();
            text = rest;
        }
    }

    /// Prints a character beyond ASCII.
    pub fn print(&mut self, character: char) {
        self.last = None;
        if self.version >= TmuxVersion::new(3, 4) {
            self.print_from_3_4(character);
            return;
        }
        if character == JOINER {
            self.joins = true;
            return;
        }
        let Some(columns) = self.grid.clusters.widths.columns(character) else {
            return;
        };
        match (std::mem::take(&mut self.joins), columns) {
            (true, _) => self.join(character),
            (false, 0) => self.combine(character),
            (false, _) => self.put(Cell::of(character), columns),
        }
    }

    /// Adds a joiner and the character after it to the character before the cursor.
    fn join(&mut self, character: char) {
        self.combine(JOINER);
        self.combine(character);
    }

    /// Prints a character beyond ASCII as tmux does from 3.4 on.
    fn print_from_3_4(&mut self, character: char) {
        if self.version >= TmuxVersion::new(3, 5) {
            self.last = Some(character);
        }
        let Some(columns) = self.grid.clusters.widths.columns(character) else {
            return;
        };
        self.make_room_for_clusters();
        if !self.combines(character, columns) {
            self.put(Cell::of(character), columns);
        }
    }

    /// Prints a code beyond the last character. From 3.4 on, tmux prints its four bytes, none of which
    /// is text.
    pub fn print_beyond(&mut self) {
        self.last = None;
        if self.version < TmuxVersion::new(3, 4) {
            return;
        }
        self.make_room_for_clusters();
        let bytes = [char::REPLACEMENT_CHARACTER; 4];
        let cell = Cell::of(bytes[0]);
        let rest: String = bytes[1..].iter().collect();
        let cell = self.grid.clusters.with(cell, &rest);
        self.put(cell, 1);
    }

    pub(super) fn make_room_for_clusters(&mut self) {
        if self.grid.clusters.is_full() {
            let saved = self.saved.iter_mut().flat_map(|saved| &mut saved.rows);
            let rows = self.grid.rows.iter_mut().chain(saved);
            let cells = rows.flat_map(|row| &mut row.cells);
            self.grid.clusters.keep(cells);
        }
    }

    /// Adds a mark to the character before the cursor.
    fn combine(&mut self, mark: char) {
        self.make_room_for_clusters();
        let (y, width) = (self.cursor.y, self.width());
        let row = self.grid.row(y);
        let Some(x) = (0..self.cursor.x)
            .rev()
            .find(|&x| row.get(x) != Cell::PADDING)
        else {
            return;
        };
        let cell = row.get(x);
        if let Some(cell) = self.grid.clusters.combine(cell, mark) {
            self.grid.row(y).set(x, cell, width);
        }
    }

    pub(super) fn put(&mut self, cell: Cell, columns: usize) {
        let width = self.width();
        if columns > width {
            return;
        }
        let fits = self.cursor.x + columns <= width;
        if !self.wrap && columns > 1 && !fits && self.cursor.x != width {
            return;
        }
        if self.insert {
            let Position { x, y } = self.cursor;
            self.grid.row(y).insert(x, columns, width);
        }
        if !fits {
            if !self.wrap {
                return;
            }
            self.line_feed(true);
            self.cursor.x = 0;
        }
        let Position { x, y } = self.cursor;
        let plain = self.pen == Pen::default() && !self.insert && columns == 1;
        let Grid { rows, clusters, .. } = &mut self.grid;
        let Some(row) = rows.get_mut(y) else {
            return;
        };
        row.split_for_one(x, columns, clusters);
        if plain && cell == Cell::BLANK && x >= row.room {
            // tmux does not write a blank into a cell that is not allocated.
            self.advance_cursor(columns);
            return;
        }
        for padding in x + 1..x + columns {
            row.set(padding, Cell::PADDING, width);
        }
        row.set(x, cell, width);
        row.inks.set(x, x + columns, self.ink);
        self.advance_cursor(columns);
    }

    /// Moves the cursor behind a character. Without wrapping, it stays in the last column.
    fn advance_cursor(&mut self, columns: usize) {
        let width = self.width();
        let edge = if self.wrap { width } else { width - 1 };
        self.cursor.x = (self.cursor.x + columns).min(edge);
    }

    /// Removes wide characters that text in the next cells would cut in half.
    fn split(&mut self, cells: usize) {
        let Position { x, y } = self.cursor;
        let Grid { rows, clusters, .. } = &mut self.grid;
        if let Some(row) = rows.get_mut(y) {
            let keeps_first = self.version < TmuxVersion::new(3, 6);
            row.split(x, cells, clusters, keeps_first);
        }
    }

    /// Repeats the last character, up to the end of the row.
    pub fn repeat(&mut self, count: usize) {
        if let Some(last) = self.last {
            let count = count.min(self.width().saturating_sub(self.cursor.x));
            match u8::try_from(last) {
                Ok(byte) if byte.is_ascii() => self.print_ascii(&vec![byte; count]),
                _ => (0..count).for_each(|_| self.print(last)),
            }
        }
    }
}
