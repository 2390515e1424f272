//! Encodes the bytes of one pane as a recording: completes characters, joins bursts and redacts
//! secrets (pure).

use std::borrow::Cow;
use std::fmt::Write;

use super::encoder::{Encoder, EventCode, TerminalSize, clamped};
use crate::event::Cursor;
use crate::redact::{Rules, TerminalStream};
use crate::text::first_bytes;
use crate::timestamp::Timestamp;
use crate::track::{Row, SyncPoint, TerminalModes};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Output within this time becomes one event: one frame of the fastest screens. A flood of a
/// million lines becomes some hundred events, and viewers see no difference.
pub(super) const BURST_MICROS: i64 = 16_000;
/// The longest text of an event: players and readers accept lines of this length.
const EVENT_BYTES_MAX: usize = 64 * 1024;

/// Output that is missing from a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MissingOutput {
    pub bytes: u64,
    /// Line ends among the bytes.
    pub line_ends: u64,
}

impl MissingOutput {
    pub fn add(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.line_ends = self.line_ends.saturating_add(other.line_ends);
    }

    /// Returns the text of the marker.
    fn marker(self) -> String {
        match (self.bytes, self.line_ends) {
            (0, 0) => "something is missing here".to_owned(),
            (bytes, line_ends) => {
                format!("{bytes} bytes are missing here, {line_ends} line ends among them")
            }
        }
    }
}

/// Encodes the recording of one pane.
///
/// A burst has the time of its first byte. Times in the file are exact: the header's `timestamp` is
/// a whole second, and the first interval leads from there to the first event.
#[derive(Debug)]
pub(super) struct PaneEncoder {
    encoder: Encoder,
    /// The first bytes of a character whose rest has not arrived.
    partial_char: Vec<u8>,
    /// Text that is not written yet, and the time of its first byte.
    pub burst: String,
    burst_at: Timestamp,
    /// The time of the last input.
    now: Timestamp,
    redacted: TerminalStream,
}

impl PaneEncoder {
    pub fn new(title: Option<String>, rules: Rules) -> Self {
        Self {
            encoder: Encoder::new(title, None),
            partial_char: Vec::new(),
            burst: String::new(),
            burst_at: Timestamp::default(),
            now: Timestamp::default(),
            redacted: TerminalStream::new(rules),
        }
    }

    /// Begins the recording, or resumes it after missing output: `screen` draws what the pane
    /// shows.
    pub fn begin(&mut self, size: TerminalSize, screen: &[u8], at: Timestamp, out: &mut String) {
        if self.encoder.has_header() {
            self.redacted.skip();
        }
        self.resized(size, at, out);
        self.bytes(screen, at, out);
        // The drawn screen is an event of its own.
        self.flush(out);
    }

    /// Takes output of the pane.
    pub fn bytes(&mut self, bytes: &[u8], at: Timestamp, out: &mut String) {
        if bytes.is_empty() {
            return;
        }
        self.write_header(self.encoder.size, at, out);
        self.now = at;
        if !self.is_in_burst(at) || self.burst.len() >= EVENT_BYTES_MAX {
            self.flush(out);
        }
        if self.burst.is_empty() {
            self.burst_at = at;
        }
        let mut whole = Cow::Borrowed(bytes);
        if !self.partial_char.is_empty() {
            whole = [std::mem::take(&mut self.partial_char).as_slice(), bytes]
                .concat()
                .into();
        }
        push_text(&whole, &mut self.burst, &mut self.partial_char);
    }

    /// Takes a new size of the pane.
    pub fn resized(&mut self, size: TerminalSize, at: Timestamp, out: &mut String) {
        self.write_header(size, at, out);
        if self.encoder.size != clamped(size) {
            self.end_burst(at, out);
            self.encoder.resize(size, out);
        }
    }

    /// Marks missing output.
    pub fn missing(&mut self, missing: MissingOutput, at: Timestamp, out: &mut String) {
        self.write_header(self.encoder.size, at, out);
        self.end_partial_char();
        self.end_burst(at, out);
        self.redacted.skip();
        self.encoder
            .event(EventCode::Marker, &missing.marker(), out);
    }

    /// Ends the recording together with the pane's program.
    pub fn ended(&mut self, exit_status: Option<i32>, at: Timestamp, out: &mut String) {
        self.write_header(self.encoder.size, at, out);
        self.end_partial_char();
        self.end_burst(at, out);
        match exit_status {
            Some(status) => self
                .encoder
                .event(EventCode::Exit, &status.to_string(), out),
            None => self.finish(out),
        }
    }

    /// Writes the current burst if it is complete at `now`.
    pub fn flush_due(&mut self, now: Timestamp, out: &mut String) {
        if !self.is_in_burst(now) {
            self.flush(out);
        }
    }

    /// Writes the current burst.
    pub fn flush(&mut self, out: &mut String) {
        if self.burst.is_empty() {
            return;
        }
        self.encoder.advance_to(self.burst_at);
        let text = self.redacted.push(&self.burst);
        let mut rest: &str = &text;
        while !rest.is_empty() {
            let piece = first_bytes(rest, EVENT_BYTES_MAX);
            self.encoder.event(EventCode::Output, piece, out);
            rest = &rest[piece.len()..];
        }
        self.burst.clear();
        self.burst.shrink_to(EVENT_BYTES_MAX);
    }

    /// Ends the recording while the pane may continue.
    pub fn finish(&mut self, out: &mut String) {
        if !self.encoder.has_header() {
            return;
        }
        self.end_partial_char();
        self.end_burst(self.now, out);
        if self.encoder.has_unwritten_time() {
            // An empty event makes the recording last until here.
            self.encoder.event(EventCode::Output, "", out);
        }
    }

    fn write_header(&mut self, size: TerminalSize, at: Timestamp, out: &mut String) {
        if self.encoder.has_header() {
            return;
        }
        let second = at.seconds().max(0) * 1_000_000;
        self.encoder.advance_to(Timestamp::from_micros(second));
        self.encoder.resize(size, out);
        self.now = at;
    }

    /// Writes the current burst before an event that is not output.
    fn end_burst(&mut self, at: Timestamp, out: &mut String) {
        self.flush(out);
        self.encoder.advance_to(at);
        self.now = at;
    }

    /// Replaces a character whose rest will not arrive.
    fn end_partial_char(&mut self) {
        if !self.partial_char.is_empty() {
            self.partial_char.clear();
            if self.burst.is_empty() {
                self.burst_at = self.now;
            }
            self.burst.push(char::REPLACEMENT_CHARACTER);
        }
    }

    fn is_in_burst(&self, at: Timestamp) -> bool {
        let age = at.micros().saturating_sub(self.burst_at.micros());
        (0..BURST_MICROS).contains(&age)
    }
}

/// Appends bytes as text, with U+FFFD in place of invalid UTF-8. The first bytes of a character at
/// the end go to `partial_char`.
fn push_text(bytes: &[u8], text: &mut String, partial_char: &mut Vec<u8>) {
    text.reserve(bytes.len());
    let mut chunks = bytes.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        text.push_str(chunk.valid());
        let invalid = chunk.invalid();
        if invalid.is_empty() {
            continue;
        }
        let is_partial = chunks.peek().is_none()
            && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
        if is_partial {
            partial_char.extend_from_slice(invalid);
        } else {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

// Draws a captured screen as terminal bytes: the beginning of a pane's recording (pure).

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
