//! The sections of tmux output, separated by a mark that no pane text or name can contain (pure).
//!
//! Names and pane text are untrusted: they may contain blanks, line ends and copies of earlier output. Each
//! batch therefore has a random mark, which is passed over standard input, where no other user can read it.

use std::hash::{BuildHasher, RandomState};

/// The mark of one batch: 128 random bits as text.
#[derive(Clone, Debug)]
pub(crate) struct Nonce(String);

impl Nonce {
    pub(super) fn fresh() -> Self {
        // The keys of `RandomState` come from the system's random numbers. The hash of a constant under
        // unknown keys does not reveal the next one.
        let half = || RandomState::new().hash_one("td-observe");
        Self(format!("td{:016x}{:016x}", half(), half()))
    }

    #[cfg(any(test, all(feature = "cli", feature = "internals")))]
    pub(crate) fn fixed(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Splits output into its sections, each with a tag letter after the mark and a text. `None` if text
    /// precedes the first mark.
    pub(super) fn sections<'a>(&self, output: &'a str) -> Option<Vec<Section<'a>>> {
        let mut parts = output.split(self.as_str());
        if !parts.next()?.is_empty() {
            return None;
        }
        parts
            .map(|part| {
                let tag = *part.as_bytes().first().filter(|byte| byte.is_ascii())?;
                Some((tag, &part[1..]))
            })
            .collect()
    }
}

/// The tag after a mark, and the text up to the next mark.
pub(super) type Section<'a> = (u8, &'a str);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_differ() {
        let (first, second) = (Nonce::fresh(), Nonce::fresh());
        assert_ne!(first.as_str(), second.as_str());
        assert_ne!(&first.as_str()[2..18], &first.as_str()[18..]);
    }

    #[test]
    fn output_is_split_at_its_marks_only() {
        let nonce = Nonce::fixed("NN");
        let sections = nonce.sections("NNh 1 2\nNMx\nNNe\n").unwrap();
        assert_eq!(sections, [(b'h', " 1 2\nNMx\n"), (b'e', "\n")]);
        assert_eq!(nonce.sections("xNNh"), None);
        assert_eq!(nonce.sections("NNäh"), None);
        assert_eq!(nonce.sections(""), Some(vec![]));
    }
}
