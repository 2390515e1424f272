//! The last line of a text that is not blank, independent of how the text is cut (pure).

use crate::agent::summary::result;

/// The bytes of a line that are kept, from its beginning: more than a result needs.
const LINE_BYTES_MAX: usize = 16 * 1024;

#[derive(Debug, Default)]
pub(super) struct LastLine {
    ended: Vec<u8>,
    /// The last line, which has no end yet.
    open: Vec<u8>,
}

impl LastLine {
    /// Takes the next piece of the text.
    pub fn push(&mut self, piece: &[u8]) {
        let Some(end) = memchr::memrchr(b'\n', piece) else {
            return keep(&mut self.open, piece);
        };
        let lines = &piece[..end];
        let mut lines = lines.rsplit(|byte| *byte == b'\n').peekable();
        while let Some(line) = lines.next() {
            let is_first = lines.peek().is_none();
            if is_first {
                // The first part continues the open line.
                keep(&mut self.open, line);
            }
            let line = if is_first { self.open.as_slice() } else { line };
            if !is_blank(line) {
                self.ended.clear();
                keep(&mut self.ended, line);
                break;
            }
        }
        self.open.clear();
        keep(&mut self.open, &piece[end + 1..]);
    }

    /// Returns the line, cut to the length of a result.
    pub fn text(&self) -> String {
        let line = match is_blank(&self.open) {
            true => &self.ended,
            false => &self.open,
        };
        let line = String::from_utf8_lossy(line);
        result(line.trim_matches(|c: char| c == '\0' || c.is_whitespace()))
    }
}

/// Appends as much as fits.
fn keep(line: &mut Vec<u8>, more: &[u8]) {
    let room = LINE_BYTES_MAX.saturating_sub(line.len());
    line.extend_from_slice(&more[..more.len().min(room)]);
}

/// Returns true if a line consists of blanks, or of the NUL bytes that a crash leaves.
fn is_blank(line: &[u8]) -> bool {
    line.iter()
        .all(|byte| *byte == 0 || byte.is_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_change_nothing() {
        for (text, expected) in [
            ("", ""),
            ("one", "one"),
            ("one\n\n \n", "one"),
            ("one\ntwo\n", "two"),
            ("one\ntwo\n\0\0\0", "two"),
            ("\0\0\0\n\0", ""),
            ("one\n\ntwo and a half", "two and a half"),
        ] {
            for size in 1..=text.len().max(1) {
                let mut line = LastLine::default();
                for piece in text.as_bytes().chunks(size) {
                    line.push(piece);
                }
                assert_eq!(line.text(), expected, "{text:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn the_line_is_bounded() {
        let mut line = LastLine::default();
        for _ in 0..100 {
            line.push(&[b'a'; 1_000]);
        }
        assert!(line.open.len() == LINE_BYTES_MAX && line.ended.is_empty());
    }
}
