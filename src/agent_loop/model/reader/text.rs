//! Reads plain text, all of which is the answer.

use super::super::response_builder::ResponseBuilder;
use super::answer::{AnswerError, AnswerReader};
use crate::timestamp::Timestamp;

/// Decodes UTF-8 that is cut anywhere. Invalid bytes become `\u{fffd}`.
#[derive(Debug, Default)]
pub(super) struct Utf8Decoder {
    /// The bytes of an incomplete character.
    incomplete: Vec<u8>,
    /// True if there were invalid bytes.
    pub has_invalid: bool,
}

impl Utf8Decoder {
    /// Returns the complete characters.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        let joined;
        let bytes = match self.incomplete.is_empty() {
            true => bytes,
            false => {
                self.incomplete.extend_from_slice(bytes);
                joined = std::mem::take(&mut self.incomplete);
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
                    let (valid, invalid) = rest.split_at(error.valid_up_to());
                    // `error` shows that this part is valid.
                    text.push_str(&String::from_utf8_lossy(valid));
                    let Some(len) = error.error_len() else {
                        self.incomplete.extend_from_slice(invalid);
                        return text;
                    };
                    self.has_invalid = true;
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &invalid[len..];
                }
            }
        }
    }

    /// Ends the text; returns the replacement for an incomplete character.
    pub fn finish(&mut self) -> String {
        let incomplete = std::mem::take(&mut self.incomplete);
        self.has_invalid |= !incomplete.is_empty();
        String::from_utf8_lossy(&incomplete).into_owned()
    }
}

/// Reads plain text, which ends with its stream.
#[derive(Debug, Default)]
pub(super) struct TextReader {
    decoder: Utf8Decoder,
    has_warned: bool,
}

impl TextReader {
    fn warn(&mut self, response: &mut ResponseBuilder<'_>) {
        if self.decoder.has_invalid && !std::mem::replace(&mut self.has_warned, true) {
            let message =
                "the answer contains bytes that are not UTF-8, which are replaced by \u{fffd}";
            response.warn("model", message.to_owned());
        }
    }
}

impl AnswerReader for TextReader {
    fn push(
        &mut self,
        bytes: &[u8],
        _: Timestamp,
        response: &mut ResponseBuilder<'_>,
    ) -> Result<(), AnswerError> {
        response.text(self.decoder.push(bytes));
        self.warn(response);
        Ok(())
    }

    fn finish(
        &mut self,
        _: Timestamp,
        response: &mut ResponseBuilder<'_>,
    ) -> Result<(), AnswerError> {
        response.text(self.decoder.finish());
        self.warn(response);
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
        fn text_does_not_depend_on_cuts(
            pieces in prop::collection::vec(prop_oneof![
                prop::collection::vec(any::<u8>(), 0..6),
                "[aé界😀]{0,4}".prop_map(String::into_bytes),
            ], 0..8),
        ) {
            let whole = pieces.concat();
            let mut decoder = Utf8Decoder::default();
            let mut text: String = pieces.iter().map(|piece| decoder.push(piece)).collect();
            text.push_str(&decoder.finish());
            prop_assert_eq!(&text, &String::from_utf8_lossy(&whole));
            prop_assert_eq!(decoder.has_invalid, std::str::from_utf8(&whole).is_err());
        }
    }
}
