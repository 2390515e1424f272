//! Draws the lines of a pane on the primary screen of a recording's terminal (pure).
//!
//! Lines are printed in the order of their numbers. The cursor follows the last line: it is on an empty row
//! below a settled line, or at the end of an open line. Its position is always known, so a changed line is
//! redrawn in place, with all lines below it. After a resize the whole screen is redrawn, because terminals
//! differ in how they rearrange it.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::wrapping::{from_row, open_line, rows};
use crate::event::lines_in;
use crate::face::sanitize::sanitized;

/// The rows to keep above the screen, because a terminal that grows shows them again. More than the tallest
/// terminals have.
const KEPT_ROWS: usize = 1000;

/// The bytes of all lines beyond which no rows above the screen are kept: a few very long lines can fill a
/// screen.
const KEPT_BYTES: usize = 1 << 20;

#[derive(Debug)]
struct ScreenLine {
    /// Sanitized.
    text: String,
    rows: usize,
}

#[derive(Debug)]
pub(super) struct PrimaryScreen {
    width: usize,
    height: usize,
    lines: BTreeMap<i64, ScreenLine>,
    /// The bytes of all lines.
    bytes: usize,
    /// The rows of all lines, plus the empty row of the cursor.
    total: usize,
    /// The number of rows above the screen.
    top: usize,
    /// True if the cursor is on an empty row of its own.
    at_start: bool,
    /// The number of the first line that has not settled.
    next: i64,
    /// The highest number of a dropped line.
    dropped: Option<i64>,
    unreached: u64,
}

impl PrimaryScreen {
    pub fn new(width: usize, height: usize) -> Self {
        Self {
            width,
            height,
            lines: BTreeMap::new(),
            bytes: 0,
            total: 1,
            top: 0,
            at_start: true,
            next: 1,
            dropped: None,
            unreached: 0,
        }
    }

    /// Returns the number of changes to lines that had scrolled off.
    pub fn unreached(&self) -> u64 {
        self.unreached
    }

    /// Settles the lines of `chunk`.
    pub fn settle(&mut self, first_line: i64, chunk: &str, out: &mut String) {
        let lines: Vec<(i64, String)> = (first_line..=i64::MAX)
            .zip(lines_in(chunk))
            .map(|(number, line)| (number, sanitized(line.trim_end_matches(' '))))
            .collect();
        let after_last = lines.last().map(|(last, _)| last.saturating_add(1));
        self.next = self.next.max(after_last.unwrap_or(first_line));
        self.change(lines, out);
    }

    /// Skips the line numbers below `next`.
    pub fn skip_to(&mut self, next: i64, out: &mut String) {
        self.next = self.next.max(next);
        self.change(Vec::new(), out);
    }

    /// Changes a settled line, or draws an open one.
    pub fn revise(&mut self, number: i64, text: &str, out: &mut String) {
        if number < self.next {
            // A row that was never drawn need not be erased.
            if !text.is_empty() || self.lines.contains_key(&number) || self.is_dropped(number) {
                self.change(vec![(number, sanitized(text.trim_end_matches(' ')))], out);
            }
            return;
        }
        let mut text = sanitized(text);
        text.truncate(open_line(&text, self.width).len());
        // Unreported lines above it occupy rows already.
        let last = self
            .lines
            .last_key_value()
            .map_or(i64::MIN, |(last, _)| *last);
        let first_missing = self.next.max(last.saturating_add(1));
        let mut lines = Vec::new();
        let is_on_screen = number
            .checked_sub(first_missing)
            .is_some_and(|rows| rows < self.height as i64);
        if is_on_screen && !text.is_empty() {
            lines.extend((first_missing..number).map(|number| (number, String::new())));
        }
        lines.push((number, text));
        self.change(lines, out);
    }

    /// Redraws the whole screen.
    pub fn repaint(&self, out: &mut String) {
        erase_from(0, out);
        let mut start = self.total - usize::from(self.at_start);
        let mut first = None;
        for (number, line) in self.lines.iter().rev() {
            if start <= self.top {
                break;
            }
            start -= line.rows;
            first = Some(*number);
        }
        let Some(first) = first else { return };
        let mut lines = self
            .lines
            .range(first..)
            .map(|(_, line)| line.text.as_str());
        // The topmost line may begin above the screen.
        let top = lines.next().unwrap_or_default();
        out.push_str(from_row(top, self.width, self.top.saturating_sub(start)));
        for line in lines {
            out.push_str("\r\n");
            out.push_str(line);
        }
        if self.at_start {
            out.push_str("\r\n");
        }
    }

    /// Changes the terminal's size; the caller must repaint. As in terminals and tmux, the text keeps its
    /// distance from the lower edge, and empty rows below the text are added or removed first.
    pub fn resize(&mut self, width: usize, height: usize) {
        let below = self.below();
        if width != self.width {
            self.width = width;
            for line in self.lines.values_mut() {
                // Terminals drop trailing blanks when they wrap a line again.
                let text = line.text.trim_end_matches(' ').len();
                self.bytes -= line.text.len() - text;
                line.text.truncate(text);
                line.rows = rows(&line.text, width);
            }
            let rows: usize = self.lines.values().map(|line| line.rows).sum();
            self.total = rows + usize::from(self.at_start);
            self.top = (self.total + below).saturating_sub(self.height);
        }
        if height < self.height {
            self.top += (self.height - height).saturating_sub(self.below());
        } else {
            self.top -= self.top.min(height - self.height);
        }
        self.height = height;
        self.drop_far_above();
    }

    /// Returns the number of empty rows below the cursor.
    fn below(&self) -> usize {
        (self.top + self.height).saturating_sub(self.total)
    }

    /// Returns the row in which a line begins or would begin.
    fn start_of(&self, number: i64) -> usize {
        let rest: usize = self.lines.range(number..).map(|(_, line)| line.rows).sum();
        self.total - usize::from(self.at_start) - rest
    }

    fn is_dropped(&self, number: i64) -> bool {
        self.dropped.is_some_and(|dropped| number <= dropped)
    }

    /// Sets lines, in the order of their numbers, and draws the changes.
    fn change(&mut self, mut lines: Vec<(i64, String)>, out: &mut String) {
        lines.retain(|(number, _)| {
            let is_dropped = self.is_dropped(*number);
            self.unreached += u64::from(is_dropped);
            !is_dropped
        });
        let same = lines.iter().take_while(|(number, text)| {
            self.lines
                .get(number)
                .is_some_and(|line| line.text == *text)
        });
        lines.drain(..same.count());
        let last = self.lines.last_key_value().map(|(last, _)| *last);
        // Even if no line has changed, the last line may have settled, which ends its row.
        let end = || last.map_or(i64::MIN, |last| last.saturating_add(1));
        let mut from = lines.first().map_or_else(end, |(number, _)| *number);
        let mut start = self.start_of(from);
        for (number, text) in lines {
            let rows = rows(&text, self.width);
            self.bytes += text.len();
            if let Some(old) = self.lines.insert(number, ScreenLine { text, rows }) {
                self.bytes -= old.text.len();
            }
        }
        // Empty open lines below all text have no row.
        while let Some(entry) = self.lines.last_entry()
            && *entry.key() >= self.next
            && entry.get().text.is_empty()
        {
            let (number, line) = entry.remove_entry();
            if number < from {
                (from, start) = (number, start - line.rows);
            }
        }
        let is_settled = match self.lines.last_key_value() {
            // The cursor goes to the end of the open line.
            Some((last, line)) if *last >= self.next => {
                if *last < from {
                    (from, start) = (*last, start - line.rows);
                }
                false
            }
            _ => true,
        };
        self.draw(
            from,
            start,
            last.is_none_or(|last| from > last),
            is_settled,
            out,
        );
        self.drop_far_above();
    }

    /// Draws the lines from number `from`, which begins in row `start`.
    fn draw(
        &mut self,
        from: i64,
        start: usize,
        is_below: bool,
        is_settled: bool,
        out: &mut String,
    ) {
        let rows: usize = self.lines.range(from..).map(|(_, line)| line.rows).sum();
        let total = start + rows + usize::from(is_settled);
        if start < self.top {
            // Rows that have scrolled off cannot be changed; the screen is redrawn.
            self.unreached += 1;
            let cursor = self.total - 1 - self.top;
            (self.total, self.at_start) = (total, is_settled);
            self.top = (total - 1).saturating_sub(cursor);
            return self.repaint(out);
        }
        if is_below {
            if !self.at_start && (rows > 0 || is_settled) {
                out.push_str("\r\n");
            }
        } else {
            erase_from(start - self.top, out);
        }
        for (at, (_, line)) in self.lines.range(from..).enumerate() {
            if at > 0 {
                out.push_str("\r\n");
            }
            out.push_str(&line.text);
        }
        if is_settled && rows > 0 {
            out.push_str("\r\n");
        }
        (self.total, self.at_start) = (total, is_settled);
        self.top = self.top.max(total.saturating_sub(self.height));
    }

    /// Drops lines far above the screen.
    fn drop_far_above(&mut self) {
        while let Some(entry) = self.lines.first_entry() {
            let rows = entry.get().rows;
            let is_far = rows <= self.top && self.top - rows >= KEPT_ROWS;
            if !is_far && (rows > self.top || self.bytes <= KEPT_BYTES) {
                break;
            }
            let (number, line) = entry.remove_entry();
            self.bytes -= line.text.len();
            self.total -= rows;
            self.top -= rows;
            self.dropped = Some(number);
        }
    }
}

/// Moves the cursor to the start of a row of the screen, counted from 0, and erases everything from there.
fn erase_from(row: usize, out: &mut String) {
    // Writing to a string does not fail.
    let _ = match row {
        // Some terminals move the screen into their history if it is erased at once.
        0 => write!(out, "\x1b[2;1H\x1b[J\x1b[1;1H\x1b[K"),
        row => write!(out, "\x1b[{};1H\x1b[J", row + 1),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_for_long_output() {
        let (mut screen, mut out) = (PrimaryScreen::new(80, 24), String::new());
        for number in 1..100_000 {
            out.clear();
            screen.settle(number, "a line\n", &mut out);
            assert_eq!(out, "a line\r\n");
        }
        assert_eq!(screen.lines.len(), KEPT_ROWS + 23);
        assert_eq!((screen.total, screen.top), (KEPT_ROWS + 24, KEPT_ROWS));
        // Long lines are dropped once they have scrolled off.
        let long = "x".repeat(KEPT_BYTES) + "\n";
        for number in 100_000..100_010 {
            screen.settle(number, &long, &mut out);
        }
        assert_eq!(screen.lines.len(), 1);
        assert!(screen.bytes <= KEPT_BYTES);
        screen.revise(1, "x", &mut out);
        assert_eq!(screen.unreached(), 1);
    }
}
