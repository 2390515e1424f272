//! JSON as this crate writes it: texts are written, and values are read from a position in a line, several
//! times as fast as serde_json does (pure).
//!
//! A log spends most of its time here. Each event has a few strings, and hardly any byte in them needs an
//! escape, so eight bytes are examined and copied in one step. When a value is read, `None` always means that
//! the text has another format or is invalid. The caller then passes the whole line to serde, which decides
//! and reports the error.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::ids::{ExecutionId, PaneId};

/// A key or a name, borrowed from the input where possible.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct BorrowedText<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// The lowest bit of each of eight bytes.
const ONES: u64 = 0x0101_0101_0101_0101;

/// Appends text as a JSON string.
pub(super) fn push_string(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    // A flood consists of short lines; this leaves room for an escaped newline after every fourth byte.
    out.reserve(bytes.len() + bytes.len() / 4 + 2);
    out.push(b'"');
    let mut at = 0;
    while let Some(eight) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let marks = special_in(u64::from_le_bytes(*eight));
        // Copying all eight is cheaper than copying a variable number.
        out.extend_from_slice(eight);
        if marks == 0 {
            at += 8;
            continue;
        }
        let plain = marks.trailing_zeros() as usize / 8;
        out.truncate(out.len() - 8 + plain);
        push_escape(out, eight[plain & 7]);
        at += plain + 1;
    }
    for &byte in bytes.get(at..).unwrap_or_default() {
        if is_special(byte) {
            push_escape(out, byte);
        } else {
            out.push(byte);
        }
    }
    out.push(b'"');
}

pub(super) fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Marks bytes that need an escape by setting their highest bit. Bytes above the lowest mark may be marked
/// wrongly, because the subtraction borrows from them; the lowest mark is always correct.
#[inline(always)]
pub(super) fn special_in(eight: u64) -> u64 {
    let is_below = |value: u64, limit: u8| value.wrapping_sub(ONES * u64::from(limit)) & !value;
    let is = |byte: u8| is_below(eight ^ (ONES * u64::from(byte)), 1);
    (is_below(eight, 0x20) | is(b'"') | is(b'\\')) & (ONES * 0x80)
}

fn push_escape(out: &mut Vec<u8>, byte: u8) {
    // Newlines are common in text.
    if byte == b'\n' {
        return out.extend_from_slice(b"\\n");
    }
    push_rare_escape(out, byte);
}

#[cold]
fn push_rare_escape(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            out.extend_from_slice(b"\\u00");
            // Both are below 16.
            out.push(DIGITS[usize::from(byte >> 4)]);
            out.push(DIGITS[usize::from(byte & 15)]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// The number of ids that a decoder keeps: a log has one execution and a few busy panes.
const IDS_MAX: usize = 8;

/// The state that a decoder keeps between lines: the most recent ids and a buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct ScanMemory {
    executions: Vec<ExecutionId>,
    panes: Vec<PaneId>,
    /// The text of the last string with escapes.
    text: String,
}

/// Returns an id, shared with a recent line if that has it.
fn shared<T: Clone + AsRef<str> + for<'a> From<&'a str>>(recent: &mut Vec<T>, text: &str) -> T {
    if let Some(id) = recent.iter().find(|id| id.as_ref() == text) {
        return id.clone();
    }
    let id = T::from(text);
    // Real ids have some dozens of bytes.
    if text.len() <= 256 {
        if recent.len() >= IDS_MAX {
            recent.remove(0);
        }
        recent.push(id.clone());
    }
    id
}

/// The rest of a line, from which values are read.
pub(super) struct Scan<'a> {
    rest: &'a str,
    memory: &'a mut ScanMemory,
}

impl<'a> Scan<'a> {
    pub(super) fn new(line: &'a str, memory: &'a mut ScanMemory) -> Self {
        Self { rest: line, memory }
    }

    /// Succeeds at the end of the line.
    pub(super) fn end(&self) -> Option<()> {
        self.rest.is_empty().then_some(())
    }

    /// Skips this text if it comes next.
    #[inline(always)]
    pub(super) fn skip(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    /// Reads an integer without a sign.
    #[inline]
    pub(super) fn number(&mut self) -> Option<u64> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit);
        let (mut value, mut count) = (0_u64, 0);
        for digit in digits {
            value = value
                .checked_mul(10)?
                .checked_add(u64::from(digit - b'0'))?;
            count += 1;
        }
        let is_padded = count > 1 && self.rest.starts_with('0');
        if count == 0 || is_padded {
            return None;
        }
        self.rest = self.rest.get(count..)?;
        Some(value)
    }

    /// Reads an integer.
    #[inline]
    pub(super) fn signed(&mut self) -> Option<i64> {
        if self.skip("-").is_none() {
            return i64::try_from(self.number()?).ok();
        }
        match self.number()? {
            // A negative zero is a floating-point number.
            0 => None,
            value => 0_i64.checked_sub_unsigned(value),
        }
    }

    /// Reads a string without escapes.
    #[inline]
    pub(super) fn plain_text(&mut self) -> Option<&'a str> {
        let text = self.rest.strip_prefix('"')?;
        let (text, rest) = text.split_at_checked(plain_bytes(text.as_bytes()))?;
        self.rest = rest.strip_prefix('"')?;
        Some(text)
    }

    /// Reads a string.
    #[inline]
    pub(super) fn text(&mut self) -> Option<&str> {
        let rest = self.rest.strip_prefix('"')?;
        let (mut plain, mut rest) = rest.split_at_checked(plain_bytes(rest.as_bytes()))?;
        if let Some(rest) = rest.strip_prefix('"') {
            self.rest = rest;
            return Some(plain);
        }
        let text = &mut self.memory.text;
        text.clear();
        // A larger buffer is freed.
        text.shrink_to(64 * 1024);
        loop {
            text.push_str(plain);
            let escape = match rest.as_bytes() {
                [b'"', ..] => {
                    self.rest = rest.get(1..)?;
                    return Some(text);
                }
                [b'\\', escape, ..] => *escape,
                _ => return None,
            };
            rest = rest.get(2..)?;
            match escape {
                b'n' => text.push('\n'),
                b'u' => {
                    let (digits, more) = rest.split_at_checked(4)?;
                    text.push(char_of(digits)?);
                    rest = more;
                }
                _ => text.push(escaped(escape)?),
            }
            (plain, rest) = rest.split_at_checked(plain_bytes(rest.as_bytes()))?;
        }
    }

    /// Reads the id of an execution.
    pub(super) fn execution(&mut self) -> Option<ExecutionId> {
        let text = self.plain_text()?;
        Some(shared(&mut self.memory.executions, text))
    }

    /// Reads the id of a pane.
    pub(super) fn pane(&mut self) -> Option<PaneId> {
        let text = self.plain_text()?;
        Some(shared(&mut self.memory.panes, text))
    }

    /// Reads a value through serde.
    pub(super) fn by_serde<T: DeserializeOwned>(&mut self) -> Option<T> {
        let mut values = serde_json::Deserializer::from_str(self.rest).into_iter();
        let value = values.next()?.ok()?;
        self.rest = self.rest.get(values.byte_offset()..)?;
        Some(value)
    }
}

/// Returns the number of bytes before the first one that ends a string or needs an escape.
#[inline(always)]
fn plain_bytes(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(eight) = text.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let marks = special_in(u64::from_le_bytes(*eight));
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = text.get(at..).unwrap_or_default();
    let special = rest.iter().position(|byte| is_special(*byte));
    at + special.unwrap_or(rest.len())
}

/// Returns the character that a backslash and this byte represent.
fn escaped(byte: u8) -> Option<char> {
    match byte {
        b'"' | b'\\' | b'/' => Some(char::from(byte)),
        b'r' => Some('\r'),
        b't' => Some('\t'),
        b'b' => Some('\u{8}'),
        b'f' => Some('\u{c}'),
        _ => None,
    }
}

/// Returns the character with this hexadecimal code. Surrogates are left to serde: this crate never writes a
/// character that needs two of them as an escape.
#[cold]
fn char_of(digits: &str) -> Option<char> {
    let mut code = 0;
    for digit in digits.chars() {
        code = code * 16 + digit.to_digit(16)?;
    }
    char::from_u32(code)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn string(text: &str) -> String {
        let mut out = Vec::new();
        push_string(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_byte_at_every_position_is_written_as_serde_writes_it() {
        for c in (0..=0x100).filter_map(char::from_u32) {
            for position in 0..20 {
                let mut text = vec!['x'; 20];
                text[position] = c;
                let text: String = text.into_iter().collect();
                assert_eq!(string(&text), serde_json::to_string(&text).unwrap());
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_is_written_as_serde_writes_it(text in "[\\x00-\\x7f\u{e9}界]{0,60}") {
            prop_assert_eq!(string(&text), serde_json::to_string(&text).unwrap());
        }
    }
}
