//! Batches the output of a child as text: in order, up to a number of lines (pure).
//!
//! Text after a pause is emitted immediately, other text together with the text of the next milliseconds.
//! Text of the two streams keeps its order.

use std::time::{Duration, Instant};

use super::line_assembler::LineAssembler;
use crate::child::OutputStream;

/// The longest time that text is held for a batch. A reader cannot distinguish more than a hundred events a
/// second.
const BATCH_EVERY: Duration = Duration::from_millis(10);

/// The size from which text is not held: the capacity of a pipe.
const BATCH_BYTES: usize = 64 * 1024;

/// The warning for output that is not text, emitted once.
pub(super) const NOT_TEXT: &str =
    "the output contains bytes that are not UTF-8: each such place is shown as \u{fffd}";

pub(crate) trait TextSink {
    /// Receives the next text of a stream. Transient text need not be stored, because a later text contains
    /// the same line.
    fn text(&mut self, stream: OutputStream, text: String, is_transient: bool);

    /// Receives a warning for the reader of the text.
    fn warning(&mut self, message: &str);
}

pub(crate) struct OutputBatcher<S> {
    pub sink: S,
    lines: [LineAssembler; 2],
    /// The time at which text was last passed on.
    flushed_at: Option<Instant>,
    limit: LineLimit,
    /// Passes on complete lines only, lines beyond 64 KiB in parts, and an open line at the end.
    pub complete_lines: bool,
    has_warned_of_bytes: bool,
}

impl<S: TextSink> OutputBatcher<S> {
    /// Creates a batcher that passes on at most `lines_max` lines.
    pub fn new(sink: S, is_terminal: bool, lines_max: Option<u64>) -> Self {
        Self {
            sink,
            lines: OutputStream::ALL.map(|_| LineAssembler::new(is_terminal)),
            flushed_at: None,
            limit: LineLimit {
                lines_max,
                ..LineLimit::default()
            },
            complete_lines: false,
            has_warned_of_bytes: false,
        }
    }

    pub fn push(&mut self, stream: OutputStream, bytes: &[u8], now: Instant) {
        self.flush_stream(stream.other(), now);
        let lines = &mut self.lines[stream.index()];
        lines.push(bytes, now);
        if lines.ready().len() >= BATCH_BYTES {
            self.flush_stream(stream, now);
        }
    }

    /// Passes on text that was held long enough; returns the time of the next call.
    pub fn tick(&mut self, now: Instant) -> Option<Instant> {
        if self.batch_due().is_none_or(|due| now >= due) {
            self.flush(now);
        }
        if self.complete_lines {
            return self.batch_due().filter(|_| self.has_text());
        }
        for stream in OutputStream::ALL {
            let lines = &mut self.lines[stream.index()];
            if lines.due().is_none_or(|due| now < due) {
                continue;
            }
            let transient = lines.tick(now);
            // An open line follows everything that was printed before it.
            self.flush(now);
            if let Some(text) = transient
                && !self.limit.is_reached()
            {
                self.sink.text(stream, text, true);
            }
        }
        let batch = self.batch_due().filter(|_| self.has_text());
        let open = self.lines.iter().map(LineAssembler::due);
        open.chain([batch]).flatten().min()
    }

    /// Passes on all text at the end of the output; returns the sink and the number of lines beyond the
    /// limit.
    pub fn finish(mut self, now: Instant) -> (S, u64) {
        self.end_lines(now);
        (self.sink, self.limit.lost())
    }

    /// Passes on all text, including open lines. Later text begins new lines.
    pub fn end_lines(&mut self, now: Instant) {
        for stream in OutputStream::ALL {
            self.flush(now);
            self.lines[stream.index()].finish(now);
        }
        self.flush(now);
    }

    fn has_text(&self) -> bool {
        self.lines.iter().any(|lines| !lines.ready().is_empty())
    }

    fn batch_due(&self) -> Option<Instant> {
        self.flushed_at.map(|at| at + BATCH_EVERY)
    }

    /// Passes on ready text without waiting for more.
    pub fn flush(&mut self, now: Instant) {
        for stream in OutputStream::ALL {
            self.flush_stream(stream, now);
        }
    }

    fn flush_stream(&mut self, stream: OutputStream, now: Instant) {
        let lines = &mut self.lines[stream.index()];
        if lines.ready().is_empty() {
            return;
        }
        let text = lines.take_ready();
        let has_invalid = lines.invalid() > 0;
        self.flushed_at = Some(now);
        let (text, is_first_cut) = self.limit.cut(stream, text);
        if !text.is_empty() {
            self.sink.text(stream, text, false);
        }
        if is_first_cut {
            let message = format!(
                "the output is cut after {} lines; further lines are only counted",
                self.limit.lines_max.unwrap_or(0)
            );
            self.sink.warning(&message);
        }
        if has_invalid && !std::mem::replace(&mut self.has_warned_of_bytes, true) {
            self.sink.warning(NOT_TEXT);
        }
    }
}

#[derive(Default)]
struct LineLimit {
    lines_max: Option<u64>,
    lines: u64,
    lost: u64,
    has_cut: bool,
    /// For each stream: the last lost line has no end yet.
    lost_open: [bool; 2],
}

impl LineLimit {
    fn is_reached(&self) -> bool {
        self.lines_max.is_some_and(|max| self.lines >= max)
    }

    fn lost(&self) -> u64 {
        self.lost + self.lost_open.map(u64::from).iter().sum::<u64>()
    }

    /// Returns the text up to the limit, and true if this is the first cut.
    fn cut(&mut self, stream: OutputStream, mut text: String) -> (String, bool) {
        let Some(max) = self.lines_max else {
            return (text, false);
        };
        let mut end = 0;
        while self.lines < max
            && let Some(at) = memchr::memchr(b'\n', &text.as_bytes()[end..])
        {
            end += at + 1;
            self.lines += 1;
        }
        if self.lines < max {
            return (text, false);
        }
        let lost = &text.as_bytes()[end..];
        if !lost.is_empty() {
            let count = memchr::memchr_iter(b'\n', lost).count();
            self.lost += u64::try_from(count).unwrap_or(u64::MAX);
            self.lost_open[stream.index()] = lost.last() != Some(&b'\n');
        }
        let is_first = !lost.is_empty() && !std::mem::replace(&mut self.has_cut, true);
        text.truncate(end);
        (text, is_first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let at = |ms| start + Duration::from_millis(ms);
        batcher.push(Stdout, b"1\n", at(0));
        assert_eq!(batcher.tick(at(0)), None);
        assert_eq!(texts(&batcher.sink), [(Stdout, "1\n")]);
        for ms in 1..10 {
            batcher.push(Stdout, b"more\n", at(ms));
            assert_eq!(batcher.tick(at(ms)), Some(at(10)));
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
