//! Plain text: every piece is a part of the answer, characters that are cut wait for their rest.

use super::super::intake::Intake;
use super::{Flaw, Reader};
use crate::timestamp::Timestamp;

/// Bytes as text, cut anywhere. What is no UTF-8 reads `\u{fffd}`.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// The beginning of a character.
    cut: Vec<u8>,
    /// There was something that is no UTF-8.
    pub has_invalid: bool,
}

impl Decoder {
    /// The text that is complete now.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        let joined;
        let bytes = match self.cut.is_empty() {
            true => bytes,
            false => {
                self.cut.extend_from_slice(bytes);
                joined = std::mem::take(&mut self.cut);
                &joined[..]
            }
        };
        let mut text = String::with_capacity(bytes.len());
        let mut rest = bytes;
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    return text;
                }
                Err(error) => {
                    let (valid, broken) = rest.split_at(error.valid_up_to());
                    // As far as it goes it was just found to be good.
                    text.push_str(&String::from_utf8_lossy(valid));
                    let Some(len) = error.error_len() else {
                        self.cut.extend_from_slice(broken);
                        return text;
                    };
                    self.has_invalid = true;
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &broken[len..];
                }
            }
        }
    }

    /// What is left at the end: at most the beginning of a character.
    pub fn finish(&mut self) -> String {
        let cut = std::mem::take(&mut self.cut);
        self.has_invalid |= !cut.is_empty();
        String::from_utf8_lossy(&cut).into_owned()
    }
}

/// An answer that is plain text. The end of the stream is its end.
#[derive(Debug, Default)]
pub(super) struct Text {
    decoder: Decoder,
    has_warned: bool,
}

impl Text {
    fn warn(&mut self, intake: &mut Intake<'_>) {
        if self.decoder.has_invalid && !std::mem::replace(&mut self.has_warned, true) {
            let message = "the answer has bytes that are not UTF-8: each such place reads \u{fffd}";
            intake.warn("model", message.to_owned());
        }
    }
}

impl Reader for Text {
    fn push(&mut self, bytes: &[u8], _: Timestamp, intake: &mut Intake<'_>) -> Result<(), Flaw> {
        intake.text(self.decoder.push(bytes));
        self.warn(intake);
        Ok(())
    }

    fn finish(&mut self, _: Timestamp, intake: &mut Intake<'_>) -> Result<(), Flaw> {
        intake.text(self.decoder.finish());
        self.warn(intake);
        Ok(())
    }

    fn is_done(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn cuts_change_nothing(
            pieces in prop::collection::vec(prop_oneof![
                prop::collection::vec(any::<u8>(), 0..6),
                "[aé界😀]{0,4}".prop_map(String::into_bytes),
            ], 0..8),
        ) {
            let whole = pieces.concat();
            let mut decoder = Decoder::default();
            let mut text: String = pieces.iter().map(|piece| decoder.push(piece)).collect();
            text.push_str(&decoder.finish());
            prop_assert_eq!(&text, &String::from_utf8_lossy(&whole));
            prop_assert_eq!(decoder.has_invalid, std::str::from_utf8(&whole).is_err());
        }
    }
}
