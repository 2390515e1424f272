//! Puts text into cells (pure).

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::face::sanitize::with_ellipsis;
use crate::face::tui::painted::StyledText;

pub(super) const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
pub(super) const DIM: Style = Style::new().add_modifier(Modifier::DIM);
pub(super) const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Writes sanitized text at a position, at most `columns` wide; returns the columns written.
pub(super) fn put(
    buffer: &mut Buffer,
    x: u16,
    y: u16,
    columns: u16,
    text: &str,
    style: Style,
) -> u16 {
    let line = StyledText::plain(text.to_owned(), style);
    put_line(buffer, (x, y), columns, &line, 0)
}

/// Writes the part of a line that begins at column `from`. Returns the columns written.
pub(super) fn put_line(
    buffer: &mut Buffer,
    (x, y): (u16, u16),
    columns: u16,
    line: &StyledText,
    from: usize,
) -> u16 {
    let area = buffer.area;
    if y >= area.bottom() || x >= area.right() {
        return 0;
    }
    let columns = usize::from(columns.min(area.right() - x));
    let mut runs = line.runs.iter().peekable();
    let (mut column, mut last) = (0, None);
    for (at, c) in line.text.char_indices() {
        while runs.next_if(|(range, _)| range.end <= at).is_some() {}
        let style = match runs.peek() {
            Some((range, style)) if range.contains(&at) => *style,
            _ => Style::new(),
        };
        let width = c.width().unwrap_or(0);
        if width == 0 {
            // A character without width belongs to the character before it.
            if let Some(last) = last {
                let cell = &mut buffer[last];
                let symbol = format!("{}{c}", cell.symbol());
                cell.set_symbol(&symbol);
            }
            continue;
        }
        if column + width > from + columns {
            break;
        }
        if column >= from {
            let place = column - from;
            // The columns of a screen fit into 16 bits.
            let place = (x + u16::try_from(place).unwrap_or(u16::MAX), y);
            buffer[place].set_char(c).set_style(style);
            last = Some(place);
            if width == 2 {
                buffer[(place.0 + 1, y)].reset();
            }
        }
        column += width;
    }
    u16::try_from(column.saturating_sub(from)).unwrap_or(u16::MAX)
}

/// Writes the title of a part into its first row.
pub(super) fn put_title(buffer: &mut Buffer, area: Rect, text: &str, is_focused: bool) {
    let style = match is_focused {
        true => BOLD.add_modifier(Modifier::REVERSED),
        false => BOLD,
    };
    // The focused part is marked without attributes, too.
    let mark = if is_focused { " ◂" } else { "  " };
    let room = usize::from(area.width).saturating_sub(mark.width());
    let text = fitted(text, room) + mark;
    put(buffer, area.x, area.y, area.width, &text, style);
}

/// Changes the style of a row of cells.
pub(super) fn restyle(buffer: &mut Buffer, (x, y): (u16, u16), columns: u16, style: Style) {
    let area = buffer.area;
    for x in x..x.saturating_add(columns).min(area.right()) {
        if y < area.bottom() {
            buffer[(x, y)].set_style(style);
        }
    }
}

/// Returns text cut to `columns`, with an ellipsis if it is cut, and padded with blanks.
pub(super) fn fitted(text: &str, columns: usize) -> String {
    let mut out = with_ellipsis(text, columns);
    let used: usize = out.chars().map(|c| c.width().unwrap_or(0)).sum();
    out.extend(std::iter::repeat_n(' ', columns.saturating_sub(used)));
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::face::tui::wrapping::row_starts;

    proptest! {
        #[test]
        fn text_stays_in_its_columns(text in "[a-z漢é\u{301}]{0,12}", x in 0_u16..12, columns in 0_u16..12, from in 0_usize..9) {
            let mut buffer = Buffer::empty(Rect::new(0, 0, 10, 1));
            let line = StyledText::plain(text.clone(), Style::new());
            put_line(&mut buffer, (x, 0), columns, &line, from);
            for at in 0..10 {
                let is_inside = at >= x && at < x.saturating_add(columns);
                prop_assert!(is_inside || buffer[(at, 0)].symbol() == " ");
            }
            prop_assert_eq!(fitted(&text, usize::from(columns)).width(), usize::from(columns));
        }

        #[test]
        fn no_character_of_a_wrapped_line_is_lost(text in "[a-z漢]{0,40}", columns in 2_u16..12) {
            let line = StyledText::plain(text.clone(), Style::new());
            let mut shown = String::new();
            for from in row_starts(&text, usize::from(columns)) {
                let mut buffer = Buffer::empty(Rect::new(0, 0, columns, 1));
                put_line(&mut buffer, (0, 0), columns, &line, from);
                let symbols = buffer.content.iter().map(|cell| cell.symbol());
                shown.extend(symbols.filter(|symbol| *symbol != " "));
            }
            prop_assert_eq!(shown, text);
        }
    }
}
