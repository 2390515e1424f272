//! Checks whether the value after a name is a secret, and not a placeholder, a variable or code (pure).

use serde::Deserialize;

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
    /// Not a placeholder or a variable.
    Value,
    /// Also not code, and not a name such as `password`: any other word may be a password.
    Plain,
    /// Also not code, and with a character that words do not contain.
    Loose,
    /// With a letter and a digit, and not code.
    Strict,
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
    /// Returns true if the value is a secret, judged by its beginning.
    pub(super) fn accepts(self, value: &[u8]) -> bool {
        let value = &value[..value.len().min(CHECKED_BYTES)];
        match self {
            Self::None => true,
            Self::Value => !is_placeholder(value),
            Self::Plain => {
                let is_name =
                    |part| memchr::memmem::find(&value.to_ascii_lowercase(), part).is_some();
                !is_placeholder(value) && !is_code(value) && !is_name(b"pass") && !is_name(b"pwd")
            }
            Self::Loose => {
                let odd = |b: &u8| b.is_ascii_digit() || b"!@#%^*?~+".contains(b) || *b >= 0x80;
                value.iter().any(odd) && !is_placeholder(value) && !is_code(value)
            }
            Self::Strict => {
                value.iter().any(u8::is_ascii_digit)
                    && value.iter().any(u8::is_ascii_alphabetic)
                    && !is_placeholder(value)
                    && !is_code(value)
            }
        }
    }
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
    // `user.session2.next_token`: words separated by dots, which may end with a number.
    let word = |part: &[u8]| {
        let letters = part.len() - part.iter().rev().take_while(|b| b.is_ascii_digit()).count();
        let letter = |b: &u8| b.is_ascii_alphabetic() || *b == b'_';
        letters > 0 && part[..letters].iter().all(letter)
    };
    value.contains(&b'.') && value.split(|b| matches!(b, b'.' | b'_')).all(word)
}

fn holds(text: &[u8], part: &str) -> bool {
    memchr::memmem::find(text, part.as_bytes()).is_some()
}
