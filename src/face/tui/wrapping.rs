//! Wraps text into lines of limited width (pure).

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Wraps sanitized text at its blanks; words that are too long are split.
pub(super) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    // A wide character takes two columns.
    let columns = columns.max(2);
    let mut rows = vec![String::new()];
    for word in text.split(' ') {
        let used = rows.last().map_or(0, |row| row.width());
        let blank = usize::from(used > 0);
        if used + blank + word.width() > columns && used > 0 {
            rows.push(String::new());
        } else if blank > 0
            && let Some(row) = rows.last_mut()
        {
            row.push(' ');
        }
        for c in word.chars() {
            let width = c.width().unwrap_or(0);
            if rows.last().is_some_and(|row| row.width() + width > columns) {
                rows.push(String::new());
            }
            if let Some(row) = rows.last_mut() {
                row.push(c);
            }
        }
    }
    rows
}

/// Returns the columns of a line at which its rows begin if it is split at some columns. A wide character that
/// does not fit begins the next row.
pub(super) fn row_starts(text: &str, columns: usize) -> impl Iterator<Item = usize> {
    let (mut start, mut end) = (0, 0);
    let later = text.chars().filter_map(move |c| {
        let width = c.width().unwrap_or(0);
        // Each row has a character, even if there is no room for a wide one.
        let is_next = width > 0 && end > start && end + width > start + columns;
        if is_next {
            start = end;
        }
        end += width;
        is_next.then_some(start)
    });
    std::iter::once(0).chain(later)
}

/// Wraps sanitized text into at most `lines_max` lines, with an ellipsis if it is cut.
pub(super) fn wrapped_to(text: &str, columns: usize, lines_max: usize) -> Vec<String> {
    let mut rows = wrapped(text, columns);
    if rows.len() > lines_max {
        rows.truncate(lines_max);
        if let Some(row) = rows.last_mut() {
            while row.width() + 1 > columns && row.pop().is_some() {}
            row.push('…');
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_word_is_lost_and_no_row_too_long(text in "[a-z漢 ]{0,60}", columns in 2_usize..20, lines in 1_usize..5) {
            let rows = wrapped(&text, columns);
            prop_assert!(rows.iter().all(|row| row.width() <= columns), "{rows:?}");
            let letters = |text: &str| text.replace(' ', "");
            prop_assert_eq!(letters(&rows.concat()), letters(&text));
            let cut = wrapped_to(&text, columns, lines);
            prop_assert!(cut.len() <= lines && cut.iter().all(|row| row.width() <= columns), "{cut:?}");
            prop_assert_eq!(cut.concat().ends_with('…'), rows.len() > lines);
        }

        #[test]
        fn rows_begin_at_characters_and_are_full(text in "[a-z漢é\u{301}]{0,60}", columns in 0_usize..9) {
            let starts: Vec<usize> = row_starts(&text, columns).collect();
            let width: usize = text.chars().map(|c| c.width().unwrap_or(0)).sum();
            prop_assert!(starts.is_sorted_by(|one, next| one < next), "{starts:?}");
            let ends = starts.iter().skip(1).chain([&width]);
            for (start, end) in starts.iter().zip(ends) {
                prop_assert!(end - start <= columns.max(2), "{starts:?}");
                prop_assert!(*end == width || end - start + 1 >= columns, "{starts:?}");
            }
        }
    }
}
