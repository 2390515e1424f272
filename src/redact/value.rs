//! Checks whether the value after a name is a secret, and not a placeholder, a variable or code (pure).

use serde::Deserialize;

use super::name::{Operator, Quote};

/// Bytes of a value that are examined: the rest does not change the result, and hostile input is not
/// scanned again and again.
const CHECKED_BYTES: usize = 128;

/// The condition under which a value is a secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ValueCheck {
    /// The form suffices.
    #[default]
    None,
    /// Not repeated or exemplary characters, such as `xxxx`.
    Form,
    /// A letter and a digit, and no words.
    Mixed,
    /// Not a placeholder or a variable.
    Value,
    /// Also not code, and not a name such as `password`: any other word may be a password.
    Plain,
    /// Also not code, and with a character that words do not contain.
    Loose,
    /// With a letter and a digit, and not code.
    Strict,
    /// The value of a name such as `token`: as strict, or letters in no word's order.
    Secret,
    /// Looks random, whatever its name.
    Random,
    /// A quoted password: not a placeholder, not a sentence, not code.
    Password,
    /// A password as an argument of a call: as `Loose`, and more than a word with a number.
    Pair,
    /// An argument of a program that expects a password there.
    Argument,
    /// Not only digits, and not a placeholder.
    NoDigits,
    /// Has the parts of a JSON Web Token.
    Jwt,
    /// Base64 with a user and a password in it.
    Basic,
    /// Begins with `name=value`.
    Cookie,
    /// The credentials of a header.
    Header,
    /// The password of an address, which a port and a path are not.
    Url,
    /// Ends as the keys of Azure do.
    Azure,
    /// Continues as the tokens of Twitter do, and not with more of the same letter.
    Twitter,
}

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

impl ValueCheck {
    /// Returns the check of a named value, and its minimum length.
    pub(super) fn of_value(self, quote: Quote, operator: Operator) -> (Self, usize) {
        let is_quoted = !matches!(quote, Quote::Bare | Quote::Shell);
        match (self, operator) {
            (Self::Password, Operator::Assign) if is_quoted => (Self::Password, 4),
            (Self::Password, Operator::Assign) => (Self::Plain, 5),
            (Self::Password, Operator::Colon) if is_quoted => (Self::Password, 4),
            (Self::Password, Operator::Colon) => (Self::Loose, 6),
            (Self::Password, Operator::Gap) if is_quoted => (Self::Loose, 6),
            (Self::Password, Operator::Gap) => (Self::Strict, 7),
            (Self::Password, Operator::Blank) if is_quoted => (Self::Pair, 6),
            (Self::Password | Self::Loose, Operator::Blank) => (Self::Random, 8),
            (Self::Loose, Operator::Assign) if quote == Quote::Shell => (Self::Plain, 5),
            (Self::Loose, Operator::Assign | Operator::Colon) => (Self::Loose, 6),
            (Self::Loose, Operator::Gap) => (Self::Strict, 8),
            (Self::Secret, Operator::Gap) => (Self::Random, 12),
            (Self::Secret, Operator::Blank) => (Self::Random, 16),
            (Self::Secret, _) => (Self::Secret, 8),
            (Self::Random, _) => (Self::Random, 16),
            (other, _) => (other, 8),
        }
    }

    /// Returns true if the value is a secret, judged by its beginning.
    pub(super) fn accepts(self, value: &[u8]) -> bool {
        let value = &value[..value.len().min(CHECKED_BYTES)];
        match self {
            Self::None => true,
            Self::Form => !is_repeated(value),
            Self::Mixed => has_letter_and_digit(value) && transitions(value) >= 3 && !is_repeated(value),
            Self::Value => !is_placeholder(value),
            Self::Plain => is_plain(value),
            Self::Loose => value.iter().any(is_odd) && !is_placeholder(value) && !is_code(value),
            Self::Strict => {
                has_letter_and_digit(value)
                    && !is_placeholder(value)
                    && !is_code(value)
                    && !is_type(value)
            }
            Self::Secret => {
                (has_letter_and_digit(value) || has_unusual_letters(value))
                    && !is_placeholder(value)
                    && !is_code(value)
                    && !is_type(value)
                    && (value.len() >= 20 || value.iter().filter(|b| b.is_ascii_digit()).count() > 1)
                    && !value.contains(&b' ')
                    && !holds(value, "\\n")
                    && !holds(value, "\\u")
            }
            Self::Random => {
                is_random(value) && !is_placeholder(value) && !is_code(value) && !is_type(value)
            }
            Self::Password => is_plain(value) && !is_prose(value),
            Self::Pair => {
                let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
                let marks = value.iter().any(|b| b"!@#%^*?~&$".contains(b));
                (digits > 1 || marks) && is_plain(value) && !is_prose(value)
            }
            Self::Argument => {
                !is_placeholder(value) && !value.starts_with(b"-") && !value.starts_with(b"/")
            }
            Self::NoDigits => !is_placeholder(value) && !value.iter().all(u8::is_ascii_digit),
            Self::Jwt => {
                let mut parts = value.split(|b| *b == b'.');
                let head = parts.next().unwrap_or_default();
                let body = parts.next().unwrap_or_default();
                head.len() >= 10 && (body.starts_with(b"ey") || body.is_empty() && parts.next().is_some() || body.len() >= 16)
            }
            Self::Basic => decodes_to_a_pair(value),
            Self::Cookie => {
                let name = value.iter().take_while(|b| b.is_ascii_alphanumeric() || b"_-.$".contains(b));
                let name = name.count();
                name > 0
                    && value.get(name) == Some(&b'=')
                    && value.len() >= name + 6
                    && has_letter_and_digit(&value[name + 1..])
                    && transitions(&value[name + 1..]) >= 2
                    && !is_placeholder(&value[name + 1..])
            }
            Self::Header => {
                has_letter_and_digit(value) && !is_placeholder(value) || decodes_to_a_pair(value)
            }
            Self::Url => is_url_password(value),
            Self::Azure => value.len() >= 6 && transitions(value) >= 2,
            Self::Twitter => !value.starts_with(b"AAAA") && has_letter_and_digit(value),
        }
    }
}

/// Returns true for letters of both cases that take turns as no words do.
pub(super) fn has_mixed_case(value: &[u8]) -> bool {
    transitions(value) * 5 >= value.len() * 2
}

fn has_letter_and_digit(value: &[u8]) -> bool {
    value.iter().any(u8::is_ascii_digit) && value.iter().any(u8::is_ascii_alphabetic)
}

fn is_odd(byte: &u8) -> bool {
    byte.is_ascii_digit() || b"!@#%^*?~+&$".contains(byte) || *byte >= 0x80
}

fn is_plain(value: &[u8]) -> bool {
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
fn is_prose(value: &[u8]) -> bool {
    let blanks = value.iter().filter(|b| **b == b' ').count();
    blanks > 0 && !(blanks <= 5 && value.iter().any(u8::is_ascii_digit) && !value.contains(&b'.'))
}

/// Returns true if few characters repeat, or an example says that it is one.
fn is_repeated(value: &[u8]) -> bool {
    let mut seen = [false; 256];
    for byte in value {
        seen[usize::from(*byte)] = true;
    }
    let distinct = seen.iter().filter(|is| **is).count();
    let repeats = value.windows(5).any(|five| five.iter().all(|b| *b == five[0] && *b != b'A'));
    distinct < 5 || repeats || holds(&value.to_ascii_lowercase(), "example")
}

fn class(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        b'0'..=b'9' => 3,
        _ => 0,
    }
}

/// Returns how often lower case, upper case and digits take turns in the longest part without marks.
fn transitions(value: &[u8]) -> usize {
    let part = longest_part(value);
    part.windows(2).filter(|two| class(two[0]) != class(two[1])).count()
}

fn longest_part(value: &[u8]) -> &[u8] {
    value
        .split(|b| !b.is_ascii_alphanumeric())
        .max_by_key(|part| part.len())
        .unwrap_or_default()
}

/// Returns true if no words and numbers explain the value.
fn is_random(value: &[u8]) -> bool {
    let part = longest_part(value);
    let digits = part.iter().filter(|b| b.is_ascii_digit()).count();
    let lower = part.iter().any(u8::is_ascii_lowercase);
    let upper = part.iter().any(u8::is_ascii_uppercase);
    let changes_min = if lower && upper { part.len() * 2 / 5 } else { part.len() / 5 };
    part.len() >= 8
        && digits > 0
        && (lower || upper)
        && transitions(part) >= changes_min.max(3)
        && !is_repeated(part)
}

/// Returns true for letters that no language has in this order: both cases mixed, or too few vowels.
fn has_unusual_letters(value: &[u8]) -> bool {
    let part = longest_part(value);
    if part.len() < 16 || !part.iter().all(u8::is_ascii_alphabetic) {
        return false;
    }
    let vowels = part.iter().filter(|b| b"aeiouyAEIOUY".contains(b)).count();
    vowels * 6 < part.len() || (transitions(part) * 5 >= part.len() * 2 && vowels * 4 < part.len())
}

/// Returns true for a type or a constant, as paths of code have them.
fn is_type(value: &[u8]) -> bool {
    value.len() < 40 && value.split(|b| matches!(b, b'.' | b':' | b'-')).all(is_camel)
}

/// Returns true for a name of code: words with capitals, and at most one number.
fn is_camel(part: &[u8]) -> bool {
    let letters: Vec<u8> = part.iter().copied().filter(|b| !b.is_ascii_digit()).collect();
    let numbers = part
        .split(|b| !b.is_ascii_digit())
        .filter(|number| !number.is_empty())
        .count();
    let cases = letters.windows(2).filter(|two| class(two[0]) != class(two[1])).count();
    let lower = letters.iter().filter(|b| b.is_ascii_lowercase()).count();
    numbers <= 1
        && lower * 5 >= letters.len() * 3
        && letters.iter().any(u8::is_ascii_uppercase)
        && letters.iter().any(u8::is_ascii_lowercase)
        && letters.iter().all(|b| b.is_ascii_alphabetic() || *b == b'_')
        && cases * 9 < letters.len() * 4
        && letters.len() >= 6
}

/// Returns true if the text is Base64 of `user:password`.
fn decodes_to_a_pair(value: &[u8]) -> bool {
    let (mut bits, mut count, mut colon) = (0_u32, 0, None);
    let mut length = 0;
    for byte in value.iter().take_while(|b| **b != b'=') {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return false,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            let [.., decoded] = (bits >> count).to_be_bytes();
            if !(0x20..0x7f).contains(&decoded) && decoded < 0x80 {
                return false;
            }
            if decoded == b':' && colon.is_none() {
                colon = Some(length);
            }
            length += 1;
        }
    }
    colon.is_some_and(|at| length > at + 3)
}

/// Returns true for a password of an address, and not for a port and a path.
fn is_url_password(value: &[u8]) -> bool {
    let digits = value.iter().take_while(|b| b.is_ascii_digit()).count();
    let is_port = digits > 0 && digits <= 5 && matches!(value.get(digits), Some(b'/' | b'?' | b',' | b'#'));
    !is_port && !is_placeholder(value) && !value.starts_with(b"//")
}

fn is_placeholder(value: &[u8]) -> bool {
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

fn is_code(value: &[u8]) -> bool {
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
        let letters = part.iter().filter(|b| b.is_ascii_alphabetic() || **b == b'_').count();
        let numbers = part.split(|b| !b.is_ascii_digit()).filter(|number| !number.is_empty());
        letters > 0 && part.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_') && (numbers.count() == 0
                || (letters >= 3 && digits <= 6 && one_number(part))
                || part.iter().rev().skip_while(|b| b.is_ascii_digit()).all(|b| !b.is_ascii_digit()))
    };
    if value.contains(&b'.') && value.split(|b| matches!(b, b'.' | b'_')).all(word) {
        return true;
    }
    TECHNICAL.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
}

fn one_number(part: &[u8]) -> bool {
    part.split(|b| !b.is_ascii_digit()).filter(|number| !number.is_empty()).count() <= 1
}

/// Words with a number that prose has about secrets.
const TECHNICAL: &[&str] = &[
    "base64", "base64url", "base64-encoded", "base32", "sha1", "sha256", "sha512", "sha-256", "sha-512", "md5", "utf8", "utf-8", "oauth2", "oauth2.0", "pbkdf2", "hs256", "rs256", "es256", "ed25519", "x509", "x.509", "aes256", "aes-256", "aes128", "pkcs1", "pkcs8", "pkcs12", "pkcs#8", "pkcs#12", "sha224", "sha384", "ipv4", "ipv6", "0-255", "win32", "int32", "int64", "uint8", "u8", "u64", "i32", "string8",
];

fn holds(text: &[u8], part: &str) -> bool {
    memchr::memmem::find(text, part.as_bytes()).is_some()
}
