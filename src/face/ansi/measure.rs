//! Cuts, wraps and measures painted text, whose only escape sequences are SGR (pure).

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::sgr::RESET;

/// A part of painted text.
enum Part<'t> {
    Sgr(&'t str),
    Char(char),
}

/// The parts of painted text, each with its position.
fn parts(painted: &str) -> impl Iterator<Item = (usize, Part<'_>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (start, rest) = (at, &painted[at..]);
        let part = match rest.chars().next()? {
            '\x1b' => {
                let end = rest.find('m').map_or(rest.len(), |end| end + 1);
                at += end;
                Part::Sgr(&rest[..end])
            }
            c => {
                at += c.len_utf8();
                Part::Char(c)
            }
        };
        Some((start, part))
    })
}

/// Returns the rows of a painted line on a terminal with this many columns.
pub(in crate::face) fn rows_of(painted: &str, columns: usize) -> usize {
    let widths = parts(painted).map(|(_, part)| match part {
        Part::Sgr(_) => 0,
        Part::Char(c) => c.width().unwrap_or(0),
    });
    widths.sum::<usize>().div_ceil(columns.max(1)).max(1)
}

/// Returns the start of a painted line that fits into `columns`.
pub(in crate::face) fn cut_painted(painted: &str, columns: usize) -> Cow<'_, str> {
    let (mut used, mut is_coloured) = (0, false);
    for (at, part) in parts(painted) {
        match part {
            Part::Sgr(_) => is_coloured = true,
            Part::Char(c) => used += c.width().unwrap_or(0),
        }
        if used > columns {
            let fits = &painted[..at];
            return match is_coloured {
                true => Cow::Owned([fits, RESET].concat()),
                false => Cow::Borrowed(fits),
            };
        }
    }
    Cow::Borrowed(painted)
}

/// Wraps a painted line into rows of at most `columns`; each row repeats the active colours.
pub(in crate::face) fn wrap_painted(painted: &str, columns: usize) -> Vec<String> {
    let mut rows = Vec::new();
    let (mut row, mut used) = (String::new(), 0);
    // The sequences since the last reset.
    let mut active = String::new();
    for (_, part) in parts(painted) {
        let c = match part {
            Part::Char(c) => c,
            Part::Sgr(sequence) => {
                row.push_str(sequence);
                match sequence {
                    "\x1b[m" | RESET => active.clear(),
                    _ => active.push_str(sequence),
                }
                continue;
            }
        };
        let width = c.width().unwrap_or(0);
        if used + width > columns && used > 0 {
            if !active.is_empty() {
                row.push_str(RESET);
            }
            rows.push(std::mem::replace(&mut row, active.clone()));
            used = 0;
        }
        used += width;
        row.push(c);
    }
    // A row without visible text is dropped, unless it is the only one.
    if used > 0 || rows.is_empty() {
        rows.push(row);
    } else if let Some(last) = rows.last_mut() {
        last.push_str(&row);
    }
    rows
}

/// Returns the end of painted text that fits into `columns`. Text that is cut loses its colours.
pub(in crate::face) fn end_of_painted(painted: &str, columns: usize) -> Cow<'_, str> {
    let plain: String = parts(painted)
        .filter_map(|(_, part)| match part {
            Part::Sgr(_) => None,
            Part::Char(c) => Some(c),
        })
        .collect();
    if plain.width() <= columns {
        return Cow::Borrowed(painted);
    }
    // The ellipsis takes the first column.
    let mut used = 1;
    let mut start = plain.len();
    for (at, c) in plain.char_indices().rev() {
        used += c.width().unwrap_or(0);
        if used > columns {
            break;
        }
        start = at;
    }
    Cow::Owned(match columns {
        0 => String::new(),
        _ => format!("…{}", &plain[start..]),
    })
}
