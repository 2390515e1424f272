//! Sources of rules: files, read from TOML, validated and compiled; and known secrets, in all forms in which
//! they appear (pure).

use std::sync::Arc;

use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Class, Hir, HirKind};
use serde::Deserialize;

use super::edges::LEAK_BYTES;
use super::rule::{
    AROUND, BODY_BYTES, Edge, Hide, LEAD_MAX, Lead, NameTable, Pattern, Rule, marker,
};
use super::value::ValueCheck;
use crate::error::{Error, Result};
use crate::text::first_bytes;

/// Minimum length of a keyword, for the prefilter.
const KEYWORD_MIN: usize = 3;

/// Maximum number of rules, because each costs memory in every prefilter. About 230 are built in.
const RULES_MAX: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    #[serde(default)]
    rule: Vec<RuleTable>,
    #[serde(default)]
    name: Vec<NameTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleTable {
    id: String,
    /// For readers of the file only.
    #[serde(default, rename = "about")]
    _about: String,
    #[serde(default, rename = "source")]
    _source: String,
    #[serde(default)]
    prefixes: Vec<String>,
    #[serde(default)]
    keywords: Vec<String>,
    /// Regular expressions that expand to a few more keywords.
    #[serde(default)]
    finds: Vec<String>,
    #[serde(default)]
    lead: String,
    body: String,
    min: usize,
    max: Option<usize>,
    #[serde(default)]
    hide: Hide,
    #[serde(default)]
    word: bool,
    /// True if the lead begins with its keyword.
    #[serde(default)]
    start: bool,
    /// Examples, for readers and tests.
    #[serde(default, rename = "yes")]
    _yes: String,
    #[serde(default, rename = "no")]
    _no: String,
    until: Option<String>,
    #[serde(default)]
    check: ValueCheck,
    #[serde(default)]
    lines: bool,
}

/// Reads rules. An error states the rule and the problem.
pub(super) fn read(text: &str) -> Result<Vec<Rule>> {
    let file: RuleFile =
        toml::from_str(text).map_err(|error| Error::invalid("invalid rules").because(error))?;
    if file.rule.len() > RULES_MAX {
        return Err(Error::invalid(format!("more than {RULES_MAX} rules")));
    }
    let mut rules = Vec::with_capacity(file.rule.len());
    let invalid = |name, problem| Error::invalid(format!("{name}: {problem}"));
    for (number, written) in (1..).zip(file.rule) {
        let name = format!("rule {number} ({})", written.id);
        rules.push(compile(written).map_err(|problem| invalid(name, problem))?);
    }
    for (number, written) in (1..).zip(file.name) {
        let name = format!("name {number} ({})", written.id);
        rules.extend(compile_name(written).map_err(|problem| invalid(name, problem))?);
    }
    Ok(rules)
}

fn check_id(id: &str) -> Result<(), String> {
    let is_valid = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if id.is_empty() || id.len() > 32 || !id.bytes().all(is_valid) {
        return Err("the id must have 1 to 32 lower-case letters, digits and hyphens".into());
    }
    Ok(())
}

/// Returns the rule of a name and the rules of its values.
fn compile_name(written: NameTable) -> Result<Vec<Rule>, String> {
    check_id(&written.id)?;
    if written.words.is_empty()
        || written
            .words
            .iter()
            .any(|word| word.len() < 2 || word.len() > AROUND)
    {
        return Err(format!("words are required, each with 2 to {AROUND} bytes"));
    }
    let keywords = cases(&written.words).into_iter().collect();
    Ok(written.into_rules(keywords))
}

/// Returns the words in lower case, in upper case and capitalised, as names contain them.
fn cases(words: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    for word in words {
        let mut capital = word.clone();
        if let Some(first) = capital.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        let mut is_first = true;
        let title = word.chars().map(|c| {
            let begins = std::mem::replace(&mut is_first, !c.is_ascii_alphanumeric());
            if begins { c.to_ascii_uppercase() } else { c }
        });
        let title: String = title.collect();
        // `apiKey` and `ApiKey`: a capital within the word.
        let camel = word.strip_suffix("key").map(|rest| format!("{rest}Key"));
        let both = capital.strip_suffix("key").map(|rest| format!("{rest}Key"));
        all.extend([word.clone(), word.to_ascii_uppercase(), capital, title]);
        all.extend(camel.into_iter().chain(both));
    }
    all.sort_unstable();
    all.dedup();
    all
}

fn compile(mut written: RuleTable) -> Result<Rule, String> {
    check_id(&written.id)?;
    let body = body_bytes(&written.body)?;
    let prefixes = std::mem::take(&mut written.prefixes);
    let lead = if prefixes.is_empty() {
        Lead::Pattern(Arc::new(Pattern::new(
            std::mem::take(&mut written.lead),
            written.start,
        )))
    } else {
        let lead = prefixed(&prefixes, &written)?;
        (written.start, written.word) = (true, true);
        // A long prefix is shown, because it appears before its body arrives.
        written.hide = if prefixes.iter().any(|text| text.len() >= LEAK_BYTES) {
            Hide::Whole
        } else {
            Hide::All
        };
        written.keywords = keywords_of(prefixes, &body);
        lead
    };
    for find in &written.finds {
        let hir = parse(find).map_err(|problem| format!("finds: {problem}"))?;
        let mut extractor = Extractor::new();
        extractor
            .limit_class(100)
            .limit_total(9_000)
            .limit_repeat(8);
        let texts = extractor.extract(&hir);
        let literals = texts.literals().filter(|_| texts.is_exact());
        let literals = literals.ok_or("finds: too many texts")?;
        let words = literals
            .iter()
            .map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned());
        written.keywords.extend(words);
    }
    if written.keywords.is_empty() || written.keywords.iter().any(|word| word.len() < KEYWORD_MIN) {
        return Err(format!(
            "keywords are required, each with at least {KEYWORD_MIN} bytes"
        ));
    }
    if written.keywords.iter().any(|word| word.len() > LEAD_MAX) {
        return Err("a keyword is too long".into());
    }
    let max = written.max.unwrap_or(usize::MAX);
    if written.min > BODY_BYTES / 2 || written.max.is_some_and(|max| max >= BODY_BYTES) {
        return Err(format!(
            "min is at most {}, max below {BODY_BYTES}",
            BODY_BYTES / 2
        ));
    }
    if written.min == 0 || max < written.min {
        return Err("min is at least 1 and at most max".into());
    }
    check_lead(&written, &lead)?;
    let until = match written.until.as_deref().map(str::as_bytes) {
        None => None,
        Some([byte]) if !body[usize::from(*byte)] || written.check == ValueCheck::Url => {
            Some(*byte)
        }
        Some(_) => return Err("until must be one byte that the body does not contain".into()),
    };
    Ok(Rule {
        keywords: written.keywords.iter().collect(),
        min: written.min,
        max,
        hide: written.hide,
        word: written.word,
        start: written.start,
        edge: Edge::of_lead(written.start, written.word),
        until,
        check: written.check,
        lines: written.lines,
        ..Rule::new(marker(&written.id), lead, Arc::new(body))
    })
}

/// Compiles a lead, and checks that no text that it matches shows too much or too little.
fn check_lead(written: &RuleTable, lead: &Lead) -> Result<(), String> {
    let (bytes_min, bytes_max) = match lead {
        Lead::Pattern(pattern) => pattern.check()?,
        Lead::Texts(texts) => {
            let lengths = || texts.iter().map(Vec::len);
            (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0))
        }
        _ => return Ok(()),
    };
    if written.hide == Hide::All && bytes_max >= LEAK_BYTES {
        return Err(format!(
            "lead: it may be longer than {} bytes, which a truncated text would show; \
             shorten it, or hide = \"body\"",
            LEAK_BYTES - 1
        ));
    }
    if written.hide != Hide::Body && bytes_min + written.min < LEAK_BYTES {
        return Err(format!(
            "lead and min together must have at least {LEAK_BYTES} bytes"
        ));
    }
    Ok(())
}

/// Returns the lead that consists of one of the prefixes.
fn prefixed(prefixes: &[String], written: &RuleTable) -> Result<Lead, String> {
    if !written.keywords.is_empty() || !written.lead.is_empty() {
        return Err("prefixes stand for keywords and lead".into());
    }
    let mut texts: Vec<Vec<u8>> = prefixes.iter().map(|text| text.clone().into()).collect();
    texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
    Ok(Lead::Texts(texts))
}

/// Returns the keywords of prefixes. A prefix of two bytes becomes a keyword together with the first byte of its
/// body.
fn keywords_of(prefixes: Vec<String>, body: &[bool; 256]) -> Vec<String> {
    let bytes = (0..0x80_u8).filter(|byte| body[usize::from(*byte)]);
    let chars: Vec<char> = bytes.map(char::from).collect();
    let mut keywords = Vec::new();
    let mut open = prefixes;
    while let Some(word) = open.pop() {
        if word.len() < KEYWORD_MIN {
            open.extend(chars.iter().map(|c| format!("{word}{c}")));
        } else {
            keywords.push(word);
        }
    }
    keywords
}

/// Returns the bytes of a body: a name of a set of bytes, or a character class.
fn body_bytes(body: &str) -> Result<[bool; 256], String> {
    let is_in: fn(u8) -> bool = match body {
        "alnum" => |b| b.is_ascii_alphanumeric(),
        "upper" => |b| b.is_ascii_uppercase() || b.is_ascii_digit(),
        "hex" => |b| b.is_ascii_hexdigit(),
        "base64" => |b| b.is_ascii_alphanumeric() || b"+/=_-".contains(&b),
        "url" => |b| b.is_ascii_alphanumeric() || b"_-".contains(&b),
        "word" => |b| b.is_ascii_alphanumeric() || b == b'_',
        class => {
            let hir = parse(class).map_err(|problem| format!("body: {problem}"))?;
            let bytes = bytes_of(&hir);
            return bytes
                .ok_or_else(|| "body: it must be one character class without newline".to_owned());
        }
    };
    let mut bytes = [false; 256];
    for byte in 0..0x80_u8 {
        bytes[usize::from(byte)] = is_in(byte);
    }
    Ok(bytes)
}

fn parse(pattern: &str) -> Result<Hir, String> {
    regex_syntax::parse(pattern).map_err(|error| error.to_string())
}

/// Returns the bytes of a class. It contains either all bytes beyond ASCII or none, so that no character is
/// cut.
fn bytes_of(hir: &Hir) -> Option<[bool; 256]> {
    let mut bytes = [false; 256];
    match hir.kind() {
        HirKind::Class(Class::Unicode(class)) => {
            for range in class.ranges() {
                for c in range.start()..=range.end().min('\u{80}') {
                    bytes[(c as usize).min(0x80)] = true;
                }
                if range.end() >= '\u{80}' {
                    bytes[0x80..].fill(true);
                }
            }
        }
        HirKind::Class(Class::Bytes(class)) => {
            for range in class.ranges() {
                bytes[usize::from(range.start())..=usize::from(range.end())].fill(true);
            }
        }
        _ => return None,
    }
    // A newline ends every body, because text is scanned line by line.
    (!bytes[usize::from(b'\n')]).then_some(bytes)
}

/// Minimum length of a value; shorter ones occur in harmless words.
pub(super) const VALUE_MIN: usize = 4;
/// Returns the rules for a value: as it is, in Base64, percent-encoded and as a JSON string, and for each of
/// its lines.
pub(super) fn rules_of(name: &str, value: &str) -> Result<Vec<Rule>> {
    if value.trim().len() < VALUE_MIN {
        return Err(Error::invalid(format!(
            "the value of {name} has fewer than {VALUE_MIN} bytes"
        )));
    }
    let marker = marker(&id_of(name));
    let mut texts = Vec::new();
    for part in value.trim().lines().chain([value.trim()]) {
        if part.trim().len() < VALUE_MIN {
            continue;
        }
        if !part.contains('\n') {
            texts.push(part.to_owned());
            // JavaScript's encodeURIComponent leaves more characters unescaped; some programs escape all of
            // them.
            for (is_upper, kept) in [(true, ""), (false, ""), (true, "!*'()"), (true, "/")] {
                let encoded = escaped(part, is_upper, &|byte| {
                    !byte.is_ascii_alphanumeric()
                        && !b"-._~".contains(&byte)
                        && !kept.as_bytes().contains(&byte)
                });
                // Forms encode a blank as `+`.
                texts.push(encoded.replace("%20", "+"));
                texts.push(encoded);
                texts.push(escaped(part, is_upper, &|_| true));
            }
            if let Ok(json) = serde_json::to_string(part) {
                let json = json.trim_matches('"').to_owned();
                // PHP escapes slashes this way, and so do pages that contain the string in a script.
                texts.push(json.replace('/', "\\/"));
                for keeps_marks in [false, true] {
                    let ascii = in_ascii(&json, keeps_marks);
                    texts.push(upper_escapes(&ascii));
                    texts.push(ascii);
                }
                texts.push(json);
            }
        }
        for marks in ["+/", "-_"] {
            // Text of any length may precede the value and shifts its bits.
            texts.extend((0..3).map(|before| base64(part.as_bytes(), before, marks)));
        }
    }
    texts.sort_unstable();
    texts.dedup();
    let texts = texts.into_iter().filter(|text| text.len() >= VALUE_MIN);
    Ok(texts.map(|text| rule(&marker, &text)).collect())
}

fn rule(marker: &Arc<str>, text: &str) -> Rule {
    let mut body = [false; 256];
    for byte in text.bytes() {
        body[usize::from(byte)] = true;
    }
    Rule {
        // Maximum length of a value's keyword, which is its first bytes. A line must contain the whole keyword.
        keywords: [first_bytes(text, 6)].into_iter().collect(),
        min: 0,
        hide: Hide::Whole,
        ..Rule::new(
            Arc::clone(marker),
            Lead::Exact(text.as_bytes().into()),
            Arc::new(body),
        )
    }
}

/// Returns the kind of a named value: `db-password` for `DB_PASSWORD`.
fn id_of(name: &str) -> String {
    let letters = name.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'0'..=b'9' => char::from(byte),
        b'A'..=b'Z' => char::from(byte.to_ascii_lowercase()),
        _ => '-',
    });
    let id: String = letters.take(32).collect();
    if id.is_empty() {
        "value".to_owned()
    } else {
        id
    }
}

fn escaped(text: &str, is_upper: bool, is_escaped: &dyn Fn(u8) -> bool) -> String {
    let bytes = text.bytes().map(|byte| match (is_escaped(byte), is_upper) {
        (false, _) => char::from(byte).to_string(),
        (true, true) => format!("%{byte:02X}"),
        (true, false) => format!("%{byte:02x}"),
    });
    bytes.collect()
}

/// Converts the digits of JSON escapes to upper case.
fn upper_escapes(json: &str) -> String {
    let mut parts = json.split("\\u");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("\\u");
        let (digits, rest) = part.split_at(part.len().min(4));
        out.push_str(&digits.to_ascii_uppercase());
        out.push_str(rest);
    }
    out
}

/// Replaces characters outside ASCII by JSON escapes, and also those that end a script in a page unless
/// `keeps_marks`.
fn in_ascii(json: &str, keeps_marks: bool) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() && (keeps_marks || !"<>&'".contains(c)) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    out
}

/// Returns the Base64 characters that depend on the value alone, if `before` bytes precede it. `marks` are the last
/// two digits.
fn base64(value: &[u8], before: usize, marks: &str) -> String {
    let alphabet: Vec<char> = ('A'..='Z')
        .chain('a'..='z')
        .chain('0'..='9')
        .chain(marks.chars())
        .collect();
    let bytes: Vec<u8> = std::iter::repeat_n(0, before)
        .chain(value.iter().copied())
        .collect();
    let digits = bytes.chunks(3).flat_map(|chunk| {
        let mut word = 0_u32;
        for at in 0..3 {
            word = word << 8 | u32::from(chunk.get(at).copied().unwrap_or(0));
        }
        [18, 12, 6, 0].map(|shift| (word >> shift & 63) as usize)
    });
    // A digit has six bits; digits that share bits with other bytes are excluded.
    let first = (before * 8).div_ceil(6);
    let last = bytes.len() * 8 / 6;
    let digits = digits.take(last).skip(first);
    digits.map(|digit| alphabet[digit]).collect()
}

/// Reads the variables of a file in dotenv form.
pub(super) fn dotenv(text: &str) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let trimmed = line.trim_start();
        let assigned = trimmed.strip_prefix("export ").unwrap_or(trimmed);
        rest = after;
        let Some((name, value)) = assigned.split_once('=') else {
            continue;
        };
        let name = name.trim();
        if name.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        let value = value.trim();
        let quote = value
            .chars()
            .next()
            .filter(|c| matches!(c, '"' | '\'' | '`'));
        let value = match quote.map(|quote| (quote, &value[1..])) {
            Some((quote, inner)) => match (inner.find(quote), after.find(quote)) {
                (Some(end), _) => inner[..end].to_owned(),
                // A quoted value with several lines.
                (None, Some(end)) => {
                    let next = after[end + 1..].split_once('\n');
                    rest = next.map_or("", |(_, rest)| rest);
                    format!("{inner}\n{}", &after[..end])
                }
                (None, None) => inner.to_owned(),
            },
            None => {
                let bare = value.split(" #").next().unwrap_or_default();
                bare.trim().to_owned()
            }
        };
        variables.push((name.to_owned(), value.replace("\\n", "\n")));
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::super::{Rules, TerminalStream};
    use super::*;

    #[test]
    fn a_value_is_redacted_in_every_form() {
        let value = "p&ss w/rd+42\u{e9}";
        let rules = Rules::none().with_values([("DB_PASSWORD", value)]).unwrap();
        let encoded = |before: &str| {
            let bytes = [before, value, "!"].concat();
            base64(bytes.as_bytes(), 0, "+/")
        };
        for text in [
            format!("it is {value}."),
            "?a=p%26ss%20w%2Frd%2B42%C3%A9&b".to_owned(),
            "?a=p%26ss%20w%2frd%2b42%c3%a9&b".to_owned(),
            encoded(""),
            encoded("u:"),
            encoded("me:"),
            format!("x\x1b[31m{value}\x1b[0m"),
            "a=p%26ss+w%2Frd%2B42%C3%A9&b".to_owned(),
            "a=%70%26%73%73%20%77%2F%72%64%2B%34%32%C3%A9&b".to_owned(),
            r#"{"a":"p&ss w\/rd+42é"}"#.to_owned(),
            r#"{"a":"p\u0026ss w/rd+42\u00e9"}"#.to_owned(),
            "curl -d p&ss w\\\n  /rd+42é x\n".to_owned(),
        ] {
            let shown = rules.text(&text);
            assert!(shown.contains("[redacted:db-password]"), "{text}: {shown}");
            assert!(
                !shown.contains("rd+42") && !shown.contains("%2B42"),
                "{shown}"
            );
        }
        assert_eq!(rules.text("p&ss word"), "p&ss word");
    }

    #[test]
    fn a_value_in_pieces_is_redacted() {
        let value = "correct horse battery staple";
        let rules = Rules::none().with_values([("X", value)]).unwrap();
        let text = format!("so {value} it is");
        for cut in 0..text.len() {
            let mut stream = TerminalStream::new(rules.clone());
            let (a, b) = text.split_at(cut);
            let shown = [stream.push(a).into_owned(), stream.push(b).into_owned()].concat();
            for part in value.as_bytes().windows(12) {
                let part = std::str::from_utf8(part).unwrap();
                assert!(!shown.contains(part), "{cut}: {shown}");
            }
        }
    }

    #[test]
    fn short_values_are_refused() {
        assert!(
            Rules::none()
                .with_values([("X", " ab ")])
                .unwrap_err()
                .is_invalid_input()
        );
    }

    #[test]
    fn dotenv_files_are_read() {
        let text = "# note\nA=1234\nexport B='x y' # c\nC=\"two\nlines\"\n\nbad\nD = plain # note\nE=a\\nb\n";
        let expected = [
            ("A", "1234"),
            ("B", "x y"),
            ("C", "two\nlines"),
            ("D", "plain"),
            ("E", "a\nb"),
        ];
        let read = dotenv(text);
        let read: Vec<_> = read.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(read, expected);
    }
}
