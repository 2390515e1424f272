//! An emulation of tmux's terminal: cursor, modes and functions (pure).
//!
//! It follows measurements of tmux 3.3a and its source. It has no character sets, because captures
//! contain line-drawing characters as letters.

use std::collections::VecDeque;
use std::time::Duration;

use super::super::capture::{Row, SavedScreen, TmuxVersion};
use super::agreement::{SyncPoint, TerminalModes};
use super::cell::Cell;
use super::grid::{Grid, GridRow, Head};
use super::links::Addresses;
use crate::event::Cursor;
use crate::event::Ink;

/// A position of the cursor. Behind the last column, the next character wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    pub x: usize,
    pub y: usize,
}

/// The normal screen, while the alternate one is shown.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    pub rows: std::collections::VecDeque<super::grid::GridRow>,
    pub cursor: Position,
    /// The style that was set on the normal screen.
    pub ink: Ink,
}

/// A program that does not end a synchronized update (mode 2026) within this time is shown as it is; terminals
/// wait between 0.15 s and a second.
const UPDATE_PERIOD: Duration = Duration::from_secs(1);

/// The screen before a synchronized update.
#[derive(Clone, Debug)]
struct BeforeUpdate {
    began: Duration,
    rows: VecDeque<GridRow>,
    cursor: Position,
    is_alternate: bool,
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
    normal_cursor: Option<Position>,
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
    /// The addresses of links, whose numbers the styles hold.
    pub addresses: Addresses,
    /// The character that REP repeats.
    pub last: Option<char>,
    pub version: TmuxVersion,
    /// A joiner has arrived: before 3.4, tmux combines the next character with the one before the
    /// cursor, wherever that is then. Plain text, which tmux writes in runs, does not reset it. The
    /// end of the bytes that tmux has read together does.
    pub joins: bool,
    /// The time of the present bytes.
    pub now: Duration,
    /// The screen before the synchronized update in progress.
    before_update: Option<Box<BeforeUpdate>>,
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
            addresses: Addresses::default(),
            last: None,
            version,
            joins: false,
            now: Duration::ZERO,
            before_update: None,
            grid,
        }
    }

    /// Begins a synchronized update, until whose end the screen is a mixture.
    pub fn begin_update(&mut self) {
        if self.is_updating(self.now) {
            return;
        }
        self.before_update = Some(Box::new(BeforeUpdate {
            began: self.now,
            rows: self.grid.rows.clone(),
            cursor: self.cursor,
            is_alternate: self.saved.is_some(),
        }));
    }

    pub fn end_update(&mut self) {
        self.before_update = None;
    }

    /// Returns true within a synchronized update.
    pub fn is_updating(&self, now: Duration) -> bool {
        self.update_end().is_some_and(|end| now < end)
    }

    /// Returns when a synchronized update ends at the latest.
    pub fn update_end(&self) -> Option<Duration> {
        let update = self.before_update.as_ref()?;
        Some(update.began + UPDATE_PERIOD)
    }

    /// Returns the rows and the cursor of the last complete screen, and whether it is the alternate one.
    pub fn complete_screen(&self, now: Duration) -> (Vec<Row>, Cursor, bool) {
        match &self.before_update {
            Some(before) if self.is_updating(now) => (
                self.rows_of(&before.rows),
                cursor_of(before.cursor),
                before.is_alternate,
            ),
            _ => (self.shown(), self.cursor(), self.saved.is_some()),
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

fn every_eighth(width: usize) -> Vec<bool> {
    (0..width).map(|x| x > 0 && x % 8 == 0).collect()
}

// Movements of a terminal's cursor: by cells, to tabs, within the scroll region (pure).

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

// Erases, inserts and deletes on a terminal (pure).

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
            row.inks.0.clear();
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

// Converts captures of tmux to terminals, and back (pure).

impl Terminal {
    /// Creates a terminal from a sync point. `head` is what the rows of the normal screen do not show of its topmost
    /// line, and what they show besides it.
    pub fn from_sync_point(sync_point: &SyncPoint, head: Option<&Head>) -> Self {
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
        if let Some(head) = head {
            terminal.grid.scrolled.set_open(head);
            let rows = match &mut terminal.saved {
                Some(saved) => &mut saved.rows,
                None => &mut terminal.grid.rows,
            };
            for (row, foreign) in rows.iter_mut().zip(&head.foreign) {
                row.set_foreign(*foreign, &terminal.grid.clusters);
            }
        }
        terminal
    }

    /// Returns what the rows of the normal screen do not show of its topmost line, and what they show besides it.
    pub fn head(&self) -> Option<Head> {
        let rows = self.normal_rows().iter();
        let foreign = rows.map(|row| row.foreign_bytes(&self.grid.clusters, self.width()));
        let (text, rows) = self.grid.scrolled.open()?;
        Some(Head {
            text: text.to_owned(),
            rows: u32::try_from(rows).unwrap_or(0),
            foreign: foreign.collect(),
        })
    }

    /// Returns the rows of the normal screen, even if it is hidden.
    pub fn normal_rows(&self) -> &VecDeque<GridRow> {
        match &self.saved {
            Some(saved) => &saved.rows,
            None => &self.grid.rows,
        }
    }

    /// Copies the state that earlier bytes of the same program have set and that no capture shows.
    pub fn inherit(&mut self, before: Self) {
        (self.pen, self.saved_cursor) = (before.pen, before.saved_cursor);
        (self.ink, self.saved_ink) = (before.ink, before.saved_ink);
        self.addresses = before.addresses;
        self.normal_cursor = self.normal_cursor.or(before.normal_cursor);
        self.now = before.now;
    }

    pub fn shown(&self) -> Vec<Row> {
        self.rows_of(&self.grid.rows)
    }

    fn rows_of(&self, rows: &VecDeque<GridRow>) -> Vec<Row> {
        let row = |row: &GridRow| row.row(&self.grid.clusters, self.grid.width);
        rows.iter().map(row).collect()
    }

    /// Returns the rows of the normal screen, as far as they are part of their lines, and the row of its cursor,
    /// even if it is hidden.
    pub fn normal(&self) -> (Vec<Row>, usize) {
        let rows = self.normal_rows();
        let cursor = self
            .saved
            .as_ref()
            .map_or(self.cursor, |saved| saved.cursor);
        let cursor_row = cursor.y.min(rows.len() - 1);
        let own = |row: &GridRow| row.own_row(&self.grid.clusters, self.grid.width);
        (rows.iter().map(own).collect(), cursor_row)
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
