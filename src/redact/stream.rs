//! One stream of text that arrives cut anywhere (pure).

use std::borrow::Cow;

use super::Rules;
use super::scan::{End, Open, Set, Span};

/// What a stream's past leaves for its future.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Past {
    /// The end of the text so far, as it was before anything was taken out: to be seen again with
    /// what follows. Bounded, see `scan`.
    pub(super) tail: String,
    /// No keyword stands in the tail; one may begin in it.
    pub(super) is_clean: bool,
    pub(super) open: Open,
    /// The text so far ended in a secret that its marker stands for already.
    pub(super) marked: bool,
}

/// What is used again from text to text, so that clean text costs no allocation.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    joined: String,
    spans: Vec<Span>,
}

impl Scratch {
    /// The secrets of the last text, in order.
    pub(super) fn spans(&mut self) -> &mut Vec<Span> {
        &mut self.spans
    }

    /// How long the last secret of the last text was.
    pub(super) fn last_span(&self) -> usize {
        self.spans.last().map_or(0, |span| span.end - span.start)
    }
}

impl Past {
    /// Takes the next piece; returns what it reads without its secrets, if there are any in it.
    pub(super) fn push(
        &mut self,
        set: &Set,
        piece: &str,
        end: End,
        scratch: &mut Scratch,
    ) -> Option<String> {
        let marked = self.marked;
        self.find(set, piece, end, scratch)
            .then(|| masked(set, piece, &scratch.spans, marked))
    }

    /// Takes the next piece; leaves its secrets in the scratch. Whether there are any.
    pub(super) fn find(&mut self, set: &Set, piece: &str, end: End, scratch: &mut Scratch) -> bool {
        if piece.is_empty() {
            return false;
        }
        let Scratch { joined, spans } = scratch;
        joined.clear();
        joined.push_str(&self.tail);
        joined.push_str(piece);
        let known = self.tail.len();
        // Only what reaches into the piece is new.
        let new = match self.is_clean {
            true => known.saturating_sub(set.finder.longest.saturating_sub(1)),
            false => 0,
        };
        if self.open == Open::No && set.finder.find(joined.as_bytes(), new).is_none() {
            (self.marked, self.is_clean) = (false, true);
            self.keep(joined, joined.len().saturating_sub(set.seam()));
            return false;
        }
        self.is_clean = false;
        spans.clear();
        let open = std::mem::take(&mut self.open);
        let left = set.scan(joined.as_bytes(), open, end, spans);
        self.open = left.open;
        // What was shown is shown.
        spans.retain_mut(|span| {
            span.start = span.start.max(known) - known;
            span.end = span.end.saturating_sub(known);
            span.start < span.end
        });
        self.marked = spans.last().is_some_and(|span| span.end == piece.len());
        self.keep(joined, left.keep);
        !spans.is_empty()
    }

    /// Keeps the text's end, the last line of it only.
    fn keep(&mut self, text: &str, from: usize) {
        let mut from = from;
        while !text.is_char_boundary(from) {
            from += 1;
        }
        let end = &text[from..];
        let line = memchr::memrchr(b'\n', end.as_bytes()).map_or(0, |newline| newline + 1);
        self.tail.clear();
        self.tail.push_str(&end[line..]);
    }
}

/// The text with markers in place of the spans; the first one is left out where the text before
/// ended with it (`marked`).
pub(super) fn masked(set: &Set, text: &str, spans: &[Span], marked: bool) -> String {
    let mut out = String::with_capacity(text.len() + 32);
    let mut at = 0;
    for span in spans {
        out.push_str(&text[at..span.start]);
        if !(marked && span.start == 0) {
            out.push_str(set.marker(span.rule));
        }
        at = span.end;
    }
    out.push_str(&text[at..]);
    out
}

/// One stream of text that arrives in pieces, cut anywhere: secrets are taken out of each piece as
/// it comes, also where they began in an earlier one. Nothing is held back.
///
/// ```
/// use td_observe::redact::{Rules, TextStream};
/// let mut stream = TextStream::new(Rules::builtin());
/// let (one, two) = ("glpat-abc", "DEFghi012345jklMNO67 is it");
/// assert_eq!(stream.push(one), one); // Nine bytes give nothing away.
/// assert_eq!(stream.push(two), "[redacted:gitlab-token] is it");
/// ```
#[derive(Clone, Debug)]
pub struct TextStream {
    rules: Rules,
    pub(super) past: Past,
    scratch: Scratch,
}

impl TextStream {
    /// A stream that nothing has come through yet.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            past: Past::default(),
            scratch: Scratch::default(),
        }
    }

    /// The next piece, without its secrets.
    pub fn push<'a>(&mut self, piece: &'a str) -> Cow<'a, str> {
        match (self.past).push(&self.rules.0, piece, End::Cut, &mut self.scratch) {
            Some(masked) => Cow::Owned(masked),
            None => Cow::Borrowed(piece),
        }
    }
}
