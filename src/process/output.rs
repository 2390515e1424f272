//! Turns a child's bytes into text: in order, up to a number of lines (pure).
//!
//! Complete lines are reported immediately (those of a terminal after a moment), open lines after a delay,
//! progress lines in their present state. Text after a pause is emitted immediately, other text together with
//! the text of the next milliseconds. Text of the two streams keeps its order.
//!
//! The text equals the printed text, with three exceptions. Bytes that are not UTF-8 become `\u{fffd}` and
//! are counted. A line that is rewritten with carriage returns is reported in states, not with each rewrite;
//! text that begins with `\r` replaces the reported text of the line. A state is *transient* while a newer
//! one may follow soon; the history gets one state per second, and always the last one. Lines of a terminal
//! to which a program moves back are reported in their last state, and in a state that remained for a while.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::redraws::{Move, Redraws, next_move, split_cut_sequence};
use crate::child::OutputStream;
use crate::text::{Utf8Decoder, first_bytes};

/// The longest time that text is held for a batch: lines that are printed one by one, up to 500 a second, are emitted
/// at once, and more events than that would cost a fast program more than its text.
const BATCH_EVERY: Duration = Duration::from_millis(2);

/// The size from which text is not held: the capacity of a pipe.
pub(crate) const BATCH_BYTES: usize = 64 * 1024;

pub(crate) trait TextSink {
    /// Receives the next text of a stream. Transient text need not be stored, because a later text contains
    /// the same line.
    fn text(&mut self, stream: OutputStream, text: String, is_transient: bool);

    /// Receives a warning for the reader of the text.
    fn warning(&mut self, message: &str);
}

/// Holds the text of one stream at a time, for at most an interval. Text after a pause is due at once, other text
/// together with the text that follows.
#[derive(Debug)]
pub(crate) struct TextBatch {
    interval: Duration,
    stream: OutputStream,
    text: String,
    /// The time at which text was last taken.
    taken_at: Option<Instant>,
}

impl TextBatch {
    /// Creates an empty batch. With an interval of zero, all text is due at once.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            stream: OutputStream::Stdout,
            text: String::new(),
            taken_at: None,
        }
    }

    /// Begins text of a stream, to be appended to the returned buffer. Takes the text of the other stream, which
    /// precedes it.
    pub fn begin(
        &mut self,
        stream: OutputStream,
        now: Instant,
    ) -> (Option<(OutputStream, String)>, &mut String) {
        let other = if self.stream == stream {
            None
        } else {
            self.take(now)
        };
        self.stream = stream;
        (other, &mut self.text)
    }

    /// Takes the text, if there is any.
    pub fn take(&mut self, now: Instant) -> Option<(OutputStream, String)> {
        if self.text.is_empty() {
            return None;
        }
        self.taken_at = Some(now);
        Some((self.stream, std::mem::take(&mut self.text)))
    }

    /// Returns true if no further text is awaited.
    pub fn is_due(&self, now: Instant) -> bool {
        self.is_full() || self.taken_at.is_none_or(|at| now >= at + self.interval)
    }

    fn is_full(&self) -> bool {
        self.text.len() >= BATCH_BYTES
    }

    /// Returns the time at which the text is due.
    pub fn due(&self) -> Option<Instant> {
        let due = self.taken_at.map(|at| at + self.interval);
        due.filter(|_| !self.text.is_empty())
    }
}

/// The lines and bytes of the explaining output beyond a limit that are kept until the end, because they may explain a
/// failure: a traceback with its message.
const EXPLANATION_LINES: usize = 100;
const EXPLANATION_BYTES: usize = 16 * 1024;

/// Limits the lines of both outputs together, counts the others, and keeps the last ones of the output that explains
/// a failure.
#[derive(Debug)]
pub(crate) struct LineLimit {
    lines_max: Option<u64>,
    lines: u64,
    /// The number of lines beyond the limit.
    lost: u64,
    /// For each stream: the last lost line has no end yet.
    lost_open: [bool; 2],
    /// The output that explains a failure: standard error, or the only output of a terminal.
    explaining: OutputStream,
    /// The end of that output beyond the limit.
    explanation: Vec<u8>,
}

impl LineLimit {
    /// Creates a limit. Both outputs of a terminal are one, standard output.
    pub fn new(lines_max: Option<u64>, is_terminal: bool) -> Self {
        Self {
            lines_max,
            lines: 0,
            lost: 0,
            lost_open: [false; 2],
            explaining: if is_terminal {
                OutputStream::Stdout
            } else {
                OutputStream::Stderr
            },
            explanation: Vec::new(),
        }
    }

    /// Returns true until the limit is reached.
    pub fn has_room(&self) -> bool {
        self.lines_max.is_none_or(|max| self.lines < max)
    }

    /// Returns the number of lines beyond the limit.
    pub fn lost_lines(&self) -> u64 {
        let open = self.lost_open.map(u64::from).iter().sum::<u64>();
        self.lost + open
    }

    /// Returns the length of the beginning of a text that is within the limit.
    pub fn end(&mut self, stream: OutputStream, text: &[u8]) -> usize {
        let mut end = 0;
        while let Some(max) = self.lines_max {
            if self.lines >= max {
                self.lose(stream, &text[end..]);
                return end;
            }
            let Some(at) = memchr::memchr(b'\n', &text[end..]) else {
                break;
            };
            end += at + 1;
            self.lines += 1;
        }
        text.len()
    }

    fn lose(&mut self, stream: OutputStream, text: &[u8]) {
        let Some(last) = text.last() else { return };
        self.lost += line_ends(text);
        self.lost_open[stream.index()] = *last != b'\n';
        if stream == self.explaining {
            let text = &text[text.len().saturating_sub(EXPLANATION_BYTES)..];
            self.explanation.extend_from_slice(text);
            // Twice the size, so that the bytes are moved rarely.
            if self.explanation.len() > 2 * EXPLANATION_BYTES {
                let excess = self.explanation.len() - EXPLANATION_BYTES;
                self.explanation.drain(..excess);
            }
        }
    }

    /// Takes the last lines of the explaining output beyond the limit, which no longer count as lost, and names that
    /// output. Of a longer text, the first line is left out, because its beginning may be missing.
    pub fn take_explanation(&mut self) -> (OutputStream, Vec<u8>) {
        let mut text = std::mem::take(&mut self.explanation);
        let mut start = text.len().saturating_sub(EXPLANATION_BYTES);
        let body = text.strip_suffix(b"\n").unwrap_or(&text);
        if start > 0 {
            let line = memchr::memchr(b'\n', body.get(start..).unwrap_or_default());
            start += line.map_or(0, |at| at + 1);
        }
        let lines = memchr::memrchr_iter(b'\n', body).nth(EXPLANATION_LINES - 1);
        start = start.max(lines.map_or(0, |at| at + 1));
        text.drain(..start);
        self.lost -= line_ends(&text);
        if !text.is_empty() {
            self.lost_open[self.explaining.index()] = false;
        }
        (self.explaining, text)
    }
}

fn line_ends(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64
}

#[derive(Debug)]
pub(crate) struct OutputBatcher<S> {
    pub sink: S,
    lines: [LineAssembler; 2],
    batch: TextBatch,
    limit: LineLimit,
    has_warned_of_cut: bool,
    /// Passes on complete lines only, lines beyond 64 KiB in parts, and an open line at the end.
    pub complete_lines: bool,
    /// The bytes themselves are passed on, too.
    pub passes_bytes: bool,
    has_warned_of_bytes: bool,
}

impl<S: TextSink> OutputBatcher<S> {
    /// Creates a batcher that passes on at most `lines_max` lines.
    pub fn new(sink: S, is_terminal: bool, lines_max: Option<u64>) -> Self {
        Self {
            sink,
            lines: OutputStream::ALL.map(|_| LineAssembler::new(is_terminal)),
            batch: TextBatch::new(BATCH_EVERY),
            limit: LineLimit::new(lines_max, is_terminal),
            has_warned_of_cut: false,
            complete_lines: false,
            passes_bytes: false,
            has_warned_of_bytes: false,
        }
    }

    /// Creates a batcher that holds no complete lines.
    pub fn unbatched(sink: S) -> Self {
        Self {
            batch: TextBatch::new(Duration::ZERO),
            ..Self::new(sink, false, None)
        }
    }

    pub fn push(&mut self, stream: OutputStream, bytes: &[u8], now: Instant) {
        self.assemble(stream, now, |lines, out| lines.push(bytes, now, out));
        if self.batch.is_full() {
            self.flush(now);
        }
    }

    /// Appends what `assemble` reports of a stream to the batch, after the text of the other stream.
    fn assemble<T>(
        &mut self,
        stream: OutputStream,
        now: Instant,
        assemble: impl FnOnce(&mut LineAssembler, &mut String) -> T,
    ) -> T {
        let (other, out) = self.batch.begin(stream, now);
        let result = assemble(&mut self.lines[stream.index()], out);
        if let Some((stream, text)) = other {
            self.pass(stream, text);
        }
        result
    }

    /// Passes on text that was held long enough; returns the time of the next call.
    pub fn tick(&mut self, now: Instant) -> Option<Instant> {
        if self.batch.is_due(now) {
            self.flush(now);
        }
        if self.complete_lines {
            for stream in OutputStream::ALL {
                self.assemble(stream, now, |lines, out| {
                    lines.redraws.release_due(now, out)
                });
            }
            let held = self.lines.iter().map(LineAssembler::held_due);
            return held.chain([self.batch.due()]).flatten().min();
        }
        for stream in OutputStream::ALL {
            if self.lines[stream.index()].due().is_none_or(|due| now < due) {
                continue;
            }
            self.report_open(stream, now, |lines, out| lines.tick(now, out));
        }
        let open = self.lines.iter().map(LineAssembler::due);
        open.chain([self.batch.due()]).flatten().min()
    }

    /// Passes on the open line of a stream before its delay is over.
    pub fn flush_line(&mut self, stream: OutputStream, now: Instant) {
        self.report_open(stream, now, |lines, out| lines.flush(now, out));
    }

    /// Passes on an open line, which `report` appends to the batch or returns as transient.
    fn report_open(
        &mut self,
        stream: OutputStream,
        now: Instant,
        report: impl FnOnce(&mut LineAssembler, &mut String) -> Option<String>,
    ) {
        let transient = self.assemble(stream, now, report);
        // An open line follows everything that was printed before it.
        self.flush(now);
        if let Some(text) = transient.filter(|_| self.limit.has_room()) {
            self.sink.text(stream, text, true);
        }
    }

    /// Passes on all text at the end of the output; returns the sink and the number of lines beyond the
    /// limit.
    pub fn finish(mut self, now: Instant) -> (S, u64) {
        self.end_lines(now);
        (self.sink, self.limit.lost_lines())
    }

    /// Passes on all text after a failure, and the last lines beyond the limit of the output that may explain it.
    pub fn end_lines_after_failure(&mut self, now: Instant) {
        self.end_lines(now);
        let (stream, text) = self.limit.take_explanation();
        if !text.is_empty() {
            let text = String::from_utf8_lossy(&text).into_owned();
            self.sink.text(stream, text, false);
        }
    }

    /// Passes on all text, including open lines. Later text begins new lines.
    pub fn end_lines(&mut self, now: Instant) {
        self.flush(now);
        for stream in OutputStream::ALL {
            self.assemble(stream, now, |lines, out| lines.finish(now, out));
            self.flush(now);
        }
    }

    /// Passes on ready text without waiting for more.
    pub fn flush(&mut self, now: Instant) {
        if let Some((stream, text)) = self.batch.take(now) {
            self.pass(stream, text);
        }
    }

    fn pass(&mut self, stream: OutputStream, mut text: String) {
        let end = self.limit.end(stream, text.as_bytes());
        let has_lost = end < text.len();
        text.truncate(end);
        if !text.is_empty() {
            self.sink.text(stream, text, false);
        }
        if has_lost && !std::mem::replace(&mut self.has_warned_of_cut, true) {
            let kept = match self.limit.lines_max {
                Some(1) => "1 line".to_owned(),
                lines => format!("{} lines", lines.unwrap_or(0)),
            };
            let message = format!("the output is cut after {kept}; further lines are only counted");
            self.sink.warning(&message);
        }
        if self.lines[stream.index()].decoder.invalid > 0
            && !std::mem::replace(&mut self.has_warned_of_bytes, true)
        {
            self.sink.warning(if self.passes_bytes {
                "the output contains bytes that are not UTF-8: they are passed on unchanged, and events \
                 have \u{fffd} in each such place"
            } else {
                "the output contains bytes that are not UTF-8: each such place is shown as \u{fffd}"
            });
        }
    }
}

/// The delay after which an open line is reported. The console merges text for as long.
const OPEN_LINE_DELAY: Duration = Duration::from_millis(100);

/// The interval at which the history gets states of a rewritten line; the same as for lines of panes.
const KEEP_EVERY: Duration = Duration::from_secs(1);

/// A longer line is reported in parts, and a reported part cannot be rewritten.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Assembles the lines of one stream.
#[derive(Debug, Default)]
struct LineAssembler {
    /// Line ends arrive as `\r\n`, as terminals write them, and are reported as `\n`.
    is_terminal: bool,
    decoder: Utf8Decoder,
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
    /// The lines of a terminal that are drawn again.
    redraws: Redraws,
    /// The beginning of a control sequence, which may move the cursor to another line.
    cut_sequence: String,
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

    /// Adds bytes, which may be split anywhere. Appends complete lines to `out`.
    pub fn push(&mut self, bytes: &[u8], now: Instant, out: &mut String) {
        let mut decoder = std::mem::take(&mut self.decoder);
        decoder.push(bytes, |text| self.text(text, now, out));
        self.decoder = decoder;
    }

    fn text(&mut self, text: &str, now: Instant, out: &mut String) {
        if !self.is_terminal {
            return self.lines(text, now, out);
        }
        let held = std::mem::take(&mut self.cut_sequence);
        let joined = format!("{held}{text}");
        let (text, cut) = split_cut_sequence(&joined);
        cut.clone_into(&mut self.cut_sequence);
        let mut rest = text;
        while let Some((before, movement, after)) = next_move(rest) {
            self.lines(before, now, out);
            self.move_to(movement, now, out);
            rest = after;
        }
        self.lines(rest, now, out);
    }

    /// Moves the cursor of a terminal to another line.
    fn move_to(&mut self, movement: Move, now: Instant, out: &mut String) {
        if movement == Move::Save {
            return self.redraws.save(self.column.unwrap_or(self.line.len()));
        }
        if movement == Move::Restore {
            let Some((movement, column)) = self.redraws.saved() else {
                return;
            };
            if let Some(movement) = movement {
                self.move_to(movement, now, out);
            }
            let column = first_bytes(&self.line, column).len();
            self.column = Some(column).filter(|column| *column < self.line.len());
            return;
        }
        if !self.redraws.is_active() {
            if !matches!(movement, Move::Up(_)) {
                // Nothing is below the open line.
                return;
            }
            let reported = match self.reported {
                Reported::Nothing | Reported::Prefix(0) => None,
                Reported::Prefix(_) | Reported::Overwritten => {
                    out.push('\n');
                    Some(self.line.clone())
                }
            };
            self.redraws.begin(std::mem::take(&mut self.line), reported);
        }
        let text = std::mem::take(&mut self.line);
        self.line = self.redraws.step(text, movement, now);
        self.enter_row();
    }

    /// Continues at the beginning of a line that is drawn again.
    fn enter_row(&mut self) {
        self.is_plain = self.line.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        (self.column, self.is_long) = (Some(0), false);
        self.reported = Reported::Nothing;
    }

    /// Reports the last states of the lines that were drawn again, and all held lines.
    fn finish_redraws(&mut self, out: &mut String) {
        self.redraws.release(out);
        if self.redraws.is_active() {
            let text = std::mem::take(&mut self.line);
            self.line = self.redraws.finish(text, out);
            self.enter_row();
            self.column = None;
        }
    }

    fn lines(&mut self, text: &str, now: Instant, out: &mut String) {
        if text.is_empty() {
            return;
        }
        let mut rest = text;
        let is_simple = self.column.is_none() && !self.is_terminal;
        if is_simple && memchr::memchr(b'\r', text.as_bytes()).is_none() {
            // Complete lines are reported as they are.
            if let Some(last) = memchr::memrchr(b'\n', text.as_bytes()) {
                let (complete, open) = text.split_at(last + 1);
                self.report(out);
                out.push_str(complete);
                self.begin_line();
                rest = open;
            }
            return self.write(rest, now, out);
        }
        while let Some(at) = memchr::memchr2(b'\r', b'\n', rest.as_bytes()) {
            self.write(&rest[..at], now, out);
            if rest.as_bytes()[at] == b'\n' {
                self.end_line(now, out);
            } else {
                self.column = Some(0);
            }
            rest = &rest[at + 1..];
        }
        self.write(rest, now, out);
    }

    /// Writes into the open line as a terminal does.
    fn write(&mut self, text: &str, now: Instant, out: &mut String) {
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
            self.finish_redraws(out);
            self.report(out);
            self.line.clear();
            (self.column, self.is_plain) = (None, true);
            (self.reported, self.is_long) = (Reported::Prefix(0), true);
            self.changed_at = None;
        }
    }

    fn end_line(&mut self, now: Instant, out: &mut String) {
        if self.redraws.is_active() {
            let text = std::mem::take(&mut self.line);
            self.line = self.redraws.end_line(text);
            self.enter_row();
            if self.redraws.is_full() {
                self.finish_redraws(out);
            }
            return;
        }
        if self.is_terminal && self.reported == Reported::Nothing {
            self.redraws.hold(&self.line, now, out);
            return self.begin_line();
        }
        if self.is_terminal {
            self.redraws.remember(&self.line, out);
        }
        let has_return = self.column == Some(0) && !self.is_terminal;
        self.report(out);
        out.push_str(if has_return { "\r\n" } else { "\n" });
        self.begin_line();
    }

    /// Appends the unreported part of the line.
    fn report(&mut self, out: &mut String) {
        match self.reported {
            Reported::Nothing => out.push_str(&self.line),
            Reported::Prefix(bytes) => out.push_str(&self.line[bytes..]),
            Reported::Overwritten => {
                out.push('\r');
                out.push_str(&self.line);
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

    /// Reports the open line when its delay is over: appends it to `out`, or returns a transient
    /// state of it.
    pub fn tick(&mut self, now: Instant, out: &mut String) -> Option<String> {
        self.redraws.release_due(now, out);
        if self.redraws_due().is_some_and(|due| now >= due) {
            let column = self.column;
            let text = std::mem::take(&mut self.line);
            self.line = self.redraws.settle(text, out);
            self.enter_row();
            self.column = column.filter(|_| self.redraws.is_active());
            self.changed_at = Some(now).filter(|_| !self.line.is_empty());
            return None;
        }
        self.open_due().filter(|due| now >= *due)?;
        self.report_open_line(now, out)
    }

    /// Reports the open line before its delay is over, because the writer flushes it. States of a rewritten
    /// line keep their interval.
    pub fn flush(&mut self, now: Instant, out: &mut String) -> Option<String> {
        let is_early = self
            .reported_at
            .is_some_and(|at| now < at + OPEN_LINE_DELAY);
        let is_rewritten = self.reported == Reported::Overwritten || self.redraws.is_active();
        if self.due().is_none() || (is_rewritten && is_early) {
            return None;
        }
        self.report_open_line(now, out)
    }

    fn report_open_line(&mut self, now: Instant, out: &mut String) -> Option<String> {
        self.reported_at = Some(now);
        let may_keep = self.kept_at.is_none_or(|at| now >= at + KEEP_EVERY);
        self.changed_at = None;
        if self.redraws.is_active() {
            self.redraws.is_shown = true;
            self.redraws.touch(now);
            let line = if self.line.is_empty() {
                self.redraws.shown()
            } else {
                &self.line
            };
            return Some(format!("\r{line}"));
        }
        if self.reported == Reported::Overwritten && !may_keep {
            self.is_behind = true;
            return Some(format!("\r{}", self.line));
        }
        if self.reported == Reported::Overwritten {
            self.kept_at = Some(now);
        }
        self.is_behind = false;
        self.report(out);
        None
    }

    /// Returns the time of the next [`LineAssembler::tick`].
    pub fn due(&self) -> Option<Instant> {
        let dues = [self.open_due(), self.held_due(), self.redraws_due()];
        dues.into_iter().flatten().min()
    }

    /// Returns when the open line is reported, which follows all held lines.
    fn open_due(&self) -> Option<Instant> {
        let open = self.changed_at.map(|at| at + OPEN_LINE_DELAY);
        let kept = self.kept_at.filter(|_| self.is_behind);
        let kept = kept.map(|at| at + KEEP_EVERY);
        let due = open.into_iter().chain(kept).min()?;
        let last_held = self.redraws.held_until().map(|(_, last)| last);
        Some(last_held.map_or(due, |last| due.max(last)))
    }

    /// Returns when the first held line is reported.
    fn held_due(&self) -> Option<Instant> {
        self.redraws.held_until().map(|(first, _)| first)
    }

    /// Returns when lines that are drawn again are reported, unless they are drawn once more.
    fn redraws_due(&self) -> Option<Instant> {
        self.redraws.moved_at().map(|at| at + KEEP_EVERY)
    }

    /// Reports the rest at the end of the stream.
    pub fn finish(&mut self, now: Instant, out: &mut String) {
        let cut = std::mem::take(&mut self.cut_sequence);
        self.write(&cut, now, out);
        let mut decoder = std::mem::take(&mut self.decoder);
        decoder.finish(|text| self.write(text, now, out));
        self.decoder = decoder;
        self.finish_redraws(out);
        self.report(out);
        self.begin_line();
    }
}

/// Keeps the first and the last bytes. The beginning of an output shows the command's work, and the end shows
/// the reason for a failure.
#[derive(Debug)]
pub(super) struct HeadTailBuffer {
    /// The capacity of the head, and of the tail.
    half_bytes: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    lost_bytes: u64,
}

impl HeadTailBuffer {
    pub fn new(bytes_max: usize) -> Self {
        Self {
            half_bytes: bytes_max / 2,
            head: Vec::new(),
            tail: VecDeque::new(),
            lost_bytes: 0,
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        let room = self.half_bytes - self.head.len();
        let (first, rest) = bytes.split_at(bytes.len().min(room));
        self.head.extend_from_slice(first);
        // Skip bytes that this push itself would displace.
        let skipped = rest.len().saturating_sub(self.half_bytes);
        let rest = &rest[skipped..];
        let displaced = (self.tail.len() + rest.len()).saturating_sub(self.half_bytes);
        self.tail.drain(..displaced);
        self.tail.extend(rest);
        self.lost_bytes += u64::try_from(skipped + displaced).unwrap_or(u64::MAX);
    }

    /// Returns the kept bytes and the number of bytes missing in the middle.
    pub fn into_bytes(self) -> (Vec<u8>, u64) {
        let mut all = self.head;
        all.extend(self.tail);
        (all, self.lost_bytes)
    }
}

#[cfg(test)]
mod tests {
    mod text_batch {
        use super::super::*;
        use OutputStream::{Stderr, Stdout};
        use proptest::prelude::*;

        proptest! {
            /// All text is passed on in order and by stream, and is held no longer than the interval.
            #[test]
            fn nothing_is_lost(
                interval in 0_u64..200,
                steps in prop::collection::vec((any::<bool>(), "[ab\n]{0,5}", 0_u64..150), 0..40),
            ) {
                let mut now = Instant::now();
                let interval = Duration::from_millis(interval);
                let mut batcher = TextBatch::new(interval);
                let mut passed: Vec<(OutputStream, String)> = Vec::new();
                let mut pass = |taken: Option<(OutputStream, String)>| match (passed.last_mut(), taken) {
                    (Some((last, all)), Some((stream, text))) if *last == stream => all.push_str(&text),
                    (_, taken) => passed.extend(taken),
                };
                let mut pushed: Vec<(OutputStream, String)> = Vec::new();
                for (is_error, text, pause) in steps {
                    let stream = if is_error { Stderr } else { Stdout };
                    let (other, held) = batcher.begin(stream, now);
                    held.push_str(&text);
                    pass(other);
                    if batcher.is_due(now) {
                        pass(batcher.take(now));
                    }
                    prop_assert!(batcher.due().is_none_or(|due| due <= now + interval));
                    if !text.is_empty() {
                        match pushed.last_mut() {
                            Some((last, all)) if *last == stream => all.push_str(&text),
                            _ => pushed.push((stream, text)),
                        }
                    }
                    now += Duration::from_millis(pause);
                    if batcher.due().is_some_and(|due| now >= due) {
                        pass(batcher.take(now));
                    }
                }
                pass(batcher.take(now));
                prop_assert_eq!(passed, pushed);
            }
        }
    }

    mod line_limit {
        use super::super::*;
        use OutputStream::{Stderr, Stdout};
        use proptest::prelude::*;

        proptest! {
            /// What is within the limit, the explanation and the lost lines are all lines; the explanation
            /// is a bounded end of the output that explains.
            #[test]
            fn the_explanation_is_the_end_of_the_output_that_explains(
                pieces in prop::collection::vec((any::<bool>(), "[a-z\n]{0,40}", 0_usize..400), 0..40),
                max in 0_u64..20,
                is_terminal in any::<bool>(),
            ) {
                let mut limit = LineLimit::new(Some(max), is_terminal);
                let (mut within, mut errors) = (String::new(), String::new());
                for (is_error, text, times) in pieces {
                    let text = text.repeat(times);
                    let stream = if is_error && !is_terminal { Stderr } else { Stdout };
                    let end = limit.end(stream, text.as_bytes());
                    within.push_str(&text[..end]);
                    if is_error || is_terminal {
                        errors.push_str(&text[end..]);
                    }
                }
                prop_assert!(line_ends(within.as_bytes()) <= max);
                let before = limit.lost_lines();
                let (_, text) = limit.take_explanation();
                prop_assert!(errors.as_bytes().ends_with(&text));
                prop_assert!(text.len() <= EXPLANATION_BYTES);
                let lines = String::from_utf8(text.clone()).unwrap().lines().count();
                prop_assert!(lines <= EXPLANATION_LINES);
                prop_assert_eq!(limit.lost_lines() + lines as u64, before);
                prop_assert!(!text.is_empty() || errors.is_empty());
            }
        }
    }

    mod output_batcher {
        use super::super::*;
        use OutputStream::{Stderr, Stdout};

        #[derive(Default)]
        struct CollectingSink {
            texts: Vec<(OutputStream, String, bool)>,
            warnings: Vec<String>,
        }

        impl TextSink for CollectingSink {
            fn text(&mut self, stream: OutputStream, text: String, is_transient: bool) {
                self.texts.push((stream, text, is_transient));
            }

            fn warning(&mut self, message: &str) {
                self.warnings.push(message.to_owned());
            }
        }

        fn batcher(lines_max: Option<u64>) -> (OutputBatcher<CollectingSink>, Instant) {
            let batcher = OutputBatcher::new(CollectingSink::default(), false, lines_max);
            (batcher, crate::clock::Clock::system().now())
        }

        fn texts(sink: &CollectingSink) -> Vec<(OutputStream, &str)> {
            sink.texts
                .iter()
                .map(|(stream, text, _)| (*stream, text.as_str()))
                .collect()
        }

        #[test]
        fn the_first_text_is_immediate_and_the_next_ones_are_batched() {
            let (mut batcher, start) = batcher(None);
            let at = |tenth| start + BATCH_EVERY / 10 * tenth;
            batcher.push(Stdout, b"1\n", at(0));
            assert_eq!(batcher.tick(at(0)), None);
            assert_eq!(texts(&batcher.sink), [(Stdout, "1\n")]);
            for tenth in 1..10 {
                batcher.push(Stdout, b"more\n", at(tenth));
                assert_eq!(batcher.tick(at(tenth)), Some(at(10)));
            }
            assert_eq!(batcher.sink.texts.len(), 1);
            batcher.tick(at(10));
            assert_eq!(
                texts(&batcher.sink)[1],
                (Stdout, "more\n".repeat(9).as_str())
            );
        }

        #[test]
        fn no_stream_overtakes_the_other() {
            let (mut batcher, now) = batcher(None);
            for _ in 0..3 {
                batcher.push(Stdout, b"out\nopen", now);
                batcher.push(Stderr, b"err\n", now);
            }
            let (seen, lost) = batcher.finish(now);
            assert_eq!(
                texts(&seen),
                [
                    (Stdout, "out\n"),
                    (Stderr, "err\n"),
                    (Stdout, "openout\n"),
                    (Stderr, "err\n"),
                    (Stdout, "openout\n"),
                    (Stderr, "err\n"),
                    (Stdout, "open"),
                ]
            );
            assert_eq!(lost, 0);
        }

        #[test]
        fn lines_beyond_the_limit_are_counted_and_warned_of_once() {
            for (pieces, shown, lost) in [
                (&["1\n2\n3\n"][..], "1\n2\n3\n", 0),
                (&["1\n2\n3\n4\n5\n6"], "1\n2\n3\n", 3),
                (&["1\n", "2\n3", "\n4", "\n", "5"], "1\n2\n3\n", 2),
                (&["1\n2"], "1\n2", 0),
            ] {
                let (mut batcher, now) = batcher(Some(3));
                for piece in pieces {
                    batcher.push(Stdout, piece.as_bytes(), now);
                    batcher.tick(now);
                }
                let (seen, counted) = batcher.finish(now);
                let all: String = seen
                    .texts
                    .iter()
                    .map(|(_, text, _)| text.as_str())
                    .collect();
                assert_eq!((all.as_str(), counted), (shown, lost), "{pieces:?}");
                assert_eq!(
                    seen.warnings.len(),
                    usize::from(lost > 0),
                    "{:?}",
                    seen.warnings
                );
            }
        }

        #[test]
        fn bytes_that_are_not_text_cause_one_warning() {
            let (mut batcher, now) = batcher(None);
            batcher.push(Stdout, b"\xff\xfe\n", now);
            batcher.push(Stderr, b"\xff\n", now);
            let (seen, _) = batcher.finish(now);
            assert_eq!(seen.warnings.len(), 1, "{:?}", seen.warnings);
            assert_eq!(seen.texts.len(), 2);
        }
    }

    mod line_assembler {
        use super::super::*;
        use crate::clock::Clock;
        use proptest::prelude::*;
        use std::time::{Duration, Instant};

        /// A line assembler with the text that it has reported.
        struct Lines {
            assembler: LineAssembler,
            ready: String,
        }

        impl Lines {
            fn new(is_terminal: bool) -> Self {
                Self {
                    assembler: LineAssembler::new(is_terminal),
                    ready: String::new(),
                }
            }

            fn push(&mut self, bytes: &[u8], now: Instant) {
                self.assembler.push(bytes, now, &mut self.ready);
            }

            fn tick(&mut self, now: Instant) -> Option<String> {
                self.assembler.tick(now, &mut self.ready)
            }

            fn finish(&mut self, now: Instant) {
                self.assembler.finish(now, &mut self.ready);
            }

            fn due(&self) -> Option<Instant> {
                self.assembler.due()
            }

            fn ready(&self) -> &str {
                &self.ready
            }

            fn take_ready(&mut self) -> String {
                std::mem::take(&mut self.ready)
            }
        }

        fn now() -> Instant {
            Clock::system().now()
        }

        /// Returns the lines that a reader of the text sees. The last line is open.
        fn read(texts: &str) -> Vec<String> {
            let line = |line: &str| {
                let line = line.strip_suffix('\r').unwrap_or(line);
                line.rsplit('\r').next().unwrap_or_default().to_owned()
            };
            texts.split('\n').map(line).collect()
        }

        /// Returns the text of pieces that are pushed at the same time.
        fn pushed(is_terminal: bool, pieces: &[&[u8]]) -> String {
            let mut lines = Lines::new(is_terminal);
            let now = Clock::system().now();
            for piece in pieces {
                lines.push(piece, now);
            }
            lines.finish(now);
            lines.take_ready()
        }

        #[test]
        fn text_is_reported_as_it_was_printed() {
            for (bytes, expected) in [
                (&b"one\ntwo\n"[..], "one\ntwo\n"),
                (b"one\r\n\r\n", "one\r\n\r\n"),
                (b"no end", "no end"),
                ("ünï 漢字\n".as_bytes(), "ünï 漢字\n"),
                (b"\xff\xfe\n", "\u{fffd}\u{fffd}\n"),
                (b"cut \xe6\xbc", "cut \u{fffd}"),
                (b"\xe6\xbcx\n", "\u{fffd}x\n"),
                (b"10%\r20%\r100%\n", "100%\n"),
                (b"abcdef\rxy\n", "xycdef\n"),
                (b"abcdef\rxy\rz\n", "zycdef\n"),
                ("abcdef\rü\n".as_bytes(), "ü\n"),
                (b"\x1b[31mred\x1b[m\r\x1b[Kshort\n", "\x1b[Kshort\n"),
                (b"gone\r", "gone"),
                (b"\r\r\n", "\r\n"),
                (b"nul\0l\n", "nul\0l\n"),
                (b"", ""),
            ] {
                assert_eq!(pushed(false, &[bytes]), expected, "{bytes:?}");
            }
            assert_eq!(
                pushed(true, &[b"one\r\ntwo\r\r\nt", b"hree\r", b"\n"]),
                "one\ntwo\nthree\n"
            );
        }

        #[test]
        fn an_open_line_is_reported_after_a_delay() {
            let (mut lines, start) = (Lines::new(false), now());
            lines.push(b"Password: ", start);
            assert_eq!(lines.ready(), "");
            let due = lines.due().unwrap();
            assert_eq!(due, start + OPEN_LINE_DELAY);
            assert_eq!(lines.tick(due - Duration::from_millis(1)), None);
            assert_eq!(lines.ready(), "");
            assert_eq!(lines.tick(due), None);
            assert_eq!(lines.take_ready(), "Password: ");
            assert_eq!(lines.due(), None);
            lines.push(b"accepted\nnext", due);
            assert_eq!(lines.take_ready(), "accepted\n");
        }

        #[test]
        fn progress_is_kept_once_a_second_and_at_its_end() {
            let (mut lines, start) = (Lines::new(false), now());
            let (mut kept, mut transient) = (String::new(), 0);
            // A hundred seconds in steps of 10 ms; then a pause before the line ends.
            let at = |step: u32| start + Duration::from_millis(10) * step;
            for step in 0..10_000 {
                lines.push(format!("\r{step} of 10000").as_bytes(), at(step));
                transient += usize::from(lines.tick(at(step)).is_some());
                kept += &lines.take_ready();
            }
            assert!((850..=1000).contains(&transient), "{transient}");
            let states = kept.matches('\r').count();
            assert!((90..=101).contains(&states), "{states}");
            while let Some(due) = lines.due() {
                lines.tick(due);
                kept += &lines.take_ready();
            }
            assert_eq!(read(&kept), ["9999 of 10000"]);
            lines.push(b"\rdone\n", at(10_100));
            kept += &lines.take_ready();
            assert_eq!(read(&kept), ["done of 10000", ""]);
        }

        /// As in a pane, each line of a drawing is one line: its last state.
        #[test]
        fn lines_that_are_drawn_again_are_reported_in_their_last_state() {
            let (mut lines, start) = (Lines::new(true), now());
            lines.push(b"begin\r\n", start);
            let mut state = None;
            for step in 0..=20 {
                let at = start + Duration::from_millis(50 * step);
                if step > 0 {
                    lines.push(b"\x1b[2A", at);
                }
                let bars = format!("\x1b[2Kone {step}\r\n\x1b[2Ktwo {step}\r\n");
                lines.push(bars.as_bytes(), at);
                state = lines.tick(at).or(state);
            }
            assert_eq!(lines.take_ready(), "begin\n");
            state = lines.tick(start + Duration::from_millis(1200)).or(state);
            assert_eq!(state.as_deref(), Some("\r\x1b[2Ktwo 20"));
            lines.push(b"after\r\n", start + Duration::from_millis(1300));
            lines.tick(start + Duration::from_secs(3));
            let last = lines.take_ready().replace("\x1b[2K", "");
            assert_eq!(last, "\rone 20\ntwo 20\nafter\n");
            lines.push(b"end\r\n", start + Duration::from_secs(4));
            assert_eq!(lines.take_ready(), "");
            lines.tick(start + Duration::from_millis(4250));
            assert_eq!(lines.take_ready(), "end\n");
        }

        #[test]
        fn lines_that_remain_are_reported_before_they_are_drawn_again() {
            let (mut lines, start) = (Lines::new(true), now());
            let at = |ms| start + Duration::from_millis(ms);
            lines.push(b"one 0\r\n", at(0));
            lines.push(b"two 0\r\nopen", at(100));
            assert_eq!(lines.due(), Some(at(250)));
            lines.tick(at(250));
            assert_eq!(lines.take_ready(), "one 0\n");
            // An open line follows all lines above it.
            assert_eq!(lines.due(), Some(at(350)));
            lines.tick(at(350));
            assert_eq!(lines.take_ready(), "two 0\nopen");
            lines.push(b"\x1b[2A\rone 1\r\ntwo 1\r\n", at(400));
            lines.finish(at(400));
            assert_eq!(lines.take_ready(), "\none 1\ntwo 1\n");
            // No more lines are held than a terminal has.
            let numbers: String = (1..=1000).map(|n| format!("{n}\r\n")).collect();
            lines.push(numbers.as_bytes(), at(500));
            assert_eq!(lines.take_ready().lines().last(), Some("800"));
            lines.tick(at(750));
            assert_eq!(lines.take_ready().lines().count(), 200);
        }

        #[test]
        fn a_drawing_may_grow_shrink_and_stay_open() {
            let mut lines = Lines::new(true);
            let text = "a\nb\nc\x1b[2A\rA\x1b[B\x1b[B\rC\r\nd\r\ne\x1b[1A\r\x1b[Jend";
            for piece in text.as_bytes().chunks(3) {
                lines.push(piece, now());
            }
            lines.finish(now());
            assert_eq!(lines.take_ready(), "A\nb\nC\nend");
        }

        /// What programs print that draw lines again, in rounds of 50 ms, and the lines that are reported of it.
        #[test]
        fn each_line_has_its_last_state_and_those_that_remained() {
            let cases: [(&str, &[&str], &str); 9] = [
                (
                    "docker: each line is updated alone, and the cursor returns to the end",
                    &[
                        "a: 0\r\nb: 0\r\nc: 0\r\n",
                        "\x1b[3A\x1b[2K\ra: 1\x1b[3B\r\x1b[1A\x1b[2K\rc: 1\x1b[1B\r",
                        "\x1b[3A\x1b[2K\ra: 2\x1b[3B\r",
                        "Done\r\n",
                    ],
                    "a: 2\nb: 0\nc: 1\nDone\n",
                ),
                (
                    "docker: a line is added in each round",
                    &[
                        "a: 0\r\n",
                        "\x1b[1A\x1b[2K\ra: 1\x1b[1B\r\nb: 0\r\n",
                        "\x1b[3A\x1b[2K\ra: 2\x1b[3B\r\nc: 0\r\n",
                    ],
                    "a: 2\n\nb: 0\n\nc: 0\n",
                ),
                (
                    "compose: the whole list again, longer in each round",
                    &[
                        "[+] 0/1\r\nx\r\n",
                        "\x1b[2A\x1b[0G[+] 0/2\r\nx\r\ny\r\n",
                        "\x1b[3A\x1b[0G[+] 3/3\r\nx\r\ny\r\nz\r\n",
                    ],
                    "[+] 3/3\nx\ny\nz\n",
                ),
                (
                    "npm: lines are erased from the last one up",
                    &[
                        "x 1\r\ny 1\r\n",
                        "\x1b[2K\x1b[1A\x1b[2K\x1b[1A\x1b[2K\x1b[Gx 2\r\ny 2\r\n",
                        "\x1b[2K\x1b[1A\x1b[2K\x1b[1A\x1b[2K\x1b[Gx 3\r\n",
                    ],
                    "x 3\n",
                ),
                (
                    "pip and cargo: one line with carriage returns",
                    &["Get\r\n 1/2\r", " 2/2\r", "\x1b[KDone\r\n"],
                    "Get\nDone\n",
                ),
                (
                    "reverse index",
                    &["a 0\r\nb 0\r\n", "\x1bM\x1bM\x1b[2Ka 1\r\nb 1\r\n"],
                    "a 1\nb 1\n",
                ),
                (
                    "a saved place above",
                    &[
                        "\x1b7a 0\r\nb 0\r\n",
                        "\x1b8a 1\r\nb 1\r\n",
                        "\x1b8a 2\r\nb 2\r\n",
                    ],
                    "a 2\nb 2\n",
                ),
                (
                    "a saved place in the line",
                    &[
                        "Loading: \x1b[s1 %",
                        "\x1b[u\x1b[K50 %",
                        "\x1b[u\x1b[K100 %\r\nend\r\n",
                    ],
                    "Loading: 100 %\nend\n",
                ),
                (
                    "the cursor rests above, for longer than lines are held",
                    &[
                        "a 0\r\nb 0\r\n\x1b[2A",
                        "PAUSE",
                        "a 1\r\nb 0\r\n\x1b[2A",
                        "PAUSE",
                        "a 2\r\nb 0\r\n",
                    ],
                    "a 0\nb 0\na 1\na 2\n",
                ),
            ];
            for (name, rounds, expected) in cases {
                let (mut lines, mut at) = (Lines::new(true), now());
                let mut kept = String::new();
                for round in rounds {
                    let is_pause = *round == "PAUSE";
                    if !is_pause {
                        lines.push(round.as_bytes(), at);
                    }
                    at += Duration::from_millis(if is_pause { 1500 } else { 50 });
                    lines.tick(at);
                    kept += &lines.take_ready();
                }
                lines.finish(at);
                kept += &lines.take_ready();
                let kept = crate::escapes::without_escapes(&kept);
                assert_eq!(read(&kept).join("\n"), expected, "{name}");
            }
        }

        #[test]
        fn a_long_line_is_reported_in_parts() {
            let mut lines = Lines::new(false);
            let now = Clock::system().now();
            let mut text = String::new();
            for _ in 0..1000 {
                lines.push(&[b'x'; 1000], now);
                text += &lines.take_ready();
                assert!(lines.assembler.line.len() <= LINE_BYTES_MAX);
            }
            assert!(text.len() > 900_000);
            lines.push(b"\rover it\n", now);
            text += &lines.take_ready();
            assert!(read(&text) == ["over it", ""], "{} bytes", text.len());
        }

        fn printed() -> impl Strategy<Value = Vec<u8>> {
            let one = prop_oneof![
                6 => "[a-c ]{1,6}".prop_map(String::into_bytes),
                3 => Just(b"\n".to_vec()),
                3 => Just(b"\r".to_vec()),
                1 => Just(b"\r\n".to_vec()),
                1 => "[ü漢\u{1b}]".prop_map(String::into_bytes),
                1 => prop::collection::vec(any::<u8>(), 1..3),
            ];
            prop::collection::vec(one, 0..40).prop_map(|parts| parts.concat())
        }

        fn cuts(bytes: &[u8], at: &[prop::sample::Index]) -> Vec<Vec<u8>> {
            let mut at: Vec<usize> = at.iter().map(|at| at.index(bytes.len() + 1)).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            at.windows(2)
                .map(|pair| bytes[pair[0]..pair[1]].to_vec())
                .collect()
        }

        proptest! {
            #[test]
            fn cuts_do_not_change_the_text(
                bytes in printed(),
                at in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
                is_terminal in any::<bool>(),
            ) {
                let whole = pushed(is_terminal, &[&bytes]);
                let pieces = cuts(&bytes, &at);
                let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
                prop_assert_eq!(pushed(is_terminal, &pieces), whole);
            }

            #[test]
            fn pauses_do_not_change_the_lines(
                bytes in printed(),
                at in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
                waits in prop::collection::vec(0_u64..1500, 14),
            ) {
                let expected = read(&pushed(false, &[&bytes]));
                let (mut lines, mut now) = (Lines::new(false), now());
                let (mut kept, mut shown) = (String::new(), String::new());
                for (piece, wait) in cuts(&bytes, &at).iter().zip(waits) {
                    lines.push(piece, now);
                    now += Duration::from_millis(wait);
                    let transient = lines.tick(now);
                    let ready = lines.take_ready();
                    kept += &ready;
                    shown += &ready;
                    shown += &transient.unwrap_or_default();
                }
                lines.finish(now);
                let ready = lines.take_ready();
                kept += &ready;
                shown += &ready;
                prop_assert_eq!(read(&kept), expected.clone());
                prop_assert_eq!(read(&shown), expected);
            }

            #[test]
            fn text_without_carriage_returns_is_unchanged(
                text in "[a-zü漢\u{0}\n]{0,80}",
                at in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
            ) {
                let pieces = cuts(text.as_bytes(), &at);
                let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
                prop_assert_eq!(pushed(false, &pieces), text);
            }
        }
    }

    mod head_tail {
        use proptest::prelude::*;

        use super::super::*;

        proptest! {
            #[test]
            fn both_ends_are_kept_and_missing_bytes_are_counted(
                pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 0..12),
                half in 0_usize..40,
            ) {
                let mut buffer = HeadTailBuffer::new(half * 2);
                pieces.iter().for_each(|piece| buffer.push(piece));
                let all = pieces.concat();
                let (kept, lost) = buffer.into_bytes();
                prop_assert_eq!(kept.len() + usize::try_from(lost).unwrap(), all.len());
                if lost == 0 {
                    prop_assert_eq!(kept, all);
                } else {
                    prop_assert_eq!(&kept[..half], &all[..half]);
                    prop_assert_eq!(&kept[half..], &all[all.len() - half..]);
                }
            }
        }
    }
}
