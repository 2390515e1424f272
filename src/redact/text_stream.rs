//! Redacts text that arrives in pieces, for library callers (pure).

use std::borrow::Cow;

use super::rules::Rules;
use super::terminal::TerminalStream;

/// Redacts a stream of text that arrives in pieces cut anywhere. Each piece is redacted at once, including
/// secrets that began in an earlier piece. No text is delayed.
///
/// ```
/// use td_observe::internals::redact::TextStream;
/// use td_observe::redact::Rules;
/// let mut stream = TextStream::new(Rules::builtin());
/// let (one, two) = ("glpat-abc", "DEFghi012345jklMNO67 is it");
/// assert_eq!(stream.push(one), one); // Nine bytes are too few to recognize a key.
/// assert_eq!(stream.push(two), "[redacted:gitlab-token] is it");
/// ```
#[derive(Clone, Debug)]
pub struct TextStream(TerminalStream);

impl TextStream {
    /// Creates an empty stream.
    pub fn new(rules: Rules) -> Self {
        Self(TerminalStream::new(rules))
    }

    /// Redacts the next piece.
    pub fn push<'a>(&mut self, piece: &'a str) -> Cow<'a, str> {
        self.0.push(piece)
    }

    /// Returns the number of bytes kept for the next piece.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.0.kept()
    }
}
