//! Exact values: known secrets, in all forms in which they appear (pure).

use super::marker::MARKER;
use super::rule::{Edge, Hide, Lead, Rule};
use super::value::ValueCheck;
use crate::error::{Error, Result};
use crate::text::first_bytes;

/// Minimum length of a value; shorter ones occur in harmless words.
pub(super) const VALUE_MIN: usize = 4;
/// Maximum length of a value's keyword, which is its first bytes. A line must contain the whole keyword.
const KEYWORD: usize = 6;

/// Returns the rules for a value: as it is, in Base64, percent-encoded and as a JSON string, and for each of
/// its lines.
pub(super) fn rules_of(name: &str, value: &str) -> Result<Vec<Rule>> {
    if value.trim().len() < VALUE_MIN {
        return Err(Error::invalid(format!(
            "the value of {name} has fewer than {VALUE_MIN} bytes"
        )));
    }
    let marker = format!("{MARKER}{}]", id_of(name));
    let mut texts = Vec::new();
    for part in value.trim().lines().chain([value.trim()]) {
        if part.trim().len() < VALUE_MIN {
            continue;
        }
        if !part.contains('\n') {
            texts.push(part.to_owned());
            let is_marked = |byte: u8| !byte.is_ascii_alphanumeric() && !b"-._~".contains(&byte);
            // JavaScript's encodeURIComponent leaves more characters unescaped; some programs escape all of
            // them.
            let is_kept: fn(u8) -> bool = |byte| b"!*'()".contains(&byte);
            for is_upper in [true, false] {
                let encoded = escaped(part, is_upper, &is_marked);
                // Forms encode a blank as `+`.
                texts.push(encoded.replace("%20", "+"));
                texts.push(encoded);
                texts.push(escaped(part, is_upper, &|_| true));
            }
            for kept in [is_kept, |byte: u8| byte == b'/'] {
                let encoded = escaped(part, true, &|byte| is_marked(byte) && !kept(byte));
                texts.push(encoded.replace("%20", "+"));
                texts.push(encoded);
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
        for alphabet in [STANDARD, URL_SAFE] {
            // Text of any length may precede the value and shifts its bits.
            texts.extend((0..3).map(|before| base64(part.as_bytes(), before, alphabet)));
        }
    }
    texts.sort_unstable();
    texts.dedup();
    let texts = texts.into_iter().filter(|text| text.len() >= VALUE_MIN);
    Ok(texts.map(|text| rule(&marker, &text)).collect())
}

fn rule(marker: &str, text: &str) -> Rule {
    let mut body = Box::new([false; 256]);
    for byte in text.bytes() {
        body[usize::from(byte)] = true;
    }
    Rule {
        marker: marker.to_owned(),
        keywords: vec![first_bytes(text, KEYWORD).to_owned()],
        lead: Lead::Exact(text.as_bytes().into()),
        body,
        min: 0,
        max: usize::MAX,
        hide: Hide::Whole,
        word: false,
        start: true,
        edge: Edge::None,
        until: None,
        is_bare: false,
        check: ValueCheck::None,
        lines: false,
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
    let mut out = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        match (is_escaped(byte), is_upper) {
            (false, _) => out.push(byte),
            (true, true) => out.extend(format!("%{byte:02X}").into_bytes()),
            (true, false) => out.extend(format!("%{byte:02x}").into_bytes()),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
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

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Returns the Base64 characters that depend on the value alone, if `before` bytes precede it.
fn base64(value: &[u8], before: usize, alphabet: &[u8; 64]) -> String {
    let bytes: Vec<u8> = std::iter::repeat_n(0, before)
        .chain(value.iter().copied())
        .collect();
    let digits = bytes.chunks(3).flat_map(|chunk| {
        let mut word = 0_u32;
        for at in 0..3 {
            word = word << 8 | u32::from(chunk.get(at).copied().unwrap_or(0));
        }
        [18, 12, 6, 0].map(|shift| char::from(alphabet[(word >> shift & 63) as usize]))
    });
    // A digit has six bits; digits that share bits with other bytes are excluded.
    let first = (before * 8).div_ceil(6);
    let last = bytes.len() * 8 / 6;
    digits.take(last).skip(first).collect()
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
            base64(bytes.as_bytes(), 0, STANDARD)
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
