//! Draws a captured screen as terminal bytes: the beginning of a pane's recording (pure).

use std::fmt::Write;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::event::Cursor;
use crate::track::{Row, SyncPoint, TerminalModes};

/// Restores the primary screen, colours, character set, scroll region and wrapping to their initial
/// state, and erases the screen; in two steps, because some terminals push a screen that is erased
/// at once into their history.
const RESET: &str = "\x1b[?1049l\x1b[!p\x1b[?7h\x0f\x1b(B\x1b[2;1H\x1b[J\x1b[1;1H\x1b[K";

/// Returns bytes that draw the screen on any terminal of its size and set the terminal's modes:
/// text, cursor, the alternate screen and, if known, the primary one behind it. Colours and the
/// history are not drawn. The bytes end with the partial escape sequence that the stream completes,
/// so the stream's first byte can follow.
pub(crate) fn draw_screen(sync_point: &SyncPoint) -> Vec<u8> {
    let capture = &sync_point.capture;
    let mut out = RESET.to_owned();
    if let Some(saved) = &capture.saved {
        push_rows(&saved.rows, capture.width as usize, &mut out);
        push_cursor(saved.cursor, 0, &mut out);
    }
    if capture.alternate {
        out.push_str("\x1b[?1049h");
    }
    push_rows(
        &capture.rows[capture.history_rows()..],
        capture.width as usize,
        &mut out,
    );
    let TerminalModes {
        wrap,
        insert,
        origin,
        region: (top, bottom),
        ref tabs,
        // Does not affect what is shown now.
        alternates: _,
    } = sync_point.modes;
    if let Some(tabs) = tabs {
        out.push_str("\x1b[3g");
        for column in tabs {
            push(&mut out, format_args!("\x1b[1;{}H\x1bH", column + 1));
        }
    }
    let is_region = top < bottom && bottom < capture.height;
    if is_region && (top, bottom) != (0, capture.height - 1) {
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
    push_cursor(capture.cursor, above, &mut out);
    let mut out = out.into_bytes();
    out.extend_from_slice(&sync_point.pending);
    out
}

/// Draws rows from the top of the screen. A wrapped line is written without a cursor movement, so
/// that the terminal and the redaction see one line.
fn push_rows(rows: &[Row], width: usize, out: &mut String) {
    let mut is_continued = false;
    for (number, row) in rows.iter().enumerate() {
        if !is_continued && !row.text.is_empty() {
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
        is_continued = row.wrapped && is_full && next.is_some();
    }
}

fn push_cursor(cursor: Cursor, above: u32, out: &mut String) {
    let row = cursor.y.saturating_sub(above) + 1;
    push(out, format_args!("\x1b[{row};{}H", cursor.x + 1));
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::track::{Capture, PaneNumbers, SavedScreen};

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

    fn draw(capture: &Capture) -> Vec<u8> {
        draw_screen(&SyncPoint {
            capture: capture.clone(),
            ..SyncPoint::default()
        })
    }

    fn capture() -> Capture {
        Capture {
            numbers: PaneNumbers {
                width: 10,
                height: 4,
                history_size: 1,
                cursor: Cursor { x: 3, y: 2 },
                ..PaneNumbers::default()
            },
            rows: rows(&[
                ("gone", false),
                ("0123456789", true),
                ("abc", false),
                ("", false),
                ("\u{65e5}\u{672c}", false),
            ]),
            ..Capture::default()
        }
    }

    #[test]
    fn a_screen_is_drawn_over_any_previous_state() {
        for before in [
            "",
            "\x1b[2;3r\x1b[?6h\x1b[?7l\x1b[4h\x1b[31mx\x1b[?1049hfull\x1b(0\r\nq",
        ] {
            let terminal = played(&draw(&capture()), before);
            assert_eq!(
                shown(&terminal),
                ["0123456789", "abc", "", "\u{65e5}\u{672c}"]
            );
            let cursor = terminal.cursor();
            assert_eq!((cursor.col, cursor.row), (3, 2), "{before:?}");
        }
        // A wrapped line is contiguous in the bytes.
        let bytes = String::from_utf8(draw(&capture())).unwrap();
        assert!(bytes.contains("0123456789abc"), "{bytes:?}");
    }

    #[test]
    fn the_alternate_screen_covers_the_primary_one() {
        let capture = Capture {
            numbers: PaneNumbers {
                alternate: true,
                ..capture().numbers
            },
            saved: Some(SavedScreen {
                cursor: Cursor { x: 2, y: 1 },
                rows: rows(&[("$ vi", false), ("", false), ("", false), ("", false)]),
            }),
            ..capture()
        };
        let mut terminal = played(&draw(&capture), "");
        assert_eq!(shown(&terminal)[0], "0123456789");
        terminal.feed("\x1b[?1049l");
        assert_eq!(shown(&terminal), ["$ vi", "", "", ""]);
        assert_eq!((terminal.cursor().col, terminal.cursor().row), (2, 1));
    }

    #[test]
    fn the_stream_continues_within_a_partial_sequence() {
        let sync_point = SyncPoint {
            capture: capture(),
            modes: TerminalModes {
                region: (1, 2),
                origin: true,
                ..TerminalModes::default()
            },
            pending: b"\x1b[1;".to_vec(),
            ..SyncPoint::default()
        };
        let mut terminal = played(&draw_screen(&sync_point), "");
        assert_eq!((terminal.cursor().col, terminal.cursor().row), (3, 2));
        terminal.feed("2Hx\r\n\nlast");
        assert_eq!(shown(&terminal)[..3], ["0123456789", "", "last"]);
    }
}
