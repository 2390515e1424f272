//! Tracks the printed rows that are still on the terminal's screen, and rewrites lines of panes among them in
//! place (pure).

use std::collections::VecDeque;

use crate::face::ansi::rows_of;

/// Identifies a line: the pane's number and the line's number.
pub(super) type LineKey = (u64, i64);

/// The printed rows that the cursor can reach.
#[derive(Debug, Default)]
pub(super) struct PrintedRows {
    /// Columns and rows; `None` without a terminal, for which no rows are tracked.
    size: Option<(usize, usize)>,
    items: VecDeque<PrintedItem>,
    /// The number of items at the end that are rendered but not written yet.
    unwritten: usize,
    /// The lines of panes in the text that is being rendered.
    spans: Vec<LineSpan>,
}

/// A line of a pane, which may have several rows, or another row.
#[derive(Debug)]
struct PrintedItem {
    key: Option<LineKey>,
    /// The rows joined by line ends; `None` if the line was removed.
    rows: Option<String>,
    /// The number of rows on the terminal.
    height: usize,
    is_stale: bool,
}

/// The position of a line in rendered text, including its line end.
#[derive(Clone, Copy, Debug)]
struct LineSpan {
    start: usize,
    end: usize,
    key: LineKey,
}

impl PrintedRows {
    /// Sets the terminal's columns and rows. A change drops all rows, because the terminal has moved them.
    pub fn fit(&mut self, size: (usize, usize)) {
        if self.size.replace(size) != Some(size) {
            self.clear();
        }
    }

    /// Records that the rendered text from `start` to `end` is a line of a pane.
    pub fn mark_line(&mut self, start: usize, end: usize, key: LineKey) {
        if self.size.is_some() {
            self.spans.push(LineSpan { start, end, key });
        }
    }

    /// Records the text from `start` on, which the caller writes next.
    pub fn record(&mut self, out: &str, start: usize) {
        let Some((_, rows)) = self.size else {
            return;
        };
        if out.len() > start && !out.ends_with('\n') {
            // Renderers append complete rows. After a partial row, positions would be wrong.
            self.spans.clear();
            return self.clear();
        }
        let mut items = VecDeque::new();
        let mut end = out.len();
        // The cursor can reach only one screen of rows.
        while end > start && items.len() < rows {
            let span = self.spans.pop_if(|span| span.end == end);
            let from = match span {
                Some(span) => span.start,
                None => {
                    let before = self.spans.last().map_or(start, |span| span.end.max(start));
                    let end = out[before..end - 1].rfind('\n');
                    end.map_or(before, |end| before + end + 1)
                }
            };
            let rows = out[from..end].strip_suffix('\n').map(str::to_owned);
            items.push_front(PrintedItem {
                key: span.map(|span| span.key),
                height: self.height(rows.as_deref()),
                rows,
                is_stale: false,
            });
            end = from;
        }
        self.spans.clear();
        self.unwritten += items.len();
        self.items.append(&mut items);
    }

    /// Records that all rows are written. The cursor is in the row below, or in the last of `foot_rows` live
    /// rows.
    pub fn mark_written(&mut self, foot_rows: usize) {
        self.unwritten = 0;
        let Some((_, rows)) = self.size else {
            return;
        };
        let reach = rows.saturating_sub(foot_rows.max(1));
        let mut height: usize = self.items.iter().map(|item| item.height).sum();
        while height > reach {
            height -= self.items.pop_front().map_or(height, |item| item.height);
        }
    }

    /// Returns true if the line can be rewritten in place.
    pub fn can_rewrite(&self, key: LineKey) -> bool {
        let written = self.items.len() - self.unwritten;
        let mut items = self.items.iter().take(written);
        items.any(|item| item.key == Some(key))
    }

    /// Sets the rows of a line, each with its line end, or removes the line. Does nothing for a line that
    /// cannot be rewritten.
    pub fn replace(&mut self, key: LineKey, rows: Option<&str>) {
        let written = self.items.len() - self.unwritten;
        let mut items = self.items.iter_mut().take(written).rev();
        if let Some(item) = items.find(|item| item.key == Some(key)) {
            let rows = rows.map(|rows| rows.strip_suffix('\n').unwrap_or(rows));
            item.is_stale |= item.rows.as_deref() != rows;
            item.rows = rows.map(str::to_owned);
        }
    }

    /// Rewrites the changed lines. The cursor must be at the start of the row below all rows, and returns
    /// there.
    pub fn rewrite(&mut self) -> Option<String> {
        let written = self.items.len() - self.unwritten;
        let first = self
            .items
            .iter()
            .take(written)
            .position(|item| item.is_stale)?;
        let up: usize = self
            .items
            .range(first..written)
            .map(|item| item.height)
            .sum();
        let mut out = "\r".to_owned();
        if up > 0 {
            out.push_str(&format!("\x1b[{up}A"));
        }
        let (mut passed, mut is_moved) = (0, false);
        for at in first..written {
            let height = self.height(self.items[at].rows.as_deref());
            let item = &mut self.items[at];
            let is_stale = std::mem::take(&mut item.is_stale);
            if !is_stale && !is_moved {
                passed += item.height;
                continue;
            }
            if passed > 0 {
                out.push_str(&format!("\x1b[{passed}B"));
                passed = 0;
            }
            if item.height != height && !is_moved {
                // All rows below move.
                out.push_str("\x1b[J");
                is_moved = true;
            }
            item.height = height;
            for row in item.rows.iter().flat_map(|rows| rows.split('\n')) {
                if !is_moved {
                    out.push_str("\x1b[2K");
                }
                out.push_str(row);
                out.push('\n');
            }
        }
        if passed > 0 {
            out.push_str(&format!("\x1b[{passed}B"));
        }
        Some(out)
    }

    fn clear(&mut self) {
        self.items.clear();
        self.unwritten = 0;
    }

    fn height(&self, rows: Option<&str>) -> usize {
        let columns = self.size.map_or(1, |(columns, _)| columns);
        let rows = rows.into_iter().flat_map(|rows| rows.split('\n'));
        rows.map(|row| rows_of(row, columns)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(lines: &[&str]) -> PrintedRows {
        let mut rows = PrintedRows::default();
        rows.fit((20, 6));
        let mut out = String::new();
        for (number, line) in (1..).zip(lines) {
            let start = out.len();
            out.push_str(line);
            out.push('\n');
            if !line.starts_with('[') {
                rows.mark_line(start, out.len(), (1, number));
            }
        }
        rows.record(&out, 0);
        rows.mark_written(0);
        rows
    }

    #[test]
    fn rows_are_rewritten_in_place() {
        let mut rows = rows(&["a 1", "b 1", "[note]", "c 1"]);
        assert_eq!(rows.rewrite(), None);
        assert!(rows.can_rewrite((1, 2)) && !rows.can_rewrite((1, 3)) && !rows.can_rewrite((2, 1)));
        rows.replace((1, 1), Some("a 2\n"));
        rows.replace((1, 4), Some("c 2\n"));
        assert_eq!(
            rows.rewrite().unwrap(),
            "\r\x1b[4A\x1b[2Ka 2\n\x1b[2B\x1b[2Kc 2\n"
        );
        assert_eq!(rows.rewrite(), None);
        // Unchanged rows are not written.
        rows.replace((1, 1), Some("a 2\n"));
        assert_eq!(rows.rewrite(), None);
        // The cursor ends below all rows.
        rows.replace((1, 2), Some("b 2\n"));
        assert_eq!(rows.rewrite().unwrap(), "\r\x1b[3A\x1b[2Kb 2\n\x1b[2B");
    }

    #[test]
    fn rows_move_when_a_line_grows_or_is_removed() {
        let mut rows = rows(&["a", "b", "c"]);
        rows.replace((1, 2), Some("b\ngoes on\n"));
        assert_eq!(rows.rewrite().unwrap(), "\r\x1b[2A\x1b[Jb\ngoes on\nc\n");
        rows.replace((1, 2), None);
        assert_eq!(rows.rewrite().unwrap(), "\r\x1b[3A\x1b[Jc\n");
        rows.replace((1, 1), Some("A\n"));
        rows.replace((1, 2), Some("again\n"));
        assert_eq!(
            rows.rewrite().unwrap(),
            "\r\x1b[2A\x1b[2KA\n\x1b[Jagain\nc\n"
        );
    }

    #[test]
    fn only_rows_on_the_screen_can_be_rewritten() {
        let reached =
            |rows: &PrintedRows| (1..=9).filter(|line| rows.can_rewrite((1, *line))).count();
        let lines = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];
        let mut shown = rows(&lines);
        assert_eq!(reached(&shown), 5);
        shown.mark_written(3);
        assert_eq!(reached(&shown), 3);
        // Rows that scrolled off do not return when live rows disappear.
        shown.mark_written(0);
        assert_eq!(reached(&shown), 3);
        // A wrapped row counts twice; a new size drops all rows.
        let mut shown = rows(&["1", "0123456789012345678901234", "3", "4", "5"]);
        assert_eq!(reached(&shown), 4);
        shown.fit((30, 6));
        assert_eq!(reached(&shown), 0);
        // Rows that are not written yet cannot be rewritten.
        let mut fresh = PrintedRows::default();
        fresh.fit((20, 6));
        fresh.mark_line(0, 2, (1, 1));
        fresh.record("a\n", 0);
        assert_eq!(reached(&fresh), 0);
    }
}
