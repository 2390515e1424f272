//! Words: code and prose, which are not secrets (pure).

use std::sync::LazyLock;

use super::letters::{is_doubtful, is_unworded, is_worded};
use super::placeholder::{holds_word, is_placeholder};
use super::randomness::{class, holds};

/// Length from which a constant must consist of words; a shorter one may be any abbreviation.
const SHORT_NAME: usize = 9;

/// Parts that identify code.
const CODE: &[&str] = &[
    "env.",
    "environ",
    "config.",
    "settings.",
    "self.",
    "this.",
    "::",
    "->",
    "?.",
    "\\033[",
    "\\x1b[",
    "\\e[",
    "\\u001b[",
];

pub(super) fn is_plain(value: &[u8]) -> bool {
    // The end of a line may break the name at a hyphen: `PASS‐`.
    let is_capital = |b: &u8| b.is_ascii_uppercase() || *b == b'_' || *b >= 0x80;
    let is_constant = value.iter().all(is_capital)
        && value.iter().any(u8::is_ascii_uppercase)
        && (value.len() < SHORT_NAME || is_worded(value));
    !is_placeholder(value) && !is_code(value) && !is_constant && !is_password_name(value)
}

/// Returns true for the name of a password, such as `db_password`, and for words about passwords. With a
/// digit or a mark, the value is a password that contains such a word: `MyPass2024!`.
fn is_password_name(value: &[u8]) -> bool {
    let lower = value.to_ascii_lowercase();
    let has_name = holds_word(value, &lower, "pass") || holds_word(value, &lower, "pwd");
    let has_words = value.contains(&b' ') && value.split(|b| *b == b' ').all(is_word);
    let is_name =
        (value.iter()).all(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | b'-' | b'.' | b' '));
    has_name && (has_words || is_name) && is_worded(value)
}

/// Returns true for a character that does not occur in names and words.
pub(super) fn is_odd(byte: &u8) -> bool {
    byte.is_ascii_digit() || b"!@#%^*?~+&$".contains(byte) || *byte >= 0x80
}

/// Returns true for a sentence: words with blanks between them. A few words with a number and without a full
/// stop are a passphrase.
pub(super) fn is_prose(value: &[u8]) -> bool {
    let words = value.split(|b| *b == b' ');
    let count = words.clone().count();
    let written = words.filter(|word| is_word(word)).count();
    match count {
        1 => false,
        // No passphrase has as many words; a sentence may contain a name from code.
        7.. => 4 * written >= 3 * count,
        _ => {
            let has_digit = value.iter().any(u8::is_ascii_digit);
            written == count && (!has_digit || value.contains(&b'.')) && is_worded(value)
        }
    }
}

/// Returns true for a word of a sentence with its punctuation.
fn is_word(word: &[u8]) -> bool {
    let start = word.iter().position(|b| !b"(\"'<[{`".contains(b));
    let end = word.iter().rposition(|b| !b")\"'>]}`.,:;!?".contains(b));
    let (Some(start), Some(end)) = (start, end) else {
        return true;
    };
    let word = word.get(start..=end).unwrap_or_default();
    word.split(|b| b"-'/_".contains(b)).all(|part| {
        let rest = part.get(1..).unwrap_or_default();
        let is_small = |b: &u8| b.is_ascii_lowercase() || *b >= 0x80;
        let is_written = rest.iter().all(is_small)
            && part
                .first()
                .is_none_or(|b| b.is_ascii_uppercase() || is_small(b));
        is_written || part.iter().all(u8::is_ascii_uppercase) || part.iter().all(u8::is_ascii_digit)
    })
}

/// Returns true for a type or a constant, as in paths of code.
pub(super) fn is_type(value: &[u8]) -> bool {
    value.len() < 40
        && value
            .split(|b| matches!(b, b'.' | b':' | b'-'))
            .all(is_camel)
        && is_worded(value)
}

/// Returns true for an identifier in code: words with capitals and at most one number.
fn is_camel(part: &[u8]) -> bool {
    let letters: Vec<u8> = part
        .iter()
        .copied()
        .filter(|b| !b.is_ascii_digit())
        .collect();
    let cases = letters
        .windows(2)
        .filter(|two| class(two[0]) != class(two[1]))
        .count();
    let lower = letters.iter().filter(|b| b.is_ascii_lowercase()).count();
    one_number(part)
        && lower * 5 >= letters.len() * 3
        && letters.iter().any(u8::is_ascii_uppercase)
        && letters.iter().any(u8::is_ascii_lowercase)
        && letters
            .iter()
            .all(|b| b.is_ascii_alphabetic() || *b == b'_')
        && cases * 2 < letters.len()
        && letters.len() >= 6
}

/// Returns true if the value contains a mark of code. A mark that begins with a letter must begin a word.
fn holds_mark(value: &[u8], mark: &str) -> bool {
    let is_word = mark.starts_with(|first: char| first.is_ascii_alphabetic());
    memchr::memmem::find_iter(value, mark).any(|at| {
        let before = at.checked_sub(1).and_then(|at| value.get(at));
        !is_word || !before.is_some_and(u8::is_ascii_alphanumeric)
    })
}

/// Returns true for code, dotted names included.
pub(super) fn is_code(value: &[u8]) -> bool {
    is_expression(value) || is_dotted_name(value)
}

/// Returns true for paths, addresses, expressions and constants, by their marks.
pub(super) fn is_expression(value: &[u8]) -> bool {
    // A path, a URL or an argument; random text may also begin with such a mark.
    let is_marked = match value {
        [b'/', rest @ ..] => is_path(rest),
        [b'.' | b'~' | b'-' | b'@' | b':' | b'_', rest @ ..] => {
            rest.len() < 4 || !rest.iter().any(is_odd) && !is_doubtful(rest) || is_worded(rest)
        }
        [b'0', b'x', rest @ ..] => rest.len() < 32,
        _ => false,
    };
    if is_marked || holds(value, "://") || CODE.iter().any(|mark| holds_mark(value, mark)) {
        return true;
    }
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    // A constant or a type, such as `WIN32_ERROR`.
    if value.contains(&b'_')
        && !value.iter().any(u8::is_ascii_lowercase)
        && digits < 4
        && !is_unworded(value)
    {
        return true;
    }
    TECHNICAL
        .iter()
        .any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
}

/// Returns true for the part after the first slash of a path: words, or the short name of a directory.
fn is_path(rest: &[u8]) -> bool {
    let first = rest.split(|b| *b == b'/').next().unwrap_or_default();
    let is_directory = first.len() < rest.len()
        && first.len() >= 2
        && first.iter().all(|b| b.is_ascii_lowercase() || *b == b'.');
    is_directory || rest.len() < 4 || is_worded(rest)
}

/// Returns true for `user.session2.next_token`, `x25519_private_key` and `projects/mine/secrets/db`: words
/// with at most one number in each.
pub(super) fn is_dotted_name(value: &[u8]) -> bool {
    let word = |part: &[u8]| {
        let letters = part.iter().filter(|b| b.is_ascii_alphabetic()).count();
        let is_capital = part
            .iter()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
        let is_small = !part.iter().any(u8::is_ascii_uppercase);
        (letters > 0 || part.len() < 3)
            && part.iter().all(u8::is_ascii_alphanumeric)
            && one_number(part)
            && (is_capital || is_small || is_camel(part) || letters + 1 >= part.len())
    };
    let is_mark = |b: &u8| matches!(b, b'.' | b'_' | b'-' | b'/' | b':' | b'=');
    value.iter().any(is_mark) && value.split(is_mark).all(word) && is_worded(value)
}

fn one_number(part: &[u8]) -> bool {
    part.split(|b| !b.is_ascii_digit())
        .filter(|number| !number.is_empty())
        .count()
        <= 1
}

/// Words with a number that occur in prose about secrets.
static TECHNICAL: LazyLock<Vec<&str>> = LazyLock::new(|| {
    "base64 base64url base64-encoded base32 sha1 sha256 sha512 sha-256 sha-512 md5 utf8 utf-8 oauth2 \
     oauth2.0 pbkdf2 hs256 rs256 es256 ed25519 x509 x.509 aes256 aes-256 aes128 pkcs1 pkcs8 pkcs12 \
     pkcs#8 pkcs#12 sha224 sha384 ipv4 ipv6 0-255 win32 int32 int64 uint8 u8 u64 i32 string8"
        .split(' ')
        .collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_may_contain_a_part_of_the_word() {
        for value in [
            "MyPass2024!",
            "q5fOG50whSHbmpwdSG",
            "PRFH#NpwD !UjnlTf8x pfWQ",
            "passw0rd",
            "Winter#pass",
            "$ecret!Pa55",
            "%k9Lmq2Xw",
            "~Kx92mQ!x",
            "QGPWDpLNIMPbss",
            "q5ddhppVuhanONrYD.uwsvfwoeh",
            "OFCgcnRa;tdegPWD",
        ] {
            assert!(is_plain(value.as_bytes()), "{value}");
        }
        for value in [
            "db_password",
            "getPassword",
            "newPwd",
            "Password (min 8)",
            "passphrase",
            "$DB_PASSWORD",
            "%(password)s",
            "<your password>",
            "self.next_password",
            "azure_password",
        ] {
            assert!(!is_plain(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn sentences_are_distinguished_from_passphrases() {
        for value in [
            "is required",
            "Not set!",
            "Enter (again)",
            "the user's own value",
            "Geheimnis für alle",
            "See section 4 of RFC 6749.",
            "at least 8 characters with one digit in it",
        ] {
            assert!(is_prose(value.as_bytes()), "{value}");
        }
        for value in [
            "hunter2",
            "A! !!!AAAhkc",
            "A PFUFjQhkc",
            "correct 4 horse",
            "x%k Lm",
            "OuMIrO s gEkx XpYi11sYj W r P",
        ] {
            assert!(!is_prose(value.as_bytes()), "{value}");
        }
    }
}
