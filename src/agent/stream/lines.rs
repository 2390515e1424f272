//! Splits bytes into lines of limited length (pure).

/// The capacity to keep for later lines or events after a long one.
pub(super) const ROOM_KEPT: usize = 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEnd {
    /// `\n`, with an optional `\r` before it.
    Newline,
    /// `\n`, `\r\n` or `\r`, as in SSE.
    Any,
}

#[derive(Debug)]
pub(super) enum ByteLine<'a> {
    Whole(&'a [u8]),
    /// The line exceeded the limit and was dropped. The number is its length in bytes.
    TooLong(u64),
}

/// Splits bytes into lines. A line that is complete within the pushed bytes is not copied.
#[derive(Debug)]
pub(super) struct LineSplitter {
    ends: LineEnd,
    bytes_max: usize,
    open: Vec<u8>,
    /// The number of bytes of an open line that exceeds the limit.
    skipped: u64,
    after_return: bool,
}

impl LineSplitter {
    pub fn new(ends: LineEnd, bytes_max: usize) -> Self {
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
            LineEnd::Newline => memchr::memchr(b'\n', bytes),
            LineEnd::Any => memchr::memchr2(b'\n', b'\r', bytes),
        }
    }

    pub fn push(&mut self, bytes: &[u8], mut take: impl FnMut(ByteLine<'_>)) {
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(at) = self.end_in(rest) else {
                return self.keep(rest);
            };
            self.after_return = self.ends == LineEnd::Any && rest[at] == b'\r';
            self.end_line(&rest[..at], &mut take);
            rest = &rest[at + 1..];
        }
    }

    /// Emits the last line, which is not terminated.
    pub fn finish(&mut self, mut take: impl FnMut(ByteLine<'_>)) {
        if self.skipped > 0 || !self.open.is_empty() {
            self.end_line(&[], &mut take);
        }
    }

    pub fn open(&self) -> &[u8] {
        &self.open
    }

    /// Returns true if the open line already exceeds the limit.
    pub fn is_too_long(&self) -> bool {
        self.skipped > 0
    }

    /// Removes and returns the open line; later bytes begin another line.
    pub fn take_open(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.open)
    }

    fn end_line(&mut self, rest: &[u8], take: &mut impl FnMut(ByteLine<'_>)) {
        if self.skipped == 0 && self.open.is_empty() && rest.len() <= self.bytes_max {
            return take(ByteLine::Whole(rest));
        }
        self.keep(rest);
        match std::mem::take(&mut self.skipped) {
            0 => take(ByteLine::Whole(&self.open)),
            skipped => take(ByteLine::TooLong(skipped)),
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(ends: LineEnd, bytes_max: usize, pieces: &[&[u8]]) -> Vec<String> {
        let mut found = Vec::new();
        let mut lines = LineSplitter::new(ends, bytes_max);
        let mut take = |line: ByteLine<'_>| {
            found.push(match line {
                ByteLine::Whole(line) => String::from_utf8_lossy(line).into_owned(),
                ByteLine::TooLong(bytes) => format!("{bytes} skipped"),
            });
        };
        for piece in pieces {
            lines.push(piece, &mut take);
        }
        lines.finish(&mut take);
        found
    }

    #[test]
    fn a_carriage_return_ends_a_line_where_allowed() {
        let bytes: &[u8] = b"a\r\nb\rc\n\nd";
        assert_eq!(lines(LineEnd::Any, 9, &[bytes]), ["a", "b", "c", "", "d"]);
        assert_eq!(
            lines(LineEnd::Newline, 9, &[bytes]),
            ["a\r", "b\rc", "", "d"]
        );
    }

    #[test]
    fn a_line_that_is_too_long_is_counted() {
        let pieces: &[&[u8]] = &[b"12", b"345", b"6789\nab", b"c\n123456"];
        assert_eq!(
            lines(LineEnd::Newline, 4, pieces),
            ["9 skipped", "abc", "6 skipped"]
        );
    }

    proptest! {
        #[test]
        fn cuts_do_not_matter(bytes in "[a\r\n]{0,30}", cut in 0..30usize, max in 0..6usize) {
            let bytes = bytes.as_bytes();
            let cut = cut.min(bytes.len());
            for ends in [LineEnd::Any, LineEnd::Newline] {
                prop_assert_eq!(
                    lines(ends, max, &[&bytes[..cut], &bytes[cut..]]),
                    lines(ends, max, &[bytes])
                );
            }
        }
    }
}
