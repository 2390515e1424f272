//! The texts that a line must have to match an expression (pure).
//!
//! An expression for a text of an event is reduced to texts of which each matching line has at least one, in the
//! form in which JSON has them. Lines with numeric escapes of other characters than this crate writes must be left to
//! the parser.

use std::collections::BTreeSet;

use regex_syntax::hir::{Capture, Class, Hir, HirKind, Literal};

use super::grams::TEXT_BYTES_MIN;

/// The maximum number of alternatives of one text; `(?i)` doubles them for each `k` and `s`, which have a third form.
const ALTERNATIVES_MAX: usize = 64;
/// The maximum number of characters of a class that is read as alternatives: the digits.
const CLASS_CHARS_MAX: usize = 10;
/// The maximum length of a text; a longer one excludes no more.
const TEXT_BYTES_MAX: usize = 64;

/// Texts with small letters, of which a matching line has one.
pub(in crate::history::read) type AnyOf = BTreeSet<Vec<u8>>;

/// Returns the texts of an expression. A line must have one of each set; without any, all lines may match.
pub(in crate::history::read) fn needles_of(text: &Hir) -> Vec<AnyOf> {
    parts_of(text).closed()
}

/// What is known of the matches of an expression.
#[derive(Debug, Default)]
struct Parts {
    /// The sets of which each match has a text. Empty if all matches are known.
    required: Vec<AnyOf>,
    matches: Matches,
}

#[derive(Debug)]
enum Matches {
    /// The expression matches these texts, and no others.
    Exactly(AnyOf),
    /// Each match begins with one of some texts, and ends with one of others, as far as they are known.
    Between(Option<AnyOf>, Option<AnyOf>),
}

impl Default for Matches {
    fn default() -> Self {
        Self::Between(None, None)
    }
}

impl Parts {
    fn exactly(texts: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self {
            required: Vec::new(),
            matches: Matches::Exactly(texts.into_iter().collect()),
        }
    }

    /// Requires one of some texts.
    fn require(&mut self, texts: Option<AnyOf>) {
        self.required.extend(texts);
    }

    /// Returns the sets of which a match has a text, if each text is long enough to be found.
    fn closed(mut self) -> Vec<AnyOf> {
        match std::mem::take(&mut self.matches) {
            Matches::Exactly(texts) => self.require(Some(texts)),
            Matches::Between(first, last) => {
                self.require(first);
                self.require(last);
            }
        }
        let is_found = |texts: &AnyOf| texts.iter().all(|text| text.len() >= TEXT_BYTES_MIN);
        self.required.retain(is_found);
        self.required.dedup();
        self.required
    }

    /// Appends what follows.
    fn append(&mut self, next: Self) {
        self.required.extend(next.required);
        let before = std::mem::take(&mut self.matches);
        self.matches = match (before, next.matches) {
            (Matches::Exactly(one), Matches::Exactly(other)) => match joined(&one, &other) {
                Some(both) => Matches::Exactly(both),
                None => Matches::Between(Some(one), Some(other)),
            },
            (Matches::Exactly(one), Matches::Between(first, last)) => {
                let both = first.as_ref().and_then(|first| joined(&one, first));
                if both.is_none() {
                    self.require(first);
                }
                Matches::Between(both.or(Some(one)), last)
            }
            (Matches::Between(first, last), Matches::Exactly(other)) => {
                let both = last.as_ref().and_then(|last| joined(last, &other));
                if both.is_none() {
                    self.require(last);
                }
                Matches::Between(first, both.or(Some(other)))
            }
            (Matches::Between(first, last), Matches::Between(next, end)) => {
                match last
                    .as_ref()
                    .zip(next.as_ref())
                    .and_then(|(last, next)| joined(last, next))
                {
                    Some(both) => self.require(Some(both)),
                    None => {
                        self.require(last);
                        self.require(next);
                    }
                }
                Matches::Between(first, end)
            }
        };
    }

    /// Returns the set that excludes most: the one whose shortest text is the longest.
    fn best(self) -> Option<AnyOf> {
        let shortest = |texts: &AnyOf| texts.iter().map(Vec::len).min().unwrap_or(usize::MAX);
        self.closed().into_iter().max_by_key(shortest)
    }

    /// Returns what is known of several matches in a row, of which there is at least one.
    fn repeated(self) -> Self {
        let matches = match self.matches {
            Matches::Exactly(texts) => Matches::Between(Some(texts.clone()), Some(texts)),
            between => between,
        };
        Self { matches, ..self }
    }

    /// Returns what is known of a match or none.
    fn optional(self) -> Self {
        match self.matches {
            Matches::Exactly(texts) => Self::exactly(texts.into_iter().chain([Vec::new()])),
            Matches::Between(..) => Self::default(),
        }
    }
}

/// Returns each text of one set followed by each of the other, unless these are too many or too long.
fn joined(before: &AnyOf, after: &AnyOf) -> Option<AnyOf> {
    let length = |texts: &AnyOf| texts.iter().map(Vec::len).max().unwrap_or(0);
    let is_small = before.len() * after.len() <= ALTERNATIVES_MAX
        && length(before) + length(after) <= TEXT_BYTES_MAX;
    let join = |one: &Vec<u8>| {
        let one = one.clone();
        (after.iter()).map(move |other| [one.as_slice(), other].concat())
    };
    is_small.then(|| before.iter().flat_map(join).collect())
}

fn parts_of(hir: &Hir) -> Parts {
    match hir.kind() {
        // Conditions on the place of a match are left to the parser.
        HirKind::Empty | HirKind::Look(_) => Parts::exactly([Vec::new()]),
        HirKind::Literal(Literal(bytes)) => literal(bytes),
        HirKind::Class(class) => self::class(class),
        HirKind::Capture(Capture { sub, .. }) => parts_of(sub),
        HirKind::Repetition(repeated) => match (repeated.min, repeated.max) {
            (1, Some(1)) => parts_of(&repeated.sub),
            (0, Some(1)) => parts_of(&repeated.sub).optional(),
            (0, _) => Parts::default(),
            (1.., _) => parts_of(&repeated.sub).repeated(),
        },
        HirKind::Concat(parts) => {
            let mut all = Parts::exactly([Vec::new()]);
            parts.iter().for_each(|part| all.append(parts_of(part)));
            all
        }
        HirKind::Alternation(parts) => alternation(parts.iter().map(parts_of).collect()),
    }
}

fn alternation(parts: Vec<Parts>) -> Parts {
    let exact = parts.iter().map(|parts| match &parts.matches {
        Matches::Exactly(texts) => Some(texts),
        Matches::Between(..) => None,
    });
    let exact: Option<Vec<&AnyOf>> = exact.collect();
    let union = exact.map(|sets| sets.into_iter().flatten().cloned().collect::<AnyOf>());
    if let Some(exact) = union.filter(|union| union.len() <= ALTERNATIVES_MAX) {
        return Parts::exactly(exact);
    }
    let best: Option<Vec<AnyOf>> = parts.into_iter().map(Parts::best).collect();
    let required = best.map(|sets| sets.into_iter().flatten().collect());
    Parts {
        required: required.into_iter().collect(),
        matches: Matches::default(),
    }
}

fn literal(bytes: &[u8]) -> Parts {
    // Other bytes match no text, and impose no condition here.
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Parts::default();
    };
    let mut parts = Parts::exactly([Vec::new()]);
    for c in text.chars() {
        parts.append(Parts::exactly(forms(c)));
    }
    parts
}

fn class(class: &Class) -> Parts {
    let class = match class {
        Class::Unicode(class) => class.clone(),
        Class::Bytes(bytes) => match bytes.to_unicode_class() {
            Some(class) => class,
            None => return Parts::default(),
        },
    };
    let sizes = class
        .ranges()
        .iter()
        .map(regex_syntax::hir::ClassUnicodeRange::len);
    if sizes.sum::<usize>() > CLASS_CHARS_MAX {
        return Parts::default();
    }
    let ranges = class.ranges().iter();
    Parts::exactly(ranges.flat_map(|range| (range.start()..=range.end()).flat_map(forms)))
}

/// Returns the forms in which JSON may have a character, except for those that only other programs write.
fn forms(c: char) -> Vec<Vec<u8>> {
    let escaped = |letter: char| format!("\\{letter}").into_bytes();
    match c {
        '"' | '\\' => vec![escaped(c)],
        '/' => vec![escaped(c), b"/".to_vec()],
        '\u{8}' => vec![escaped('b')],
        '\u{c}' => vec![escaped('f')],
        '\n' => vec![escaped('n')],
        '\r' => vec![escaped('r')],
        '\t' => vec![escaped('t')],
        control if control < ' ' => vec![format!("\\u{:04x}", u32::from(control)).into_bytes()],
        c => vec![c.to_ascii_lowercase().to_string().into_bytes()],
    }
}

/// Returns `true` if all numeric escapes in JSON are such as [`forms`] returns.
pub(super) fn has_only_own_escapes(json: &[u8]) -> bool {
    // The second byte of a pair is never the beginning of an escape.
    let mut rest = json;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let escape = rest.get(at + 1..).unwrap_or_default();
        let is_own = match escape {
            [b'u', b'0', b'0', tens @ b'0'..=b'1', ones, ..] => {
                let has_letter = *tens == b'0' && matches!(ones, b'8' | b'9' | b'a' | b'c' | b'd');
                matches!(ones, b'0'..=b'9' | b'a'..=b'f') && !has_letter
            }
            [b'u', ..] => false,
            _ => true,
        };
        if !is_own {
            return false;
        }
        rest = escape.get(1..).unwrap_or_default();
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn needles(pattern: &str) -> Vec<Vec<String>> {
        let parser = regex_syntax::ParserBuilder::new().multi_line(true).build();
        let needles = needles_of(&{ parser }.parse(pattern).unwrap());
        let text = |text: Vec<u8>| String::from_utf8(text).unwrap();
        needles
            .into_iter()
            .map(|any| any.into_iter().map(text).collect())
            .collect()
    }

    #[test]
    fn texts_that_a_match_must_have() {
        for (pattern, expected) in [
            ("needle", &[&["needle"][..]][..]),
            ("needle [a-z]+ is here", &[&["needle "], &[" is here"]]),
            (
                "needle [01]+ is",
                &[&["needle 0", "needle 1"], &["0 is", "1 is"]],
            ),
            ("abc(.*needle)", &[&["abc"], &["needle"]]),
            ("abc(.*def|ghi)jkl", &[&["def", "ghi"], &["abc"], &["jkl"]]),
            ("(abc.*def)+ghi", &[&["abc"], &["defghi"]]),
            (r#"^say "No"\t$"#, &[&[r#"say \"no\"\t"#]]),
            ("a/b", &[&["a/b", r"a\/b"]]),
            ("(?i)Kelvin", &[&["kelvin", "\u{212a}elvin"]]),
            ("colou?r", &[&["color", "colour"]]),
            ("warning|error", &[&["error", "warning"]]),
            ("(abc.*|xyz.+)d", &[&["abc", "xyz"]]),
            (r"\x1b\[31m", &[&[r"\u001b[31m"]]),
            (
                "(?i)été",
                &[&[
                    "\u{c9}t\u{c9}",
                    "\u{c9}t\u{e9}",
                    "\u{e9}t\u{c9}",
                    "\u{e9}t\u{e9}",
                ]],
            ),
            ("a[\x1bx]b", &[&[r"a\u001bb", "axb"]]),
            ("(needle)+", &[&["needle"]]),
            ("ab", &[]),
            ("a*", &[]),
            ("", &[]),
            (".{10}", &[]),
            ("(abc|x)", &[]),
            ("[0-9]+", &[]),
        ] {
            assert_eq!(needles(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn long_and_many_alternatives_are_bounded() {
        for pattern in [
            "(?i)skskskskskskskskskskskskskskskskskskskskskskskskskskskskskskskks",
            "([abc][abc][abc]){9}x",
        ] {
            for any in needles(pattern) {
                assert!(any.len() <= ALTERNATIVES_MAX, "{pattern}");
            }
        }
        assert!(!needles(&"long ".repeat(1_000)).is_empty());
    }

    #[test]
    fn own_escapes_are_told_from_those_of_other_programs() {
        for own in [
            r#"{"a":"\u001b[1m\u0000\u001f"}"#,
            r"\\u00e9",
            r"\n\\\u0001",
            "",
        ] {
            assert!(has_only_own_escapes(own.as_bytes()), "{own}");
        }
        for other in [
            r"\u00e9",
            r"\u001B",
            r"\u000a",
            r"\u0041",
            r"\\\u0041",
            r"\u00",
            r"\ud83d",
        ] {
            assert!(!has_only_own_escapes(other.as_bytes()), "{other}");
        }
    }

    proptest! {
        /// A text that matches has a text of each set in its JSON.
        #[test]
        fn a_match_has_the_texts(
            pattern in prop::collection::vec(prop::sample::select(vec![
                "a", "b", "K", "s", "/", "\\\\", "\"", "\\n", "\\x1b", ".", "é", "[ab]", "[^a]", "(?i:ks)", "(ab|K/)", "a?", "b+", "c*", "(abK|s.*)", "(.*ab)", "(s.*K|/)", "(?:s+b)", "(.K|ab)+", "(a.*)?", "^", "$", "\\b", "{2}", "[a-z]", "(?i:É)",
            ]), 1..8),
            text in "[abKkSsé\u{c9}/\\\\\"\n\u{1b}\u{212a}ſ ]{0,12}",
        ) {
            let pattern = pattern.concat();
            if let Ok(regex) = regex::RegexBuilder::new(&pattern).multi_line(true).build()
                && regex.is_match(&text)
            {
                let json = serde_json::to_string(&text).unwrap();
                prop_assert!(has_only_own_escapes(json.as_bytes()));
                let folded = json.to_ascii_lowercase();
                for any in needles(&pattern) {
                    prop_assert!(any.iter().any(|one| folded.contains(one)), "{pattern:?} {any:?} {json}");
                }
            }
        }
    }
}
