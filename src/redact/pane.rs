//! Redacts a pane: settled lines, revised lines and rows of the alternate screen, each with the state of the
//! previous line (pure).

use std::collections::BTreeMap;

use super::line::{LineState, full_columns_min, nearly_full, redact_line};
use super::scan::RuleSet;
use super::span::TextEnd;
use super::stream::Scratch;
use crate::event::{ScreenRow, line_ends_in, lines_in};

/// Maximum number of remembered lines of a pane whose height is unknown or larger: more lines than a key or a
/// screen has.
const LINES_MAX: usize = 512;

/// Number of remembered lines above the screen. Only lines of the screen are revised.
const LINES_ABOVE: usize = 64;

/// The state of a pane between two events.
#[derive(Clone, Debug, Default)]
pub(super) struct PaneState {
    pub(super) width: Option<u32>,
    /// The greatest height so far.
    height: Option<u32>,
    /// The states that lines leave for the next line, by line number.
    lines: BTreeMap<i64, LineState>,
    /// The states of rows of the alternate screen.
    rows: BTreeMap<i64, LineState>,
}

impl PaneState {
    /// Records the size of the pane.
    pub(super) fn resized(&mut self, width: u32, height: u32) {
        self.width = Some(width);
        self.height = self.height.max(Some(height));
    }

    #[cfg(test)]
    pub(super) fn remembered_lines(&self) -> usize {
        self.lines.len()
    }

    /// Returns the maximum number of remembered lines.
    fn lines_max(&self) -> usize {
        let of_screen = self.height.map(|height| height as usize + LINES_ABOVE);
        of_screen.unwrap_or(LINES_MAX).min(LINES_MAX)
    }

    /// Redacts settled lines; returns the redacted chunk if it differs.
    pub(super) fn settled(
        &mut self,
        set: &RuleSet,
        first_line: i64,
        chunk: &str,
        scratch: &mut Scratch,
    ) -> Option<String> {
        if !set.finder.finds(chunk.as_bytes(), 0) && self.is_plain(first_line, chunk) {
            return None;
        }
        let mut out = String::new();
        // The end of the text that is already in `out`.
        let mut done = 0;
        let mut at = 0;
        for (index, line) in (0..).zip(chunk.split_inclusive('\n')) {
            let number = first_line.saturating_add(index);
            let text = line.strip_suffix('\n').unwrap_or(line);
            if let Some(redacted) = self.line(set, number, text, TextEnd::Complete, scratch) {
                out.push_str(&chunk[done..at]);
                out.push_str(&redacted);
                done = at + text.len();
            }
            at += line.len();
        }
        (done > 0 || !out.is_empty()).then(|| {
            out.push_str(&chunk[done..]);
            out
        })
    }

    /// Returns true if no remembered line affects these lines, so that without keywords they need no scan.
    fn is_plain(&self, first_line: i64, chunk: &str) -> bool {
        if !self.lines.is_empty() {
            let last = first_line.saturating_add(line_ends_in(chunk));
            let mut known = self
                .lines
                .range(first_line.saturating_sub(1)..=last.max(first_line));
            if known.next().is_some() {
                return false;
            }
        }
        chunk.len() < full_columns_min(self.width)
            || !lines_in(chunk).any(|line| nearly_full(line, self.width))
    }

    /// Redacts a line, which may still grow if its end is cut; returns the redacted text if it differs.
    pub(super) fn line(
        &mut self,
        set: &RuleSet,
        number: i64,
        text: &str,
        end: TextEnd,
        scratch: &mut Scratch,
    ) -> Option<String> {
        let known = (self.lines_max(), &mut self.lines);
        redact_numbered(set, known, number, text, end, self.width, scratch)
    }

    /// Redacts changed rows of the alternate screen; returns true if one contained a secret.
    pub(super) fn screen(
        &mut self,
        set: &RuleSet,
        width: u32,
        rows: &mut [ScreenRow],
        scratch: &mut Scratch,
    ) -> bool {
        if self.width != Some(width) {
            self.rows.clear();
            self.width = Some(width);
        }
        // From top to bottom, because a row needs the state of the row above it.
        let mut order: Vec<usize> = Vec::new();
        if !rows.is_sorted_by_key(|row| row.row) {
            order.extend(0..rows.len());
            order.sort_by_key(|&index| rows[index].row);
        }
        let mut found = false;
        for index in 0..rows.len() {
            let row = &mut rows[order.get(index).copied().unwrap_or(index)];
            let number = i64::from(row.row);
            let (known, end) = ((LINES_MAX, &mut self.rows), TextEnd::Cut);
            if let Some(redacted) =
                redact_numbered(set, known, number, &row.text, end, self.width, scratch)
            {
                row.text = redacted;
                found = true;
            }
        }
        found
    }
}

/// Redacts one line with the state of the previous line, and remembers its own state.
fn redact_numbered(
    set: &RuleSet,
    (lines_max, known): (usize, &mut BTreeMap<i64, LineState>),
    number: i64,
    text: &str,
    end: TextEnd,
    width: Option<u32>,
    scratch: &mut Scratch,
) -> Option<String> {
    let before = number.checked_sub(1).and_then(|before| known.get(&before));
    if before.is_none() && !set.finder.finds(text.as_bytes(), 0) && !nearly_full(text, width) {
        known.remove(&number);
        return None;
    }
    let (found, after) = redact_line(set, before, text, end, width, scratch);
    match after {
        Some(after) => {
            known.insert(number, after);
            while known.len() > lines_max {
                known.pop_first();
            }
        }
        None => {
            known.remove(&number);
        }
    }
    found
}
