//! Encodes the bytes of one pane as a recording: completes characters, joins bursts and redacts
//! secrets (pure).

use super::encoder::{Encoder, EventCode};
use crate::redact::{Rules, TerminalStream};
use crate::text::first_bytes;
use crate::timestamp::Timestamp;

/// Columns and rows of a terminal.
pub(super) type TerminalSize = (u32, u32);

/// Output within this time becomes one event: one frame of the fastest screens. A flood of a
/// million lines becomes some hundred events, and viewers see no difference.
pub(super) const BURST_MICROS: i64 = 16_000;
/// The longest text of an event: players and readers accept lines of this length.
const EVENT_BYTES_MAX: usize = 64 * 1024;
/// The largest width or height of a pane in tmux; readers of the format accept at most 65,535.
const SIDE_MAX: u32 = 10_000;
/// The size of a recording that begins without one.
pub(super) const DEFAULT_SIZE: TerminalSize = (80, 24);

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
    size: TerminalSize,
    /// The first bytes of a character whose rest has not arrived.
    partial_char: Vec<u8>,
    /// Text that is not written yet, and the time of its first byte.
    burst: String,
    burst_at: Timestamp,
    /// The time of the last input.
    now: Timestamp,
    redacted: TerminalStream,
}

impl PaneEncoder {
    pub fn new(title: Option<String>, rules: Rules) -> Self {
        Self {
            encoder: Encoder::new(title, None),
            size: DEFAULT_SIZE,
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
            self.resized(size, at, out);
            self.redacted.skip();
        } else {
            self.write_header(size, at, out);
        }
        self.bytes(screen, at, out);
        // The drawn screen is an event of its own.
        self.flush(out);
    }

    /// Takes output of the pane.
    pub fn bytes(&mut self, bytes: &[u8], at: Timestamp, out: &mut String) {
        if bytes.is_empty() {
            return;
        }
        self.write_header(DEFAULT_SIZE, at, out);
        self.now = at;
        if !self.is_in_burst(at) || self.burst.len() >= EVENT_BYTES_MAX {
            self.flush(out);
        }
        if self.burst.is_empty() {
            self.burst_at = at;
        }
        if self.partial_char.is_empty() {
            push_text(bytes, &mut self.burst, &mut self.partial_char);
        } else {
            let mut whole = std::mem::take(&mut self.partial_char);
            whole.extend_from_slice(bytes);
            push_text(&whole, &mut self.burst, &mut self.partial_char);
        }
    }

    /// Takes a new size of the pane.
    pub fn resized(&mut self, size: TerminalSize, at: Timestamp, out: &mut String) {
        self.write_header(size, at, out);
        let size = clamped(size);
        if self.size != size {
            self.size = size;
            self.end_burst(at, out);
            self.encoder.event(EventCode::Resize, &size_text(size), out);
        }
    }

    /// Marks missing output.
    pub fn missing(&mut self, missing: MissingOutput, at: Timestamp, out: &mut String) {
        self.write_header(DEFAULT_SIZE, at, out);
        self.end_partial_char();
        self.end_burst(at, out);
        self.redacted.skip();
        self.encoder
            .event(EventCode::Marker, &missing.marker(), out);
    }

    /// Ends the recording together with the pane's program.
    pub fn ended(&mut self, exit_status: Option<i32>, at: Timestamp, out: &mut String) {
        self.write_header(DEFAULT_SIZE, at, out);
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

    /// Returns `true` if a burst is not written yet.
    pub fn is_pending(&self) -> bool {
        !self.burst.is_empty()
    }

    fn write_header(&mut self, size: TerminalSize, at: Timestamp, out: &mut String) {
        if self.encoder.has_header() {
            return;
        }
        self.size = clamped(size);
        let second = at.seconds().max(0) * 1_000_000;
        self.encoder.advance_to(Timestamp::from_micros(second));
        self.encoder.write_header(self.size, out);
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

    /// Returns `true` if output of this time belongs to the current burst.
    fn is_in_burst(&self, at: Timestamp) -> bool {
        let age = at.micros().saturating_sub(self.burst_at.micros());
        (0..BURST_MICROS).contains(&age)
    }
}

/// Returns a size as resize events contain it.
pub(super) fn size_text((columns, rows): TerminalSize) -> String {
    format!("{columns}x{rows}")
}

fn clamped((columns, rows): TerminalSize) -> TerminalSize {
    (columns.clamp(1, SIDE_MAX), rows.clamp(1, SIDE_MAX))
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
