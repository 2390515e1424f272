//! What programs print, as lines: text comes in pieces, and a carriage return takes a line back (pure).
//!
//! `\n` and `\r\n` end a line. After any other `\r` what follows replaces the line so far, as a
//! progress bar wants it: of `10%\r50%\r100%\n` the line is `100%`. A row of returns is one, and one
//! with nothing behind it replaces nothing yet.
//!
//! What is held is bounded: an open line that grows beyond a bound is said in parts, and where there
//! are too many streams, the one that was silent for longest has its line ended.

use memchr::{memchr, memchr_iter, memrchr};

use super::clean::are_printable;
use super::sgr::Paint;

/// An open line is said in parts of about this size: hundreds of screens' rows, and nothing to the
/// memory.
const OPEN_BYTES_MAX: usize = 64 * 1024;

/// Streams that are told apart: two for each of more programs than anybody watches in one place.
const STREAMS_MAX: usize = 64;

/// What kind of text it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Child,
    Check,
    Model,
}

/// How far a line has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Whole, it had its line end.
    Ended,
    /// It had none, and nothing will come any more.
    Open,
    /// Longer than what is held: it goes on.
    GoesOn,
}

/// A line, or a part of one.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub execution_id: &'a str,
    pub stream: &'a str,
    /// As it was printed: with all that is in it.
    pub text: &'a str,
    /// What goes on with a part, which was said before.
    pub is_rest: bool,
    pub end: End,
    /// The same for all lines of a stream, and for no other's.
    pub number: u64,
    paint: &'a mut Paint,
}

impl Line<'_> {
    /// Adds the text as it may be shown. Each line is to be pushed, once: it says what colours the
    /// next one begins with.
    pub fn push(&mut self, out: &mut String, coloured: bool) {
        self.paint.push(out, self.text, coloured);
        if self.end != End::GoesOn {
            self.paint.end_line();
        }
    }

    /// Whether the line is none where nothing of it is to be seen: a program that only showed the
    /// cursor again, or the end of parts.
    pub fn is_optional(&self) -> bool {
        self.is_rest || self.end == End::Open
    }
}

/// The line that was written to last, of those that are open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live<'a> {
    of: &'a Stream,
}

impl<'a> Live<'a> {
    pub fn execution_id(self) -> &'a str {
        &self.of.execution_id
    }

    pub fn stream(self) -> &'a str {
        &self.of.name
    }

    /// A model says it.
    pub fn is_models(self) -> bool {
        self.of.origin == Origin::Model
    }

    /// Adds the text as it may be shown.
    pub fn push(self, out: &mut String, coloured: bool) {
        self.of.paint.clone().push(out, &self.of.open, coloured);
    }
}

/// The open lines of all streams.
#[derive(Debug, Default)]
pub(super) struct OpenLines {
    streams: Vec<Stream>,
    /// Counts pieces, and with them streams.
    count: u64,
}

#[derive(Debug)]
struct Stream {
    execution_id: String,
    origin: Origin,
    name: String,
    number: u64,
    /// When it said something last.
    touched: u64,
    open: String,
    /// A carriage return came last: half a line end, or what follows replaces the line.
    has_return: bool,
    /// A part of the line was said already.
    is_rest: bool,
    paint: Paint,
}

impl OpenLines {
    /// Takes the next piece of a stream; says the lines that are whole now.
    pub fn push(
        &mut self,
        execution_id: &str,
        origin: Origin,
        name: &str,
        text: &str,
        say: &mut dyn FnMut(Line<'_>),
    ) {
        self.count += 1;
        let is_it = |stream: &Stream| {
            stream.origin == origin && stream.name == name && stream.execution_id == execution_id
        };
        let at = match self.streams.iter().position(is_it) {
            Some(at) => at,
            None => {
                self.make_room(say);
                self.streams.push(Stream {
                    execution_id: execution_id.to_owned(),
                    origin,
                    name: name.to_owned(),
                    number: self.count,
                    touched: self.count,
                    open: String::new(),
                    has_return: false,
                    is_rest: false,
                    paint: Paint::default(),
                });
                self.streams.len() - 1
            }
        };
        let stream = &mut self.streams[at];
        stream.touched = self.count;
        stream.take(text, say);
    }

    /// The whole lines that a piece begins with, where they are printable ASCII and stand for
    /// themselves, as nearly all do: they may be shown as they are, and need not be pushed.
    pub fn plain<'t>(
        &self,
        execution_id: &str,
        origin: Origin,
        name: &str,
        text: &'t str,
    ) -> Option<&'t str> {
        let is_fresh = self.streams.iter().all(|stream| {
            stream.is_fresh() && stream.paint.is_clean()
                || stream.origin != origin
                || stream.name != name
                || stream.execution_id != execution_id
        });
        let end = memrchr(b'\n', text.as_bytes()).filter(|_| is_fresh)? + 1;
        let lines = &text[..end];
        are_printable(lines).then_some(lines)
    }

    /// Ends the open lines of what is over, in the order in which their streams began.
    pub fn end(&mut self, is_over: impl Fn(&str, Origin) -> bool, say: &mut dyn FnMut(Line<'_>)) {
        self.streams.retain_mut(|stream| {
            let is_over = is_over(&stream.execution_id, stream.origin);
            if is_over {
                stream.end(say);
            }
            !is_over
        });
    }

    /// The open line that was written to last.
    pub fn live(&self) -> Option<Live<'_>> {
        let open = self.streams.iter().filter(|stream| !stream.open.is_empty());
        open.max_by_key(|stream| stream.touched)
            .map(|of| Live { of })
    }

    fn make_room(&mut self, say: &mut dyn FnMut(Line<'_>)) {
        if self.streams.len() < STREAMS_MAX {
            return;
        }
        let streams = self.streams.iter().enumerate();
        if let Some((at, _)) = streams.min_by_key(|(_, stream)| stream.touched) {
            self.streams.remove(at).end(say);
        }
    }
}

impl Stream {
    /// Nothing of a line is held, or was said.
    fn is_fresh(&self) -> bool {
        self.open.is_empty() && !self.has_return && !self.is_rest
    }

    fn take(&mut self, text: &str, say: &mut dyn FnMut(Line<'_>)) {
        let mut start = 0;
        for end in memchr_iter(b'\n', text.as_bytes()) {
            let line = &text[start..end];
            start = end + 1;
            if self.is_fresh() && memchr(b'\r', line.as_bytes()).is_none() {
                // Nearly all lines, as they stand in the piece.
                self.say(line, End::Ended, say);
            } else {
                self.add(line, say);
                self.say_open(End::Ended, say);
            }
        }
        self.add(&text[start..], say);
    }

    /// Adds text without a line end to the open line.
    fn add(&mut self, text: &str, say: &mut dyn FnMut(Line<'_>)) {
        let shown = text.trim_end_matches('\r');
        if !shown.is_empty() {
            let mut last = shown;
            let at = memrchr(b'\r', shown.as_bytes());
            if self.has_return || at.is_some() {
                // Colours stay in force, whatever they were given to.
                self.paint.absorb(&self.open);
                if self.has_return {
                    self.paint.end_line();
                }
                if let Some(at) = at {
                    // A return ends a sequence that is open, wherever the text is cut.
                    for part in shown[..at].split('\r') {
                        self.paint.absorb(part);
                        self.paint.end_line();
                    }
                    last = &shown[at + 1..];
                }
                self.paint.end_line();
                self.open.clear();
                if self.is_rest {
                    // What was said is said; a line for itself.
                    self.say("", End::Ended, say);
                }
            }
            self.has_return = false;
            while self.open.len() + last.len() > OPEN_BYTES_MAX {
                let room = OPEN_BYTES_MAX.saturating_sub(self.open.len());
                let (part, rest) = last.split_at(boundary(last, room));
                self.open.push_str(part);
                last = rest;
                self.say_open(End::GoesOn, say);
            }
            self.open.push_str(last);
        }
        self.has_return |= shown.len() < text.len();
    }

    fn end(&mut self, say: &mut dyn FnMut(Line<'_>)) {
        if !self.open.is_empty() || self.is_rest {
            self.say_open(End::Open, say);
        }
    }

    fn say_open(&mut self, end: End, say: &mut dyn FnMut(Line<'_>)) {
        let mut open = std::mem::take(&mut self.open);
        if end != End::GoesOn {
            self.has_return = false;
        }
        self.say(&open, end, say);
        open.clear();
        self.open = open;
    }

    fn say(&mut self, text: &str, end: End, say: &mut dyn FnMut(Line<'_>)) {
        let is_rest = std::mem::replace(&mut self.is_rest, end == End::GoesOn);
        say(Line {
            execution_id: &self.execution_id,
            stream: &self.name,
            text,
            is_rest,
            end,
            number: self.number,
            paint: &mut self.paint,
        });
    }
}

/// Where the character begins that this byte is of.
fn boundary(text: &str, at: usize) -> usize {
    let is_boundary = |at: &usize| text.is_char_boundary(*at);
    (0..=at.min(text.len()))
        .rev()
        .find(is_boundary)
        .unwrap_or(0)
}

#[cfg(test)]
#[path = "stream_lines_tests.rs"]
mod tests;
