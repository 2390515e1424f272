//! Placeholders: words, masks and variables in place of a secret (pure).

use std::sync::LazyLock;

use super::letters::is_worded;
use super::marker::MARKER;
use super::randomness::CHECKED_BYTES;

/// Words that replace a secret, and those for a user or a password in a URL.
static PLACEHOLDERS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    "password passwd passphrase pass pwd secret token string str none null nil true false undefined \
     required optional prompt hidden masked removed empty value user username text bytes option \
     boolean arg argument filename x-oauth-basic x-token-auth oauth2"
        .split(' ')
        .collect()
});

/// Parts that do not occur in secrets.
static PARTS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    "example placeholder changeme change_me change-me redacted your_ your- yourpass yourtoken yourkey \
     my_secret mysecret <your insert_ replace_ dummy foobar deadbeef realm="
        .split(' ')
        .collect()
});

/// Length from which a name in capitals must consist of words.
const SHORT_NAME: usize = 16;

/// The delimiters of a template within a value: the first two characters, and the last one.
const TEMPLATES: &[(&str, u8)] = &[("${", b'}'), ("{{", b'}'), ("#{", b'}'), ("$(", b')')];

/// Returns true for words, masks and variables that replace a secret.
pub(super) fn is_placeholder(value: &[u8]) -> bool {
    let Some(&first) = value.first() else {
        return true;
    };
    // `PASS‐`: a constant broken at the end of a line.
    let is_broken = value
        .strip_suffix("‐".as_bytes())
        .is_some_and(|rest| rest.iter().all(u8::is_ascii_uppercase));
    let is_ellipsis = value.starts_with("…".as_bytes()) || is_broken;
    if value.iter().all(|&b| b == first) || is_ellipsis || is_masked(value) || is_variable(value) {
        return true;
    }
    let mut lower = [0; CHECKED_BYTES];
    let lower = &mut lower[..value.len()];
    lower.copy_from_slice(value);
    lower.make_ascii_lowercase();
    let end = lower.iter().rposition(|b| !b" .,:;)]>".contains(b));
    let word = &lower[..end.map_or(0, |end| end + 1)];
    PLACEHOLDERS.iter().any(|known| known.as_bytes() == word)
        || PARTS.iter().any(|part| {
            // An eighth of the value, because long random text also contains such letters.
            part.len() * 8 >= value.len() && holds_word(value, lower, part)
        })
        || memchr::memmem::find(value, MARKER.as_bytes()).is_some()
        || TEMPLATES.iter().any(|(open, close)| {
            memchr::memmem::find_iter(value, open).any(|at| {
                let rest = &value[at + open.len()..];
                let is_name = rest
                    .first()
                    .is_none_or(|b| b.is_ascii_alphabetic() || b" _.$!#@".contains(b));
                // The beginning of a template has no end yet.
                is_name && (rest.contains(close) || rest.iter().all(|b| is_ident(*b) || *b == b' '))
            })
        })
}

fn is_ident(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Returns true for masks such as `xxxx-xxxx` and `sk-....`: one mark is a third of the text. Four in a row
/// also occur in random text.
fn is_masked(value: &[u8]) -> bool {
    b"xX*.#".iter().any(|mark| {
        let count = value.iter().filter(|b| *b == mark).count();
        count * 3 >= value.len() && value.windows(4).any(|four| four.iter().all(|b| b == mark))
    })
}

/// Returns true for a variable, a format or a name in brackets: `$DB_PASSWORD`, `%s`, `<your password>`.
/// Passwords may also begin with such a mark.
fn is_variable(value: &[u8]) -> bool {
    let Some((mark, rest)) = value.split_first() else {
        return true;
    };
    let length = rest
        .iter()
        .take_while(|b| is_ident(**b) && **b != b'-')
        .count();
    let (name, after) = rest.split_at(length);
    let is_capital = |b: &u8| b.is_ascii_uppercase() || matches!(b, b'_' | b'0'..=b'9');
    let is_name = name.len() < 6
        || is_worded(name)
        || (name.len() < SHORT_NAME && name.iter().all(is_capital));
    let ends = after
        .first()
        .is_none_or(|b| b"/.:,;)]}\"'- \\[".contains(b));
    let is_words = |close: u8| {
        rest.contains(&close)
            || rest.iter().all(|b| is_ident(*b) || b" /|:".contains(b))
                && (rest.len() < 6 || is_worded(rest))
    };
    match *mark {
        b'$' => match rest.first() {
            None => true,
            Some(b'{' | b'(') => true,
            Some(_) => !name.is_empty() && is_name && ends,
        },
        b'%' => match rest.first() {
            None | Some(b'(' | b'{') => true,
            Some(_) => after.first() == Some(&b'%') || (name.len() == 1 && ends),
        },
        b'<' => is_words(b'>'),
        b'{' => is_words(b'}'),
        b'[' => is_words(b']'),
        b'(' => is_words(b')'),
        b'*' => rest.first() == Some(&b'*') || (is_name && ends),
        _ => false,
    }
}

/// Returns true if the value contains the word in lower case, in upper case or capitalised. Random letters
/// form it more often in another mix of cases. `lower` is the value in lower case.
pub(super) fn holds_word(value: &[u8], lower: &[u8], word: &str) -> bool {
    memchr::memmem::find_iter(lower, word).any(|at| {
        let part = value.get(at..at + word.len()).unwrap_or_default();
        let rest = part.get(1..).unwrap_or_default();
        !rest.iter().any(u8::is_ascii_uppercase) || !part.iter().any(u8::is_ascii_lowercase)
    })
}
