//! Redacts whole texts, which are not part of a stream (pure).

use std::borrow::Cow;

use super::rules::Rules;
use super::scan::{Continuation, redact_spans};
use super::span::TextEnd;
use super::terminal::TerminalStream;

/// Maximum number of passes over a whole text. A secret may hide the end of another one directly before it,
/// which a further pass finds.
const PASSES_MAX: usize = 4;

impl Rules {
    /// Redacts a whole text that is not part of a stream, such as a label or a summary. The beginning of a
    /// secret at the end is also redacted, because the text may be truncated.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if memchr::memchr(0x1b, text.as_bytes()).is_some() {
            let redacted = self.coloured(text);
            return if redacted == text {
                Cow::Borrowed(text)
            } else {
                Cow::Owned(redacted)
            };
        }
        let mut text = Cow::Borrowed(text);
        for _ in 0..PASSES_MAX {
            if !self.0.finder.finds(text.as_bytes(), 0) {
                break;
            }
            let mut spans = Vec::new();
            self.0.scan(
                text.as_bytes(),
                Continuation::None,
                TextEnd::Cut,
                &mut spans,
            );
            if spans.is_empty() {
                break;
            }
            let redacted = redact_spans(&self.0, &text, &spans, false);
            if redacted == text {
                break;
            }
            text = Cow::Owned(redacted);
        }
        text
    }

    /// Redacts a whole text with control sequences, which may be within a secret.
    fn coloured(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for _ in 0..PASSES_MAX {
            match TerminalStream::new(self.clone()).push(&text) {
                Cow::Owned(redacted) if redacted != text => text = redacted,
                _ => break,
            }
        }
        text
    }
}
