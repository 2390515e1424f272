//! The rows that have scrolled off the screen, joined to lines (pure).

use super::cell::Clusters;
use super::line::{Inked, Line, push_inked};

/// A line beyond this is given in pieces: a program may print for ever without a line end. A line
/// of a child process is cut at the same length.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// The lines that have scrolled off since they were last taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Scrolled {
    /// Whole lines, each ended by `\n`, and behind them the beginning of the line that continues in
    /// the top row of the screen.
    text: String,
    /// Where the whole lines end.
    whole: usize,
    /// Number of rows each whole line takes.
    rows: Vec<u32>,
    /// Number of rows of the open line have scrolled off.
    open_rows: u32,
    is_open: bool,
    /// The styles of all these lines that are not plain; the open line counts as the last.
    inked: Vec<Inked>,
    /// Number of of them are of whole lines.
    whole_inked: usize,
    /// All rows that have scrolled off since then.
    count: i64,
    /// All rows that ever have.
    total: i64,
    pub history: History,
}

/// Number of rows tmux has in its history, which it trims when it is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct History {
    pub size: u32,
    /// Number of rows it may have.
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

/// Lines that have scrolled off as a whole.
#[derive(Debug, Default)]
pub(super) struct ScrolledOff {
    /// The lines, each ended by `\n`.
    pub text: String,
    /// Number of rows each takes.
    pub rows: Vec<u32>,
    /// Number of rows have scrolled off, those of an open line included.
    pub count: i64,
    /// The styles of the lines that are not plain.
    pub inked: Vec<Inked>,
}

impl Scrolled {
    /// Begins with a line that reaches into the top row.
    pub fn set_open(&mut self, text: &str, rows: u32) {
        self.text.push_str(text);
        self.open_rows = rows;
        self.is_open = true;
    }

    pub fn push(&mut self, line: &Line, clusters: &Clusters, width: usize) {
        if !line.inks.is_empty() {
            let before = self.text[self.whole..].chars().count();
            push_inked(line, clusters, (self.rows.len(), before), &mut self.inked);
        }
        line.show(clusters, width, &mut self.text);
        self.count += 1;
        self.total += 1;
        self.history.grow();
        self.open_rows += 1;
        self.is_open = true;
        if !line.wrapped || self.text.len() - self.whole >= LINE_BYTES_MAX {
            self.close();
        }
    }

    /// Adds a whole line that took `rows` rows, where none is open.
    pub fn push_line(&mut self, line: &str, rows: u32) {
        self.text.push_str(line);
        self.count += i64::from(rows);
        self.total += i64::from(rows);
        (0..rows).for_each(|_| self.history.grow());
        self.open_rows = rows;
        self.is_open = true;
        self.close();
    }

    /// The open line does not continue in the top row.
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

    /// The beginning of the line that continues in the top row, and the rows that it took.
    pub fn open(&self) -> Option<(&str, i64)> {
        self.is_open
            .then(|| (&self.text[self.whole..], i64::from(self.open_rows)))
    }

    /// Returns what of it is not plain.
    pub fn open_inked(&self) -> Vec<Inked> {
        let open = self.inked[self.whole_inked..].iter();
        open.map(|one| Inked { line: 0, ..*one }).collect()
    }

    /// Returns whether no row has scrolled off since it was last taken, and no line been closed.
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.rows.is_empty()
    }

    /// Returns how much waits to be taken, in bytes.
    pub fn bytes(&self) -> usize {
        self.whole + self.whole_inked * size_of::<Inked>()
    }

    /// Returns how many rows have ever scrolled off: the number of the top row.
    pub fn total(&self) -> i64 {
        self.total
    }

    /// Takes what has gone; the open line stays.
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
