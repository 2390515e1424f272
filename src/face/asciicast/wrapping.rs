//! Breaks lines into rows as a terminal does (pure).

use unicode_width::UnicodeWidthChar;

/// Returns the cells of a character. A combining mark counts as one cell, because `avt`, the emulator of
/// asciinema and its web player, gives it a cell of its own.
fn cells(c: char) -> usize {
    if c.width() == Some(2) { 2 } else { 1 }
}

/// Returns the byte offset of each row except the first.
fn breaks(text: &str, width: usize) -> impl Iterator<Item = usize> {
    let mut column = 0;
    text.char_indices().filter_map(move |(at, c)| {
        let cells = cells(c);
        let is_full = column + cells > width;
        if is_full {
            column = 0;
        }
        // A character that is wider than the terminal is not drawn.
        column += if cells > width { 0 } else { cells };
        is_full.then_some(at)
    })
}

/// Returns the number of rows of a line at this width; an empty line has one row.
pub(super) fn rows(text: &str, width: usize) -> usize {
    if text.is_ascii() {
        return text.len().div_ceil(width).max(1);
    }
    1 + breaks(text, width).count()
}

/// Returns the part of a line from this row on, counted from 0.
pub(super) fn from_row(text: &str, width: usize, row: usize) -> &str {
    match row.checked_sub(1) {
        None => text,
        Some(before) => {
            let at = breaks(text, width).nth(before).unwrap_or(text.len());
            &text[at..]
        }
    }
}

/// Returns the part of an open line that is drawn. Trailing blanks show the position of the cursor, but never
/// form a row of their own, because terminals differ in whether they keep such a row on a resize.
pub(super) fn open_line(text: &str, width: usize) -> &str {
    let end = text.trim_end_matches(' ').len();
    if end == 0 {
        return "";
    }
    let row_end = breaks(text, width).find(|at| *at >= end);
    &text[..row_end.unwrap_or(text.len())]
}

/// Returns the part of a line in its first row.
pub(super) fn first_row(text: &str, width: usize) -> &str {
    let end = breaks(text, width).next().unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_end_where_the_next_character_has_no_room() {
        for (text, width, expected) in [
            ("", 3, vec![""]),
            ("abc", 3, vec!["abc"]),
            ("abcd", 3, vec!["abc", "d"]),
            ("漢字x", 3, vec!["漢", "字x"]),
            ("ab漢字", 4, vec!["ab漢", "字"]),
            ("e\u{301}é", 2, vec!["e\u{301}", "é"]),
        ] {
            assert_eq!(rows(text, width), expected.len(), "{text:?}");
            assert_eq!(first_row(text, width), expected[0]);
            for (row, start) in expected.iter().enumerate() {
                assert!(from_row(text, width, row).starts_with(start), "{text:?}");
            }
        }
        assert_eq!(from_row("abc", 3, 7), "");
        // Trailing blanks up to the end of the row.
        for (text, width, expected) in [
            ("", 3, ""),
            ("    ", 3, ""),
            ("a ", 3, "a "),
            ("abc ", 3, "abc"),
            ("abcd    ", 3, "abcd  "),
            ("a   b ", 3, "a   b "),
            ("漢漢  ", 5, "漢漢 "),
        ] {
            assert_eq!(open_line(text, width), expected, "{text:?}");
        }
        // Wide characters are not drawn, but count as rows.
        assert_eq!(rows("漢漢", 1), 3);
    }
}
