//! Cuts texts between characters and between sentences, and decodes texts that are cut anywhere (pure).

/// Returns at most `chars_max` characters from the beginning of a text.
pub(crate) fn first_chars(text: &str, chars_max: usize) -> &str {
    // Most texts are short enough in bytes, and therefore in characters.
    if text.len() <= chars_max {
        return text;
    }
    let end = text.char_indices().nth(chars_max);
    end.map_or(text, |(end, _)| &text[..end])
}

/// Returns the words of a text with single blanks between them, without control characters; of a text with more than
/// `bytes_max` bytes of words, those at its beginning.
pub(crate) fn joined_words(text: &str, bytes_max: usize) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let mut line = String::new();
    for word in words.filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > bytes_max {
            break;
        }
    }
    line
}

/// Returns at most `bytes_max` bytes from the beginning of a text, cut between characters.
pub(crate) fn first_bytes(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns at most `bytes_max` bytes from the end of a text, cut between characters.
pub(crate) fn last_bytes(text: &str, bytes_max: usize) -> &str {
    let mut start = text.len().saturating_sub(bytes_max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// Encodes bytes in standard Base64, with its padding.
#[cfg(feature = "cli")]
pub(crate) fn to_base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at)) as usize & 63];
            text.push(if at <= chunk.len() { digit.into() } else { '=' });
        }
    }
    text
}

/// Decodes standard Base64, with or without its padding; `None` for other text.
#[cfg(feature = "engine")]
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    // One digit alone has too few bits for a byte.
    let is_whole = match digits.len() % 4 {
        1 => false,
        rest => padding == 0 || padding == (4 - rest) % 4,
    };
    if !is_whole {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0);
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

/// Returns the letters and digits of a text, by which texts are compared whatever their frames and line breaks.
pub(crate) fn letters(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| c.is_alphanumeric())
}

/// The bytes at the end of an answer that are kept, because its conclusion is there.
pub(crate) const END_BYTES_MAX: usize = 4 * 1024;

/// The end of a text that arrives in pieces, such as an agent's answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TextEnd(String);

impl TextEnd {
    /// Adds a piece.
    pub fn push(&mut self, piece: &str) {
        self.0.push_str(piece);
        if self.0.len() > 2 * END_BYTES_MAX {
            self.0 = last_words(&self.0).to_owned();
        }
    }

    /// Returns at most 8 KiB, which are the whole text if it is short.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns at most 4 KiB.
    pub fn end(&self) -> &str {
        last_words(self.0.trim())
    }
}

/// Returns the end of a text, which begins with a whole word: no rule recognises the half of a secret.
fn last_words(text: &str) -> &str {
    let end = last_bytes(text, END_BYTES_MAX);
    if end.len() == text.len() {
        return text;
    }
    let word = end.find(char::is_whitespace).unwrap_or(end.len());
    end[word..].trim_start()
}

/// Returns the last sentence of a line; it may not be complete.
pub(crate) fn last_sentence(line: &str) -> &str {
    let start = sentence_ends(line).rfind(|end| *end < line.trim_end().len());
    &line[start.unwrap_or(0)..]
}

/// Returns the first sentence of a line.
pub(crate) fn first_sentence(line: &str) -> &str {
    let end = sentence_ends(line).next().unwrap_or(line.len());
    &line[..end]
}

/// Returns the byte positions after the ends of sentences in a line: a mark that a blank follows, or one of a
/// script without blanks. A number at the beginning of a list is no sentence, nor is an abbreviation of one letter.
fn sentence_ends(line: &str) -> impl DoubleEndedIterator<Item = usize> {
    let chars: Vec<(usize, char)> = line.char_indices().collect();
    let mut ends = Vec::new();
    for (index, (at, mark)) in chars.iter().enumerate() {
        let next = chars.get(index + 1).map(|(_, next)| *next);
        let is_end = match mark {
            '。' | '！' | '？' => true,
            '.' | '!' | '?' => {
                let before = line[..*at].rsplit(char::is_whitespace).next();
                let word = before.unwrap_or_default();
                let is_initial = word.chars().count() == 1 && word.contains(char::is_alphabetic);
                let is_number = word.chars().all(|c| c.is_ascii_digit()) && word.len() == *at;
                next.is_some_and(char::is_whitespace)
                    && (*mark != '.' || !(is_initial || is_number || is_abbreviation(word)))
            }
            _ => false,
        };
        if is_end {
            ends.push(at + mark.len_utf8());
        }
    }
    ends.into_iter()
}

/// Returns true for words that end with a full stop within a sentence.
fn is_abbreviation(word: &str) -> bool {
    let word = word.trim_start_matches('(');
    ["e.g", "i.e", "etc", "vs", "cf", "approx", "No"].contains(&word)
}

/// Decodes UTF-8 that is cut anywhere.
#[derive(Debug, Default)]
pub(crate) struct Utf8Decoder {
    /// The first bytes of an incomplete character.
    partial_char: Vec<u8>,
    /// The number of places that were not UTF-8.
    pub invalid: u64,
}

impl Utf8Decoder {
    /// Passes on the complete characters, and replacements of invalid bytes.
    pub fn push(&mut self, bytes: &[u8], mut take: impl FnMut(&str)) {
        let mut joined = std::mem::take(&mut self.partial_char);
        let bytes = if joined.is_empty() {
            bytes
        } else {
            joined.extend_from_slice(bytes);
            &joined
        };
        // The common case: all bytes are valid.
        if let Ok(text) = std::str::from_utf8(bytes) {
            return take(text);
        }
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            take(chunk.valid());
            let invalid = chunk.invalid();
            if chunks.peek().is_none() && is_partial_char(invalid) {
                self.partial_char = invalid.to_vec();
            } else if !invalid.is_empty() {
                self.invalid += 1;
                take("\u{fffd}");
            }
        }
    }

    /// Ends the text; an incomplete character is replaced.
    pub fn finish(&mut self, take: impl FnOnce(&str)) {
        if !std::mem::take(&mut self.partial_char).is_empty() {
            self.invalid += 1;
            take("\u{fffd}");
        }
    }
}

fn is_partial_char(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        let text = "aé界";
        for (bytes_max, first, last) in [
            (0, "", ""),
            (1, "a", ""),
            (2, "a", ""),
            (3, "aé", "界"),
            (5, "aé", "é界"),
            (9, text, text),
        ] {
            assert_eq!(first_bytes(text, bytes_max), first, "{bytes_max}");
            assert_eq!(last_bytes(text, bytes_max), last, "{bytes_max}");
        }
        assert_eq!(first_chars(text, 2), "aé");
        assert_eq!(first_chars(text, 6), text);
    }

    proptest! {
        #[test]
        fn text_does_not_depend_on_cuts(
            pieces in prop::collection::vec(prop_oneof![
                prop::collection::vec(any::<u8>(), 0..6),
                "[aé界😀]{0,4}".prop_map(String::into_bytes),
            ], 0..8),
        ) {
            let whole = pieces.concat();
            let (mut decoder, mut text) = (Utf8Decoder::default(), String::new());
            for piece in &pieces {
                decoder.push(piece, |part| text.push_str(part));
            }
            decoder.finish(|part| text.push_str(part));
            prop_assert_eq!(&text, &String::from_utf8_lossy(&whole));
            prop_assert_eq!(decoder.invalid > 0, std::str::from_utf8(&whole).is_err());
        }
    }
}
