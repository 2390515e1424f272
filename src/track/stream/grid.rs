//! The rows of the screen and their movements, exactly as in tmux (pure).
//!
//! Wraps determine lines, so each operation ends lines exactly where tmux does. Rows that scroll off the
//! normal screen go to the history, even from a scroll region below the top. Rows that are erased,
//! deleted, or scrolled on the alternate screen do not.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

use super::super::capture::{Row, TmuxVersion};
use super::super::lines::expand_tabs;
use super::cell::{Cell, Clusters, JOINER};
use super::ink::{Inks, Run};
use crate::event::Ink;
use crate::text::first_bytes;

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
        let row = if is_all {
            self.rows.pop_front()
        } else {
            self.rows.remove(upper)
        };
        let Some(mut row) = row else {
            return;
        };
        self.scrolled.push(&row, &self.clusters, self.width);
        row.reset(room);
        if is_all {
            self.rows.push_back(row)
        } else {
            self.rows.insert(lower, row)
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
        let left = if self.is_exact {
            cells
        } else {
            (x + cells).saturating_sub(tail)
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

// Joins the rows that have scrolled off the screen to lines (pure).

/// The length at which a line is cut, because a program may never end it. Lines of child processes
/// are cut at the same length.
pub(super) const LINE_BYTES_MAX: usize = 64 * 1024;

/// The line in the top row of the screen, as far as its rows on the screen do not show it.
#[derive(Clone, Debug, Default)]
pub(super) struct Head {
    /// The beginning that has scrolled off, and its number of rows.
    pub text: String,
    pub rows: u32,
    /// For each row from the top of the screen, the number of bytes at its beginning that are no part of the line.
    /// [`ALL_FOREIGN`] for all of a row in which the line does not end.
    pub foreign: Vec<usize>,
}

/// All of a row is no part of its line, which continues in the next row.
pub(super) const ALL_FOREIGN: usize = usize::MAX;

/// The lines that have scrolled off since the last [`Scrolled::take`].
#[derive(Clone, Debug, Default)]
pub(super) struct Scrolled {
    /// Whole lines, each ended by `\n`, then the beginning of the open line, which continues in the top
    /// row of the screen.
    text: String,
    /// The length of the whole lines, in bytes.
    whole: usize,
    /// The number of rows of each whole line.
    rows: Vec<u32>,
    /// The number of rows of the open line that have scrolled off.
    open_rows: u32,
    is_open: bool,
    /// The indices of the whole lines that were cut, so that the next ones continue them.
    cuts: Vec<usize>,
    /// The runs of all these lines that are not plain. The open line is the last.
    inked: Vec<Inked>,
    /// The number of runs in whole lines.
    whole_inked: usize,
    /// The number of rows that have scrolled off since the last take.
    count: i64,
    /// The number of rows that have ever scrolled off, which is the number of the top row.
    pub total: i64,
    pub history: History,
}

/// The size of tmux's history, which tmux trims when it is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct History {
    /// Its number of rows.
    pub size: u32,
    /// The maximum number of rows.
    pub limit: u32,
}

impl History {
    fn grow(&mut self) {
        if self.limit == 0 {
            return;
        }
        if self.size > 0 && self.size >= self.limit {
            self.size -= (self.limit / 10).clamp(1, self.size);
        }
        self.size += 1;
    }
}

/// Whole lines that have scrolled off.
#[derive(Debug, Default)]
pub(super) struct ScrolledOff {
    /// The lines, each ended by `\n`.
    pub text: String,
    /// The number of rows of each line.
    pub rows: Vec<u32>,
    /// The number of rows that have scrolled off, including those of the open line.
    pub count: i64,
    /// The runs of the lines that are not plain.
    pub inked: Vec<Inked>,
    /// The indices of the lines that were cut, so that the next ones continue them.
    pub cuts: Vec<usize>,
}

impl Scrolled {
    /// Sets the beginning of the line that continues in the top row.
    pub fn set_open(&mut self, head: &Head) {
        self.text.push_str(&head.text);
        self.open_rows = head.rows;
        self.is_open = true;
    }

    pub fn push(&mut self, row: &GridRow, clusters: &Clusters, width: usize) {
        if !row.inks.0.is_empty() {
            let before = self.text[self.whole..].chars().count();
            push_inked(row, clusters, (self.rows.len(), before), &mut self.inked);
        }
        row.show_own(clusters, width, &mut self.text);
        self.count += 1;
        self.total += 1;
        self.history.grow();
        self.open_rows += 1;
        self.is_open = true;
        let is_full = self.text.len() - self.whole >= LINE_BYTES_MAX;
        if row.continues() && is_full {
            self.cuts.push(self.rows.len());
        }
        if !row.continues() || is_full {
            self.close();
        }
    }

    /// Adds a whole line of `rows` rows. No line must be open.
    pub fn push_line(&mut self, line: &str, rows: u32) {
        self.text.push_str(line);
        self.count += i64::from(rows);
        self.total += i64::from(rows);
        (0..rows).for_each(|_| self.history.grow());
        self.open_rows = rows;
        self.is_open = true;
        self.close();
    }

    /// Ends the open line, if any.
    pub fn close(&mut self) {
        if !self.is_open {
            return;
        }
        self.text.push('\n');
        self.whole = self.text.len();
        self.rows.push(self.open_rows);
        self.whole_inked = self.inked.len();
        self.open_rows = 0;
        self.is_open = false;
    }

    /// Returns the beginning of the open line and the number of its rows.
    pub fn open(&self) -> Option<(&str, i64)> {
        self.is_open
            .then(|| (&self.text[self.whole..], i64::from(self.open_rows)))
    }

    /// Returns the runs of the open line that are not plain.
    pub fn open_inked(&self) -> Vec<Inked> {
        let open = self.inked[self.whole_inked..].iter();
        open.map(|inked| Inked { line: 0, ..*inked }).collect()
    }

    /// Returns true if no row has scrolled off and no line has ended since the last take.
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.rows.is_empty()
    }

    /// Returns the size of the lines and runs that wait to be taken, in bytes.
    pub fn bytes(&self) -> usize {
        self.whole + self.whole_inked * size_of::<Inked>()
    }

    /// Takes the whole lines. The open line stays.
    pub fn take(&mut self) -> ScrolledOff {
        let open = self.text.split_off(self.whole);
        self.whole = 0;
        let open_inked = self.open_inked();
        self.inked.truncate(std::mem::take(&mut self.whole_inked));
        ScrolledOff {
            text: std::mem::replace(&mut self.text, open),
            rows: std::mem::take(&mut self.rows),
            count: std::mem::take(&mut self.count),
            inked: std::mem::replace(&mut self.inked, open_inked),
            cuts: std::mem::take(&mut self.cuts),
        }
    }
}

// One row of the grid (pure).

/// The number of cells that are converted at once.
const ASCII_CELLS: usize = 32;

/// One row. Its cells end where the program stopped writing, blanks included.
#[derive(Clone, Debug, Default)]
pub(super) struct GridRow {
    pub cells: Vec<Cell>,
    /// The number of cells that tmux has allocated. Erasing a row without any does nothing.
    pub room: usize,
    /// The row continues in the next one.
    pub wrapped: bool,
    /// The number of cells at its beginning that are no part of its line: the end of an earlier piece of a long one,
    /// or what tmux has put there. [`ALL_FOREIGN`] in a row in which the line does not end. What a program writes
    /// over them makes all of the row a part of its line.
    pub foreign: usize,
    /// The styles that are not plain, never beyond the cells.
    pub inks: Inks,
}

impl GridRow {
    /// Creates a row from one of tmux, in a pane of this width.
    pub fn of(row: &Row, width: usize, clusters: &mut Clusters) -> Self {
        let mut grid_row = Self {
            cells: Vec::new(),
            room: 0,
            wrapped: row.wrapped,
            foreign: 0,
            // A capture has no colours.
            inks: Inks::default(),
        };
        let mut after_joiner = false;
        for (at, character) in row.text.char_indices() {
            let columns = match clusters.widths.columns(character) {
                Some(columns) if !after_joiner => columns,
                _ => 0,
            };
            after_joiner = character == JOINER;
            let before = grid_row
                .cells
                .iter()
                .rposition(|cell| *cell != Cell::PADDING);
            if grid_row.cells.len() + columns > width
                && let Some(before) = before
            {
                // The row is longer in tmux than computed here, so the rest goes into the last cell.
                let rest = &row.text[at..];
                grid_row.cells[before] = clusters.with(grid_row.cells[before], rest);
                break;
            }
            match (columns, before) {
                (0, Some(before)) => {
                    let mut text = [0; 4];
                    let mark = character.encode_utf8(&mut text);
                    grid_row.cells[before] = clusters.with(grid_row.cells[before], mark);
                }
                (0, None) => {}
                _ => grid_row.push(Cell::of(character), columns),
            }
        }
        grid_row.room = grid_row.cells.len();
        grid_row
    }

    fn push(&mut self, cell: Cell, columns: usize) {
        self.cells.push(cell);
        self.cells.extend((1..columns).map(|_| Cell::PADDING));
    }

    /// Appends the row's text in a pane of this width.
    pub fn show(&self, clusters: &Clusters, width: usize, text: &mut String) {
        let begin = text.len();
        let mut may_have_tabs = false;
        text.reserve(self.cells.len());
        let mut ascii = [0; ASCII_CELLS];
        for cells in self.cells.chunks(ASCII_CELLS) {
            // Most text is ASCII, so that many cells can be converted at once.
            let mut all = 0;
            for (byte, cell) in ascii.iter_mut().zip(cells) {
                let code = cell.code();
                all |= code;
                *byte = code as u8;
            }
            match std::str::from_utf8(&ascii[..cells.len()]) {
                Ok(shown) if all < 0x80 => text.push_str(shown),
                _ => {
                    may_have_tabs = true;
                    cells.iter().for_each(|cell| clusters.show(*cell, text));
                }
            }
        }
        // A tab is a cluster, not ASCII.
        if may_have_tabs && let Cow::Owned(row) = expand_tabs(&text[begin..], width) {
            text.truncate(begin);
            text.push_str(&row);
        }
    }

    /// Returns true if the line continues in the next row.
    pub fn continues(&self) -> bool {
        self.wrapped || self.foreign == ALL_FOREIGN
    }

    /// Appends the part of the text that belongs to the line.
    pub fn show_own(&self, clusters: &Clusters, width: usize, text: &mut String) {
        let begin = text.len();
        match self.foreign_bytes(clusters, width) {
            0 => self.show(clusters, width, text),
            ALL_FOREIGN => {}
            foreign => {
                self.show(clusters, width, text);
                let end = begin + first_bytes(&text[begin..], foreign).len();
                text.drain(begin..end);
            }
        }
    }

    /// Returns the number of bytes at the beginning of the text that are no part of the line, as in [`Head`].
    pub fn foreign_bytes(&self, clusters: &Clusters, width: usize) -> usize {
        if matches!(self.foreign, 0 | ALL_FOREIGN) {
            return self.foreign;
        }
        let foreign = Self {
            cells: self.cells.iter().take(self.foreign).copied().collect(),
            ..Self::default()
        };
        foreign.row(clusters, width).text.len()
    }

    /// Marks the first `bytes` bytes of the text as no part of the line, as in [`Head`].
    pub fn set_foreign(&mut self, bytes: usize, clusters: &Clusters) {
        if bytes == ALL_FOREIGN {
            self.foreign = ALL_FOREIGN;
            return;
        }
        let mut text = String::new();
        let is_before = |cell: &&Cell| {
            let is_before = text.len() < bytes;
            clusters.show(**cell, &mut text);
            is_before
        };
        self.foreign = self.cells.iter().take_while(is_before).count();
    }

    /// Returns the part of the row that belongs to its line.
    pub fn own_row(&self, clusters: &Clusters, width: usize) -> Row {
        let mut text = String::new();
        self.show_own(clusters, width, &mut text);
        Row {
            text,
            wrapped: self.continues(),
        }
    }

    /// Notes that the program writes from column `x` on.
    fn written(&mut self, x: usize) {
        if x < self.foreign {
            self.foreign = 0;
        }
    }

    /// Returns the number of characters in these columns.
    pub fn chars(&self, columns: Range<usize>, clusters: &Clusters) -> usize {
        let cells = self.cells.iter().take(columns.end).skip(columns.start);
        cells.map(|cell| clusters.chars(*cell)).sum()
    }

    pub fn row(&self, clusters: &Clusters, width: usize) -> Row {
        let mut text = String::new();
        self.show(clusters, width, &mut text);
        Row {
            text,
            wrapped: self.wrapped,
        }
    }

    /// Empties the row. With a background, `room` is the whole width.
    pub fn reset(&mut self, room: usize) {
        self.cells.clear();
        self.inks.0.clear();
        self.room = room;
        self.wrapped = false;
        self.foreign = 0;
    }

    /// Returns true if the row is empty and without a background.
    pub fn is_new(&self) -> bool {
        self.cells.is_empty() && self.room == 0 && !self.wrapped
    }

    pub fn get(&self, x: usize) -> Cell {
        self.cells.get(x).copied().unwrap_or(Cell::BLANK)
    }

    /// Allocates room for `cells` cells, in the same steps as tmux.
    fn make_room(&mut self, cells: usize, width: usize) {
        if cells > self.room {
            self.room = if cells < width / 4 {
                width / 4
            } else if cells < width / 2 {
                width / 2
            } else {
                width.max(cells)
            };
        }
    }

    /// Extends the row to `end` cells.
    fn reach(&mut self, end: usize, width: usize) {
        self.make_room(end, width);
        if self.cells.len() < end {
            self.cells.resize(end, Cell::BLANK);
        }
    }

    pub fn set(&mut self, x: usize, cell: Cell, width: usize) {
        self.written(x);
        self.reach(x + 1, width);
        self.cells[x] = cell;
    }

    /// Writes printable ASCII, one byte per cell.
    pub fn set_ascii(&mut self, x: usize, text: &[u8], width: usize) {
        self.written(x);
        self.make_room(x + text.len(), width);
        if self.cells.len() < x {
            self.cells.resize(x, Cell::BLANK);
        }
        let over = (self.cells.len() - x).min(text.len());
        for (cell, byte) in self.cells[x..].iter_mut().zip(text) {
            *cell = Cell::ascii(*byte);
        }
        self.cells
            .extend(text[over..].iter().map(|byte| Cell::ascii(*byte)));
    }

    /// Removes wide characters that a run of ASCII over `cells` cells would cut in half. Before 3.6,
    /// tmux `keeps_first`: it does not remove one in the first column.
    pub fn split(&mut self, x: usize, cells: usize, clusters: &Clusters, keeps_first: bool) {
        if x > 0 && self.get(x) == Cell::PADDING {
            let head = self.blank_padding_back(x);
            let is_kept = head == 0 && keeps_first;
            if !is_kept && clusters.columns(self.cells[head]) > 1 {
                self.blank(head);
            }
        }
        self.blank_padding(x + cells);
    }

    /// Removes wide characters that one character over `columns` columns would cut in half. The
    /// conditions of tmux differ from those for a run.
    pub fn split_for_one(&mut self, x: usize, columns: usize, clusters: &Clusters) {
        let old = self.get(x);
        if old == Cell::PADDING {
            let head = self.blank_padding_back(x);
            self.blank(head);
        }
        if columns != 1 || old == Cell::PADDING || clusters.columns(old) != 1 {
            self.blank_padding(x + columns);
        }
    }

    fn blank(&mut self, x: usize) {
        self.cells[x] = Cell::BLANK;
        self.inks.set(x, x + 1, Ink::default());
    }

    /// Blanks the second halves up to `x`, and returns the column of the character itself.
    fn blank_padding_back(&mut self, mut x: usize) -> usize {
        while x > 0 && self.cells[x] == Cell::PADDING {
            self.blank(x);
            x -= 1;
        }
        x
    }

    /// Blanks the second halves from `x` on.
    fn blank_padding(&mut self, x: usize) {
        let after = self.cells.iter_mut().skip(x);
        let mut end = x;
        for cell in after.take_while(|cell| **cell == Cell::PADDING) {
            *cell = Cell::BLANK;
            end += 1;
        }
        self.inks.set(x, end, Ink::default());
    }

    /// Blanks up to `cells` cells. The row keeps its length.
    pub fn clear(&mut self, x: usize, cells: usize) {
        let end = (x + cells).min(self.cells.len());
        if let Some(cells) = self.cells.get_mut(x..end) {
            cells.fill(Cell::BLANK);
        }
        self.inks.set(x, end, Ink::default());
    }

    /// Moves `cells` cells to another column and blanks their old place.
    fn shift(&mut self, to: usize, from: usize, cells: usize, width: usize) {
        if cells == 0 || to == from {
            return;
        }
        self.written(to.min(from));
        let used = self.cells.len().max(to + cells);
        self.reach(from + cells, width);
        self.reach(to + cells, width);
        self.inks.shift(to, from, cells);
        self.cells.copy_within(from..from + cells, to);
        let moved = to..to + cells;
        for x in (from..from + cells).filter(|x| !moved.contains(x)) {
            self.cells[x] = Cell::BLANK;
        }
        self.cells.truncate(used);
        self.inks.truncate(used);
    }

    /// Inserts blanks. Cells moved beyond the edge are dropped.
    pub fn insert(&mut self, x: usize, cells: usize, width: usize) {
        if x + 1 >= width {
            self.clear(x, 1);
        } else {
            self.shift(x + cells, x, width.saturating_sub(x + cells), width);
        }
    }

    /// Removes cells and closes the gap.
    pub fn delete(&mut self, x: usize, cells: usize, width: usize) {
        self.shift(x, x + cells, width.saturating_sub(x + cells), width);
    }
}

/// A run of characters in one of several lines, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inked {
    pub line: usize,
    pub run: Run,
}

/// Appends the runs of a row of a line, which has `before` characters in earlier rows.
pub(super) fn push_inked(
    row: &GridRow,
    clusters: &Clusters,
    (line, before): (usize, usize),
    inked: &mut Vec<Inked>,
) {
    if row.inks.0.is_empty() {
        return;
    }
    // The cells do not determine the columns of characters after a tab.
    if row.cells.iter().any(|cell| clusters.is_tab(*cell)) {
        return;
    }
    // The runs are in order, so that each cell is examined once.
    let (mut column, mut chars) = (row.foreign, before);
    let mut chars_to = |to: usize| {
        let to = to.max(column);
        chars += row.chars(column..to, clusters);
        column = to;
        chars
    };
    for &Run { from, to, ink } in &row.inks.0 {
        let run = Run {
            from: chars_to(from),
            to: chars_to(to),
            ink,
        };
        match inked.last_mut() {
            _ if run.from >= run.to => {}
            Some(last) if (last.line, last.run.to, last.run.ink) == (line, run.from, ink) => {
                last.run.to = run.to;
            }
            _ => inked.push(Inked { line, run }),
        }
    }
}
