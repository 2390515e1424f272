//! The terminal that tmux is to a pane's program: cursor, modes and what each function does (pure).
//!
//! Measured against tmux 3.3a and read in its source. Character sets are left out: a
//! capture shows line-drawing characters as the letters that they are made of.

use super::cell::Cell;
use super::grid::Grid;
use super::ink::Ink;
use super::sync_point::TerminalModes;
use crate::track::version::TmuxVersion;

/// A cursor, which may stand behind the last column: the next character wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct At {
    pub x: usize,
    pub y: usize,
}

/// The normal screen, while the alternate one is shown.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    pub rows: std::collections::VecDeque<super::line::Line>,
    /// Where its cursor was.
    pub cursor: At,
    /// What was written with there.
    pub ink: Ink,
}

/// Of what characters look like, as much as their text depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pen {
    pub foreground: bool,
    pub background: bool,
    /// Bold, underlined and so on.
    pub marked: bool,
}

/// A pane as its program sees it.
#[derive(Clone, Debug)]
pub(super) struct Terminal {
    pub grid: Grid,
    pub cursor: At,
    pub saved: Option<Saved>,
    /// There is an alternate screen; without, going to it and back does nothing.
    pub alternates: bool,
    /// Where the cursor goes when the alternate screen is left; tmux never forgets it.
    pub left: Option<At>,
    /// What `ESC 7` saved: the cursor, and whether rows counted from the region's top.
    pub kept: (At, bool),
    pub wrap: bool,
    pub insert: bool,
    pub origin: bool,
    /// The scroll region, its last row included.
    pub upper: usize,
    pub lower: usize,
    pub tabs: Vec<bool>,
    pub pen: Pen,
    /// What is written with, and what `ESC 7` saved of it. Text does not depend on it.
    pub ink: Ink,
    pub kept_ink: Ink,
    /// The character that a repetition repeats.
    pub last: Option<char>,
    pub version: TmuxVersion,
    /// The selector of a picture makes a character wide (an option, from 3.6 on).
    pub wide_pictures: bool,
    /// A joiner came: before 3.4 the next character goes on the one before the cursor, wherever that
    /// is then. Plain text that tmux writes a run at a time changes nothing about that, and the end
    /// of what tmux has read at once ends it.
    pub joins: bool,
}

impl Terminal {
    pub fn new(width: usize, height: usize, version: TmuxVersion) -> Self {
        let grid = Grid::new(width, height, version);
        Self {
            cursor: At::default(),
            saved: None,
            alternates: true,
            left: None,
            kept: Default::default(),
            wrap: true,
            insert: false,
            origin: false,
            upper: 0,
            lower: grid.height() - 1,
            tabs: every_eighth(grid.width),
            pen: Pen::default(),
            ink: Ink::default(),
            kept_ink: Ink::default(),
            last: None,
            version,
            wide_pictures: true,
            joins: false,
            grid,
        }
    }

    pub fn set_modes(&mut self, modes: &TerminalModes) {
        (self.wrap, self.insert, self.origin) = (modes.wrap, modes.insert, modes.origin);
        self.alternates = modes.alternates;
        let (upper, lower) = (modes.region.0 as usize, modes.region.1 as usize);
        if upper < lower && lower < self.height() {
            (self.upper, self.lower) = (upper, lower);
        }
        if let Some(tabs) = &modes.tabs {
            self.tabs.fill(false);
            for tab in tabs {
                if let Some(stop) = self.tabs.get_mut(*tab as usize) {
                    *stop = true;
                }
            }
        }
    }

    pub fn width(&self) -> usize {
        self.grid.width
    }

    pub fn height(&self) -> usize {
        self.grid.height()
    }

    /// The room of a row that is emptied.
    pub fn room(&self) -> usize {
        // A row that is emptied while a background is set gets it.
        if self.pen.background { self.width() } else { 0 }
    }

    // Printing.

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
            self.print_late(character);
            return;
        }
        if character == '\u{200d}' {
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

    /// Puts a joiner and what follows it on the character before the cursor.
    fn join(&mut self, character: char) {
        self.combine('\u{200d}');
        self.combine(character);
    }

    /// The same from 3.4 on.
    fn print_late(&mut self, character: char) {
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

    /// Prints what is beyond the last character: from 3.4 on tmux shows its bytes, none of which is
    /// text.
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

    fn make_room_for_clusters(&mut self) {
        if self.grid.clusters.is_full() {
            let saved = self.saved.iter_mut().flat_map(|saved| &mut saved.rows);
            let lines = self.grid.rows.iter_mut().chain(saved);
            let cells = lines.flat_map(|line| &mut line.cells);
            self.grid.clusters.keep(cells);
        }
    }

    /// Puts a mark on the character before the cursor.
    fn combine(&mut self, mark: char) {
        self.make_room_for_clusters();
        let (y, width) = (self.cursor.y, self.width());
        let line = self.grid.row(y);
        let Some(x) = (0..self.cursor.x)
            .rev()
            .find(|&x| line.get(x) != Cell::PADDING)
        else {
            return;
        };
        let cell = line.get(x);
        if let Some(cell) = self.grid.clusters.combine(cell, mark) {
            self.grid.row(y).set(x, cell, width);
        }
    }

    fn put(&mut self, cell: Cell, columns: usize) {
        let width = self.width();
        if columns > width {
            return;
        }
        let fits = self.cursor.x + columns <= width;
        if !self.wrap && columns > 1 && !fits && self.cursor.x != width {
            return;
        }
        if self.insert {
            let At { x, y } = self.cursor;
            self.grid.row(y).insert(x, columns, width);
        }
        if !fits {
            if !self.wrap {
                return;
            }
            self.line_feed(true);
            self.cursor.x = 0;
        }
        let At { x, y } = self.cursor;
        let plain = self.pen == Pen::default() && !self.insert && columns == 1;
        let Grid { rows, clusters, .. } = &mut self.grid;
        let Some(row) = rows.get_mut(y) else {
            return;
        };
        row.split_for_one(x, columns, clusters);
        if plain && cell == Cell::BLANK && x >= row.room {
            // tmux sees no need to write a blank where there is nothing.
            self.go_on(columns);
            return;
        }
        for padding in x + 1..x + columns {
            row.set(padding, Cell::PADDING, width);
        }
        row.set(x, cell, width);
        row.inks.set(x, x + columns, self.ink);
        self.go_on(columns);
    }

    /// Moves the cursor behind a character. Without wrapping it stays in the last column.
    fn go_on(&mut self, columns: usize) {
        let width = self.width();
        let edge = if self.wrap { width } else { width - 1 };
        self.cursor.x = (self.cursor.x + columns).min(edge);
    }

    /// Characters of which the next cells would leave a half go.
    fn split(&mut self, cells: usize) {
        let At { x, y } = self.cursor;
        let Grid { rows, clusters, .. } = &mut self.grid;
        if let Some(line) = rows.get_mut(y) {
            let keeps_first = self.version < TmuxVersion::new(3, 6);
            line.split(x, cells, clusters, keeps_first);
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

    // Lines.

    pub fn line_feed(&mut self, wraps: bool) {
        if wraps {
            self.grid.row(self.cursor.y).wrapped = true;
        }
        // A row that text wraps into has no background yet.
        let room = if wraps { 0 } else { self.room() };
        if self.cursor.y == self.lower {
            self.grid.scroll_up(self.upper, self.lower, room);
        } else if self.cursor.y + 1 < self.height() {
            self.cursor.y += 1;
        }
    }

    pub fn reverse_index(&mut self) {
        if self.cursor.y == self.upper {
            self.grid.scroll_down(self.upper, self.lower, self.room());
        } else {
            self.cursor.y = self.cursor.y.saturating_sub(1);
        }
    }

    pub fn scroll_up(&mut self, rows: usize) {
        for _ in 0..rows.min(self.lower - self.upper + 1) {
            self.grid.scroll_up(self.upper, self.lower, self.room());
        }
    }

    pub fn scroll_down(&mut self, rows: usize) {
        for _ in 0..rows.min(self.lower - self.upper + 1) {
            self.grid.scroll_down(self.upper, self.lower, self.room());
        }
    }

    /// The rows that may be inserted or deleted, and where their region ends.
    fn rows_below(&self, rows: usize) -> (usize, Option<usize>) {
        let inside = (self.upper..=self.lower).contains(&self.cursor.y);
        let lower = inside.then_some(self.lower);
        let end = lower.map_or(self.height(), |lower| lower + 1);
        (rows.min(end - self.cursor.y), lower)
    }

    pub fn insert_rows(&mut self, rows: usize) {
        let (rows, lower) = self.rows_below(rows);
        let room = self.room();
        self.grid.insert_rows(self.cursor.y, rows, lower, room);
    }

    pub fn delete_rows(&mut self, rows: usize) {
        let (rows, lower) = self.rows_below(rows);
        let room = self.room();
        self.grid.delete_rows(self.cursor.y, rows, lower, room);
    }

    // The cursor.

    pub fn carriage_return(&mut self) {
        self.cursor.x = 0;
    }

    pub fn back(&mut self) {
        let At { x, y } = self.cursor;
        if x > 0 {
            self.cursor.x -= 1;
        } else if y > 0 && self.grid.row(y - 1).wrapped {
            self.cursor = At {
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

    /// Going up or down, the cursor comes back from behind the last column.
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

    pub fn keep_cursor(&mut self) {
        self.kept = (self.cursor, self.origin);
        self.kept_ink = self.ink;
    }

    pub fn restore_cursor(&mut self) {
        let (At { x, y }, origin) = self.kept;
        self.origin = origin;
        self.ink = self.kept_ink;
        self.go_to_column(x);
        self.cursor.y = y.min(self.height() - 1);
    }

    pub fn set_region(&mut self, upper: usize, lower: usize) {
        let last = self.height() - 1;
        let (upper, lower) = (upper.min(last), lower.min(last));
        if upper < lower {
            (self.upper, self.lower) = (upper, lower);
            self.cursor = At::default();
        }
    }

    // Tabs.

    pub fn tab(&mut self) {
        let last = self.width() - 1;
        let At { x, y } = self.cursor;
        if x >= last {
            return;
        }
        let stop = (x + 1..last).find(|&x| self.tabs[x]).unwrap_or(last);
        if self.version >= TmuxVersion::new(3, 6) {
            // Over blanks a tab is a character of its own.
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

    // Screens.

    /// Shows the alternate screen.
    pub fn enter(&mut self, keeps_cursor: bool) {
        if self.saved.is_some() || !self.alternates {
            return;
        }
        if keeps_cursor {
            self.left = Some(self.cursor);
        }
        self.saved = Some(Saved {
            rows: self.grid.rows.clone(),
            cursor: self.cursor,
            ink: self.ink,
        });
        self.grid.keeps_history = false;
        self.grid.clear_rows(0, self.height() as isize, 0);
    }

    /// Shows the normal screen again.
    pub fn leave(&mut self, restores_cursor: bool) {
        if !self.alternates {
            return;
        }
        if restores_cursor && let Some(left) = self.left {
            self.cursor = left;
        }
        if let Some(saved) = self.saved.take() {
            let height = self.height();
            self.grid.rows = saved.rows;
            self.ink = saved.ink;
            self.grid.keeps_history = true;
            self.grid.set_height(height, &mut self.cursor.y);
        }
        // Rows that were wrapped at another width are as long as they were: text goes on behind them.
        let edge = match self.grid.row(self.cursor.y).cells.len() {
            longer if longer > self.width() => longer,
            _ => self.width() - 1,
        };
        self.cursor.x = self.cursor.x.min(edge);
        self.cursor.y = self.cursor.y.min(self.height() - 1);
    }
}

pub(super) fn every_eighth(width: usize) -> Vec<bool> {
    (0..width).map(|x| x > 0 && x % 8 == 0).collect()
}
