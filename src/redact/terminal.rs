//! What a program writes to a terminal, as a stream: secrets are found around and across the orders in it (pure).
//!
//! It is read twice. As it came: an order ends a secret there, as it does for every other reader of
//! such text. And as it is shown: what only colours, erases or sets is left out, so that a key with
//! a colour change in its middle is one; what moves the cursor elsewhere is a line's end, so that
//! words of different places are not taken for one. What either reading finds is taken out, and the
//! orders in it stay.

use std::borrow::Cow;

use super::Rules;
use super::scan::{End, Span};
use super::stream::{Past, Scratch};

/// Where in an order the text has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    #[default]
    None,
    /// Behind ESC.
    Escape,
    /// Behind ESC and what selects a set of characters and the like.
    Short,
    /// Behind `ESC [`.
    Control,
    /// In a title, a link, a picture: shown elsewhere, or not at all.
    String,
    /// Behind an ESC in such a text, which its end begins with.
    StringEscape,
}

/// What a byte is for somebody who reads the screen.
enum Shown {
    Text,
    /// Nothing that would be seen between two letters.
    Nothing,
    /// Something else follows: a blank, or a text at another place.
    Break(u8),
}

impl Order {
    fn take(&mut self, byte: u8) -> Shown {
        let (next, shown) = match (*self, byte) {
            (Self::String, 0x1b) => (Self::StringEscape, Shown::Nothing),
            (Self::String, 0x07) => (Self::None, Shown::Nothing),
            // As terminals do: both of these end whatever goes on.
            (_, 0x18 | 0x1a) => (Self::None, Shown::Nothing),
            (Self::String, _) => (Self::String, Shown::Nothing),
            (_, 0x1b) => (Self::Escape, Shown::Nothing),
            (Self::None, b'\n' | b'\r' | b'\t') => (Self::None, Shown::Text),
            (_, 0x0b | 0x0c) => (*self, Shown::Break(b'\n')),
            // The others ring, or switch sets of characters; going back is followed by another
            // text for the same place, which may well be the secret's.
            (_, 0x00..=0x1f | 0x7f) => (*self, Shown::Nothing),
            (Self::None, _) => (Self::None, Shown::Text),
            (Self::StringEscape, b'\\') => (Self::None, Shown::Nothing),
            (Self::Escape | Self::StringEscape, b'[') => (Self::Control, Shown::Nothing),
            (Self::Escape | Self::StringEscape, b']' | b'P' | b'X' | b'^' | b'_') => {
                (Self::String, Shown::Nothing)
            }
            (Self::Escape | Self::StringEscape | Self::Short, 0x20..=0x2f) => {
                (Self::Short, Shown::Nothing)
            }
            (Self::Escape | Self::StringEscape, b'D' | b'E' | b'M' | b'8' | b'c') => {
                (Self::None, Shown::Break(b'\n'))
            }
            (Self::Escape | Self::StringEscape | Self::Short, _) => (Self::None, Shown::Nothing),
            (Self::Control, 0x20..=0x3f) => (Self::Control, Shown::Nothing),
            (Self::Control, b'C' | b'a') => (Self::None, Shown::Break(b' ')),
            (Self::Control, b'A'..=b'I' | b'Z' | b'`' | b'd'..=b'f' | b'r' | b'u') => {
                (Self::None, Shown::Break(b'\n'))
            }
            (Self::Control, _) => (Self::None, Shown::Nothing),
        };
        *self = next;
        shown
    }
}

/// A secret, or a part of one between two orders.
#[derive(Clone, Copy, Debug)]
struct Part {
    span: Span,
    /// Its marker stands already.
    is_marked: bool,
}

/// Text that stands together in the piece.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Where it begins in what is shown.
    shown: usize,
    /// Where it begins in the piece.
    piece: usize,
    len: usize,
}

/// What one program writes to its terminal, in pieces, cut anywhere.
///
/// As everywhere, nothing is held back, and up to eleven bytes of a secret that is cut may be out
/// before it is known for one.
#[derive(Clone, Debug)]
pub(crate) struct TerminalStream {
    rules: Rules,
    order: Order,
    whole: Past,
    shown: Past,
    // Used again from piece to piece.
    scratch: Scratch,
    text: String,
    runs: Vec<Run>,
    parts: Vec<Part>,
}

impl TerminalStream {
    /// A stream that nothing has come through yet.
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            order: Order::None,
            whole: Past::default(),
            shown: Past::default(),
            scratch: Scratch::default(),
            text: String::new(),
            runs: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// Something is missing before the next piece: no order goes on in it. A secret may.
    pub(crate) fn skip(&mut self) {
        self.order = Order::None;
    }

    /// The next piece, without its secrets.
    pub(crate) fn push<'a>(&mut self, piece: &'a str) -> Cow<'a, str> {
        let set = &self.rules.0;
        if set.rules.is_empty() || piece.is_empty() {
            return Cow::Borrowed(piece);
        }
        self.parts.clear();
        let is_marked = self.whole.marked;
        if self.whole.find(set, piece, End::Cut, &mut self.scratch) {
            let parts = self.scratch.spans().iter().map(|&span| Part {
                span,
                is_marked: is_marked && span.start == 0,
            });
            self.parts.extend(parts);
        }
        read(&mut self.order, piece, &mut self.text, &mut self.runs);
        let is_marked = self.shown.marked;
        if self
            .shown
            .find(set, &self.text, End::Cut, &mut self.scratch)
        {
            for &span in self.scratch.spans().iter() {
                let marked = is_marked && span.start == 0;
                place(span, marked, &self.runs, &mut self.parts);
            }
        }
        match self.parts.is_empty() {
            true => Cow::Borrowed(piece),
            false => Cow::Owned(self.masked(piece)),
        }
    }

    fn masked(&mut self, piece: &str) -> String {
        self.parts
            .sort_by_key(|part| (part.span.start, part.is_marked));
        let mut out = String::with_capacity(piece.len() + 32);
        let mut at = 0;
        for Part { span, is_marked } in &self.parts {
            if span.start >= at {
                out.push_str(&piece[at..span.start]);
                // Two parts that touch are one secret that two rules know.
                let touches = at > 0 && span.start == at;
                if !is_marked && !touches {
                    out.push_str(self.rules.0.marker(span.rule));
                }
            }
            at = at.max(span.end);
        }
        out.push_str(&piece[at..]);
        out
    }
}

/// What of a piece is shown, and where it stands in it.
fn read(order: &mut Order, piece: &str, text: &mut String, runs: &mut Vec<Run>) {
    text.clear();
    runs.clear();
    let mut begin = None;
    let end_run =
        |begin: &mut Option<usize>, end: usize, text: &mut String, runs: &mut Vec<Run>| {
            if let Some(start) = begin.take() {
                runs.push(Run {
                    shown: text.len(),
                    piece: start,
                    len: end - start,
                });
                text.push_str(&piece[start..end]);
            }
        };
    for (at, &byte) in piece.as_bytes().iter().enumerate() {
        // The rest of a character is where its beginning is.
        if byte & 0xc0 == 0x80 {
            continue;
        }
        match order.take(byte) {
            Shown::Text => {
                begin.get_or_insert(at);
            }
            Shown::Nothing => end_run(&mut begin, at, text, runs),
            Shown::Break(with) => {
                end_run(&mut begin, at, text, runs);
                text.push(char::from(with));
            }
        }
    }
    end_run(&mut begin, piece.len(), text, runs);
}

/// Where in the piece a span of the shown text lies: between the orders.
fn place(span: Span, is_marked: bool, runs: &[Run], parts: &mut Vec<Part>) {
    let mut is_marked = is_marked;
    let first = runs.partition_point(|run| run.shown + run.len <= span.start);
    for run in &runs[first..] {
        if run.shown >= span.end {
            break;
        }
        let start = span.start.max(run.shown) - run.shown + run.piece;
        let end = span.end.min(run.shown + run.len) - run.shown + run.piece;
        let span = Span { start, end, ..span };
        parts.push(Part { span, is_marked });
        is_marked = true;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A key that no scanner takes for one in this file.
    fn key() -> String {
        format!("gh{}_{}", "p", "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6")
    }

    fn all(pieces: &[&str]) -> String {
        let mut stream = TerminalStream::new(Rules::builtin());
        pieces.iter().map(|piece| stream.push(piece)).collect()
    }

    #[test]
    fn orders_in_and_around_a_key_do_not_hide_it() {
        let key = key();
        let (head, tail) = key.split_at(20);
        for (text, expected) in [
            (format!("a {key} b"), "a [redacted:github-token] b"),
            (
                format!("\x1b[1m{key}\x1b[0m b"),
                "\x1b[1m[redacted:github-token]\x1b[0m b",
            ),
            (
                format!("{head}\x1b[38;5;208m{tail} b"),
                "[redacted:github-token]\x1b[38;5;208m b",
            ),
            (
                format!("\x1b]0;{key}\x07 b"),
                "\x1b]0;[redacted:github-token]\x07 b",
            ),
            // What stands elsewhere on the screen is no part of a word.
            (
                format!("ab\x1b[3;4H{key}\x1b[5;1Hc"),
                "ab\x1b[3;4H[redacted:github-token]\x1b[5;1Hc",
            ),
            (
                format!("ab\x1b(B{key} c"),
                "ab\x1b(B[redacted:github-token] c",
            ),
        ] {
            assert_eq!(all(&[&text]), expected, "{text:?}");
        }
    }

    #[test]
    fn clean_text_is_as_it_was() {
        let text = "plain \x1b[31mred\x1b[0m \x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\ \u{65e5}\r\n";
        assert!(matches!(
            TerminalStream::new(Rules::builtin()).push(text),
            Cow::Borrowed(same) if same == text
        ));
        let mut none = TerminalStream::new(Rules::none());
        assert_eq!(none.push(&key()), key());
    }

    proptest! {
        /// However it is cut, and whatever colours are in it: less than twelve bytes in a row are out.
        #[test]
        fn a_key_in_pieces_is_never_given_away(
            cuts in proptest::collection::vec(0..200_usize, 0..6),
            orders in proptest::collection::vec((0..40_usize, prop_oneof![
                Just("\x1b[31m"), Just("\x1b[0;1m"), Just("\x1b[K"), Just("\x1b[?25l"), Just("\x1b(B"), Just("\x07"),
                Just("\x1b]2;t\x1b\\"),
            ]), 0..4),
        ) {
            let key = key();
            let mut drawn = String::from("x ");
            for (at, c) in key.chars().enumerate() {
                for (_, order) in orders.iter().filter(|(before, _)| *before == at) {
                    drawn.push_str(order);
                }
                drawn.push(c);
            }
            drawn.push_str(" y");
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % (drawn.len() + 1)).collect();
            cuts.extend([0, drawn.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&str> = cuts.windows(2).map(|cut| &drawn[cut[0]..cut[1]]).collect();
            let out = all(&pieces);
            let (mut shown, mut runs) = (String::new(), Vec::new());
            read(&mut Order::None, &out, &mut shown, &mut runs);
            for window in key.as_bytes().windows(12) {
                let part = std::str::from_utf8(window).unwrap();
                prop_assert!(!shown.contains(part), "{:?} of {:?}", shown, pieces);
            }
            prop_assert!(shown.starts_with("x ") && shown.ends_with(" y"), "{:?}", shown);
        }

        /// The orders all stay, in their order.
        #[test]
        fn nothing_breaks_on_any_text(pieces in proptest::collection::vec("[\x07\x08\x0d\x18\x1b\\[\\]P\\\\;0-9A-Za-z\u{e9}\u{1f980}=_ :-]{0,40}", 0..8)) {
            let mut stream = TerminalStream::new(Rules::builtin());
            for piece in &pieces {
                let _ = stream.push(piece);
            }
        }
    }
}
