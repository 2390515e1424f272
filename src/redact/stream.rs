//! Redacts a stream of text that may be cut anywhere (pure).

use super::scan::{Continuation, RuleSet, redact_spans};
use super::span::{Span, TextEnd};

/// The state of a stream between two pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StreamState {
    /// The end of the text so far, unredacted, to be scanned again with the next piece. Its length is
    /// bounded, see `scan`.
    pub(super) tail: String,
    /// True if the tail contains no complete keyword; a keyword may begin in it.
    pub(super) is_clean: bool,
    pub(super) open: Continuation,
    /// True if the text so far ended in a secret whose marker is already written.
    pub(super) is_marked: bool,
    /// True if a secret may have begun in the tail and only the next line can decide.
    pub(super) is_pending: bool,
}

/// Buffers that are reused for each text, so that clean text needs no allocation.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    joined: String,
    /// The secrets of the last text, in order.
    pub(super) spans: Vec<Span>,
}

impl StreamState {
    /// Redacts the next piece; returns the redacted text if it differs.
    pub(super) fn redact(
        &mut self,
        set: &RuleSet,
        piece: &str,
        end: TextEnd,
        scratch: &mut Scratch,
    ) -> Option<String> {
        let is_marked = self.is_marked;
        self.find(set, piece, end, scratch)
            .then(|| redact_spans(set, piece, &scratch.spans, is_marked))
    }

    /// Scans the next piece and stores its secrets in the scratch; returns true if there are any.
    pub(super) fn find(
        &mut self,
        set: &RuleSet,
        piece: &str,
        end: TextEnd,
        scratch: &mut Scratch,
    ) -> bool {
        if piece.is_empty() {
            return false;
        }
        let Scratch { joined, spans } = scratch;
        joined.clear();
        joined.push_str(&self.tail);
        joined.push_str(piece);
        let known = self.tail.len();
        // Only a keyword that ends in the new piece is new.
        let new = match self.is_clean {
            true => known.saturating_sub(set.finder.longest.saturating_sub(1)),
            false => 0,
        };
        if self.open == Continuation::None && !set.finder.finds(joined.as_bytes(), new) {
            (self.is_marked, self.is_clean, self.is_pending) = (false, true, false);
            let line = memchr::memrchr(b'\n', joined.as_bytes()).map_or(0, |newline| newline + 1);
            self.keep(joined, joined.len().saturating_sub(set.overlap()).max(line));
            return false;
        }
        self.is_clean = false;
        spans.clear();
        let open = std::mem::take(&mut self.open);
        let rest = set.scan(joined.as_bytes(), open, end, spans);
        (self.open, self.is_pending) = (rest.open, rest.is_pending);
        // The text of earlier pieces has already been delivered.
        spans.retain_mut(|span| {
            span.start = span.start.max(known) - known;
            span.end = span.end.saturating_sub(known);
            span.start < span.end
        });
        self.is_marked = spans.last().is_some_and(|span| span.end == piece.len());
        self.keep(joined, rest.keep);
        !spans.is_empty()
    }

    /// Keeps the end of the text.
    fn keep(&mut self, text: &str, mut from: usize) {
        while !text.is_char_boundary(from) {
            from += 1;
        }
        self.tail.clear();
        self.tail.push_str(&text[from..]);
    }
}
