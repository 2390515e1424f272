//! Frames: answers of tmux cut apart at a mark that no text in a pane or a name can contain (pure).
//!
//! Names and pane text are hostile: they may hold blanks, line ends and copies of earlier answers.
//! So each batch has a mark of its own, which is random and travels over standard input, where
//! nobody on the machine can read it.

use std::hash::{BuildHasher, RandomState};

/// The mark of one batch: 128 random bits, as text.
#[derive(Clone, Debug)]
pub(super) struct Nonce(String);

impl Nonce {
    pub(super) fn fresh() -> Self {
        // The keys of `RandomState` come from the system's random numbers; the hash of a constant
        // under unknown keys tells nobody the next one.
        let half = || RandomState::new().hash_one("td-observe");
        Self(format!("td{:016x}{:016x}", half(), half()))
    }

    #[cfg(test)]
    pub(super) fn fixed(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The frames of an answer: each starts with its tag, a letter after the mark. Nothing may
    /// stand before the first.
    pub(super) fn frames<'a>(&self, answer: &'a str) -> Option<Vec<Frame<'a>>> {
        let mut pieces = answer.split(self.as_str());
        if !pieces.next()?.is_empty() {
            return None;
        }
        pieces
            .map(|piece| {
                let tag = *piece.as_bytes().first().filter(|byte| byte.is_ascii())?;
                Some(Frame {
                    tag,
                    body: &piece[1..],
                })
            })
            .collect()
    }
}

/// What stands between two marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) tag: u8,
    pub(super) body: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_differ() {
        let (one, two) = (Nonce::fresh(), Nonce::fresh());
        assert_ne!(one.as_str(), two.as_str());
        assert_ne!(&one.as_str()[2..18], &one.as_str()[18..]);
    }

    #[test]
    fn an_answer_is_cut_at_its_marks_only() {
        let nonce = Nonce::fixed("NN");
        let frames = nonce.frames("NNh 1 2\nNMx\nNNe\n").unwrap();
        assert_eq!(
            frames[0],
            Frame {
                tag: b'h',
                body: " 1 2\nNMx\n"
            }
        );
        assert_eq!(
            frames[1],
            Frame {
                tag: b'e',
                body: "\n"
            }
        );
        assert_eq!(nonce.frames("xNNh"), None);
        assert_eq!(nonce.frames("NNäh"), None);
        assert_eq!(nonce.frames(""), Some(vec![]));
    }
}
