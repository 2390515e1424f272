//! The inside of a private key that is written over many lines: what of it is key, and where it ends (pure).

use super::scan::Span;

/// Lines of one block at most: the largest keys in use have some 250.
const LINES_MAX: u16 = 400;
/// Bytes in a row that prose does not have, and lines of a key do.
const LONG_RUN: u16 = 20;

/// Where in a block the text has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    lines: u16,
    /// Bytes of the key in a row, so far.
    run: u16,
    /// The run before, on the same line.
    before: u16,
    /// Whether both have digits only: numbers of lines stand before lines.
    digits: bool,
    /// In a header of the block (`Proc-Type: …`), whose rest is swallowed.
    header: bool,
    /// The last byte was a hyphen within a run: one more is the end.
    hyphen: bool,
    /// The line before was short: a key's last line is, two of them are something else.
    short: bool,
    /// The longest run of this line.
    longest: u16,
    /// The block was taken out before: what is not, is behind its end.
    redacted: bool,
}

impl Block {
    /// Takes the text behind `at`: spans of the key, and where the block ends. `None`: it goes on.
    pub(super) fn take(
        &mut self,
        text: &[u8],
        mut at: usize,
        rule: u16,
        spans: &mut Vec<Span>,
    ) -> Option<usize> {
        while at < text.len() {
            let byte = text[at];
            let end = match byte {
                b'\n' => self.line(),
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' | b'=' => self.key(byte),
                _ if self.header => false,
                b'-' if self.run > 0 && !self.hyphen && text.get(at + 1) != Some(&b'-') => {
                    self.hyphen = true;
                    push(spans, at, rule);
                    at += 1;
                    continue;
                }
                b'-' => self.hyphen || text.get(at + 1) == Some(&b'-'),
                b':' if self.run > 0 => {
                    self.header = true;
                    false
                }
                // Text within text: a line's end is written `\n`.
                b'\\' => {
                    self.pause();
                    self.before = 0;
                    false
                }
                b'[' => match super::marker_len(&text[at..]) {
                    Some(len) => {
                        self.redacted = true;
                        at += len;
                        continue;
                    }
                    None => true,
                },
                b' ' | b'\t' | b'\r' | b'"' | b'\'' | b',' | b'|' | b'>' | b'*' | b'#' | 0x80.. => {
                    self.pause();
                    at += 1;
                    continue;
                }
                _ => true,
            };
            if end {
                return Some(at);
            }
            if byte != b'\n' && byte != b'-' {
                push(spans, at, rule);
            }
            self.hyphen = false;
            at += 1;
        }
        None
    }

    /// A line's end; whether the block ends with it.
    pub(super) fn line(&mut self) -> bool {
        let longest = self.longest.max(self.run);
        let short = longest > 0 && longest < LONG_RUN && !self.header && !self.digits;
        let end = self.lines >= LINES_MAX || (short && self.short);
        *self = Self {
            lines: self.lines + 1,
            redacted: self.redacted,
            short: short || (self.short && longest == 0),
            ..Self::default()
        };
        end
    }

    /// One more byte that may be the key's; whether it is rather a word.
    fn key(&mut self, byte: u8) -> bool {
        if self.redacted {
            return true;
        }
        if self.run == 0 {
            let word = self.before > 0 && self.before < LONG_RUN && !self.digits && !self.header;
            if word {
                return true;
            }
            self.digits = true;
        }
        self.digits &= byte.is_ascii_digit();
        self.run = self.run.saturating_add(1);
        self.longest = self.longest.max(self.run);
        false
    }

    fn pause(&mut self) {
        if self.run > 0 {
            self.before = self.run;
            self.run = 0;
        }
    }
}

fn push(spans: &mut Vec<Span>, at: usize, rule: u16) {
    match spans.last_mut() {
        Some(last) if last.end == at && last.rule == rule => last.end += 1,
        _ => spans.push(Span {
            start: at,
            end: at + 1,
            rule,
        }),
    }
}
