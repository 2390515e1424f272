//! Reads JSON at a position of a line, in the form in which this crate writes it (pure).
//!
//! A reader of logs spends most of its time here. `None` always means: in another form, or invalid.
//! The caller then leaves the whole line to serde, which decides and reports the error.

use serde::de::DeserializeOwned;

use super::ids::{ExecutionId, PaneId};
use super::json::special_in;

/// The number of ids that a decoder keeps: a log has one execution and a few busy panes.
const IDS_MAX: usize = 8;

/// The largest buffer that is kept for the next text; a larger one returns to the system.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// The memory of a decoder between lines: ids that are shared, and a buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct ScanMemory {
    executions: RecentIds<ExecutionId>,
    panes: RecentIds<PaneId>,
    /// The text of the last string that had escapes.
    text: Vec<u8>,
}

/// The last ids of one kind: an id of the line before costs no memory.
#[derive(Clone, Debug)]
struct RecentIds<T> {
    ids: Vec<T>,
    /// The position of the oldest when there is no more room.
    oldest: usize,
}

impl<T> Default for RecentIds<T> {
    fn default() -> Self {
        Self {
            ids: Vec::new(),
            oldest: 0,
        }
    }
}

impl<T: Clone + AsRef<str> + for<'a> From<&'a str>> RecentIds<T> {
    fn shared(&mut self, text: &str) -> T {
        if let Some(id) = self.ids.iter().find(|id| id.as_ref() == text) {
            return id.clone();
        }
        let id = T::from(text);
        if self.ids.len() < IDS_MAX {
            self.ids.push(id.clone());
        } else if let Some(oldest) = self.ids.get_mut(self.oldest) {
            *oldest = id.clone();
            self.oldest = (self.oldest + 1) % IDS_MAX;
        }
        id
    }
}

/// The rest of a line, from which values are taken.
pub(super) struct Scan<'a> {
    rest: &'a [u8],
    memory: &'a mut ScanMemory,
}

impl<'a> Scan<'a> {
    pub(super) fn new(line: &'a [u8], memory: &'a mut ScanMemory) -> Self {
        Self { rest: line, memory }
    }

    /// Returns true at the end of the line.
    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Skips this text, if it is next.
    #[inline(always)]
    pub(super) fn skip(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(text.as_bytes())?;
        Some(())
    }

    /// Takes a whole number without a sign.
    #[inline]
    pub(super) fn number(&mut self) -> Option<u64> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit());
        let (mut value, mut count) = (0_u64, 0);
        for digit in digits {
            value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
            count += 1;
        }
        let is_padded = count > 1 && self.rest.first() == Some(&b'0');
        if count == 0 || is_padded {
            return None;
        }
        self.rest = self.rest.get(count..)?;
        Some(value)
    }

    /// Takes a whole number.
    #[inline]
    pub(super) fn signed(&mut self) -> Option<i64> {
        if self.skip("-").is_none() {
            return i64::try_from(self.number()?).ok();
        }
        match self.number()? {
            // The negative zero is a floating-point number.
            0 => None,
            value => 0_i64.checked_sub_unsigned(value),
        }
    }

    /// Takes a string without escapes.
    #[inline]
    pub(super) fn plain_text(&mut self) -> Option<&'a str> {
        let text = self.rest.strip_prefix(b"\"")?;
        let len = plain_bytes(text);
        let rest = text.get(len..)?.strip_prefix(b"\"")?;
        let text = std::str::from_utf8(text.get(..len)?).ok()?;
        self.rest = rest;
        Some(text)
    }

    /// Takes a string.
    #[inline]
    pub(super) fn text(&mut self) -> Option<&str> {
        let mut rest = self.rest.strip_prefix(b"\"")?;
        let mut len = plain_bytes(rest);
        if rest.get(len) == Some(&b'"') {
            return self.plain_text();
        }
        let text = &mut self.memory.text;
        text.clear();
        text.shrink_to(BUFFER_BYTES_MAX);
        loop {
            let (plain, more) = rest.split_at_checked(len)?;
            text.extend_from_slice(plain);
            rest = match more {
                [b'"', more @ ..] => {
                    self.rest = more;
                    return std::str::from_utf8(text).ok();
                }
                [b'\\', b'n', more @ ..] => {
                    text.push(b'\n');
                    more
                }
                [b'\\', b'u', more @ ..] => {
                    let (digits, more) = more.split_first_chunk::<4>()?;
                    push_code(text, digits)?;
                    more
                }
                [b'\\', byte, more @ ..] => {
                    text.push(escaped(*byte)?);
                    more
                }
                _ => return None,
            };
            len = plain_bytes(rest);
        }
    }

    /// Takes the id of an execution.
    pub(super) fn execution(&mut self) -> Option<ExecutionId> {
        let text = self.plain_text()?;
        Some(self.memory.executions.shared(text))
    }

    /// Takes the id of a pane.
    pub(super) fn pane(&mut self) -> Option<PaneId> {
        let text = self.plain_text()?;
        Some(self.memory.panes.shared(text))
    }

    /// Takes a value that serde reads.
    pub(super) fn by_serde<T: DeserializeOwned>(&mut self) -> Option<T> {
        let mut values = serde_json::Deserializer::from_slice(self.rest).into_iter();
        let value = values.next()?.ok()?;
        self.rest = self.rest.get(values.byte_offset()..)?;
        Some(value)
    }
}

/// Returns the number of bytes before the first that ends a string or needs an escape.
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
    let is_special = |&byte: &u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    at + rest.iter().position(is_special).unwrap_or(rest.len())
}

/// Returns the byte that a backslash and this byte mean.
fn escaped(byte: u8) -> Option<u8> {
    match byte {
        b'"' | b'\\' | b'/' => Some(byte),
        b'n' => Some(b'\n'),
        b'r' => Some(b'\r'),
        b't' => Some(b'\t'),
        b'b' => Some(0x08),
        b'f' => Some(0x0c),
        _ => None,
    }
}

/// Appends the character with this code in hexadecimal digits. Halves of pairs are left to serde:
/// this crate writes no character this way that needs two.
#[cold]
fn push_code(text: &mut Vec<u8>, digits: &[u8; 4]) -> Option<()> {
    let mut code = 0;
    for &digit in digits {
        code = code * 16 + char::from(digit).to_digit(16)?;
    }
    let mut bytes = [0; 4];
    text.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut bytes).as_bytes());
    Some(())
}
