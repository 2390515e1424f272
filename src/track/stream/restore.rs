//! Converts captures of tmux to terminals, and back (pure).

use std::collections::VecDeque;

use super::grid_row::GridRow;
use super::ink::Ink;
use super::sync_point::SyncPoint;
use super::terminal::{Position, Saved, Terminal};
use crate::event::Cursor;
use crate::track::capture::{Row, SavedScreen};

impl Terminal {
    /// Creates a terminal from a sync point. `head` is the part of the topmost line of the normal screen
    /// that has scrolled off, and the number of its rows.
    pub fn from_sync_point(sync_point: &SyncPoint, head: Option<(String, u32)>) -> Self {
        let capture = &sync_point.capture;
        let mut terminal = Self::new(
            capture.width as usize,
            capture.height as usize,
            sync_point.version,
        );
        terminal.set_modes(&sync_point.modes);
        let height = terminal.height();
        let width = terminal.width();
        let mut grid_rows = |rows: &[Row]| -> VecDeque<GridRow> {
            let clusters = &mut terminal.grid.clusters;
            let rows = rows.iter().map(|row| GridRow::of(row, width, clusters));
            rows.collect()
        };
        let mut rows = grid_rows(&capture.rows[capture.history_rows()..]);
        rows.resize_with(height, GridRow::default);
        if capture.alternate {
            let saved = capture.saved.as_ref();
            let cursor = saved.map_or(Position::default(), |saved| position_of(saved.cursor));
            // The normal screen keeps the size at which the alternate one was shown.
            let mut rows = grid_rows(saved.map_or(&[], |saved| &saved.rows));
            rows.resize_with(rows.len().max(1), GridRow::default);
            terminal.normal_cursor = saved.map(|_| cursor);
            let ink = Ink::default();
            terminal.saved = Some(Saved { rows, cursor, ink });
            terminal.grid.keeps_history = false;
        }
        terminal.grid.rows = rows;
        terminal.cursor = position_of(capture.cursor);
        terminal.cursor.x = terminal.cursor.x.min(terminal.width());
        terminal.cursor.y = terminal.cursor.y.min(height - 1);
        terminal.grid.scrolled.history.size = capture.history_size;
        terminal.grid.scrolled.history.limit = capture.history_limit;
        if let Some((text, rows)) = head {
            terminal.grid.scrolled.set_open(&text, rows);
        }
        terminal
    }

    /// Copies the state that earlier bytes of the same program have set and that no capture shows.
    pub fn inherit(&mut self, before: &Self) {
        (self.pen, self.saved_cursor) = (before.pen, before.saved_cursor);
        (self.ink, self.saved_ink) = (before.ink, before.saved_ink);
        self.normal_cursor = self.normal_cursor.or(before.normal_cursor);
    }

    pub fn shown(&self) -> Vec<Row> {
        self.rows_of(&self.grid.rows)
    }

    fn rows_of(&self, rows: &VecDeque<GridRow>) -> Vec<Row> {
        let row = |row: &GridRow| row.row(&self.grid.clusters, self.grid.width);
        rows.iter().map(row).collect()
    }

    /// Returns the rows of the normal screen and the row of its cursor, even if it is hidden.
    pub fn normal(&self) -> (Vec<Row>, usize) {
        match &self.saved {
            Some(saved) => {
                let cursor_row = saved.cursor.y.min(saved.rows.len() - 1);
                (self.rows_of(&saved.rows), cursor_row)
            }
            None => (self.shown(), self.cursor.y),
        }
    }

    /// Returns the cursor as tmux reports it.
    pub fn cursor(&self) -> Cursor {
        cursor_of(self.cursor)
    }

    /// Returns the normal screen, if the alternate one hides it.
    pub fn hidden(&self) -> Option<SavedScreen> {
        let saved = self.saved.as_ref()?;
        Some(SavedScreen {
            cursor: cursor_of(saved.cursor),
            rows: self.rows_of(&saved.rows),
        })
    }

    /// Clears the screens, because their content is unknown.
    pub fn forget(&mut self) {
        let rows = self.grid.rows.iter_mut();
        let saved = self.saved.iter_mut().flat_map(|saved| &mut saved.rows);
        rows.chain(saved).for_each(|row| row.reset(0));
        if let Some(saved) = &mut self.saved {
            saved.cursor = Position::default();
        }
        self.cursor = Position::default();
        self.set_region(0, self.height() - 1);
        self.grid.scrolled.close();
        self.grid.scrolled.take();
        (self.last, self.joins) = (None, false);
    }
}

fn cursor_of(position: Position) -> Cursor {
    // Both are at most the width or height of a screen.
    Cursor {
        x: position.x as u32,
        y: position.y as u32,
    }
}

fn position_of(cursor: Cursor) -> Position {
    Position {
        x: cursor.x as usize,
        y: cursor.y as usize,
    }
}
