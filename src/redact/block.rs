//! Blocks: private keys that span many lines; finds the key's bytes and the block's end (pure).

use super::marker::marker_len;
use super::span::Span;

/// Maximum number of lines in a block; the largest keys in use have about 250.
const LINES_MAX: u16 = 400;
/// Minimum length of a run of key bytes; words of prose are shorter.
const LONG_RUN: u16 = 20;

/// The position in a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    lines: u16,
    /// Length of the current run of key bytes.
    run: u16,
    /// Length of the previous run on the same line.
    before: u16,
    /// True if both runs consist of digits, such as line numbers.
    digits: bool,
    /// True in a header of the block (`Proc-Type: …`), the rest of which is redacted.
    header: bool,
    /// True after a hyphen within a run; a second hyphen ends the block.
    hyphen: bool,
    /// True if the previous line was short. The last line of a key is short; two consecutive short lines are
    /// not a key.
    short: bool,
    /// Length of the longest run of this line.
    longest: u16,
    /// True if the block was already redacted; any other text is after its end.
    redacted: bool,
}

impl Block {
    /// Reads the text from `at` and adds spans of the key. Returns the block's end; `None` if the block
    /// continues.
    pub(super) fn take(
        &mut self,
        text: &[u8],
        mut at: usize,
        rule: u16,
        spans: &mut Vec<Span>,
    ) -> Option<usize> {
        while at < text.len() {
            if at == 0 || text[at - 1] == b'\n' {
                at += grep_prefix(&text[at..]);
                if at == text.len() {
                    break;
                }
            }
            let byte = text[at];
            let end = match byte {
                b'\n' => self.end_line(),
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' | b'=' => {
                    self.add_key_byte(byte)
                }
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
                // Escaped text contains a newline as `\n`.
                b'\\' => {
                    self.end_run();
                    self.before = 0;
                    false
                }
                b'[' => match marker_len(&text[at..]) {
                    Some(len) => {
                        self.redacted = true;
                        at += len;
                        continue;
                    }
                    None => true,
                },
                b' ' | b'\t' | b'\r' | b'"' | b'\'' | b',' | b'|' | b'>' | b'*' | b'#' | 0x80.. => {
                    self.end_run();
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

    /// Ends a line; returns true if the block ends with it.
    pub(super) fn end_line(&mut self) -> bool {
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

    /// Adds a byte that may belong to the key; returns true if it belongs to a word of prose.
    fn add_key_byte(&mut self, byte: u8) -> bool {
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

    fn end_run(&mut self) {
        if self.run > 0 {
            self.before = self.run;
            self.run = 0;
        }
    }
}

/// Returns the length of the prefix that `grep -n` writes before a line: a path and a number, between colons
/// or hyphens.
fn grep_prefix(line: &[u8]) -> usize {
    /// No useful path is longer.
    const LONG: usize = 200;
    let line = &line[..line.len().min(LONG)];
    let end = line
        .iter()
        .position(|b| matches!(b, b' ' | b'\n' | b'"' | b'\\'))
        .unwrap_or(line.len());
    let line = &line[..end];
    for (at, byte) in line.iter().enumerate() {
        if at == 0 || !matches!(byte, b':' | b'-') {
            continue;
        }
        let digits = line[at + 1..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
        let after = at + 1 + digits;
        if digits > 0 && line.get(after) == Some(byte) {
            return after + 1;
        }
    }
    0
}

fn push(spans: &mut Vec<Span>, at: usize, rule: u16) {
    match spans.last_mut() {
        Some(last) if last.end == at && last.rule == rule => last.end += 1,
        _ => spans.push(Span::new(at, at + 1, rule)),
    }
}
