//! Joins the rows that have scrolled off the screen to lines (pure).

use super::cell::Clusters;
use super::grid_row::{GridRow, Inked, push_inked};

/// The length at which a line is cut, because a program may never end it. Lines of child processes
/// are cut at the same length.
const LINE_BYTES_MAX: usize = 64 * 1024;

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
    /// The runs of all these lines that are not plain. The open line is the last.
    inked: Vec<Inked>,
    /// The number of runs in whole lines.
    whole_inked: usize,
    /// The number of rows that have scrolled off since the last take.
    count: i64,
    /// The number of rows that have ever scrolled off.
    total: i64,
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
}

impl Scrolled {
    /// Sets the beginning of the line that continues in the top row.
    pub fn set_open(&mut self, text: &str, rows: u32) {
        self.text.push_str(text);
        self.open_rows = rows;
        self.is_open = true;
    }

    pub fn push(&mut self, row: &GridRow, clusters: &Clusters, width: usize) {
        if !row.inks.is_empty() {
            let before = self.text[self.whole..].chars().count();
            push_inked(row, clusters, (self.rows.len(), before), &mut self.inked);
        }
        row.show(clusters, width, &mut self.text);
        self.count += 1;
        self.total += 1;
        self.history.grow();
        self.open_rows += 1;
        self.is_open = true;
        if !row.wrapped || self.text.len() - self.whole >= LINE_BYTES_MAX {
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

    /// Returns how many rows have ever scrolled off, which is the number of the top row.
    pub fn total(&self) -> i64 {
        self.total
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
        }
    }
}
