//! Derives a regular expression for a JSON line from one for a text, so that most lines need not be parsed
//! (pure).
//!
//! A line contains a text between quotes, mostly unchanged. The derived expression accounts for characters
//! that JSON must or may escape. It drops conditions that only parsing can check (the start of a text, words,
//! lines). It therefore matches every line whose text matches, and a few more. Numeric escapes (`\u001b`) may
//! represent any character, so a line that contains one is always a candidate.

use regex_syntax::hir::{Capture, Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Literal};

/// Characters that JSON writes, or may write, as two characters. All others are written unchanged or as
/// numeric escapes.
const ESCAPES: [(char, char); 8] = [
    ('"', '"'),
    ('\\', '\\'),
    ('/', '/'),
    ('\u{8}', 'b'),
    ('\u{c}', 'f'),
    ('\n', 'n'),
    ('\r', 'r'),
    ('\t', 't'),
];

/// Returns the expression for a line, in the syntax of [`regex::bytes`]; `None` if it would match
/// everything.
pub(super) fn json_regex(text: &Hir) -> Option<String> {
    let raw = raw(text);
    // An expression that matches the empty line excludes nothing.
    // One without a minimum length matches only numeric escapes.
    (raw.properties().minimum_len() != Some(0)).then(|| raw.to_string())
}

fn raw(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Hir::empty(),
        HirKind::Literal(Literal(bytes)) => literal(bytes),
        HirKind::Class(class) => self::class(class),
        HirKind::Repetition(repetition) => Hir::repetition(repetition.with(raw(&repetition.sub))),
        HirKind::Capture(Capture { sub, .. }) => raw(sub),
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(raw).collect()),
        HirKind::Alternation(parts) => Hir::alternation(parts.iter().map(raw).collect()),
    }
}

fn literal(bytes: &[u8]) -> Hir {
    // Literals of text expressions contain whole characters; other bytes impose no condition.
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Hir::empty();
    };
    let mut parts = Vec::new();
    let mut plain = String::new();
    for c in text.chars() {
        if is_itself(c) {
            plain.push(c);
        } else {
            parts.push(Hir::literal(std::mem::take(&mut plain).into_bytes()));
            parts.push(escaped(|other| other == c));
        }
    }
    parts.push(Hir::literal(plain.into_bytes()));
    Hir::concat(parts)
}

fn class(class: &Class) -> Hir {
    let class = match class {
        Class::Unicode(class) => class.clone(),
        Class::Bytes(bytes) => match bytes.to_unicode_class() {
            Some(class) => class,
            // Parts of characters match no text.
            None => return Hir::fail(),
        },
    };
    let contains = |c: char| {
        class
            .ranges()
            .iter()
            .any(|range| range.start() <= c && c <= range.end())
    };
    let escapes = escaped(contains);
    let mut plain = class.clone();
    plain.difference(&special());
    Hir::alternation(vec![Hir::class(Class::Unicode(plain)), escapes])
}

/// Returns the two-character forms of a set of characters. Slashes may be written in both forms.
fn escaped(contains: impl Fn(char) -> bool) -> Hir {
    let chosen = ESCAPES.iter().filter(|(c, _)| contains(*c));
    let pairs = chosen.map(|(c, letter)| {
        let pair = Hir::literal(format!("\\{letter}").into_bytes());
        if *c == '/' {
            Hir::alternation(vec![Hir::literal(*b"/"), pair])
        } else {
            pair
        }
    });
    Hir::alternation(pairs.collect())
}

/// Returns `true` for a character that is always written unchanged or as a numeric escape.
fn is_itself(c: char) -> bool {
    c >= ' ' && !ESCAPES.iter().any(|(special, _)| *special == c)
}

/// Returns the characters that are never written unchanged, and the slash.
fn special() -> ClassUnicode {
    let controls = [ClassUnicodeRange::new('\0', '\u{1f}')];
    let escapes = ESCAPES.map(|(c, _)| ClassUnicodeRange::new(c, c));
    ClassUnicode::new(controls.into_iter().chain(escapes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn candidate(pattern: &str, line: &str) -> bool {
        let hir = regex_syntax::ParserBuilder::new()
            .multi_line(true)
            .build()
            .parse(pattern)
            .unwrap();
        match json_regex(&hir) {
            None => true,
            Some(raw) => {
                line.contains("\\u")
                    || regex::bytes::Regex::new(&raw)
                        .unwrap()
                        .is_match(line.as_bytes())
            }
        }
    }

    /// Returns JSON in the style of some other writers, with escaped slashes and numeric escapes.
    fn strange_json(text: &str, how: &[u8]) -> String {
        let mut out = String::from("\"");
        for (c, how) in text.chars().zip(how.iter().cycle()) {
            match (c, how % 4) {
                ('/', 0 | 1) => out.push_str("\\/"),
                (c, 0) if c.is_ascii() => out.push_str(&format!("\\u{:04X}", c as u32)),
                (c, _) => {
                    let json = serde_json::to_string(&c).unwrap();
                    out.push_str(&json[1..json.len() - 1]);
                }
            }
        }
        out.push('"');
        out
    }

    const PATTERNS: &[&str] = &[
        "a",
        "ab",
        r"a\nb",
        r#"""#,
        r"\\",
        "a.b",
        "(?s)a.b",
        "[^a]b",
        r"\s+b",
        r"^b$",
        r"\ba\b",
        "(a|/)b",
        "a{2,3}",
        r"[\x00-\x7f]b",
        "(?i)AB",
        "/",
        "[/b]a",
        r"\t|\x0c",
        r"(?-u:[a-c])b",
        "a*",
        "",
        "é+",
        r"\w\W\w",
        r"[[:punct:]]a",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// A text that matches is never skipped, whatever the style of its line.
        #[test]
        fn a_matching_text_matches_as_json(
            pattern in proptest::sample::select(PATTERNS.to_vec()),
            text in r#"[ab/\\"\n\t\x0c\x1b é]{0,8}"#,
            how in proptest::collection::vec(any::<u8>(), 1..8),
        ) {
            let regex = regex::RegexBuilder::new(pattern).multi_line(true).build().unwrap();
            if regex.is_match(&text) {
                let line = format!("{{\"seq\":1,\"text\":{}}}", strange_json(&text, &how));
                prop_assert!(candidate(pattern, &line), "{pattern:?} {text:?} {line}");
                let line = serde_json::to_string(&text).unwrap();
                prop_assert!(candidate(pattern, &line), "{pattern:?} {text:?} {line}");
            }
        }
    }

    #[test]
    fn lines_that_cannot_match_are_no_candidates() {
        for (pattern, line) in [
            ("needle", r#"{"text":"hay\n"}"#),
            (r"a\nb", r#"{"text":"a b"}"#),
            ("a.b", r#"{"text":"a\nb"}"#),
            (r#"""#, r#"{"text":"no quote in it"}"#),
            ("a[^x]b", r#"{"text":"a","more":"b"}"#),
        ] {
            assert!(!candidate(pattern, line), "{pattern}");
        }
    }
}
