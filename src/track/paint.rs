//! A screen as bytes that draw it: where a recording of a pane begins (pure).

use std::fmt::Write;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::look::{Look, Row};
use super::stream::{Modes, Seam};
use crate::event::Cursor;

/// Back to the primary screen, colours, character set, scroll region and wrapping as at the
/// beginning, and all erased; not at once, which some terminals push into their history.
const RESET: &str = "\x1b[?1049l\x1b[!p\x1b[?7h\x0f\x1b(B\x1b[2;1H\x1b[J\x1b[1;1H\x1b[K";

impl Look {
    /// What draws the screen on any terminal of this size: its text, the cursor, the alternate screen
    /// and, where it is known, the normal one behind it. Colours are not known, nor is the history
    /// drawn.
    #[must_use]
    pub fn paint(&self) -> Vec<u8> {
        let mut out = self.paint_rows();
        push_cursor(self.cursor, 0, &mut out);
        out.into_bytes()
    }

    fn paint_rows(&self) -> String {
        let mut out = RESET.to_owned();
        if let Some(saved) = &self.saved {
            push_rows(&saved.rows, self.width as usize, &mut out);
            push_cursor(saved.cursor, 0, &mut out);
        }
        if self.alternate {
            out.push_str("\x1b[?1049h");
        }
        let screen = &self.rows[self.history_rows()..];
        push_rows(screen, self.width as usize, &mut out);
        out
    }
}

impl Seam {
    /// What draws the screen, sets the terminal as it was set, and ends within the escape sequence
    /// of which the stream has the rest: the stream's first byte may follow.
    #[must_use]
    pub fn paint(&self) -> Vec<u8> {
        let mut out = self.look.paint_rows();
        let Modes {
            wrap,
            insert,
            origin,
            region: (top, bottom),
            ref tabs,
            // Of no consequence for what is shown now.
            alternates: _,
        } = self.modes;
        if let Some(tabs) = tabs {
            out.push_str("\x1b[3g");
            for column in tabs {
                push(&mut out, format_args!("\x1b[1;{}H\x1bH", column + 1));
            }
        }
        let is_region = top < bottom && bottom < self.look.height;
        if is_region && (top, bottom) != (0, self.look.height - 1) {
            push(&mut out, format_args!("\x1b[{};{}r", top + 1, bottom + 1));
        }
        let mut above = 0;
        if origin {
            out.push_str("\x1b[?6h");
            above = if is_region { top } else { 0 };
        }
        if insert {
            out.push_str("\x1b[4h");
        }
        if !wrap {
            out.push_str("\x1b[?7l");
        }
        push_cursor(self.look.cursor, above, &mut out);
        let mut out = out.into_bytes();
        out.extend_from_slice(&self.pending);
        out
    }
}

/// Draws rows from the top of the screen. A line that was wrapped is written in one piece, so that
/// the terminal knows it for one line, and whoever looks for secrets does too.
fn push_rows(rows: &[Row], width: usize, out: &mut String) {
    let mut goes_on = false;
    for (number, row) in rows.iter().enumerate() {
        if !goes_on && !row.text.is_empty() {
            push(out, format_args!("\x1b[{};1H", number + 1));
        }
        out.extend(row.text.chars().filter(|c| !c.is_control()));
        let columns = row.text.width();
        let next = rows
            .get(number + 1)
            .and_then(|next| next.text.chars().next());
        // A wide character does not fit into the last column.
        let is_full =
            columns == width || columns + 1 == width && next.is_some_and(|c| c.width() == Some(2));
        goes_on = row.wrapped && is_full && next.is_some();
    }
}

fn push_cursor(cursor: Cursor, above: u32, out: &mut String) {
    let row = cursor.y.saturating_sub(above) + 1;
    push(out, format_args!("\x1b[{row};{}H", cursor.x + 1));
}

fn push(out: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = out.write_fmt(what);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::track::look::SavedScreen;

    fn rows(texts: &[(&str, bool)]) -> Vec<Row> {
        let row = |(text, wrapped): &(&str, bool)| Row {
            text: (*text).to_owned(),
            wrapped: *wrapped,
        };
        texts.iter().map(row).collect()
    }

    fn played(bytes: &[u8], before: &str) -> avt::Terminal {
        let mut terminal = avt::Terminal::with_scrollback(10, 4, Some(0)).unwrap();
        terminal.feed(before);
        terminal.feed(std::str::from_utf8(bytes).unwrap());
        terminal
    }

    fn shown(terminal: &avt::Terminal) -> Vec<String> {
        let lines = terminal.screen().visible_lines();
        lines
            .map(|line| line.text().trim_end().to_owned())
            .collect()
    }

    fn look() -> Look {
        Look {
            width: 10,
            height: 4,
            history_size: 1,
            cursor: Cursor { x: 3, y: 2 },
            rows: rows(&[
                ("gone", false),
                ("0123456789", true),
                ("abc", false),
                ("", false),
                ("\u{65e5}\u{672c}", false),
            ]),
            ..Look::default()
        }
    }

    #[test]
    fn a_screen_is_drawn_whatever_stood_there() {
        for before in [
            "",
            "\x1b[2;3r\x1b[?6h\x1b[?7l\x1b[4h\x1b[31mx\x1b[?1049hfull\x1b(0\r\nq",
        ] {
            let terminal = played(&look().paint(), before);
            assert_eq!(
                shown(&terminal),
                ["0123456789", "abc", "", "\u{65e5}\u{672c}"]
            );
            let cursor = terminal.cursor();
            assert_eq!((cursor.col, cursor.row), (3, 2), "{before:?}");
        }
        // One line for the terminal, and one text for who reads the bytes.
        let bytes = String::from_utf8(look().paint()).unwrap();
        assert!(bytes.contains("0123456789abc"), "{bytes:?}");
    }

    #[test]
    fn a_full_screen_program_stands_before_the_normal_screen() {
        let look = Look {
            alternate: true,
            saved: Some(SavedScreen {
                cursor: Cursor { x: 2, y: 1 },
                rows: rows(&[("$ vi", false), ("", false), ("", false), ("", false)]),
            }),
            ..look()
        };
        let mut terminal = played(&look.paint(), "");
        assert_eq!(shown(&terminal)[0], "0123456789");
        terminal.feed("\x1b[?1049l");
        assert_eq!(shown(&terminal), ["$ vi", "", "", ""]);
        assert_eq!((terminal.cursor().col, terminal.cursor().row), (2, 1));
    }

    #[test]
    fn the_stream_goes_on_where_it_was_cut() {
        let seam = Seam {
            look: look(),
            modes: Modes {
                region: (1, 2),
                origin: true,
                ..Modes::default()
            },
            pending: b"\x1b[1;".to_vec(),
            ..Seam::default()
        };
        let mut terminal = played(&seam.paint(), "");
        assert_eq!((terminal.cursor().col, terminal.cursor().row), (3, 2));
        terminal.feed("2Hx\r\n\nlast");
        assert_eq!(shown(&terminal)[..3], ["0123456789", "", "last"]);
    }
}
