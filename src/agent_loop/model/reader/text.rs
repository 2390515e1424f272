//! Reads plain text, all of which is the answer.

use super::super::error::ReadResult;
use super::super::response_builder::ResponseBuilder;
use super::answer::AnswerReader;
use crate::process::Utf8Decoder;

/// Reads plain text, which ends with its stream.
#[derive(Debug, Default)]
pub(super) struct TextReader {
    decoder: Utf8Decoder,
    has_warned: bool,
}

impl TextReader {
    fn warn(&mut self, response: &mut ResponseBuilder<'_>) {
        if self.decoder.invalid > 0 && !std::mem::replace(&mut self.has_warned, true) {
            let message =
                "the answer contains bytes that are not UTF-8, which are replaced by \u{fffd}";
            response.warn("model", message.to_owned());
        }
    }
}

impl AnswerReader for TextReader {
    fn push(&mut self, bytes: &[u8], response: &mut ResponseBuilder<'_>) -> ReadResult {
        let mut text = String::new();
        self.decoder.push(bytes, |part| text.push_str(part));
        response.text(text);
        self.warn(response);
        Ok(())
    }

    fn finish(&mut self, response: &mut ResponseBuilder<'_>) -> ReadResult {
        self.decoder.finish(|text| response.text(text.to_owned()));
        self.warn(response);
        Ok(())
    }

    fn is_done(&self) -> bool {
        false
    }
}
