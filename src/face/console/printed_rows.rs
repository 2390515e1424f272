//! The rows above the foot of a terminal that still stand on its screen: lines of panes among them are
//! rewritten in place (pure).

use std::collections::VecDeque;

use crate::face::sgr::columns_of;

/// A line of a pane that was printed: the pane's number and its own.
pub(super) type Key = (u64, i64);

/// What stands on the terminal, as far as it can be reached with the cursor.
#[derive(Debug, Default)]
pub(super) struct Body {
    /// Columns and rows; without a terminal nothing is remembered.
    size: Option<(usize, usize)>,
    items: VecDeque<Item>,
    /// So many items at the end are rendered but not written yet.
    unwritten: usize,
    /// Where the lines of panes stand in the text that is being rendered.
    marks: Vec<Mark>,
}

/// A line of a pane, which may take several rows, or another row.
#[derive(Debug)]
struct Item {
    of: Option<Key>,
    /// Its rows, joined by line ends; none where its row was taken away.
    rows: Option<String>,
    /// The rows that it takes on the terminal.
    height: usize,
    is_stale: bool,
}

/// Where a line stands in rendered text, its line end included.
#[derive(Clone, Copy, Debug)]
struct Mark {
    start: usize,
    end: usize,
    of: Key,
}

impl Body {
    /// The terminal has so many columns and rows. In another size than before, rows stand where the
    /// terminal has put them.
    pub fn fit(&mut self, size: (usize, usize)) {
        if self.size.replace(size) != Some(size) {
            self.forget();
        }
    }

    /// Whether there is a terminal.
    pub fn is_shown(&self) -> bool {
        self.size.is_some()
    }

    /// A line stands in the rendered text from `start` to `end`.
    pub fn mark(&mut self, start: usize, end: usize, of: Key) {
        if self.is_shown() {
            self.marks.push(Mark { start, end, of });
        }
    }

    /// The text from `start` on will be written next.
    pub fn record(&mut self, out: &str, start: usize) {
        let Some((_, rows)) = self.size else {
            return;
        };
        if out.len() > start && !out.ends_with('\n') {
            // Nothing renders half a row; what follows it would stand elsewhere.
            self.marks.clear();
            return self.forget();
        }
        let mut items = VecDeque::new();
        let mut end = out.len();
        // More than a screen of rows cannot be reached.
        while end > start && items.len() < rows {
            let mark = self.marks.pop_if(|mark| mark.end == end);
            let from = match mark {
                Some(mark) => mark.start,
                None => {
                    let before = self.marks.last().map_or(start, |mark| mark.end.max(start));
                    let end = out[before..end - 1].rfind('\n');
                    end.map_or(before, |end| before + end + 1)
                }
            };
            let rows = out[from..end].strip_suffix('\n').map(str::to_owned);
            items.push_front(Item {
                of: mark.map(|mark| mark.of),
                height: self.height(rows.as_deref()),
                rows,
                is_stale: false,
            });
            end = from;
        }
        self.marks.clear();
        self.unwritten += items.len();
        self.items.append(&mut items);
    }

    /// What was rendered has been written. The cursor stands in the row below, or in the last of so
    /// many rows at the foot.
    pub fn is_written(&mut self, foot_rows: usize) {
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

    /// Whether the line can be rewritten where it stands.
    pub fn has(&self, of: Key) -> bool {
        let written = self.items.len() - self.unwritten;
        let mut items = self.items.iter().take(written);
        items.any(|item| item.of == Some(of))
    }

    /// The line has these rows now, each ended by a line end; or none. Nothing where it cannot be
    /// rewritten.
    pub fn replace(&mut self, of: Key, rows: Option<&str>) {
        let written = self.items.len() - self.unwritten;
        let mut items = self.items.iter_mut().take(written).rev();
        if let Some(item) = items.find(|item| item.of == Some(of)) {
            let rows = rows.map(|rows| rows.strip_suffix('\n').unwrap_or(rows));
            item.is_stale |= item.rows.as_deref() != rows;
            item.rows = rows.map(str::to_owned);
        }
    }

    /// What rewrites the lines that read differently than they stand there, where the cursor is at the
    /// beginning of the row below all of them.
    pub fn rewrite(&mut self) -> Option<String> {
        let written = self.items.len() - self.unwritten;
        let first = self.items.iter().take(written).position(|it| it.is_stale)?;
        let up: usize = self.items.range(first..written).map(|it| it.height).sum();
        let mut out = "\r".to_owned();
        if up > 0 {
            out.push_str(&format!("\x1b[{up}A"));
        }
        let (mut passed, mut moves) = (0, false);
        for at in first..written {
            let height = self.height(self.items[at].rows.as_deref());
            let item = &mut self.items[at];
            let is_stale = std::mem::take(&mut item.is_stale);
            if !is_stale && !moves {
                passed += item.height;
                continue;
            }
            if passed > 0 {
                out.push_str(&format!("\x1b[{passed}B"));
                passed = 0;
            }
            if item.height != height && !moves {
                // All that follows moves.
                out.push_str("\x1b[J");
                moves = true;
            }
            item.height = height;
            for row in item.rows.iter().flat_map(|rows| rows.split('\n')) {
                if !moves {
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

    fn forget(&mut self) {
        self.items.clear();
        self.unwritten = 0;
    }

    fn height(&self, rows: Option<&str>) -> usize {
        let columns = self.size.map_or(1, |(columns, _)| columns.max(1));
        let rows = rows.into_iter().flat_map(|rows| rows.split('\n'));
        rows.map(|row| columns_of(row).div_ceil(columns).max(1))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(lines: &[&str]) -> Body {
        let mut body = Body::default();
        body.fit((20, 6));
        let mut out = String::new();
        for (number, line) in (1..).zip(lines) {
            let start = out.len();
            out.push_str(line);
            out.push('\n');
            if !line.starts_with('[') {
                body.mark(start, out.len(), (1, number));
            }
        }
        body.record(&out, 0);
        body.is_written(0);
        body
    }

    #[test]
    fn rows_are_rewritten_where_they_stand() {
        let mut body = body(&["a 1", "b 1", "[note]", "c 1"]);
        assert_eq!(body.rewrite(), None);
        assert!(body.has((1, 2)) && !body.has((1, 3)) && !body.has((2, 1)));
        body.replace((1, 1), Some("a 2\n"));
        body.replace((1, 4), Some("c 2\n"));
        assert_eq!(
            body.rewrite().unwrap(),
            "\r\x1b[4A\x1b[2Ka 2\n\x1b[2B\x1b[2Kc 2\n"
        );
        assert_eq!(body.rewrite(), None);
        // What is the same is left alone.
        body.replace((1, 1), Some("a 2\n"));
        assert_eq!(body.rewrite(), None);
        // The cursor ends below all rows.
        body.replace((1, 2), Some("b 2\n"));
        assert_eq!(body.rewrite().unwrap(), "\r\x1b[3A\x1b[2Kb 2\n\x1b[2B");
    }

    #[test]
    fn rows_move_when_a_line_grows_or_is_taken_away() {
        let mut body = body(&["a", "b", "c"]);
        body.replace((1, 2), Some("b\ngoes on\n"));
        assert_eq!(body.rewrite().unwrap(), "\r\x1b[2A\x1b[Jb\ngoes on\nc\n");
        body.replace((1, 2), None);
        assert_eq!(body.rewrite().unwrap(), "\r\x1b[3A\x1b[Jc\n");
        body.replace((1, 1), Some("A\n"));
        body.replace((1, 2), Some("again\n"));
        assert_eq!(
            body.rewrite().unwrap(),
            "\r\x1b[2A\x1b[2KA\n\x1b[Jagain\nc\n"
        );
    }

    #[test]
    fn only_what_is_on_the_screen_can_be_reached() {
        let reached = |body: &Body| (1..=9).filter(|line| body.has((1, *line))).count();
        let lines = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];
        let mut shown = body(&lines);
        assert_eq!(reached(&shown), 5);
        shown.is_written(3);
        assert_eq!(reached(&shown), 3);
        // What scrolled off does not come back with a lower foot.
        shown.is_written(0);
        assert_eq!(reached(&shown), 3);
        // A row that the terminal wraps takes two; a screen of another size is another one.
        let mut shown = body(&["1", "0123456789012345678901234", "3", "4", "5"]);
        assert_eq!(reached(&shown), 4);
        shown.fit((30, 6));
        assert_eq!(reached(&shown), 0);
        // What is not written yet cannot be rewritten.
        let mut fresh = Body::default();
        fresh.fit((20, 6));
        fresh.mark(0, 2, (1, 1));
        fresh.record("a\n", 0);
        assert_eq!(reached(&fresh), 0);
    }
}
