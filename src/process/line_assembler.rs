//! Turns a stream of bytes into text for events: complete lines immediately, open lines after a delay,
//! progress lines in their present state (pure).
//!
//! The text equals the printed text, with three exceptions. Bytes that are not UTF-8 become `\u{fffd}` and
//! are counted. A line that is rewritten with carriage returns is reported in states, not with each rewrite;
//! text that begins with `\r` replaces the reported text of the line. A state is *transient* while a newer
//! one may follow soon; the history gets one state per second, and always the last one.

use std::time::{Duration, Instant};

use super::utf8::Utf8Decoder;

/// The delay after which an open line is reported. The console merges text for as long.
pub(super) const OPEN_LINE_DELAY: Duration = Duration::from_millis(100);

/// The interval at which the history gets states of a rewritten line; the same as for lines of panes.
pub(super) const KEEP_EVERY: Duration = Duration::from_secs(1);

/// A longer line is reported in parts, and a reported part cannot be rewritten.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Assembles the lines of one stream.
#[derive(Debug, Default)]
pub(super) struct LineAssembler {
    /// Line ends arrive as `\r\n`, as terminals write them, and are reported as `\n`.
    is_terminal: bool,
    decoder: Utf8Decoder,
    /// Text for the next [`LineAssembler::take_ready`].
    ready: String,
    /// The present state of the open line.
    line: String,
    /// The byte at which the next text overwrites the line, after a carriage return. `None` is its end.
    column: Option<usize>,
    /// The beginning of the open line was dropped because of its length.
    is_long: bool,
    /// The line is printable ASCII, so a byte is a column.
    is_plain: bool,
    reported: Reported,
    /// The time of the first change since the line was last reported.
    changed_at: Option<Instant>,
    /// When the open line was last reported.
    reported_at: Option<Instant>,
    /// When a state was last kept in the history.
    kept_at: Option<Instant>,
    /// A newer state was reported as transient since.
    is_behind: bool,
}

/// The reported state of the open line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reported {
    #[default]
    Nothing,
    /// This number of its first bytes, which have not changed.
    Prefix(usize),
    /// Text that has been overwritten.
    Overwritten,
}

impl LineAssembler {
    pub fn new(is_terminal: bool) -> Self {
        Self {
            is_terminal,
            is_plain: true,
            ..Self::default()
        }
    }

    /// Adds bytes, which may be split anywhere.
    pub fn push(&mut self, bytes: &[u8], now: Instant) {
        let mut decoder = std::mem::take(&mut self.decoder);
        decoder.push(bytes, |text| self.text(text, now));
        self.decoder = decoder;
    }

    fn text(&mut self, text: &str, now: Instant) {
        if text.is_empty() {
            return;
        }
        let mut rest = text;
        if self.column.is_none() && memchr::memchr(b'\r', text.as_bytes()).is_none() {
            // Complete lines are reported as they are.
            if let Some(last) = memchr::memrchr(b'\n', text.as_bytes()) {
                let (complete, open) = text.split_at(last + 1);
                self.report();
                self.ready.push_str(complete);
                self.begin_line();
                rest = open;
            }
            return self.write(rest, now);
        }
        while let Some(at) = memchr::memchr2(b'\r', b'\n', rest.as_bytes()) {
            self.write(&rest[..at], now);
            if rest.as_bytes()[at] == b'\n' {
                self.end_line();
            } else {
                self.column = Some(0);
            }
            rest = &rest[at + 1..];
        }
        self.write(rest, now);
    }

    /// Writes into the open line as a terminal does.
    fn write(&mut self, text: &str, now: Instant) {
        if text.is_empty() {
            return;
        }
        let is_plain = text.bytes().all(|b| matches!(b, b' '..=b'~'));
        match self.column.take() {
            None => self.line.push_str(text),
            Some(at) => {
                if std::mem::take(&mut self.is_long) {
                    self.line.clear();
                    self.reported = Reported::Overwritten;
                } else if matches!(self.reported, Reported::Prefix(bytes) if at < bytes) {
                    self.reported = Reported::Overwritten;
                }
                let end = at + text.len();
                if self.is_plain && is_plain && end < self.line.len() {
                    self.line.replace_range(at..end, text);
                    self.column = Some(end);
                } else {
                    // Drop the rest of the line. Coloured text usually erases the line; if not, the old rest
                    // would be wrong as well.
                    self.line.truncate(at);
                    self.is_plain = self.is_plain || at == 0;
                    self.line.push_str(text);
                }
            }
        }
        self.is_plain &= is_plain;
        self.changed_at.get_or_insert(now);
        if self.line.len() > LINE_BYTES_MAX {
            self.report();
            self.line.clear();
            (self.column, self.is_plain) = (None, true);
            (self.reported, self.is_long) = (Reported::Prefix(0), true);
            self.changed_at = None;
        }
    }

    fn end_line(&mut self) {
        let has_return = self.column == Some(0) && !self.is_terminal;
        self.report();
        self.ready.push_str(if has_return { "\r\n" } else { "\n" });
        self.begin_line();
    }

    /// Appends the unreported part of the line to the ready text.
    fn report(&mut self) {
        match self.reported {
            Reported::Nothing => self.ready.push_str(&self.line),
            Reported::Prefix(bytes) => self.ready.push_str(&self.line[bytes..]),
            Reported::Overwritten => {
                self.ready.push('\r');
                self.ready.push_str(&self.line);
            }
        }
        self.reported = Reported::Prefix(self.line.len());
    }

    fn begin_line(&mut self) {
        self.line.clear();
        (self.column, self.is_plain, self.is_long) = (None, true, false);
        self.reported = Reported::Nothing;
        (self.changed_at, self.reported_at) = (None, None);
        (self.kept_at, self.is_behind) = (None, false);
    }

    /// Reports the open line when its delay is over: appends it to the ready text, or returns a transient
    /// state of it.
    pub fn tick(&mut self, now: Instant) -> Option<String> {
        self.due().filter(|due| now >= *due)?;
        self.report_open_line(now)
    }

    /// Reports the open line before its delay is over, because the writer flushes it. States of a rewritten
    /// line keep their interval.
    pub fn flush(&mut self, now: Instant) -> Option<String> {
        let is_early = self
            .reported_at
            .is_some_and(|at| now < at + OPEN_LINE_DELAY);
        if self.due().is_none() || (self.reported == Reported::Overwritten && is_early) {
            return None;
        }
        self.report_open_line(now)
    }

    fn report_open_line(&mut self, now: Instant) -> Option<String> {
        self.reported_at = Some(now);
        let may_keep = self.kept_at.is_none_or(|at| now >= at + KEEP_EVERY);
        self.changed_at = None;
        if self.reported == Reported::Overwritten && !may_keep {
            self.is_behind = true;
            return Some(format!("\r{}", self.line));
        }
        if self.reported == Reported::Overwritten {
            self.kept_at = Some(now);
        }
        self.is_behind = false;
        self.report();
        None
    }

    /// Returns the time of the next [`LineAssembler::tick`].
    pub fn due(&self) -> Option<Instant> {
        let open = self.changed_at.map(|at| at + OPEN_LINE_DELAY);
        let kept = self.kept_at.filter(|_| self.is_behind);
        let kept = kept.map(|at| at + KEEP_EVERY);
        [open, kept].into_iter().flatten().min()
    }

    /// Reports the rest at the end of the stream.
    pub fn finish(&mut self, now: Instant) {
        let mut decoder = std::mem::take(&mut self.decoder);
        decoder.finish(|text| self.write(text, now));
        self.decoder = decoder;
        self.report();
        self.begin_line();
    }

    pub fn ready(&self) -> &str {
        &self.ready
    }

    pub fn take_ready(&mut self) -> String {
        std::mem::take(&mut self.ready)
    }

    /// Returns the number of places that were not UTF-8.
    pub fn invalid(&self) -> u64 {
        self.decoder.invalid
    }
}

#[cfg(test)]
#[path = "line_assembler_tests.rs"]
mod tests;
