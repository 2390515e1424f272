//! Truncates texts to the length that an event needs (pure).

use crate::text::{first_bytes, first_chars};

/// The maximum number of characters of a summary.
pub(super) const SUMMARY_CHARS_MAX: usize = 200;

/// The maximum number of characters of a tool's result. A screenful shows whether the tool succeeded.
const TOOL_RESULT_CHARS_MAX: usize = 500;

/// The maximum number of characters of a result or an error.
pub(super) const RESULT_CHARS_MAX: usize = 2_000;

/// Replaces the truncated text.
const ELLIPSIS: char = '…';

/// Returns the beginning of a text, trimmed.
pub(crate) fn summary(text: &str) -> String {
    cut(text, SUMMARY_CHARS_MAX)
}

/// Returns the beginning of a tool's result.
pub(super) fn tool_result(text: &str) -> String {
    cut(text, TOOL_RESULT_CHARS_MAX)
}

/// Returns the beginning of a result.
pub(crate) fn result(text: &str) -> String {
    cut(text, RESULT_CHARS_MAX)
}

fn cut(text: &str, chars_max: usize) -> String {
    let text = text.trim();
    let beginning = first_chars(text, chars_max);
    if beginning.len() == text.len() {
        return text.to_owned();
    }
    let split = split_word_bytes(beginning, &text[beginning.len()..]);
    format!("{}{ELLIPSIS}", &beginning[..beginning.len() - split])
}

/// Words with fewer bytes than this may be split, because they contain no secret.
const SPLIT_WORD_BYTES_MIN: usize = 8;

/// Returns the number of bytes of a word that truncation would split. Half a key is still a secret,
/// but no rule recognises it, so both halves are removed.
fn split_word_bytes(kept: &str, rest: &str) -> usize {
    // Keys consist of these characters. Other scripts may write whole sentences without blanks.
    let is_of_key = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_+/=.~%".contains(byte);
    if !rest.as_bytes().first().is_some_and(is_of_key) {
        return 0;
    }
    let bytes = kept.bytes().rev().take_while(is_of_key).count();
    match bytes < SPLIT_WORD_BYTES_MIN {
        true => 0,
        false => bytes,
    }
}

/// The beginning of a text that arrives in pieces.
#[derive(Clone, Debug, Default)]
pub(super) struct TextPrefix {
    text: String,
}

impl TextPrefix {
    /// The maximum number of bytes: more than the longest result in any script, so that `result`
    /// truncates the text.
    const BYTES_MAX: usize = (RESULT_CHARS_MAX + 2) * 4;

    pub fn push(&mut self, piece: &str) {
        let room = Self::BYTES_MAX.saturating_sub(self.text.len());
        self.text.push_str(first_bytes(piece, room));
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub fn clear(&mut self) {
        self.text.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(summary("  short \n"), "short");
        let long = "é".repeat(SUMMARY_CHARS_MAX + 1);
        assert_eq!(summary(&long), "é".repeat(SUMMARY_CHARS_MAX) + "…");
        assert_eq!(summary(&long[2..]), "é".repeat(SUMMARY_CHARS_MAX));
    }

    #[test]
    fn no_part_of_a_cut_key_remains() {
        let key = "ghp_0123456789abcdefghij0123456789abcdef";
        for kept in [1, 8, 20, 38] {
            let before = "b ".repeat((SUMMARY_CHARS_MAX - kept) / 2);
            let text = format!("{before}{key} and more");
            let short = summary(&text);
            let left = short.len().saturating_sub(before.len() + "…".len());
            assert!(left < SPLIT_WORD_BYTES_MIN, "{short}");
            assert!(short.starts_with(before.trim_end()), "{short}");
        }
        let before = "b ".repeat((TOOL_RESULT_CHARS_MAX - 20) / 2);
        let short = tool_result(&format!("{before}{key} and more"));
        assert_eq!(short, format!("{before}…"), "of what a tool answered, too");
        // A key that ends exactly at the limit stays complete, so that a rule recognises it.
        let whole = format!("{} {key}", "b".repeat(SUMMARY_CHARS_MAX - 1 - key.len()));
        assert_eq!(summary(&format!("{whole} and more")), format!("{whole}…"));
    }

    #[test]
    fn a_kept_beginning_is_bounded() {
        let mut beginning = TextPrefix::default();
        for _ in 0..100_000 {
            beginning.push("界!");
        }
        assert!(beginning.as_str().len() <= TextPrefix::BYTES_MAX);
        assert!(beginning.as_str().starts_with("界!界!"));
    }
}
