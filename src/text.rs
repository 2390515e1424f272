//! Cuts texts between characters, and decodes texts that are cut anywhere (pure).

/// Returns at most `chars_max` characters from the beginning of a text.
pub(crate) fn first_chars(text: &str, chars_max: usize) -> &str {
    // Most texts are short enough in bytes, and therefore in characters.
    if text.len() <= chars_max {
        return text;
    }
    let end = text.char_indices().nth(chars_max);
    end.map_or(text, |(end, _)| &text[..end])
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

/// Returns the letters and digits of a text, by which texts are compared whatever their frames and line breaks.
pub(crate) fn letters(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| c.is_alphanumeric())
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
