//! Words: placeholders, code and prose, which no secret consists of (pure).

use super::looks::{CHECKED_BYTES, class, holds};

/// Words that are placeholders for a secret.
const PLACEHOLDERS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "pass",
    "secret",
    "token",
    "string",
    "str",
    "none",
    "null",
    "nil",
    "true",
    "false",
    "undefined",
    "required",
    "optional",
    "prompt",
    "hidden",
    "masked",
    "removed",
    "empty",
    "value",
    "user",
    "username",
    "text",
    "bytes",
    "option",
    "boolean",
];

/// Parts that secrets do not contain.
const PARTS: &[&str] = &[
    "example",
    "placeholder",
    "changeme",
    "change_me",
    "change-me",
    "redacted",
    "your_",
    "your-",
    "yourpass",
    "yourtoken",
    "yourkey",
    "my_secret",
    "mysecret",
    "xxxx",
    "****",
    "....",
    "${",
    "{{",
    "}}",
    "$(",
    "<your",
    "insert_",
    "replace_",
    "dummy",
    "#{",
    "foobar",
    "[redacted:",
    "deadbeef",
];

/// Parts that identify code.
const CODE: &[&str] = &[
    "env.",
    "environ",
    "config.",
    "settings.",
    "self.",
    "this.",
    "std::",
    "::",
    "->",
    "->>",
];

pub(super) fn is_plain(value: &[u8]) -> bool {
    let lower = value.to_ascii_lowercase();
    let is_name = |part: &[u8]| memchr::memmem::find(&lower, part).is_some();
    let is_constant = value.iter().all(|b| b.is_ascii_uppercase() || *b == b'_');
    !is_placeholder(value)
        && !is_code(value)
        && !is_constant
        && !is_name(b"pass")
        && !is_name(b"pwd")
}

/// Returns true for a sentence: words of letters, with blanks between them.
pub(super) fn is_prose(value: &[u8]) -> bool {
    let blanks = value.iter().filter(|b| **b == b' ').count();
    blanks > 0 && !(blanks <= 5 && value.iter().any(u8::is_ascii_digit) && !value.contains(&b'.'))
}

/// Returns true for a type or a constant, as paths of code have them.
pub(super) fn is_type(value: &[u8]) -> bool {
    value.len() < 40
        && value
            .split(|b| matches!(b, b'.' | b':' | b'-'))
            .all(is_camel)
}

/// Returns true for a name of code: words with capitals, and at most one number.
fn is_camel(part: &[u8]) -> bool {
    let letters: Vec<u8> = part
        .iter()
        .copied()
        .filter(|b| !b.is_ascii_digit())
        .collect();
    let numbers = part
        .split(|b| !b.is_ascii_digit())
        .filter(|number| !number.is_empty())
        .count();
    let cases = letters
        .windows(2)
        .filter(|two| class(two[0]) != class(two[1]))
        .count();
    let lower = letters.iter().filter(|b| b.is_ascii_lowercase()).count();
    numbers <= 1
        && lower * 5 >= letters.len() * 3
        && letters.iter().any(u8::is_ascii_uppercase)
        && letters.iter().any(u8::is_ascii_lowercase)
        && letters
            .iter()
            .all(|b| b.is_ascii_alphabetic() || *b == b'_')
        && cases * 9 < letters.len() * 4
        && letters.len() >= 6
}

pub(super) fn is_placeholder(value: &[u8]) -> bool {
    let Some(&first) = value.first() else {
        return true;
    };
    if b"$%<{[*(".contains(&first) || value.iter().all(|&b| b == first) {
        return true;
    }
    let mut lower = [0; CHECKED_BYTES];
    let lower = &mut lower[..value.len()];
    lower.copy_from_slice(value);
    lower.make_ascii_lowercase();
    let lower: &[u8] = lower;
    PLACEHOLDERS.iter().any(|word| word.as_bytes() == lower)
        || PARTS.iter().any(|part| holds(lower, part))
}

pub(super) fn is_code(value: &[u8]) -> bool {
    // A path, an address or an argument.
    if matches!(
        value.first(),
        Some(b'/' | b'.' | b'~' | b'-' | b'@' | b':' | b'_')
    ) || value.starts_with(b"0x")
        || holds(value, "://")
        || CODE.iter().any(|part| holds(value, part))
    {
        return true;
    }
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    // `WIN32_ERROR`: a constant or a type.
    if value.contains(&b'_') && !value.iter().any(u8::is_ascii_lowercase) && digits < 4 {
        return true;
    }
    // `user.session2.next_token`: words separated by dots, with at most one number in each.
    let word = |part: &[u8]| {
        let letters = part
            .iter()
            .filter(|b| b.is_ascii_alphabetic() || **b == b'_')
            .count();
        let numbers = part
            .split(|b| !b.is_ascii_digit())
            .filter(|number| !number.is_empty());
        letters > 0
            && part.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
            && (numbers.count() == 0
                || (letters >= 3
                    && digits <= 6
                    && one_number(part)
                    && (!part.iter().any(u8::is_ascii_uppercase) || is_camel(part)))
                || part
                    .iter()
                    .rev()
                    .skip_while(|b| b.is_ascii_digit())
                    .all(|b| !b.is_ascii_digit()))
    };
    if value.contains(&b'.') && value.split(|b| matches!(b, b'.' | b'_')).all(word) {
        return true;
    }
    TECHNICAL
        .iter()
        .any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
}

fn one_number(part: &[u8]) -> bool {
    part.split(|b| !b.is_ascii_digit())
        .filter(|number| !number.is_empty())
        .count()
        <= 1
}

/// Words with a number that prose has about secrets.
const TECHNICAL: &[&str] = &[
    "base64",
    "base64url",
    "base64-encoded",
    "base32",
    "sha1",
    "sha256",
    "sha512",
    "sha-256",
    "sha-512",
    "md5",
    "utf8",
    "utf-8",
    "oauth2",
    "oauth2.0",
    "pbkdf2",
    "hs256",
    "rs256",
    "es256",
    "ed25519",
    "x509",
    "x.509",
    "aes256",
    "aes-256",
    "aes128",
    "pkcs1",
    "pkcs8",
    "pkcs12",
    "pkcs#8",
    "pkcs#12",
    "sha224",
    "sha384",
    "ipv4",
    "ipv6",
    "0-255",
    "win32",
    "int32",
    "int64",
    "uint8",
    "u8",
    "u64",
    "i32",
    "string8",
];
