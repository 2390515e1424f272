//! Redacts whole texts and a terminal's byte stream: finds secrets around and across control sequences (pure).
//!
//! The stream is scanned twice. The first scan reads the raw text: a control sequence ends a secret, as for
//! any other reader of such text, and is not part of it. The second scan reads the visible text: it skips
//! sequences that only change colours, erase or set modes, so that a key with a colour change inside is
//! recognized. It treats cursor movements as a newline, so that words at different positions are not joined.
//! The secrets of both scans are redacted; control sequences are kept.

use std::borrow::Cow;

use super::edges::{Span, TextEnd};
use super::rules::{Rules, Scratch, StreamState};
use super::scan::{Continuation, redact_spans};
use crate::escapes::{self, Action, BELL, State, is_string};

impl Rules {
    /// Redacts a whole text that is not part of a stream, such as a label or a summary. The beginning of a
    /// secret at the end is also redacted, because the text may be truncated.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        // Maximum number of passes over a whole text. A secret may hide the end of another one directly before it,
        // which a further pass finds.
        for _ in 0..4 {
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
        if !self.set().finder.finds(text.as_bytes(), 0) {
            return None;
        }
        let (mut spans, begin) = (Vec::new(), Continuation::None);
        self.set()
            .scan(text.as_bytes(), begin, TextEnd::Cut, &mut spans);
        (!spans.is_empty()).then(|| redact_spans(self.set(), text, &spans, false))
    }
}

/// Returns the redacted text if it differs.
pub(super) fn if_redacted(text: Cow<'_, str>) -> Option<String> {
    match text {
        Cow::Owned(redacted) => Some(redacted),
        Cow::Borrowed(_) => None,
    }
}

/// The effect of a byte on the visible text.
enum VisibleByte {
    Text,
    /// Nothing visible between two letters.
    Nothing,
    /// A blank, or a movement to another position.
    Break(u8),
}

fn advance(state: &mut State, byte: u8) -> VisibleByte {
    let before = *state;
    // A bell ends every string, so that a secret after a broken string is found.
    if is_string(before) && byte == BELL {
        *state = State::Ground;
        return VisibleByte::Nothing;
    }
    match (escapes::advance(state, byte), byte) {
        // Other control characters ring the bell or switch character sets. Text after a backspace may
        // replace part of the secret.
        (Action::Print, 0x7f) => VisibleByte::Nothing,
        (Action::Print, _) => VisibleByte::Text,
        (Action::Execute, b'\n' | b'\r' | b'\t') if before == State::Ground => VisibleByte::Text,
        (Action::Execute, 0x0b | 0x0c) => VisibleByte::Break(b'\n'),
        (Action::EscDispatch, b'D' | b'E' | b'M' | b'8' | b'c') if before == State::Escape => {
            VisibleByte::Break(b'\n')
        }
        (Action::CsiDispatch, b'C' | b'a') => VisibleByte::Break(b' '),
        (Action::CsiDispatch, b'A'..=b'I' | b'Z' | b'`' | b'd'..=b'f' | b'r' | b'u') => {
            VisibleByte::Break(b'\n')
        }
        _ => VisibleByte::Nothing,
    }
}

/// Returns true if the state is within a control sequence other than a string.
fn is_code(state: State) -> bool {
    state != State::Ground && !is_string(state)
}

/// A secret, or a part of one between two control sequences.
#[derive(Clone, Copy, Debug)]
struct SecretPart {
    span: Span,
    /// True if the marker is already written.
    is_marked: bool,
}

/// Contiguous text of a piece.
#[derive(Clone, Copy, Debug)]
struct TextRun {
    /// Its position in the scanned text.
    text: usize,
    /// Its position in the piece.
    piece: usize,
    len: usize,
}

/// Redacts text or a program's terminal output, which arrives in pieces cut anywhere. Each piece is redacted at
/// once, including secrets that began in an earlier piece.
///
/// No text is delayed, so up to eleven bytes of a truncated secret may be shown before it is recognized.
///
/// ```
/// use td_observe::internals::redact::TerminalStream;
/// use td_observe::redact::Rules;
/// let mut stream = TerminalStream::new(Rules::builtin());
/// let (one, two) = ("glpat-abc", "DEFghi012345jklMNO67 is it");
/// assert_eq!(stream.push(one), one); // Nine bytes are too few to recognize a key.
/// assert_eq!(stream.push(two), "[redacted:gitlab-token] is it");
/// ```
#[derive(Clone, Debug)]
pub struct TerminalStream {
    rules: Rules,
    sequence: State,
    raw_state: StreamState,
    visible_state: StreamState,
    /// True while the visible state equals the raw one, so that text without control sequences is scanned
    /// only once.
    is_plain: bool,
    // Buffers, reused from piece to piece.
    scratch: Scratch,
    text: String,
    runs: Vec<TextRun>,
    parts: Vec<SecretPart>,
}

impl TerminalStream {
    /// Creates an empty stream.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            sequence: State::Ground,
            raw_state: StreamState::default(),
            visible_state: StreamState::default(),
            is_plain: true,
            scratch: Scratch::default(),
            text: String::new(),
            runs: Vec::new(),
            parts: Vec::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.raw_state.tail.len()
    }

    /// Records that text is missing before the next piece. A control sequence does not continue after it, but
    /// a secret may.
    pub fn skip(&mut self) {
        self.sequence = State::Ground;
    }

    /// Redacts the next piece.
    pub fn push<'a>(&mut self, piece: &'a str) -> Cow<'a, str> {
        let set = self.rules.set();
        if set.rules.is_empty() || piece.is_empty() {
            return Cow::Borrowed(piece);
        }
        if self.is_plain && memchr::memchr3(0x1b, 0x08, 0x07, piece.as_bytes()).is_some() {
            self.visible_state.clone_from(&self.raw_state);
            self.is_plain = false;
        }
        let (end, is_marked) = (TextEnd::Cut, self.raw_state.is_marked);
        let is_found = self.raw_state.find(set, piece, end, &mut self.scratch);
        if self.is_plain {
            let redacted =
                is_found.then(|| redact_spans(set, piece, &self.scratch.spans, is_marked));
            return redacted.map_or(Cow::Borrowed(piece), Cow::Owned);
        }
        self.parts.clear();
        if is_found {
            read_between(self.sequence, piece, &mut self.runs);
            add_parts(&self.scratch.spans, is_marked, &self.runs, &mut self.parts);
        }
        read_visible(&mut self.sequence, piece, &mut self.text, &mut self.runs);
        let is_marked = self.visible_state.is_marked;
        if self
            .visible_state
            .find(set, &self.text, TextEnd::Cut, &mut self.scratch)
        {
            add_parts(&self.scratch.spans, is_marked, &self.runs, &mut self.parts);
        }
        self.is_plain = self.sequence == State::Ground && self.visible_state == self.raw_state;
        if self.parts.is_empty() {
            return Cow::Borrowed(piece);
        }
        Cow::Owned(self.redacted(piece))
    }

    fn redacted(&mut self, piece: &str) -> String {
        self.parts
            .sort_by_key(|part| (part.span.start, part.is_marked));
        let mut out = String::with_capacity(piece.len() + 32);
        let mut at = 0;
        for SecretPart { span, is_marked } in &self.parts {
            if span.start >= at {
                out.push_str(&piece[at..span.start]);
                // Two adjacent parts are one secret that two rules matched.
                let touches = at > 0 && span.start == at;
                if !is_marked && !touches {
                    out.push_str(self.rules.set().marker(span.rule));
                }
            }
            at = at.max(span.end);
        }
        out.push_str(&piece[at..]);
        out
    }
}

/// Extracts the visible text of a piece and its positions in the piece.
fn read_visible(sequence: &mut State, piece: &str, text: &mut String, runs: &mut Vec<TextRun>) {
    text.clear();
    runs.clear();
    let mut begin = None;
    let mut end_run = |begin: &mut Option<usize>, end: usize, blank: Option<u8>| {
        if let Some(start) = begin.take() {
            runs.push(TextRun {
                text: text.len(),
                piece: start,
                len: end - start,
            });
            text.push_str(&piece[start..end]);
        }
        text.extend(blank.map(char::from));
    };
    for (at, &byte) in piece.as_bytes().iter().enumerate() {
        // Continuation bytes belong to the character that they continue.
        if byte & 0xc0 == 0x80 {
            continue;
        }
        match advance(sequence, byte) {
            VisibleByte::Text => {
                begin.get_or_insert(at);
            }
            VisibleByte::Nothing => end_run(&mut begin, at, None),
            VisibleByte::Break(blank) => end_run(&mut begin, at, Some(blank)),
        }
    }
    end_run(&mut begin, piece.len(), None);
}

/// Finds the text of a piece between control sequences other than strings.
fn read_between(mut sequence: State, piece: &str, runs: &mut Vec<TextRun>) {
    runs.clear();
    let mut end_run = |start: usize, end: usize| {
        if start < end {
            runs.push(TextRun {
                text: start,
                piece: start,
                len: end - start,
            });
        }
    };
    let mut text_start = 0;
    let mut code_start = is_code(sequence).then_some(0);
    for (at, c) in piece.char_indices() {
        let was_code = is_code(sequence);
        advance(&mut sequence, piece.as_bytes()[at]);
        match (was_code, is_code(sequence)) {
            (false, true) => code_start = Some(at),
            (true, false) if sequence == State::Ground => {
                if let Some(code_start) = code_start.take() {
                    end_run(text_start, code_start);
                    text_start = at + c.len_utf8();
                }
            }
            // A string begins here.
            (true, false) => code_start = None,
            _ => {}
        }
    }
    end_run(text_start, code_start.unwrap_or(piece.len()));
}

/// Adds the parts of a piece that correspond to spans of its text. If `is_marked`, the marker of a span at the
/// beginning is already written.
fn add_parts(spans: &[Span], is_marked: bool, runs: &[TextRun], parts: &mut Vec<SecretPart>) {
    for &span in spans {
        let mut is_marked = is_marked && span.start == 0;
        let first = runs.partition_point(|run| run.text + run.len <= span.start);
        for run in &runs[first..] {
            if run.text >= span.end {
                break;
            }
            let start = span.start.max(run.text) - run.text + run.piece;
            let end = span.end.min(run.text + run.len) - run.text + run.piece;
            let span = Span { start, end, ..span };
            parts.push(SecretPart { span, is_marked });
            is_marked = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a key in a form that secret scanners do not find in this file.
    fn key() -> String {
        format!("gh{}_{}", "p", "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6")
    }

    fn all(pieces: &[&str]) -> String {
        let mut stream = TerminalStream::new(Rules::builtin());
        pieces.iter().map(|piece| stream.push(piece)).collect()
    }

    #[test]
    fn control_sequences_in_and_around_a_key_do_not_hide_it() {
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
            // Text at another position is not part of a word.
            (
                format!("ab\x1b[3;4H{key}\x1b[5;1Hc"),
                "ab\x1b[3;4H[redacted:github-token]\x1b[5;1Hc",
            ),
            // A scan of the bytes finds a value that begins with the colour sequence.
            (
                format!("password=\x1b[1;31m{key}\x1b[0m b"),
                "password=\x1b[1;31m[redacted:github-token]\x1b[0m b",
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
    fn clean_text_is_unchanged() {
        let text = "plain \x1b[31mred\x1b[0m \x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\ \u{65e5}\r\n";
        assert!(matches!(
            TerminalStream::new(Rules::builtin()).push(text),
            Cow::Borrowed(same) if same == text
        ));
        let mut none = TerminalStream::new(Rules::none());
        assert_eq!(none.push(&key()), key());
    }

    #[test]
    fn a_character_that_ends_a_control_sequence_stays_whole() {
        assert_eq!(
            all(&["password=\u{e9}\u{e9}\x1b\u{e9}\u{e9}\u{e9}7x\n"]),
            "password=[redacted:password]\x1b\u{e9}\n"
        );
    }

    proptest! {
        /// For any cuts and colours, fewer than twelve consecutive bytes of a key are shown.
        #[test]
        fn a_key_in_pieces_is_never_shown(
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
            read_visible(&mut State::Ground, &out, &mut shown, &mut runs);
            for window in key.as_bytes().windows(12) {
                let part = std::str::from_utf8(window).unwrap();
                prop_assert!(!shown.contains(part), "{:?} of {:?}", shown, pieces);
            }
            prop_assert!(shown.starts_with("x ") && shown.ends_with(" y"), "{:?}", shown);
        }

        /// Any text is accepted without a panic.
        #[test]
        fn any_text_is_accepted(pieces in proptest::collection::vec("[\x07\x08\x0d\x18\x1b\\[\\]P\\\\;0-9A-Za-z\u{e9}\u{1f980}=_ :-]{0,40}", 0..8)) {
            let mut stream = TerminalStream::new(Rules::builtin());
            for piece in &pieces {
                let _ = stream.push(piece);
            }
        }
    }
}
