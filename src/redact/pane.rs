//! One pane: its settled lines, its unfinished line and its full screen, each with what the line before leaves (pure).

use std::collections::BTreeMap;

use super::line::{After, enough, nearly_full, take};
use super::scan::{End, Set};
use super::stream::Scratch;
use crate::event::{ScreenRow, lines_in};

/// Lines remembered: more than a key has, and more than stand on a screen and may be revised.
const LINES_MAX: usize = 512;

/// What a pane's past leaves for its future.
#[derive(Clone, Debug, Default)]
pub(super) struct Pane {
    pub(super) width: Option<u32>,
    /// What lines leave for the next, where they leave something; by number.
    lines: BTreeMap<i64, After>,
    /// The same of the rows of the alternate screen.
    rows: BTreeMap<i64, After>,
    /// When it was last used.
    pub(super) used: u64,
}

impl Pane {
    /// Settled lines; returns the chunk without secrets, if there are any in it.
    pub(super) fn settled(
        &mut self,
        set: &Set,
        first_line: i64,
        chunk: &str,
        scratch: &mut Scratch,
    ) -> Option<String> {
        if set.finder.find(chunk.as_bytes(), 0).is_none() && self.is_plain(first_line, chunk) {
            return None;
        }
        let mut out = String::new();
        // Where the text that is not yet in `out` begins.
        let mut done = 0;
        let mut at = 0;
        for (index, line) in (0..).zip(chunk.split_inclusive('\n')) {
            let number = first_line.saturating_add(index);
            let text = line.strip_suffix('\n').unwrap_or(line);
            if let Some(masked) = change(
                set,
                &mut self.lines,
                number,
                text,
                End::Done,
                self.width,
                scratch,
            ) {
                out.push_str(&chunk[done..at]);
                out.push_str(&masked);
                done = at + text.len();
            }
            at += line.len();
        }
        (done > 0 || !out.is_empty()).then(|| {
            out.push_str(&chunk[done..]);
            out
        })
    }

    /// Whether lines without keywords have nothing to do with what is known of others.
    fn is_plain(&self, first_line: i64, chunk: &str) -> bool {
        if !self.lines.is_empty() {
            let count = memchr::memchr_iter(b'\n', chunk.as_bytes()).count();
            let last = first_line.saturating_add(i64::try_from(count).unwrap_or(i64::MAX));
            let mut known = self
                .lines
                .range(first_line.saturating_sub(1)..=last.max(first_line));
            if known.next().is_some() {
                return false;
            }
        }
        chunk.len() < enough(self.width)
            || !lines_in(chunk).any(|line| nearly_full(line, self.width))
    }

    /// A line that may still grow.
    pub(super) fn revised(
        &mut self,
        set: &Set,
        line: i64,
        text: &str,
        scratch: &mut Scratch,
    ) -> Option<String> {
        change(
            set,
            &mut self.lines,
            line,
            text,
            End::Cut,
            self.width,
            scratch,
        )
    }

    /// Rows of the alternate screen that changed; whether something was taken out.
    pub(super) fn screen(
        &mut self,
        set: &Set,
        width: u32,
        rows: &mut [ScreenRow],
        scratch: &mut Scratch,
    ) -> bool {
        if self.width != Some(width) {
            self.rows.clear();
            self.width = Some(width);
        }
        // The row above first: it says what the next one begins with.
        let mut order: Vec<usize> = Vec::new();
        if !rows.is_sorted_by_key(|row| row.row) {
            order.extend(0..rows.len());
            order.sort_by_key(|&index| rows[index].row);
        }
        let mut found = false;
        for index in 0..rows.len() {
            let row = &mut rows[order.get(index).copied().unwrap_or(index)];
            let number = i64::from(row.row);
            if let Some(masked) = change(
                set,
                &mut self.rows,
                number,
                &row.text,
                End::Cut,
                self.width,
                scratch,
            ) {
                row.text = masked;
                found = true;
            }
        }
        found
    }
}

/// Reads one line with what the line before leaves, and remembers what it leaves itself.
fn change(
    set: &Set,
    known: &mut BTreeMap<i64, After>,
    number: i64,
    text: &str,
    end: End,
    width: Option<u32>,
    scratch: &mut Scratch,
) -> Option<String> {
    let before = number.checked_sub(1).and_then(|before| known.get(&before));
    if before.is_none()
        && set.finder.find(text.as_bytes(), 0).is_none()
        && !nearly_full(text, width)
    {
        known.remove(&number);
        return None;
    }
    let (found, after) = take(set, before, text, end, width, scratch);
    match after {
        Some(after) => {
            known.insert(number, after);
            if known.len() > LINES_MAX {
                known.pop_first();
            }
        }
        None => {
            known.remove(&number);
        }
    }
    found
}
