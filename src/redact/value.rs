//! Whether what stands behind a name is a secret, or a placeholder, a variable, a piece of code (pure).

use serde::Deserialize;

/// How much of a value is looked at: what follows does not change the verdict, and hostile input
/// is not read again and again.
const LOOK: usize = 128;

/// What a value must be like to be a secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Check {
    /// The form is proof enough.
    #[default]
    None,
    /// No placeholder and no variable.
    Value,
    /// Nor code, nor a name of what is meant: any word may be a password.
    Plain,
    /// Nor a plain word or code: there is something in it that words do not have.
    Loose,
    /// A letter and a digit, and no code.
    Strict,
}

/// Words that stand for a secret.
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

/// Parts that no secret has.
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

/// Parts that tell code.
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

impl Check {
    /// Whether the value is a secret, as far as this can be told from its beginning.
    pub(super) fn accepts(self, value: &[u8]) -> bool {
        let value = &value[..value.len().min(LOOK)];
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
    let mut lower = [0; LOOK];
    let lower = &mut lower[..value.len()];
    lower.copy_from_slice(value);
    lower.make_ascii_lowercase();
    let lower: &[u8] = lower;
    PLACEHOLDERS.iter().any(|word| word.as_bytes() == lower)
        || PARTS.iter().any(|part| holds(lower, part))
}

fn is_code(value: &[u8]) -> bool {
    // A path, an address, an argument.
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
    // `user.session2.next_token`: words with dots between them, a number at a word's end at most.
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
