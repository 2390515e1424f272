//! One row of the grid (pure).

use std::borrow::Cow;
use std::ops::Range;

use super::cell::{Cell, Clusters, JOINER};
use super::ink::{Ink, Inks, Run};
use crate::track::capture::Row;
use crate::track::tabs::expand_tabs;

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
        self.inks.clear();
        self.room = room;
        self.wrapped = false;
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
        self.reach(x + 1, width);
        self.cells[x] = cell;
    }

    /// Writes printable ASCII, one byte per cell.
    pub fn set_ascii(&mut self, x: usize, text: &[u8], width: usize) {
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
    if row.inks.is_empty() {
        return;
    }
    // The cells do not determine the columns of characters after a tab.
    if row.cells.iter().any(|cell| clusters.is_tab(*cell)) {
        return;
    }
    // The runs are in order, so that each cell is examined once.
    let (mut column, mut chars) = (0, before);
    let mut chars_to = |to: usize| {
        chars += row.chars(column..to, clusters);
        column = to;
        chars
    };
    for &Run { from, to, ink } in row.inks.runs() {
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
