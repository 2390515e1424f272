//! Groups the rows of tmux into the lines that the program printed, and expands their tabs (pure).

use std::borrow::Cow;
use std::hash::{Hash, Hasher};

use super::capture::Row;
use rustc_hash::FxHasher;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// One logical line: a row and those that it wraps into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogicalLine {
    /// Its first row, counted from the top of the screen; negative in the history.
    pub start: i64,
    /// The number of its rows.
    pub rows: i64,
    /// The length of the beginning that tmux no longer has, in bytes. It counts as one row.
    pub head: usize,
    pub text: String,
}

impl LogicalLine {
    /// Returns the first row after it.
    pub fn end(&self) -> i64 {
        self.start + self.rows
    }

    /// Inserts a beginning that tmux no longer has. Its rows count as one.
    pub fn insert_beginning(&mut self, beginning: &str) {
        self.text.insert_str(0, beginning);
        self.head += beginning.len();
        (self.start, self.rows) = (self.start - 1, self.rows + 1);
    }
}

/// Groups rows into lines. `top` is the position of the first row, counted from the top of the screen.
pub(super) fn group(rows: &[Row], top: i64) -> Vec<LogicalLine> {
    let mut lines: Vec<LogicalLine> = Vec::with_capacity(rows.len());
    let mut continues = false;
    for (row, start) in rows.iter().zip(top..) {
        match lines.last_mut() {
            Some(line) if continues => {
                line.text.push_str(&row.text);
                line.rows += 1;
            }
            _ => lines.push(LogicalLine {
                start,
                rows: 1,
                head: 0,
                text: row.text.clone(),
            }),
        }
        continues = row.wrapped;
    }
    lines
}

/// Returns a hash of a row's text, or [`BLANK`] for a blank row. Trailing blanks do not count, because
/// erasing and resizing add and remove them.
pub(super) fn fingerprint(row: &Row) -> u64 {
    let text = row.text.trim_end_matches(' ');
    if text.is_empty() {
        return BLANK;
    }
    let mut hasher = FxHasher::default();
    text.hash(&mut hasher);
    // A text with the hash of a blank row takes the next value.
    hasher.finish().max(BLANK + 1)
}

/// The fingerprint of a blank row.
pub(super) const BLANK: u64 = 0;

/// Returns the fewest bytes that a program must have written to print this row. Blanks may come from
/// moving the cursor, a line-drawing character takes one byte, a run of a character at most five (REP),
/// and leaving a row takes one. Scroll sequences, which make many blank rows from a few bytes, do not
/// count: with them, no advance over blank rows could be excluded, and a flood of blank rows would
/// always end with a gap.
pub(super) fn fewest_bytes(row: &Row) -> u64 {
    let (mut bytes, mut run, mut last) = (0, 0, ' ');
    for character in row.text.chars() {
        run = if character == last { run + 1 } else { 1 };
        last = character;
        bytes += u64::from(character != ' ' && run <= 5);
    }
    bytes + u64::from(!row.wrapped)
}

/// Returns how many rows from the top are in use: up to the last one with text or with the cursor.
pub(super) fn used_rows(screen: &[Row], cursor_row: usize) -> usize {
    let text = screen
        .iter()
        .rposition(|row| fingerprint(row) != BLANK)
        .map_or(0, |last| last + 1);
    text.max(cursor_row + 1).min(screen.len())
}

/// Returns the beginning of a text that fits into this number of columns.
pub(crate) fn cut(text: &str, columns: usize) -> &str {
    first_rows(text, u32::try_from(columns).unwrap_or(u32::MAX), 1)
}

/// Returns the beginning of a line that fills `rows` rows of a pane of this width.
pub(super) fn first_rows(text: &str, width: u32, rows: i64) -> &str {
    let width = width as usize;
    let (mut row, mut column) = (0, 0);
    for (at, character) in text.char_indices() {
        let cells = character.width().unwrap_or(0);
        if column + cells > width {
            (row, column) = (row + 1, 0);
        }
        if row >= rows {
            return &text[..at];
        }
        column += cells;
    }
    text
}

/// Returns the lengths of the two longest beginnings of `text` that are the end of `known`.
pub(super) fn overlaps(known: &str, text: &str) -> (usize, usize) {
    let text = &text.as_bytes()[..text.len().min(known.len())];
    // Knuth, Morris, Pratt: for each beginning of the text, the longest shorter one that ends it.
    let mut borders = vec![0_usize; text.len() + 1];
    let longer = |borders: &[usize], mut length: usize, byte: u8| {
        while length > 0 && text.get(length) != Some(&byte) {
            length = borders[length];
        }
        length + usize::from(text.get(length) == Some(&byte))
    };
    for at in 1..text.len() {
        borders[at + 1] = longer(&borders, borders[at], text[at]);
    }
    let longest = (known.bytes()).fold(0, |length, byte| longer(&borders, length, byte));
    (longest, borders[longest])
}

/// Returns true if a text ends at the end of a row. A wide character that does not fit leaves one
/// column of a row free; joined characters take fewer columns than their sum.
pub(super) fn fills_row(text: &str, width: u32) -> bool {
    let columns: usize = text.chars().filter_map(UnicodeWidthChar::width).sum();
    let width = width.max(1) as usize;
    columns > 0 && columns >= columns.div_ceil(width) * (width - 1)
}

// Expands the tabs of rows to blanks (pure).
//
// tmux 3.6 and newer keeps tabs. Captures and streams expand them in the same way, so that texts are
// equal in every version and from both sources, and columns match the screen.

/// Returns the row with its tabs expanded to blanks. Tabs at its end are dropped: older versions only
/// move the cursor there, without writing blanks.
pub(crate) fn expand_tabs(row: &str, width: usize) -> Cow<'_, str> {
    if !row.contains('\t') {
        return row.into();
    }
    let mut pieces = row.trim_end_matches('\t').split('\t');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    let mut column = text.width();
    for piece in pieces {
        let stop = next_stop(column, width);
        text.extend(std::iter::repeat_n(' ', stop - column));
        text.push_str(piece);
        column = stop + piece.width();
    }
    text.into()
}

/// Returns the column to which a tab moves the cursor: never beyond the last one. A capture does not show
/// which tabs were printed with other stops than every eighth column.
pub(super) fn next_stop(column: usize, width: usize) -> usize {
    let stop = (column / 8 + 1) * 8;
    stop.min(width.saturating_sub(1)).max(column)
}

#[cfg(test)]
mod tests {
    mod lines {

        use super::super::*;

        fn row(text: &str, wrapped: bool) -> Row {
            Row {
                text: text.into(),
                wrapped,
            }
        }

        #[test]
        fn wrapped_rows_are_one_line() {
            let rows = [
                row("abc", true),
                row("d", false),
                row("", false),
                row("e", true),
            ];
            let lines = group(&rows, -2);
            assert_eq!(lines.len(), 3);
            assert_eq!(
                lines[0],
                LogicalLine {
                    start: -2,
                    rows: 2,
                    head: 0,
                    text: "abcd".into()
                }
            );
            assert_eq!(
                lines[1],
                LogicalLine {
                    start: 0,
                    rows: 1,
                    head: 0,
                    text: "".into()
                }
            );
            assert_eq!(
                lines[2],
                LogicalLine {
                    start: 1,
                    rows: 1,
                    head: 0,
                    text: "e".into()
                }
            );
        }

        #[test]
        fn a_wrapped_line_fills_its_rows() {
            let fills = |text| fills_row(text, 5);
            assert!(fills("abcde") && fills("abc世") && fills("abcdeabcde"));
            assert!(!fills("") && !fills("abc") && !fills("abcdeab"));
        }

        #[test]
        fn the_end_of_a_text_is_found_at_the_beginning_of_another() {
            for (known, text, expected) in [
                ("abcabd", "abdx", (3, 0)),
                ("aaaa", "aab", (2, 1)),
                ("aaaa", "aaaaaa", (4, 3)),
                ("xabab", "ababab", (4, 2)),
                ("abc", "xabc", (0, 0)),
                ("", "a", (0, 0)),
                ("a", "", (0, 0)),
                ("x世界", "世界", (6, 0)),
            ] {
                assert_eq!(overlaps(known, text), expected, "{known:?} {text:?}");
            }
        }

        #[test]
        fn the_screen_is_used_to_the_last_text_and_to_the_cursor() {
            let rows = [row("a", false), row("  ", false), row("", false)];
            assert_eq!(used_rows(&rows, 0), 1);
            assert_eq!(used_rows(&rows, 2), 3);
            assert_eq!(used_rows(&rows, 9), 3);
        }
    }

    mod tabs {

        use super::super::*;

        #[test]
        fn tabs_become_blanks_up_to_the_next_stop() {
            for (row, want) in [
                ("a\tb", "a       b"),
                ("\ttab", "        tab"),
                ("12345678\tx\t\ty", "12345678        x      y"),
                ("漢字\tx", "漢字    x"),
                ("a\t \t", "a        "),
                ("a\t\t", "a"),
                ("12345678901234567890\tx", "12345678901234567890   x"),
                ("123456789012345678901234\tx", "123456789012345678901234x"),
                ("none", "none"),
            ] {
                assert_eq!(expand_tabs(row, 24), want, "{row:?}");
            }
        }
    }
}
