//! Splits the text of streams into lines. Text arrives in pieces, and a carriage return replaces a line
//! (pure).
//!
//! `\n` and `\r\n` end a line. Text after any other `\r` replaces the line so far, as in progress bars:
//! `10%\r50%\r100%\n` is the line `100%`. Consecutive returns count as one, and a return without text after
//! it replaces nothing yet.
//!
//! Memory is bounded: a long open line is emitted in parts, and if there are too many streams, the stream
//! without text for the longest time is ended.

use memchr::{memchr_iter, memrchr};

use super::ansi::Painter;
use crate::event::{OutputStream, TdEvent};
use crate::text::first_bytes;

/// The size of a part of a long open line, in bytes: hundreds of screen rows, and little memory.
const OPEN_BYTES_MAX: usize = 64 * 1024;

/// The maximum number of streams to keep: two for each of 32 programs.
const STREAMS_MAX: usize = 64;

/// The kind of program that a stream belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Child,
    Check,
    Model,
}

/// The end of a line's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEnd {
    /// The line has a line end.
    Terminated,
    /// The stream has ended without a line end.
    Open,
    /// The line is too long to be held; its next part follows.
    Continues,
}

/// A line, or a part of one.
#[derive(Debug)]
pub(super) struct StreamLine<'a> {
    pub execution_id: &'a str,
    pub stream: &'a str,
    /// The text as printed, escape sequences included.
    pub text: &'a str,
    /// True if an earlier part of the line was emitted.
    pub is_continuation: bool,
    pub end: LineEnd,
    /// Identifies the stream.
    pub stream_number: u64,
    painter: &'a mut Painter,
}

impl StreamLine<'_> {
    /// Appends the text for display. Must be called exactly once per line, because the next line begins with
    /// the colours that are active at the end of this one.
    pub fn push(&mut self, out: &mut String, coloured: bool) {
        self.painter.push(out, self.text, coloured);
        if self.end != LineEnd::Continues {
            self.painter.end_line();
        }
    }

    /// Returns true if the line is dropped if it has no visible text: a program only showed the cursor again,
    /// or a line in parts has ended.
    pub fn is_optional(&self) -> bool {
        self.is_continuation || self.end == LineEnd::Open
    }
}

/// The open lines of all streams.
#[derive(Debug, Default)]
pub(super) struct StreamLines {
    streams: Vec<OpenStream>,
    /// The number of pieces so far. A stream's number is the count at its first piece.
    count: u64,
}

#[derive(Debug)]
pub(super) struct OpenStream {
    pub execution_id: String,
    pub origin: Origin,
    pub name: String,
    number: u64,
    /// The count at its last piece.
    touched: u64,
    open: String,
    /// True if the last character was a carriage return: half a line end, or the next text replaces the line.
    has_return: bool,
    /// True if a part of the line was emitted.
    is_continuation: bool,
    painter: Painter,
}

impl StreamLines {
    /// Processes the text of an event, and ends the lines that the event ends. Returns true if the event has
    /// text.
    pub fn push_event(&mut self, event: &TdEvent, emit: &mut dyn FnMut(StreamLine<'_>)) -> bool {
        let id = event.execution_id();
        // No event marks the end of a model's answer: any event but these ends it.
        let continues_answer = matches!(
            event,
            TdEvent::TokenReceived { .. }
                | TdEvent::Warning { .. }
                | TdEvent::AgentState { .. }
                | TdEvent::LogOpened { .. }
                | TdEvent::Unknown(_)
        );
        if !continues_answer {
            self.end_origin(id, Origin::Model, emit);
        }
        match event {
            TdEvent::TokenReceived { token, .. } => {
                self.push(
                    id,
                    Origin::Model,
                    OutputStream::Stdout.as_str(),
                    token,
                    emit,
                );
            }
            TdEvent::ExecutionOutput { stream, text, .. } => {
                self.push(id, Origin::Child, stream.as_str(), text, emit);
            }
            TdEvent::ValidationOutput {
                line, is_stderr, ..
            } => {
                let stream = if *is_stderr {
                    OutputStream::Stderr
                } else {
                    OutputStream::Stdout
                };
                let stream = stream.as_str();
                // The line in the event has no line end.
                self.push(id, Origin::Check, stream, line, emit);
                self.push(id, Origin::Check, stream, "\n", emit);
            }
            TdEvent::ExecutionStarted { pane: None, .. }
            | TdEvent::ExecutionCompleted { pane: None, .. } => {
                self.end_origin(id, Origin::Child, emit);
                return false;
            }
            TdEvent::ValidationStarted { .. } | TdEvent::ValidationCompleted { .. } => {
                self.end_origin(id, Origin::Check, emit);
                return false;
            }
            _ => return false,
        }
        true
    }

    /// Processes the next piece of a stream, and emits the lines that it completes.
    pub fn push(
        &mut self,
        execution_id: &str,
        origin: Origin,
        name: &str,
        text: &str,
        emit: &mut dyn FnMut(StreamLine<'_>),
    ) {
        self.count += 1;
        let position = (self.streams.iter()).position(|known| known.is(execution_id, origin, name));
        let at = position.unwrap_or_else(|| {
            self.make_room(emit);
            self.streams.push(OpenStream {
                execution_id: execution_id.to_owned(),
                origin,
                name: name.to_owned(),
                number: self.count,
                touched: self.count,
                open: String::new(),
                has_return: false,
                is_continuation: false,
                painter: Painter::default(),
            });
            self.streams.len() - 1
        });
        let stream = &mut self.streams[at];
        stream.touched = self.count;
        stream.take(text, emit);
    }

    /// Ends the streams that `is_over` selects, in the order in which they began.
    pub fn end(
        &mut self,
        is_over: impl Fn(&str, Origin) -> bool,
        emit: &mut dyn FnMut(StreamLine<'_>),
    ) {
        self.streams.retain_mut(|stream| {
            let is_over = is_over(&stream.execution_id, stream.origin);
            if is_over {
                stream.end(emit);
            }
            !is_over
        });
    }

    /// Ends all streams, because no more text follows, or because the next text does not continue them.
    pub fn end_all(&mut self, emit: &mut dyn FnMut(StreamLine<'_>)) {
        self.end(|_, _| true, emit);
    }

    /// Ends the streams of one origin in an execution.
    pub fn end_origin(&mut self, id: &str, origin: Origin, emit: &mut dyn FnMut(StreamLine<'_>)) {
        self.end(|of, other| of == id && other == origin, emit);
    }

    /// Returns the stream whose open line was written last.
    pub fn live(&self) -> Option<&OpenStream> {
        let open = self.streams.iter().filter(|stream| !stream.open.is_empty());
        open.max_by_key(|stream| stream.touched)
    }

    fn make_room(&mut self, emit: &mut dyn FnMut(StreamLine<'_>)) {
        if self.streams.len() < STREAMS_MAX {
            return;
        }
        let streams = self.streams.iter().enumerate();
        if let Some((at, _)) = streams.min_by_key(|(_, stream)| stream.touched) {
            self.streams.remove(at).end(emit);
        }
    }
}

impl OpenStream {
    /// Appends the open line for display.
    pub fn push_open(&self, out: &mut String, coloured: bool) {
        self.painter.clone().push(out, &self.open, coloured);
    }

    fn is(&self, execution_id: &str, origin: Origin, name: &str) -> bool {
        self.origin == origin && self.name == name && self.execution_id == execution_id
    }

    fn take(&mut self, text: &str, emit: &mut dyn FnMut(StreamLine<'_>)) {
        let mut start = 0;
        for end in memchr_iter(b'\n', text.as_bytes()) {
            self.add(&text[start..end], emit);
            self.emit_open(LineEnd::Terminated, emit);
            start = end + 1;
        }
        self.add(&text[start..], emit);
    }

    /// Appends text without a line end to the open line.
    fn add(&mut self, text: &str, emit: &mut dyn FnMut(StreamLine<'_>)) {
        let shown = text.trim_end_matches('\r');
        if !shown.is_empty() {
            let mut last = shown;
            let at = memrchr(b'\r', shown.as_bytes());
            if self.has_return || at.is_some() {
                // The colours of replaced text stay in force.
                self.painter.absorb(&self.open);
                if self.has_return {
                    self.painter.end_line();
                }
                if let Some(at) = at {
                    // A return ends an open sequence, regardless of how the text is split into pieces.
                    for part in shown[..at].split('\r') {
                        self.painter.absorb(part);
                        self.painter.end_line();
                    }
                    last = &shown[at + 1..];
                }
                self.painter.end_line();
                self.open.clear();
                if self.is_continuation {
                    // The emitted part cannot be replaced, so it becomes a line of its own.
                    self.emit("", LineEnd::Terminated, emit);
                }
            }
            self.has_return = false;
            while self.open.len() + last.len() > OPEN_BYTES_MAX {
                let room = OPEN_BYTES_MAX.saturating_sub(self.open.len());
                let (part, rest) = last.split_at(first_bytes(last, room).len());
                self.open.push_str(part);
                last = rest;
                self.emit_open(LineEnd::Continues, emit);
            }
            self.open.push_str(last);
        }
        self.has_return |= shown.len() < text.len();
    }

    fn end(&mut self, emit: &mut dyn FnMut(StreamLine<'_>)) {
        if !self.open.is_empty() || self.is_continuation {
            self.emit_open(LineEnd::Open, emit);
        }
    }

    fn emit_open(&mut self, end: LineEnd, emit: &mut dyn FnMut(StreamLine<'_>)) {
        let mut open = std::mem::take(&mut self.open);
        if end != LineEnd::Continues {
            self.has_return = false;
        }
        self.emit(&open, end, emit);
        open.clear();
        self.open = open;
    }

    fn emit(&mut self, text: &str, end: LineEnd, emit: &mut dyn FnMut(StreamLine<'_>)) {
        let is_continuation =
            std::mem::replace(&mut self.is_continuation, end == LineEnd::Continues);
        emit(StreamLine {
            execution_id: &self.execution_id,
            stream: &self.name,
            text,
            is_continuation,
            end,
            stream_number: self.number,
            painter: &mut self.painter,
        });
    }
}

#[cfg(test)]
#[path = "stream_lines_tests.rs"]
mod tests;
