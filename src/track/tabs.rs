//! Tabs in rows, as the blanks that they look like (pure).
//!
//! tmux 3.6 and newer keeps tabs as tabs. Captures and streams show them as blanks, both in the same
//! way, so that lines read the same in every version, whichever source reports them, and cursors
//! stand where they stand on the screen.

use std::borrow::Cow;

use unicode_width::UnicodeWidthStr;

/// The distance of tab stops. A program can set others, but a capture does not show for which of
/// its tabs that was so.
const TAB_STOP: usize = 8;

/// The row with blanks where it has tabs. Tabs at its end go: older versions only move the cursor
/// there, and blanks behind a text are none of it.
pub(crate) fn expand_tabs(row: &str, width: usize) -> Cow<'_, str> {
    if !row.contains('\t') {
        return row.into();
    }
    let mut pieces = row.trim_end_matches('\t').split('\t');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    let mut column = text.width();
    for piece in pieces {
        // A tab never goes beyond the last column.
        let stop = (column / TAB_STOP + 1) * TAB_STOP;
        let stop = stop.min(width.saturating_sub(1)).max(column);
        text.extend(std::iter::repeat_n(' ', stop - column));
        text.push_str(piece);
        column = stop + piece.width();
    }
    text.into()
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
