//! The rules for secrets that a caller uses: built in, added, applied to whole texts and to streams (pure).
//!
//! A terminal's stream is scanned as its visible text: control sequences that only change colours, erase or set
//! modes are skipped, so that a key with a colour change inside is recognized. Cursor movements are treated as a
//! newline, so that words at different positions are not joined. The text of titles, links and other strings is
//! scanned separately. Control sequences are kept.

use std::borrow::Cow;
use std::sync::Arc;

use super::edges::{Span, TextEnd};
use super::rule_file::{VALUE_MIN, dotenv, read, read_builtin, rules_of};
use super::scan::{Continuation, RuleSet, redact_spans};
use crate::error::Result;
use crate::escapes::{self, Action, BELL, State, is_string};

/// Rules for secrets. Cheap to clone.
///
/// ```
/// use td_observe::redact::Rules;
/// let rules = Rules::builtin();
/// assert_eq!(rules.text("a clean line"), "a clean line");
/// let url = format!("postgres://app:{}@db/main", "hunter2!");
/// assert_eq!(rules.text(&url), "postgres://app:[redacted:url-password]@db/main");
/// ```
#[derive(Clone, Debug)]
pub struct Rules(pub(super) Arc<RuleSet>);

/// The built-in rules in groups. If two rules match at the same position, the earlier one determines the
/// kind.
pub(super) const GROUPS: [(&str, &str); 9] = [
    ("keys", include_str!("rules/keys.toml")),
    ("ai", include_str!("rules/ai.toml")),
    ("cloud", include_str!("rules/cloud.toml")),
    ("ci", include_str!("rules/ci.toml")),
    ("saas", include_str!("rules/saas.toml")),
    ("chat", include_str!("rules/chat.toml")),
    ("web", include_str!("rules/web.toml")),
    ("commands", include_str!("rules/commands.toml")),
    ("names", include_str!("rules/names.toml")),
];

impl Rules {
    /// Returns the built-in rules.
    pub fn builtin() -> Self {
        static BUILTIN: std::sync::LazyLock<Rules> = std::sync::LazyLock::new(|| {
            let mut rules = Vec::new();
            let set = GROUPS
                .iter()
                .try_for_each(|(_, text)| read_builtin(text).map(|more| rules.extend(more)))
                .and_then(|()| RuleSet::new(rules));
            #[expect(clippy::expect_used, reason = "the text is fixed, and a test reads it")]
            Rules(Arc::new(set.expect("the built-in rules are valid")))
        });
        BUILTIN.clone()
    }

    /// Returns an empty set of rules, which redacts nothing.
    pub fn none() -> Self {
        #[expect(
            clippy::expect_used,
            reason = "an empty set has nothing that could fail"
        )]
        Self(Arc::new(
            RuleSet::new(Vec::new()).expect("no rules are valid"),
        ))
    }

    /// Adds rules in the format of the built-in rule files. If an added rule and an earlier one match at the
    /// same position, the marker contains the id of the earlier one.
    ///
    /// # Errors
    /// `is_invalid_input()` for other text and for unusable rules, which the message names.
    pub fn with_toml(&self, text: &str) -> Result<Self> {
        let mut rules = self.0.rules.clone();
        rules.extend(read(text)?);
        Ok(Self(Arc::new(RuleSet::new(rules)?)))
    }

    /// Adds known secrets by their names. Their values are redacted wherever they appear, also in Base64 or
    /// percent-encoded. The marker contains the name.
    ///
    /// ```
    /// use td_observe::redact::Rules;
    /// let rules = Rules::builtin().with_values([("DB_PASSWORD", "blue elephant")])?;
    /// assert_eq!(rules.text("so blue elephant it is"), "so [redacted:db-password] it is");
    /// # Ok::<(), td_observe::Error>(())
    /// ```
    ///
    /// # Errors
    /// `is_invalid_input()` for a value with fewer than four bytes, because harmless words would contain it.
    pub fn with_values<N: AsRef<str>, V: AsRef<str>>(
        &self,
        values: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self> {
        let mut rules = Vec::new();
        for (name, value) in values {
            rules.extend(rules_of(name.as_ref(), value.as_ref())?);
        }
        // Known values come first, so that they determine the kind.
        rules.extend(self.0.rules.iter().cloned());
        Ok(Self(Arc::new(RuleSet::new(rules)?)))
    }

    /// Adds the environment variables whose names match one of the patterns, in which `*` matches any text,
    /// and the variables of files in dotenv format. Returns the names of variables whose values are too short
    /// to be redacted.
    ///
    /// # Errors
    /// `is_invalid_input()` if there are too many variables.
    pub fn with_variables(
        &self,
        patterns: &[String],
        environment: impl IntoIterator<Item = (String, String)>,
        files: &[String],
    ) -> Result<(Self, Vec<String>)> {
        let named = environment
            .into_iter()
            .filter(|(name, _)| patterns.iter().any(|pattern| fits(pattern, name)));
        let files = files.iter().flat_map(|text| dotenv(text));
        let (long, short): (Vec<_>, Vec<_>) = named
            .chain(files)
            .partition(|(_, value)| value.trim().len() >= VALUE_MIN);
        let short = short.into_iter().map(|(name, _)| name).collect();
        Ok((self.with_values(long)?, short))
    }
}

/// Returns true if the name matches the pattern, in which `*` matches any text.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len())
                .filter(|at| rest.is_char_boundary(*at))
                .any(|at| fits(after, &rest[at..]))
        }),
    }
}

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
        let new = if self.is_clean {
            known.saturating_sub(set.finder.longest.saturating_sub(1))
        } else {
            0
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

/// The meaning of a byte for the scan.
enum Meaning {
    Text,
    /// A byte of a string, such as a title or a link.
    StringText,
    /// Nothing visible between two letters.
    Nothing,
    /// A blank, or a movement to another position.
    Break(u8),
}

fn advance(state: &mut State, byte: u8) -> Meaning {
    let before = *state;
    // A bell ends every string, so that a secret after a broken string is found.
    if is_string(before) && byte == BELL {
        *state = State::Ground;
        return Meaning::Nothing;
    }
    let action = escapes::advance(state, byte);
    if is_string(before) && is_string(*state) {
        return Meaning::StringText;
    }
    match (action, byte) {
        // Other control characters ring the bell or switch character sets. Text after a backspace may
        // replace part of the secret.
        (Action::Print, 0x7f) => Meaning::Nothing,
        (Action::Print, _) => Meaning::Text,
        (Action::Execute, b'\n' | b'\r' | b'\t') if before == State::Ground => Meaning::Text,
        (Action::Execute, 0x0b | 0x0c) => Meaning::Break(b'\n'),
        (Action::EscDispatch, b'D' | b'E' | b'M' | b'8' | b'c') if before == State::Escape => {
            Meaning::Break(b'\n')
        }
        (Action::CsiDispatch, b'C' | b'a') => Meaning::Break(b' '),
        (Action::CsiDispatch, b'A'..=b'I' | b'Z' | b'`' | b'd'..=b'f' | b'r' | b'u') => {
            Meaning::Break(b'\n')
        }
        _ => Meaning::Nothing,
    }
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

/// Text of a terminal without control sequences, and the state of its scan.
#[derive(Clone, Debug, Default)]
struct ScannedText {
    state: StreamState,
    text: String,
    runs: Vec<TextRun>,
    /// The start of the current run in the piece.
    begin: Option<usize>,
}

impl ScannedText {
    fn clear(&mut self) {
        self.text.clear();
        self.runs.clear();
    }

    fn end_run(&mut self, piece: &str, end: usize) {
        if let Some(start) = self.begin.take() {
            self.runs.push(TextRun {
                text: self.text.len(),
                piece: start,
                len: end - start,
            });
            self.text.push_str(&piece[start..end]);
        }
    }

    /// Scans the text and adds the parts of the piece that are secret.
    fn find(&mut self, set: &RuleSet, scratch: &mut Scratch, parts: &mut Vec<SecretPart>) {
        let was_marked = self.state.is_marked;
        if !self.state.find(set, &self.text, TextEnd::Cut, scratch) {
            return;
        }
        for &span in &scratch.spans {
            // The marker of a span at the beginning is already written.
            let mut is_marked = was_marked && span.start == 0;
            let first = (self.runs).partition_point(|run| run.text + run.len <= span.start);
            for run in &self.runs[first..] {
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
    visible: ScannedText,
    strings: ScannedText,
    scratch: Scratch,
    parts: Vec<SecretPart>,
}

impl TerminalStream {
    /// Creates an empty stream.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            sequence: State::Ground,
            visible: ScannedText::default(),
            strings: ScannedText::default(),
            scratch: Scratch::default(),
            parts: Vec::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.visible.state.tail.len()
    }

    /// Records that text is missing before the next piece. A control sequence does not continue after it, but
    /// a secret may.
    pub fn skip(&mut self) {
        self.sequence = State::Ground;
    }

    /// Redacts the next piece.
    pub fn push<'a>(&mut self, piece: &'a str) -> Cow<'a, str> {
        let set = &self.rules.0;
        if set.rules.is_empty() || piece.is_empty() {
            return Cow::Borrowed(piece);
        }
        let has_controls = memchr::memchr3(0x1b, 0x08, 0x07, piece.as_bytes()).is_some();
        if self.sequence == State::Ground && !has_controls {
            let state = &mut self.visible.state;
            let found = state.redact(set, piece, TextEnd::Cut, &mut self.scratch);
            return found.map_or(Cow::Borrowed(piece), Cow::Owned);
        }
        self.parts.clear();
        read_texts(
            &mut self.sequence,
            piece,
            &mut self.visible,
            &mut self.strings,
        );
        for text in [&mut self.visible, &mut self.strings] {
            text.find(set, &mut self.scratch, &mut self.parts);
        }
        if self.parts.is_empty() {
            return Cow::Borrowed(piece);
        }
        self.parts.sort_by_key(|part| part.span.start);
        let mut out = String::with_capacity(piece.len() + 32);
        let mut at = 0;
        for SecretPart { span, is_marked } in &self.parts {
            out.push_str(&piece[at..span.start]);
            if !is_marked {
                out.push_str(set.marker(span.rule));
            }
            at = span.end;
        }
        out.push_str(&piece[at..]);
        Cow::Owned(out)
    }
}

/// Reads the texts of a piece and their positions in the piece.
fn read_texts(
    sequence: &mut State,
    piece: &str,
    visible: &mut ScannedText,
    strings: &mut ScannedText,
) {
    visible.clear();
    strings.clear();
    for (at, &byte) in piece.as_bytes().iter().enumerate() {
        // Continuation bytes belong to the character that they continue.
        if byte & 0xc0 == 0x80 {
            continue;
        }
        let meaning = advance(sequence, byte);
        if !matches!(meaning, Meaning::Text) {
            visible.end_run(piece, at);
        }
        if !matches!(meaning, Meaning::StringText) && strings.begin.is_some() {
            strings.end_run(piece, at);
            strings.text.push('\n');
        }
        match meaning {
            Meaning::Text => _ = visible.begin.get_or_insert(at),
            Meaning::StringText => _ = strings.begin.get_or_insert(at),
            Meaning::Nothing => {}
            Meaning::Break(blank) => visible.text.push(char::from(blank)),
        }
    }
    visible.end_run(piece, piece.len());
    strings.end_run(piece, piece.len());
}

#[cfg(test)]
mod tests {
    mod rules {
        use super::super::{GROUPS, read};

        #[test]
        fn built_in_rules_pass_all_checks() {
            for (group, text) in GROUPS {
                let read = read(text);
                assert!(read.is_ok(), "{group}: {read:?}");
            }
        }
    }

    mod terminal {
        use proptest::prelude::*;

        use super::super::*;

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
            let text =
                "plain \x1b[31mred\x1b[0m \x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\ \u{65e5}\r\n";
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
                let (mut visible, mut strings) = (ScannedText::default(), ScannedText::default());
                read_texts(&mut State::Ground, &out, &mut visible, &mut strings);
                let shown = visible.text;
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
}
