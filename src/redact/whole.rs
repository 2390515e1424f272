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
        let mut text = Cow::Borrowed(text);
        for _ in 0..PASSES_MAX {
            match self.one_pass(&text) {
                Some(redacted) if redacted != text => text = Cow::Owned(redacted),
                _ => break,
            }
        }
        text
    }

    fn one_pass(&self, text: &str) -> Option<String> {
        // Control sequences may be within a secret.
        if memchr::memchr(0x1b, text.as_bytes()).is_some() {
            return if_redacted(TerminalStream::new(self.clone()).push(text));
        }
        if !self.0.finder.finds(text.as_bytes(), 0) {
            return None;
        }
        let (mut spans, begin) = (Vec::new(), Continuation::None);
        (self.0).scan(text.as_bytes(), begin, TextEnd::Cut, &mut spans);
        (!spans.is_empty()).then(|| redact_spans(&self.0, text, &spans, false))
    }
}

/// Returns the redacted text if it differs.
pub(super) fn if_redacted(text: Cow<'_, str>) -> Option<String> {
    match text {
        Cow::Owned(redacted) => Some(redacted),
        Cow::Borrowed(_) => None,
    }
}
