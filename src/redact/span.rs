//! Ranges of secret bytes, and kinds of text ends (pure).

/// A range of secret bytes and the rule that found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) rule: u16,
}

impl Span {
    pub(super) fn new(start: usize, end: usize, rule: u16) -> Self {
        Self { start, end, rule }
    }
}

/// The kind of a text's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextEnd {
    /// More may follow.
    Cut,
    /// The text, or its line, is complete.
    Complete,
}
