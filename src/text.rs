//! Cuts texts between characters (pure).

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

#[cfg(test)]
mod tests {
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
}
