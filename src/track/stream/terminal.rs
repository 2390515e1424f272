//! An emulation of tmux's terminal: cursor, modes and functions (pure).
//!
//! It follows measurements of tmux 3.3a and its source. It has no character sets, because captures
//! contain line-drawing characters as letters.

use super::grid::Grid;
use super::ink::Ink;
use super::sync_point::TerminalModes;
use crate::track::version::TmuxVersion;

/// A position of the cursor. Behind the last column, the next character wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    pub x: usize,
    pub y: usize,
}

/// The normal screen, while the alternate one is shown.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    pub rows: std::collections::VecDeque<super::grid_row::GridRow>,
    pub cursor: Position,
    /// The style that was set on the normal screen.
    pub ink: Ink,
}

/// The attributes of characters on which their text depends.
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
    pub cursor: Position,
    pub saved: Option<Saved>,
    /// The alternate screen is enabled. Otherwise, switching screens has no effect.
    pub alternates: bool,
    /// The position of the cursor after leaving the alternate screen. tmux never resets it.
    pub normal_cursor: Option<Position>,
    /// The state that `ESC 7` saved: cursor and origin mode.
    pub saved_cursor: (Position, bool),
    pub wrap: bool,
    pub insert: bool,
    pub origin: bool,
    /// The first row of the scroll region.
    pub upper: usize,
    /// The last row of the scroll region.
    pub lower: usize,
    pub tabs: Vec<bool>,
    pub pen: Pen,
    /// The present style. Text does not depend on it.
    pub ink: Ink,
    /// The style that `ESC 7` saved.
    pub saved_ink: Ink,
    /// The character that REP repeats.
    pub last: Option<char>,
    pub version: TmuxVersion,
    /// A joiner has arrived: before 3.4, tmux combines the next character with the one before the
    /// cursor, wherever that is then. Plain text, which tmux writes in runs, does not reset it. The
    /// end of the bytes that tmux has read together does.
    pub joins: bool,
}

impl Terminal {
    pub fn new(width: usize, height: usize, version: TmuxVersion) -> Self {
        let grid = Grid::new(width, height, version);
        Self {
            cursor: Position::default(),
            saved: None,
            alternates: true,
            normal_cursor: None,
            saved_cursor: Default::default(),
            wrap: true,
            insert: false,
            origin: false,
            upper: 0,
            lower: grid.height() - 1,
            tabs: every_eighth(grid.width),
            pen: Pen::default(),
            ink: Ink::default(),
            saved_ink: Ink::default(),
            last: None,
            version,
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

    /// Returns the room of a row that is emptied.
    pub fn room(&self) -> usize {
        // With a background, tmux allocates the whole row to fill it.
        if self.pen.background { self.width() } else { 0 }
    }

    pub fn line_feed(&mut self, wraps: bool) {
        if wraps {
            self.grid.row(self.cursor.y).wrapped = true;
        }
        // A row that text wraps into gets no background.
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

    /// Returns how many of `rows` rows can be inserted or deleted, and the last row of their region.
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

    /// Shows the alternate screen.
    pub fn enter(&mut self, keeps_cursor: bool) {
        if self.saved.is_some() || !self.alternates {
            return;
        }
        if keeps_cursor {
            self.normal_cursor = Some(self.cursor);
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
        if restores_cursor && let Some(cursor) = self.normal_cursor {
            self.cursor = cursor;
        }
        if let Some(saved) = self.saved.take() {
            let height = self.height();
            self.grid.rows = saved.rows;
            self.ink = saved.ink;
            self.grid.keeps_history = true;
            self.grid.set_height(height, &mut self.cursor.y);
        }
        // Rows of another width keep their length, and text continues behind them.
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
