//! Reads JSON from a position in a line, in the format in which this crate writes it (pure).
//!
//! A reader of logs spends most of its time here. `None` always means that the text has another format or is
//! invalid. The caller then passes the whole line to serde, which decides and reports the error.

use serde::de::DeserializeOwned;

use super::ids::{ExecutionId, PaneId};
use super::json::{is_special, special_in};

/// The number of ids that a decoder keeps: a log has one execution and a few busy panes.
const IDS_MAX: usize = 8;

/// The longest id that is kept; real ids have some dozens of bytes.
const ID_BYTES_MAX: usize = 256;

/// The largest buffer that is kept for the next text; a larger one is freed.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

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
    if text.len() <= ID_BYTES_MAX {
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
        text.shrink_to(BUFFER_BYTES_MAX);
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
