//! Bytes as lines of bounded length, and JSON Lines as records (pure).

use super::grammar::{Grammar, Reading};
use super::scribe::Scribe;
use super::values;

/// Room that is kept for the next line after a long one.
const ROOM_KEPT: usize = 1024 * 1024;

/// What ends a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// `\n`, before which a `\r` may stand.
    Newline,
    /// `\n`, `\r\n` or `\r`, as in SSE.
    Any,
}

/// A line without its end.
#[derive(Debug)]
pub(super) enum Line<'a> {
    Whole(&'a [u8]),
    /// It was longer than a line may be, and is not kept.
    TooLong(u64),
}

/// Cuts bytes into lines. A line that stands whole in what is pushed is not copied.
#[derive(Debug)]
pub(super) struct Lines {
    ends: Ends,
    bytes_max: usize,
    open: Vec<u8>,
    /// Bytes of an open line that is too long.
    skipped: u64,
    after_return: bool,
}

impl Lines {
    pub fn new(ends: Ends, bytes_max: usize) -> Self {
        Self {
            ends,
            bytes_max,
            open: Vec::new(),
            skipped: 0,
            after_return: false,
        }
    }

    fn end_in(&self, bytes: &[u8]) -> Option<usize> {
        match self.ends {
            Ends::Newline => memchr::memchr(b'\n', bytes),
            Ends::Any => memchr::memchr2(b'\n', b'\r', bytes),
        }
    }

    pub fn push(&mut self, bytes: &[u8], mut take: impl FnMut(Line<'_>)) {
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(at) = self.end_in(rest) else {
                return self.keep(rest);
            };
            self.after_return = self.ends == Ends::Any && rest[at] == b'\r';
            self.end_line(&rest[..at], &mut take);
            rest = &rest[at + 1..];
        }
    }

    /// The last line, which has no end.
    pub fn finish(&mut self, mut take: impl FnMut(Line<'_>)) {
        if self.skipped > 0 || !self.open.is_empty() {
            self.end_line(&[], &mut take);
        }
    }

    /// The line whose end has not come.
    pub fn open(&self) -> &[u8] {
        &self.open
    }

    /// Whether that line is longer than a line may be already.
    pub fn is_too_long(&self) -> bool {
        self.skipped > 0
    }

    /// Takes it: what comes is a line of its own.
    pub fn take_open(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.open)
    }

    fn end_line(&mut self, rest: &[u8], take: &mut impl FnMut(Line<'_>)) {
        if self.skipped == 0 && self.open.is_empty() && rest.len() <= self.bytes_max {
            return take(Line::Whole(rest));
        }
        self.keep(rest);
        match std::mem::take(&mut self.skipped) {
            0 => take(Line::Whole(&self.open)),
            skipped => take(Line::TooLong(skipped)),
        }
        self.open.clear();
        self.open.shrink_to(ROOM_KEPT);
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.skipped > 0 || self.open.len() + bytes.len() > self.bytes_max {
            self.skipped += (self.open.len() + bytes.len()) as u64;
            self.open = Vec::new();
        } else {
            self.open.extend_from_slice(bytes);
        }
    }
}

/// JSON Lines with a meaning.
#[derive(Debug)]
pub(super) struct JsonLines<G> {
    lines: Lines,
    grammar: G,
}

impl<G: Grammar> JsonLines<G> {
    pub fn new(grammar: G, bytes_max: usize) -> Self {
        Self {
            lines: Lines::new(Ends::Newline, bytes_max),
            grammar,
        }
    }
}

/// A line as records, or what is wrong with it.
pub(super) fn read<G: Grammar>(line: &Line<'_>, grammar: &mut G, scribe: &mut Scribe) {
    match line {
        Line::Whole(line) => values::read(line, grammar, scribe),
        Line::TooLong(bytes) => {
            scribe.warn(format!("a record is too long: {bytes} bytes skipped"));
        }
    }
}

/// A grammar that is given older records.
struct Recalling<'g, G>(&'g mut G);

impl<G: Grammar> Grammar for Recalling<'_, G> {
    type Record<'a> = G::Record<'a>;

    fn record(&mut self, record: Self::Record<'_>, scribe: &mut Scribe) {
        self.0.recall(record, scribe);
    }
}

impl<G: Grammar + Send> Reading for JsonLines<G> {
    fn push(&mut self, bytes: &[u8], scribe: &mut Scribe) {
        let grammar = &mut self.grammar;
        self.lines.push(bytes, |line| read(&line, grammar, scribe));
    }

    fn settle(&mut self, scribe: &mut Scribe) {
        if values::is_whole(self.lines.open()) {
            values::read(&self.lines.take_open(), &mut self.grammar, scribe);
        }
        self.grammar.settled(scribe);
    }

    fn turn_over(&mut self, scribe: &mut Scribe) {
        self.grammar.turn_over(scribe);
    }

    fn recall(&mut self, bytes: &[u8], scribe: &mut Scribe) {
        let grammar = &mut Recalling(&mut self.grammar);
        for line in bytes.split(|byte| *byte == b'\n') {
            values::read(line, grammar, scribe);
        }
        self.grammar.recalled(scribe);
    }

    fn is_open(&self) -> bool {
        self.lines.is_too_long() || values::is_begun(self.lines.open())
    }

    fn finish(&mut self, scribe: &mut Scribe) {
        let grammar = &mut self.grammar;
        self.lines.finish(|line| read(&line, grammar, scribe));
        self.grammar.end(scribe);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(ends: Ends, bytes_max: usize, pieces: &[&[u8]]) -> Vec<String> {
        let mut found = Vec::new();
        let mut lines = Lines::new(ends, bytes_max);
        let mut take = |line: Line<'_>| {
            found.push(match line {
                Line::Whole(line) => String::from_utf8_lossy(line).into_owned(),
                Line::TooLong(bytes) => format!("{bytes} skipped"),
            });
        };
        for piece in pieces {
            lines.push(piece, &mut take);
        }
        lines.finish(&mut take);
        found
    }

    #[test]
    fn a_return_ends_a_line_where_it_may() {
        let bytes: &[u8] = b"a\r\nb\rc\n\nd";
        assert_eq!(lines(Ends::Any, 9, &[bytes]), ["a", "b", "c", "", "d"]);
        assert_eq!(lines(Ends::Newline, 9, &[bytes]), ["a\r", "b\rc", "", "d"]);
    }

    #[test]
    fn a_line_that_is_too_long_is_counted() {
        let pieces: &[&[u8]] = &[b"12", b"345", b"6789\nab", b"c\n123456"];
        assert_eq!(
            lines(Ends::Newline, 4, pieces),
            ["9 skipped", "abc", "6 skipped"]
        );
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(bytes in "[a\r\n]{0,30}", cut in 0..30usize, max in 0..6usize) {
            let bytes = bytes.as_bytes();
            let cut = cut.min(bytes.len());
            for ends in [Ends::Any, Ends::Newline] {
                prop_assert_eq!(
                    lines(ends, max, &[&bytes[..cut], &bytes[cut..]]),
                    lines(ends, max, &[bytes])
                );
            }
        }
    }
}
