//! What a child writes, handed on as text: in order, in batches, up to a number of lines (pure).
//!
//! What comes is handed on at once when nothing was for a while, and else together with what
//! follows in the next milliseconds (`003…`, "Rate Limiting Strategy"). Text of the other stream
//! does not overtake it.

use std::time::{Duration, Instant};

use super::lines::Lines;
use crate::child::OutputStream;

/// How long text may wait for more: a hundred events a second are enough for any eye.
const BATCH_EVERY: Duration = Duration::from_millis(10);

/// Text that does not wait: what a pipe holds.
const BATCH_BYTES: usize = 64 * 1024;

/// Said once, where it is so.
pub(super) const NOT_TEXT: &str =
    "the output has bytes that are not UTF-8: each such place reads \u{fffd}";

/// Where text goes.
pub(super) trait Sink {
    /// The next text of a stream. What is `passing` may be left out by who keeps things: the same
    /// line comes again.
    fn text(&mut self, stream: OutputStream, text: String, passing: bool);

    /// Something that whoever reads the text should know.
    fn warning(&mut self, message: &str);
}

/// Hands on the text of both streams.
pub(super) struct Recorder<S> {
    pub sink: S,
    lines: [Lines; 2],
    /// When text was last handed on.
    given_at: Option<Instant>,
    limit: LineLimit,
    /// Lines are handed on when they are whole, and not while they are open.
    whole_lines: bool,
    has_warned_of_bytes: bool,
}

impl<S: Sink> Recorder<S> {
    /// Hands on so many lines at most.
    pub fn new(sink: S, is_terminal: bool, lines_max: Option<u64>) -> Self {
        Self {
            sink,
            lines: [Lines::new(is_terminal), Lines::new(is_terminal)],
            given_at: None,
            limit: LineLimit::new(lines_max),
            whole_lines: false,
            has_warned_of_bytes: false,
        }
    }

    /// Hands on whole lines only; of one beyond 64 KiB pieces, and at the end what is left.
    pub fn whole_lines(mut self) -> Self {
        self.whole_lines = true;
        self
    }

    /// Takes bytes as they were read.
    pub fn push(&mut self, stream: OutputStream, bytes: &[u8], now: Instant) {
        self.give(stream.other(), now);
        let lines = &mut self.lines[index(stream)];
        lines.push(bytes, now);
        if lines.ready().len() >= BATCH_BYTES {
            self.give(stream, now);
        }
    }

    /// Hands on what has waited long enough; when to call again.
    pub fn tick(&mut self, now: Instant) -> Option<Instant> {
        if self.batch_due().is_none_or(|due| now >= due) {
            self.give_all(now);
        }
        if self.whole_lines {
            return self.batch_due().filter(|_| self.has_text());
        }
        for stream in [OutputStream::Stdout, OutputStream::Stderr] {
            let lines = &mut self.lines[index(stream)];
            if lines.due().is_none_or(|due| now < due) {
                continue;
            }
            let passing = lines.tick(now);
            // An open line is seen behind all that came before it.
            self.give_all(now);
            if let Some(text) = passing
                && !self.limit.is_reached()
            {
                self.sink.text(stream, text, true);
            }
        }
        let batch = self.batch_due().filter(|_| self.has_text());
        let open = self.lines.iter().map(Lines::due);
        open.chain([batch]).flatten().min()
    }

    /// The end: hands on everything; how many lines were not.
    pub fn finish(mut self, now: Instant) -> (S, u64) {
        for stream in [OutputStream::Stdout, OutputStream::Stderr] {
            self.give_all(now);
            self.lines[index(stream)].finish(now);
        }
        self.give_all(now);
        (self.sink, self.limit.lost())
    }

    fn has_text(&self) -> bool {
        self.lines.iter().any(|lines| !lines.ready().is_empty())
    }

    fn batch_due(&self) -> Option<Instant> {
        self.given_at.map(|at| at + BATCH_EVERY)
    }

    /// Hands on what is whole, without waiting for more.
    pub fn give_all(&mut self, now: Instant) {
        self.give(OutputStream::Stdout, now);
        self.give(OutputStream::Stderr, now);
    }

    fn give(&mut self, stream: OutputStream, now: Instant) {
        let lines = &mut self.lines[index(stream)];
        if lines.ready().is_empty() {
            return;
        }
        let text = lines.take_ready();
        let has_invalid = lines.invalid() > 0;
        self.given_at = Some(now);
        let (text, is_first_cut) = self.limit.cut(index(stream), text);
        if !text.is_empty() {
            self.sink.text(stream, text, false);
        }
        if is_first_cut {
            let message = format!(
                "the output is cut after {} lines; what follows is read and counted only",
                self.limit.lines_max.unwrap_or(0)
            );
            self.sink.warning(&message);
        }
        if has_invalid && !std::mem::replace(&mut self.has_warned_of_bytes, true) {
            self.sink.warning(NOT_TEXT);
        }
    }
}

fn index(stream: OutputStream) -> usize {
    match stream {
        OutputStream::Stdout => 0,
        OutputStream::Stderr => 1,
    }
}

/// How many lines are handed on.
struct LineLimit {
    lines_max: Option<u64>,
    lines: u64,
    lost: u64,
    has_cut: bool,
    /// Per stream: text was lost that has no line end yet.
    lost_open: [bool; 2],
}

impl LineLimit {
    fn new(lines_max: Option<u64>) -> Self {
        Self {
            lines_max,
            lines: 0,
            lost: 0,
            has_cut: false,
            lost_open: [false; 2],
        }
    }

    fn is_reached(&self) -> bool {
        self.lines_max.is_some_and(|max| self.lines >= max)
    }

    fn lost(&self) -> u64 {
        self.lost
            + self
                .lost_open
                .iter()
                .map(|open| u64::from(*open))
                .sum::<u64>()
    }

    /// As much of the text as there is room for; whether this is the first that is cut.
    fn cut(&mut self, stream: usize, mut text: String) -> (String, bool) {
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
            self.lost_open[stream] = lost.last() != Some(&b'\n');
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
    struct Seen {
        texts: Vec<(OutputStream, String, bool)>,
        warnings: Vec<String>,
    }

    impl Sink for Seen {
        fn text(&mut self, stream: OutputStream, text: String, passing: bool) {
            self.texts.push((stream, text, passing));
        }

        fn warning(&mut self, message: &str) {
            self.warnings.push(message.to_owned());
        }
    }

    fn recorder(lines_max: Option<u64>) -> (Recorder<Seen>, Instant) {
        let recorder = Recorder::new(Seen::default(), false, lines_max);
        (recorder, crate::clock::Clock::system().now())
    }

    fn texts(seen: &Seen) -> Vec<(OutputStream, &str)> {
        seen.texts
            .iter()
            .map(|(stream, text, _)| (*stream, text.as_str()))
            .collect()
    }

    #[test]
    fn the_first_comes_at_once_and_the_next_ones_together() {
        let (mut recorder, start) = recorder(None);
        let at = |ms| start + Duration::from_millis(ms);
        recorder.push(Stdout, b"1\n", at(0));
        assert_eq!(recorder.tick(at(0)), None);
        assert_eq!(texts(&recorder.sink), [(Stdout, "1\n")]);
        for ms in 1..10 {
            recorder.push(Stdout, b"more\n", at(ms));
            assert_eq!(recorder.tick(at(ms)), Some(at(10)));
        }
        assert_eq!(recorder.sink.texts.len(), 1);
        recorder.tick(at(10));
        assert_eq!(
            texts(&recorder.sink)[1],
            (Stdout, "more\n".repeat(9).as_str())
        );
    }

    #[test]
    fn no_stream_overtakes_the_other() {
        let (mut recorder, now) = recorder(None);
        for _ in 0..3 {
            recorder.push(Stdout, b"out\nopen", now);
            recorder.push(Stderr, b"err\n", now);
        }
        let (seen, lost) = recorder.finish(now);
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
    fn lines_beyond_the_limit_are_counted_and_said_once() {
        for (pieces, shown, lost) in [
            (&["1\n2\n3\n"][..], "1\n2\n3\n", 0),
            (&["1\n2\n3\n4\n5\n6"], "1\n2\n3\n", 3),
            (&["1\n", "2\n3", "\n4", "\n", "5"], "1\n2\n3\n", 2),
            (&["1\n2"], "1\n2", 0),
        ] {
            let (mut recorder, now) = recorder(Some(3));
            for piece in pieces {
                recorder.push(Stdout, piece.as_bytes(), now);
                recorder.tick(now);
            }
            let (seen, counted) = recorder.finish(now);
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
    fn bytes_that_are_no_text_are_said_once() {
        let (mut recorder, now) = recorder(None);
        recorder.push(Stdout, b"\xff\xfe\n", now);
        recorder.push(Stderr, b"\xff\n", now);
        let (seen, _) = recorder.finish(now);
        assert_eq!(seen.warnings.len(), 1, "{:?}", seen.warnings);
        assert_eq!(seen.texts.len(), 2);
    }
}
