//! The bytes of one pane as lines of a tape: characters whole, bursts joined, secrets taken out (pure).

use super::encoder::{Code, Tape};
use crate::redact::{Rules, TerminalStream};
use crate::timestamp::Timestamp;

/// Columns and rows.
pub(crate) type Size = (u32, u32);

/// Output that comes within so many microseconds is one event: a frame of the quickest screens. A
/// flood of a million lines is some hundred events then, and nobody sees the difference.
pub(crate) const BURST_MICROS: i64 = 16_000;
/// How long an event's text may be: players and readers take lines of this length.
const EVENT_BYTES_MAX: usize = 64 * 1024;
/// The largest side of a pane that tmux makes; the format's readers take no more than 65,535.
const SIDE_MAX: u32 = 10_000;
/// The size where none was said.
const DEFAULT_SIZE: Size = (80, 24);

/// What is not on the tape, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Missing {
    pub bytes: u64,
    /// Line ends among them.
    pub line_ends: u64,
}

/// One pane's tape while it is written.
///
/// The time of a burst is that of its first byte. Times in the file are true: its `timestamp` is a
/// whole second, and the first event tells how long after it the tape begins.
#[derive(Debug)]
pub(crate) struct Recording {
    tape: Tape,
    size: Size,
    /// The beginning of a character.
    cut: Vec<u8>,
    /// Text that is not written yet, and since when it has been coming.
    burst: String,
    burst_at: Timestamp,
    /// The latest time that was said.
    at: Timestamp,
    masked: TerminalStream,
}

impl Recording {
    pub fn new(title: Option<String>, rules: Rules) -> Self {
        Self {
            tape: Tape::new(title, None),
            size: DEFAULT_SIZE,
            cut: Vec::new(),
            burst: String::new(),
            burst_at: Timestamp::default(),
            at: Timestamp::default(),
            masked: TerminalStream::new(rules),
        }
    }

    /// The pane has this size, and these bytes draw what it shows: at the beginning, and where it
    /// is taken up anew.
    pub fn begin(&mut self, size: Size, screen: &[u8], at: Timestamp, out: &mut String) {
        if self.tape.is_open() {
            self.resized(size, at, out);
            self.masked.skip();
        } else {
            self.open(size, at, out);
        }
        self.bytes(screen, at, out);
        // What was drawn at once is an event of its own.
        self.flush(out);
    }

    /// The pane has printed this.
    pub fn bytes(&mut self, bytes: &[u8], at: Timestamp, out: &mut String) {
        if bytes.is_empty() {
            return;
        }
        self.open(DEFAULT_SIZE, at, out);
        self.at = at;
        let is_another = !self.is_in_burst(at) || self.burst.len() >= EVENT_BYTES_MAX;
        if is_another {
            self.flush(out);
        }
        if self.burst.is_empty() {
            self.burst_at = at;
        }
        if self.cut.is_empty() {
            push_text(bytes, &mut self.burst, &mut self.cut);
        } else {
            let mut whole = std::mem::take(&mut self.cut);
            whole.extend_from_slice(bytes);
            push_text(&whole, &mut self.burst, &mut self.cut);
        }
    }

    /// The pane has another size.
    pub fn resized(&mut self, size: Size, at: Timestamp, out: &mut String) {
        self.open(size, at, out);
        let size = checked(size);
        if self.size != size {
            self.size = size;
            self.break_at(at, out);
            let data = format!("{}x{}", size.0, size.1);
            self.tape.event(Code::Resize, &data, out);
        }
    }

    /// Bytes are not on the tape here.
    pub fn missing(&mut self, missing: &Missing, at: Timestamp, out: &mut String) {
        self.open(DEFAULT_SIZE, at, out);
        self.end_cut();
        self.break_at(at, out);
        self.masked.skip();
        self.tape.event(Code::Marker, &missing.words(), out);
    }

    /// The pane's program has ended; nothing follows.
    pub fn ended(&mut self, exit_status: Option<i32>, at: Timestamp, out: &mut String) {
        self.open(DEFAULT_SIZE, at, out);
        self.end_cut();
        self.break_at(at, out);
        match exit_status {
            Some(status) => self.tape.event(Code::Exit, &status.to_string(), out),
            None => self.finish(out),
        }
    }

    /// Writes what has been joined for long enough by now.
    pub fn flush_due(&mut self, now: Timestamp, out: &mut String) {
        if !self.is_in_burst(now) {
            self.flush(out);
        }
    }

    /// Writes all that can be written: nothing may follow for long.
    pub fn flush(&mut self, out: &mut String) {
        if self.burst.is_empty() {
            return;
        }
        self.tape.at(self.burst_at);
        let text = self.masked.push(&self.burst);
        let mut rest: &str = &text;
        while !rest.is_empty() {
            let mut end = rest.len().min(EVENT_BYTES_MAX);
            while !rest.is_char_boundary(end) {
                end -= 1;
            }
            self.tape.event(Code::Output, &rest[..end], out);
            rest = &rest[end..];
        }
        self.burst.clear();
        self.burst.shrink_to(EVENT_BYTES_MAX);
    }

    /// The tape ends here, whatever the pane does.
    pub fn finish(&mut self, out: &mut String) {
        if !self.tape.is_open() {
            return;
        }
        self.end_cut();
        self.flush(out);
        self.tape.at(self.at);
        if self.tape.is_behind() {
            // It lasted until here, although nothing was to be seen any more.
            self.tape.event(Code::Output, "", out);
        }
    }

    /// Whether there is something to be written yet.
    pub fn is_pending(&self) -> bool {
        !self.burst.is_empty()
    }

    fn open(&mut self, size: Size, at: Timestamp, out: &mut String) {
        if self.tape.is_open() {
            return;
        }
        self.size = checked(size);
        let second = at.micros().div_euclid(1_000_000).max(0) * 1_000_000;
        self.tape.at(Timestamp::from_micros(second));
        let (columns, rows) = self.size;
        self.tape.open((columns as usize, rows as usize), out);
        self.at = at;
    }

    /// What follows is no output.
    fn break_at(&mut self, at: Timestamp, out: &mut String) {
        self.flush(out);
        self.tape.at(at);
        self.at = at;
    }

    /// The rest of a character will not come.
    fn end_cut(&mut self) {
        if !self.cut.is_empty() {
            self.cut.clear();
            if self.burst.is_empty() {
                self.burst_at = self.at;
            }
            self.burst.push(char::REPLACEMENT_CHARACTER);
        }
    }

    /// Whether a byte of this time belongs to what is being joined.
    fn is_in_burst(&self, at: Timestamp) -> bool {
        let age = at.micros().saturating_sub(self.burst_at.micros());
        (0..BURST_MICROS).contains(&age)
    }
}

impl Missing {
    /// As people read it.
    pub fn words(&self) -> String {
        let Self { bytes, line_ends } = self;
        match (bytes, line_ends) {
            (0, 0) => "something is missing here".to_owned(),
            _ => format!("{bytes} bytes are missing here, {line_ends} line ends among them"),
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.line_ends = self.line_ends.saturating_add(other.line_ends);
    }
}

fn checked((columns, rows): Size) -> Size {
    (columns.clamp(1, SIDE_MAX), rows.clamp(1, SIDE_MAX))
}

/// Adds bytes as text, what is no UTF-8 as U+FFFD; the beginning of a character at their end is
/// left for what follows.
fn push_text(bytes: &[u8], text: &mut String, cut: &mut Vec<u8>) {
    text.reserve(bytes.len());
    let mut chunks = bytes.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        text.push_str(chunk.valid());
        let invalid = chunk.invalid();
        if invalid.is_empty() {
            continue;
        }
        let is_beginning = chunks.peek().is_none()
            && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
        if is_beginning {
            cut.extend_from_slice(invalid);
        } else {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
}
