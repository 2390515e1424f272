//! Tracks the printed rows that are still on the terminal's screen, and rewrites lines of panes among them in
//! place (pure).

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::LazyLock;

use super::super::ansi::{cut_painted, rows_of, wrap_painted};
use super::super::local_time::RowTime;
use super::super::sanitize::{Tone, push_styled};
use super::super::session_labels::Label;
use anstyle::AnsiColor;
use regex::Regex;
use unicode_width::UnicodeWidthStr;

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
    /// The lines of panes in the text that is being rendered, with their positions and line ends.
    spans: Vec<(Range<usize>, LineKey)>,
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

impl PrintedRows {
    /// Sets the terminal's columns and rows. A change drops all rows, because the terminal has moved them.
    pub fn fit(&mut self, size: (usize, usize)) {
        if self.size.replace(size) != Some(size) {
            self.clear();
        }
    }

    /// Records that a part of the rendered text is a line of a pane.
    pub fn mark_line(&mut self, part: Range<usize>, key: LineKey) {
        if self.size.is_some() {
            self.spans.push((part, key));
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
            let span = self.spans.pop_if(|(span, _)| span.end == end);
            let from = match &span {
                Some((span, _)) => span.start,
                None => {
                    let last = self.spans.last();
                    let before = last.map_or(start, |(span, _)| span.end.max(start));
                    let end = out[before..end - 1].rfind('\n');
                    end.map_or(before, |end| before + end + 1)
                }
            };
            let rows = out[from..end].strip_suffix('\n').map(str::to_owned);
            items.push_front(PrintedItem {
                key: span.map(|(_, key)| key),
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

// Writes the console's rows: a label in its colour, a mark, and text in its tone (pure).

/// The mark between the label and the continuation of a line that is wider than the terminal.
const CONTINUES: char = '┆';

/// The appearance of the console.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConsoleOptions {
    pub coloured: bool,
    /// Pads labels to equal width for people; output for programs has no padding.
    pub aligned: bool,
    /// Shows the opening and closing of panes, the decoration of agents' screens, and possible gaps.
    pub verbose: bool,
    /// Shows the rows of screen snapshots.
    pub shows_snapshots: bool,
    /// Begins each row with the local time of its event.
    pub has_timestamps: bool,
    /// The ids of executions begin with their hosts, which the labels show.
    pub names_hosts: bool,
}

/// Writes rows, with labels of equal width if the options request it.
#[derive(Debug, Default)]
pub(super) struct RowWriter {
    pub options: ConsoleOptions,
    /// The columns of the terminal; `None` without one.
    pub columns: Option<usize>,
    label_columns: usize,
    pub time: RowTime,
}

impl RowWriter {
    pub fn new(options: ConsoleOptions) -> Self {
        Self {
            options,
            time: RowTime::new(options.has_timestamps),
            ..Self::default()
        }
    }

    /// Widens the column of labels for a label that is used from now on.
    pub fn make_room(&mut self, label: &Label) {
        if self.options.aligned {
            // Labels are padded to the widest one so far, but lines need room.
            let columns = label.text.width().min(20);
            self.label_columns = self.label_columns.max(columns);
        }
    }

    /// Appends a row, or several on a narrow terminal, each with the label and the tone.
    pub fn row(&self, label: &Label, mark: char, tone: Tone, text: &str, out: &mut String) {
        self.painted(label, mark, &self.styled(tone, text), out);
    }

    /// Appends the rows of painted text.
    pub fn painted(&self, label: &Label, mark: char, painted: &str, out: &mut String) {
        let room = self.text_columns(label).unwrap_or(usize::MAX);
        // A line has at most as many columns as bytes.
        let rows = if painted.len() <= room {
            vec![painted.to_owned()]
        } else {
            wrap_painted(painted, room)
        };
        for (at, row) in rows.iter().enumerate() {
            self.push_label(label, if at == 0 { mark } else { CONTINUES }, out);
            if !row.is_empty() {
                out.push(' ');
                out.push_str(row);
            }
            out.push('\n');
        }
    }

    /// Returns text for display in a tone.
    pub fn styled(&self, tone: Tone, text: &str) -> String {
        let mut styled = String::new();
        push_styled(&mut styled, self.options.coloured, tone.style(), text);
        styled
    }

    /// Returns the columns for text; `None` if text is not wrapped.
    pub fn text_columns(&self, label: &Label) -> Option<usize> {
        let room = self.columns?.checked_sub(self.prefix_columns(label))?;
        // With fewer columns, the terminal wraps the text.
        (room >= 10).then_some(room)
    }

    /// Wraps the painted lines in `out` from `start` on, each of which begins with `prefix`, and adds the
    /// label to the new rows.
    pub fn wrap_painted(&self, label: &Label, prefix: &str, start: usize, out: &mut String) {
        let Some(room) = self.text_columns(label) else {
            return;
        };
        if out[start..]
            .lines()
            .all(|line| line.len() <= room + prefix.len())
        {
            return;
        }
        let mut continued = String::new();
        self.push_label(label, CONTINUES, &mut continued);
        continued.push(' ');
        let lines = out.split_off(start);
        for line in lines.lines() {
            let Some(text) = line.strip_prefix(prefix) else {
                out.push_str(line);
                out.push('\n');
                continue;
            };
            for (at, row) in wrap_painted(text, room).iter().enumerate() {
                out.push_str(if at == 0 { prefix } else { &continued });
                out.push_str(row);
                out.push('\n');
            }
        }
    }

    /// Returns a row of painted text cut to `columns`, without its line end; `None` if the label does not
    /// fit.
    pub fn fitting(
        &self,
        label: &Label,
        mark: char,
        painted: &str,
        columns: usize,
    ) -> Option<String> {
        let room = columns.checked_sub(self.prefix_columns(label))?;
        let mut shown = String::new();
        self.push_label(label, mark, &mut shown);
        shown.push(' ');
        shown.push_str(&cut_painted(painted, room));
        Some(shown)
    }

    /// Returns the label and the mark before the text of a row.
    pub fn prefix(&self, label: &Label) -> String {
        let mut prefix = String::new();
        self.push_label(label, '|', &mut prefix);
        prefix.push(' ');
        prefix
    }

    /// Returns the columns before the text of a row.
    pub fn prefix_columns(&self, label: &Label) -> usize {
        // The time has one column for each byte.
        self.time.text.len() + label.text.width().max(self.label_columns) + 3
    }

    /// Appends the label and the mark, without the blank after them.
    pub fn push_label(&self, label: &Label, mark: char, out: &mut String) {
        out.push_str(&self.time.text);
        // Not red, which marks errors, and not black or white, which are backgrounds.
        use AnsiColor::{Blue, Cyan, Green, Magenta, Yellow};
        let colours = [Cyan, Green, Magenta, Blue, Yellow];
        let colour = colours[label.colour % colours.len()];
        let colour = colour.bright(label.colour / colours.len() % 2 == 1);
        push_styled(out, self.options.coloured, colour.on_default(), &label.text);
        let padding = self.label_columns.saturating_sub(label.text.width());
        out.extend(std::iter::repeat_n(' ', padding));
        out.push(' ');
        out.push(mark);
    }
}

// Recognizes error messages in the output of programs (pure).

/// The forms of error messages that are common to compilers, loggers, test runners and language runtimes.
static ERROR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?x)
        ^\s*(?:\[?\S{0,30}\]?\s){0,3}\[?(?:ERROR|FATAL|CRITICAL|PANIC|FAILED|FAIL)(?-u:\b)
        | ^\s*(?:\S+:\s)?(?i:error|fatal|panic)(?:\[\w+\])?:\s
        | (?-u:\b)[A-Z]\w*(?:Error|Exception):\s
        | :\s(?:fatal\s)?error(?:\s\w+)?:\s
        | ^Traceback\ \(most\ recent
        | (?-u:\b)panicked\ at(?-u:\b)
        | ^\S{0,40}\s?\*\*\*\s.*(?-u:\b)Error(?-u:\b)
        | (?-u:\b)test\ result:\ FAILED
        | ^npm\ (?:ERR!|error)
        | ^=+\ .*(?-u:\b)[1-9]\d*\ (?:failed|error)",
    )
    .ok()
});

/// Returns true if a line resembles an error message. Those for people are not longer than 2,000 bytes.
pub(super) fn is_error_line(line: &str) -> bool {
    line.len() <= 2000 && ERROR.as_ref().is_some_and(|error| error.is_match(line))
}

#[cfg(test)]
mod tests {
    mod printed_rows {

        use super::super::*;

        fn rows(lines: &[&str]) -> PrintedRows {
            let mut rows = PrintedRows::default();
            rows.fit((20, 6));
            let mut out = String::new();
            for (number, line) in (1..).zip(lines) {
                let start = out.len();
                out.push_str(line);
                out.push('\n');
                if !line.starts_with('[') {
                    rows.mark_line(start..out.len(), (1, number));
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
            assert!(
                rows.can_rewrite((1, 2)) && !rows.can_rewrite((1, 3)) && !rows.can_rewrite((2, 1))
            );
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
            fresh.mark_line(0..2, (1, 1));
            fresh.record("a\n", 0);
            assert_eq!(reached(&fresh), 0);
        }
    }

    mod error_lines {

        use super::super::*;

        #[test]
        fn errors_differ_from_text_about_errors() {
            for line in [
                "error: could not compile `demo` (bin \"demo\") due to 1 previous error",
                "error[E0308]: mismatched types",
                "main.c:3:5: error: expected ';' before 'return'",
                "main.c:3:5: fatal error: x.h: No such file or directory",
                "make: *** [Makefile:2: all] Error 2",
                "2026-11-23T16:00:00Z ERROR db: connection lost",
                "12:00:01 [ERROR] worker 3 died",
                "[2026-11-23 16:00:00] ERROR db: connection lost",
                "FAILED tests/test_a.py::test_b - assert 1 == 2",
                "thread 'main' panicked at src/main.rs:2:5:",
                "Traceback (most recent call last):",
                "ValueError: invalid literal for int()",
                "test result: FAILED. 3 passed; 2 failed; 0 ignored",
                "=========== 1 failed, 3 passed in 0.12s ===========",
                "npm ERR! code ELIFECYCLE",
                "npm error code E404",
                "fatal: not a git repository",
            ] {
                assert!(is_error_line(line), "{line}");
            }
            for line in [
                "",
                "test result: ok. 12 passed; 0 failed; 0 ignored",
                "0 errors, 0 warnings",
                "all tests passed, no error",
                "I will look at the error in parser.rs and fix it.",
                "   Compiling thiserror v2.0.1",
                "warning: unused variable: `error`",
                "test errors_are_reported ... ok",
                "GET /error 200",
                "=========== 4 passed in 0.12s ===========",
            ] {
                assert!(!is_error_line(line), "{line}");
            }
            assert!(!is_error_line(&format!("error: {}", "x".repeat(3000))));
        }
    }
}
