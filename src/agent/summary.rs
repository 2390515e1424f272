//! Texts cut to what an event needs (pure).

/// Characters of a summary.
pub(super) const SUMMARY_CHARS_MAX: usize = 200;

/// Characters of a result or an error: what the reader came for.
pub(super) const RESULT_CHARS_MAX: usize = 2_000;

/// Stands for what was cut off.
const ELLIPSIS: char = '…';

/// The beginning of a text, without blanks around it.
pub(crate) fn summary(text: &str) -> String {
    cut(text, SUMMARY_CHARS_MAX)
}

/// The beginning of a result.
pub(crate) fn result(text: &str) -> String {
    cut(text, RESULT_CHARS_MAX)
}

fn cut(text: &str, chars_max: usize) -> String {
    let text = text.trim();
    // Most texts are short, and bytes are never fewer than characters.
    if text.len() <= chars_max {
        return text.to_owned();
    }
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some((at, _)) => {
            let mut short = String::with_capacity(at + ELLIPSIS.len_utf8());
            short.push_str(&text[..at]);
            short.push(ELLIPSIS);
            short
        }
    }
}

/// Text that comes in pieces, of which only the beginning is kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Beginning {
    text: String,
}

impl Beginning {
    /// Bytes that are kept: enough for a result in any script.
    const BYTES_MAX: usize = RESULT_CHARS_MAX * 4;

    pub fn push(&mut self, piece: &str) {
        if self.text.len() < Self::BYTES_MAX {
            let room = Self::BYTES_MAX - self.text.len();
            let end = (0..=room.min(piece.len()))
                .rev()
                .find(|at| piece.is_char_boundary(*at));
            self.text.push_str(&piece[..end.unwrap_or_default()]);
        }
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
    fn a_beginning_is_bounded() {
        let mut beginning = Beginning::default();
        for _ in 0..100_000 {
            beginning.push("界!");
        }
        assert!(beginning.as_str().len() <= Beginning::BYTES_MAX);
        assert!(beginning.as_str().starts_with("界!界!"));
    }
}
