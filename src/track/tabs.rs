//! Expands the tabs of rows to blanks (pure).
//!
//! tmux 3.6 and newer keeps tabs. Captures and streams expand them in the same way, so that texts are
//! equal in every version and from both sources, and columns match the screen.

use std::borrow::Cow;

use unicode_width::UnicodeWidthStr;

/// The distance of tab stops, in columns. A capture does not show which tabs were printed with other
/// stops.
const TAB_STOP: usize = 8;

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

/// Returns the column to which a tab moves the cursor: never beyond the last one.
pub(super) fn next_stop(column: usize, width: usize) -> usize {
    let stop = (column / TAB_STOP + 1) * TAB_STOP;
    stop.min(width.saturating_sub(1)).max(column)
}

#[cfg(test)]
mod tests {
    use super::*;

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
