//! Finds in a program's output whether it asks its terminal to read reports of its status: `OSC 7501 ; ? ST` (pure).

use crate::escapes::{BELL, ESCAPE, State, advance};

/// What a terminal that reads them answers: that it knows every state and kind of the protocol. It has nothing that the
/// program has written.
pub(super) const ANSWER: &[u8] = crate::agent::REPORTS_QUESTION;

const QUESTION: &[u8] = b"]7501;?";

/// The search for the question, which may be cut anywhere.
#[derive(Debug, Default)]
pub(super) struct StatusQuery {
    state: State,
    /// The bytes after the last escape, as long as the question has more.
    sequence: Vec<u8>,
}

impl StatusQuery {
    /// Takes output. Returns true if the question ends in it.
    pub fn is_asked(&mut self, mut bytes: &[u8]) -> bool {
        let mut is_asked = false;
        loop {
            if self.state == State::Ground {
                // Most output has no escapes.
                let Some(at) = memchr::memchr(ESCAPE, bytes) else {
                    return is_asked;
                };
                bytes = &bytes[at..];
            }
            let Some((&byte, rest)) = bytes.split_first() else {
                return is_asked;
            };
            bytes = rest;
            if self.state == State::OscString && matches!(byte, BELL | ESCAPE) {
                is_asked |= self.sequence == QUESTION;
            }
            if byte == ESCAPE {
                self.sequence.clear();
            } else if self.sequence.len() <= QUESTION.len() {
                self.sequence.push(byte);
            }
            advance(&mut self.state, byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_asked(pieces: &[&[u8]]) -> bool {
        let mut query = StatusQuery::default();
        let asked: Vec<bool> = pieces.iter().map(|piece| query.is_asked(piece)).collect();
        asked.contains(&true)
    }

    #[test]
    fn the_question_is_found_and_no_report_is_one() {
        assert!(is_asked(&[b"a\x1b]7501;?\x1b\\b\x1b[c"]));
        assert!(is_asked(&[b"\x1b]7501;?\x07"]));
        assert!(is_asked(&[b"\x1b]0;title\x07\x1b[1m\x1b]7501;?\x07"]));
        for other in [
            "\x1b]7501;?",
            "]7501;?\x07",
            "\x1b]7501;state=done\x07",
            "\x1b]7501;?:states=done\x07",
            "\x1b]75011;?\x07",
            "\x1bPx\x1b]7501;\x1b\\?\x07",
        ] {
            assert!(!is_asked(&[other.as_bytes()]), "{other:?}");
        }
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(bytes in "[a\u{1b}\u{7}\\]\\\\]{0,6}(\u{1b}\\]7501;\\?)?[a\u{1b}\u{7}\\]\\\\]{0,6}", cut in 0_usize..30) {
            let (before, after) = bytes.as_bytes().split_at(cut.min(bytes.len()));
            let single: Vec<&[u8]> = bytes.as_bytes().chunks(1).collect();
            prop_assert_eq!(is_asked(&[before, after]), is_asked(&[bytes.as_bytes()]));
            prop_assert_eq!(is_asked(&single), is_asked(&[bytes.as_bytes()]));
        }
    }
}
