//! One stream of bytes as text for events: whole lines at once, open ones after a moment, progress
//! as what it reads now (pure).
//!
//! The text says what was printed, with three changes. Bytes that are not UTF-8 read `\u{fffd}`
//! and are counted. A line that is rewritten with carriage returns is given as it reads, and not
//! each time: a text that begins with `\r` replaces what was given of the line. Such a state is
//! *passing* as long as a newer one may follow soon; of those, what is kept gets one a second, and
//! always the last.

use std::time::{Duration, Instant};

/// After this moment a line is shown that has no end yet: `003…` batches for as long.
pub(super) const OPEN_AFTER: Duration = Duration::from_millis(100);

/// So often the log takes another state of a line, as it does of a pane's.
pub(super) const KEPT_EVERY: Duration = Duration::from_secs(1);

/// A line beyond this is given in pieces, and what was given of it cannot be rewritten.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Marks bytes that are not UTF-8.
const REPLACEMENT: &str = "\u{fffd}";

/// The text of one stream.
#[derive(Debug)]
pub(super) struct Lines {
    /// Line ends are written `\r\n`, as terminals do, and read `\n`.
    is_terminal: bool,
    /// The beginning of a character whose end has not come.
    cut: Vec<u8>,
    /// Text that waits to be taken.
    ready: String,
    /// The open line, as it reads now.
    line: String,
    /// Where in the line the next text goes, after a carriage return; else at its end.
    at: Option<usize>,
    /// The open line is so long that what it begins with is not known any more.
    is_long: bool,
    /// The line is printable ASCII: a byte is a column.
    is_plain: bool,
    given: Given,
    /// When the line first changed since it was last given, or shown in passing.
    changed_at: Option<Instant>,
    /// When the line was last given or shown before its end.
    shown_at: Option<Instant>,
    /// When a state was last kept, and whether a newer one was shown in passing since.
    kept_at: Option<Instant>,
    is_behind: bool,
    invalid: u64,
}

/// What was given of the open line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given {
    Nothing,
    /// Its first bytes, which read the same still.
    Beginning(usize),
    /// Something that does not read so any more.
    Otherwise,
}

impl Lines {
    pub fn new(is_terminal: bool) -> Self {
        Self {
            is_terminal,
            cut: Vec::new(),
            ready: String::new(),
            line: String::new(),
            at: None,
            is_long: false,
            is_plain: true,
            given: Given::Nothing,
            changed_at: None,
            shown_at: None,
            kept_at: None,
            is_behind: false,
            invalid: 0,
        }
    }

    /// Takes bytes as they were read, cut anywhere.
    pub fn push(&mut self, bytes: &[u8], now: Instant) {
        if self.cut.is_empty() {
            return self.decode(bytes, now);
        }
        let mut joined = std::mem::take(&mut self.cut);
        joined.extend_from_slice(bytes);
        self.decode(&joined, now);
    }

    fn decode(&mut self, bytes: &[u8], now: Instant) {
        // As a rule all of it is valid, and that is found out at once.
        if let Ok(text) = std::str::from_utf8(bytes) {
            return self.text(text, now);
        }
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.text(chunk.valid(), now);
            let invalid = chunk.invalid();
            if chunks.peek().is_none() && is_beginning(invalid) {
                self.cut = invalid.to_vec();
            } else if !invalid.is_empty() {
                self.invalid += 1;
                self.text(REPLACEMENT, now);
            }
        }
    }

    fn text(&mut self, text: &str, now: Instant) {
        if text.is_empty() {
            return;
        }
        let mut rest = text;
        if self.at.is_none() && memchr::memchr(b'\r', text.as_bytes()).is_none() {
            // Whole lines, as they are.
            if let Some(last) = memchr::memrchr(b'\n', text.as_bytes()) {
                let (whole, open) = text.split_at(last + 1);
                self.give();
                self.ready.push_str(whole);
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
                self.at = Some(0);
            }
            rest = &rest[at + 1..];
        }
        self.write(rest, now);
    }

    /// Writes into the open line, as a terminal does.
    fn write(&mut self, text: &str, now: Instant) {
        if text.is_empty() {
            return;
        }
        let is_plain = text.bytes().all(|b| matches!(b, b' '..=b'~'));
        match self.at.take() {
            None => self.line.push_str(text),
            Some(at) => {
                if std::mem::take(&mut self.is_long) {
                    self.line.clear();
                    self.given = Given::Otherwise;
                } else if matches!(self.given, Given::Beginning(bytes) if at < bytes) {
                    self.given = Given::Otherwise;
                }
                let end = at + text.len();
                if self.is_plain && is_plain && end < self.line.len() {
                    self.line.replace_range(at..end, text);
                    self.at = Some(end);
                } else {
                    // What stands behind is gone: text with colours erases the line as a rule,
                    // and where it does not, a rest of the old line would be no better.
                    self.line.truncate(at);
                    self.is_plain = self.is_plain || at == 0;
                    self.line.push_str(text);
                }
            }
        }
        self.is_plain &= is_plain;
        self.changed_at.get_or_insert(now);
        if self.line.len() > LINE_BYTES_MAX {
            self.give();
            self.line.clear();
            (self.at, self.is_plain) = (None, true);
            (self.given, self.is_long) = (Given::Beginning(0), true);
            self.changed_at = None;
        }
    }

    fn end_line(&mut self) {
        let has_return = self.at == Some(0) && !self.is_terminal;
        self.give();
        self.ready.push_str(if has_return { "\r\n" } else { "\n" });
        self.begin_line();
    }

    /// Puts what is not given of the line behind what is ready.
    fn give(&mut self) {
        match self.given {
            Given::Nothing => self.ready.push_str(&self.line),
            Given::Beginning(bytes) => self.ready.push_str(&self.line[bytes..]),
            Given::Otherwise => {
                self.ready.push('\r');
                self.ready.push_str(&self.line);
            }
        }
        self.given = Given::Beginning(self.line.len());
    }

    fn begin_line(&mut self) {
        self.line.clear();
        (self.at, self.is_plain, self.is_long) = (None, true, false);
        self.given = Given::Nothing;
        (self.changed_at, self.shown_at) = (None, None);
        (self.kept_at, self.is_behind) = (None, false);
    }

    /// Puts the open line behind what is ready when its moment is over; or returns what it reads
    /// in passing.
    pub fn tick(&mut self, now: Instant) -> Option<String> {
        self.due().filter(|due| now >= *due)?;
        self.show(now)
    }

    /// The same before its moment is over, because whoever writes wants it to be seen; but no
    /// state of progress sooner after another.
    pub fn flush(&mut self, now: Instant) -> Option<String> {
        let is_early = self.shown_at.is_some_and(|at| now < at + OPEN_AFTER);
        if self.due().is_none() || (self.given == Given::Otherwise && is_early) {
            return None;
        }
        self.show(now)
    }

    fn show(&mut self, now: Instant) -> Option<String> {
        self.shown_at = Some(now);
        let may_keep = self.kept_at.is_none_or(|at| now >= at + KEPT_EVERY);
        self.changed_at = None;
        if self.given == Given::Otherwise && !may_keep {
            self.is_behind = true;
            let mut text = String::with_capacity(self.line.len() + 1);
            text.push('\r');
            text.push_str(&self.line);
            return Some(text);
        }
        if self.given == Given::Otherwise {
            self.kept_at = Some(now);
        }
        self.is_behind = false;
        self.give();
        None
    }

    /// When the open line is to be looked at again.
    pub fn due(&self) -> Option<Instant> {
        let shown = self.changed_at.map(|at| at + OPEN_AFTER);
        let kept = self.kept_at.filter(|_| self.is_behind);
        let kept = kept.map(|at| at + KEPT_EVERY);
        [shown, kept].into_iter().flatten().min()
    }

    /// The end: nothing is held back any more.
    pub fn finish(&mut self, now: Instant) {
        if !std::mem::take(&mut self.cut).is_empty() {
            self.invalid += 1;
            self.write(REPLACEMENT, now);
        }
        self.give();
        self.begin_line();
    }

    /// Text that waits to be taken.
    pub fn ready(&self) -> &str {
        &self.ready
    }

    /// Takes it.
    pub fn take_ready(&mut self) -> String {
        std::mem::take(&mut self.ready)
    }

    /// How often something was not UTF-8.
    pub fn invalid(&self) -> u64 {
        self.invalid
    }
}

/// Whether these bytes are the beginning of a character.
fn is_beginning(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
