//! Checks that the value after a name is a secret, and not a placeholder, a variable or code (pure).

use serde::Deserialize;

use super::edges::MARKER;
use super::name_reader::{Operator, Quote};

/// Bytes of a value that are examined. The rest does not change the result, and the limit prevents hostile
/// input from being scanned repeatedly.
const CHECKED_BYTES: usize = 128;

/// Parts that identify code. One that begins with a letter begins a word.
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

/// The condition under which a value is a secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(serde::Serialize))]
pub(super) enum ValueCheck {
    /// No condition; the form of the secret suffices.
    #[default]
    #[serde(alias = "form")]
    None,
    /// A letter and a digit, and no words.
    Mixed,
    /// Not a placeholder or a variable.
    Value,
    /// As `Value`, and not code or a name such as `PASSWORD`; any other word may be a password.
    #[serde(alias = "password")]
    Plain,
    /// As `Value`, and not code, with a character that does not occur in words.
    Loose,
    /// With a letter and a digit, and not code.
    Strict,
    /// The value of a name such as `token`: as `Strict`, or letters in an order that no word has.
    Secret,
    /// Must look random, whatever the name is.
    Random,
    /// An argument of a program that expects a password at this position.
    Argument,
    /// The argument of an option that may also announce a port: as `Loose`, and not only digits.
    Option,
    /// Not only digits, and not a placeholder.
    NoDigits,
    /// Has the parts of a JSON Web Token.
    Jwt,
    /// Base64 that contains a user and a password.
    Basic,
    /// Begins with `name=value`.
    Cookie,
    /// The credentials of a header.
    Header,
    /// The password of a URL, not a port and a path.
    Url,
}

impl ValueCheck {
    /// Returns the check for a named value, and its minimum length.
    pub(super) fn of_value(self, quote: Quote, operator: Operator) -> (Self, usize) {
        let is_quoted = !matches!(quote, Quote::Unquoted | Quote::Shell);
        match (self, operator) {
            (Self::Plain, Operator::Assign | Operator::Colon) if is_quoted => (Self::Plain, 4),
            (Self::Plain, Operator::Assign) => (Self::Plain, 5),
            (Self::Plain, Operator::Gap) if !is_quoted => (Self::Strict, 7),
            (Self::Loose, Operator::Assign) if quote == Quote::Shell => (Self::Plain, 5),
            (Self::Loose, Operator::Gap) => (Self::Strict, 8),
            (Self::Plain | Self::Loose, _) => (Self::Loose, 6),
            (Self::Secret, Operator::Gap) => (Self::Random, 12),
            (Self::Random, _) => (Self::Random, 16),
            (other, _) => (other, 8),
        }
    }

    /// Returns true if a value of which only the beginning has arrived may be a secret. The rest must not
    /// change a verdict after the beginning was shown.
    pub(super) fn accepts_beginning(self, value: &[u8]) -> bool {
        let value = &value[..value.len().min(CHECKED_BYTES)];
        match self {
            Self::Mixed | Self::Secret | Self::Strict | Self::Header => {
                may_become(value, has_letter_and_digit(value)) && !is_expression(value)
            }
            Self::Random => {
                has_letter_and_digit(value) && !is_placeholder(value) && !is_expression(value)
            }
            Self::Loose => may_become(value, value.iter().any(is_odd)) && !is_code(value),
            Self::Cookie => {
                let at = memchr::memchr(b'=', value).map_or(value.len(), |at| at + 1);
                let (name, value) = value.split_at(at);
                name.iter().rev().skip(1).all(|b| is_cookie_name(*b))
                    && value.len() >= 6
                    && may_become(value, has_letter_and_digit(value))
            }
            _ => self.accepts(value),
        }
    }

    pub(super) fn accepts(self, value: &[u8]) -> bool {
        let value = &value[..value.len().min(CHECKED_BYTES)];
        match self {
            Self::None => true,
            Self::Mixed => {
                let is_both = value.iter().any(u8::is_ascii_uppercase)
                    && value.iter().any(u8::is_ascii_lowercase);
                let is_random = has_mixed_case(value) || (is_both && is_unworded(value));
                has_letter_and_digit(value) && transitions(value) >= 3
                    || value.len() >= 16 && is_random
            }
            Self::Value => !is_placeholder(value),
            Self::Plain => is_plain(value),
            Self::Loose => {
                (value.iter().any(is_odd) || is_unworded(value))
                    && !is_placeholder(value)
                    && !is_code(value)
            }
            Self::Strict => {
                let is_mixed = value.iter().any(is_odd) && is_unworded(value);
                (has_letter_and_digit(value) || is_mixed)
                    && !is_placeholder(value)
                    && !is_name(value)
            }
            Self::Secret => {
                let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
                (has_letter_and_digit(value) || is_unworded(value))
                    && !is_placeholder(value)
                    && !is_name(value)
                    && (value.len() >= 12 || digits > 1)
                    && !value.contains(&b' ')
                    && !holds(value, "\\n")
                    && !holds(value, "\\u")
            }
            Self::Random => {
                let is_long = value.len() >= 20 && has_mixed_case(value) && is_unworded(value);
                (is_random(value) || is_long || decodes_to_a_pair(value))
                    && !is_placeholder(value)
                    && !is_code(value)
                    && !is_type(value)
            }
            Self::Argument => {
                !is_placeholder(value) && !value.starts_with(b"-") && !value.starts_with(b"/")
            }
            Self::Option => Self::Loose.accepts(value) && !value.iter().all(u8::is_ascii_digit),
            Self::NoDigits => !is_placeholder(value) && !value.iter().all(u8::is_ascii_digit),
            Self::Jwt => {
                let mut parts = value.split(|b| *b == b'.');
                let head = parts.next().unwrap_or_default();
                let body = parts.next().unwrap_or_default();
                head.len() >= 10
                    && (body.starts_with(b"ey")
                        || body.is_empty() && parts.next().is_some()
                        || body.len() >= 16)
            }
            Self::Basic => decodes_to_a_pair(value),
            Self::Cookie => {
                let name = value.iter().take_while(|b| is_cookie_name(**b)).count();
                name > 0
                    && value.get(name) == Some(&b'=')
                    && value.len() >= name + 6
                    && has_letter_and_digit(&value[name + 1..])
                    && transitions(&value[name + 1..]) >= 2
                    && !is_placeholder(&value[name + 1..])
            }
            Self::Header => {
                let is_key = has_letter_and_digit(value) || value.len() >= 20 && is_unworded(value);
                is_key && !is_placeholder(value) || decodes_to_a_pair(value)
            }
            Self::Url => {
                // Not a port and a path.
                let digits = value.iter().take_while(|b| b.is_ascii_digit()).count();
                let is_port = (1..=5).contains(&digits)
                    && matches!(value.get(digits), Some(b'/' | b'?' | b',' | b'#'));
                !is_port && !is_placeholder(value) && !value.starts_with(b"//")
            }
        }
    }
}

/// Returns true if the beginning of a value may belong to a secret: it has the required characters, or
/// letters that do not form words, so that the required characters may still follow.
fn may_become(value: &[u8], has_secret_parts: bool) -> bool {
    (has_secret_parts || !is_worded(value)) && !is_placeholder(value)
}

fn is_cookie_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.$".contains(&byte)
}

/// The letters of a value as words: `getToken2` has the words `get` and `Token`.
#[derive(Default)]
struct Letters {
    letters: usize,
    vowels: usize,
    digits: usize,
    words: usize,
    /// The length of the longest run of consonants.
    consonants: usize,
}

impl Letters {
    fn of(value: &[u8]) -> Self {
        let mut all = Self::default();
        let (mut before, mut run) = (Class::Mark, 0);
        for &byte in value {
            let class = class(byte);
            let continues = class == before || (before, class) == (Class::Upper, Class::Lower);
            let is_letter = byte.is_ascii_alphabetic();
            all.words += usize::from(is_letter && !continues);
            all.digits += usize::from(class == Class::Digit);
            let is_vowel = b"aeiouyAEIOUY".contains(&byte);
            all.letters += usize::from(is_letter);
            all.vowels += usize::from(is_vowel);
            run = if is_letter && !is_vowel { run + 1 } else { 0 };
            all.consonants = all.consonants.max(run);
            before = class;
        }
        all
    }
}

/// Returns true if the letters may form words and names: the words are long, and have vowels and few digits. One
/// in 300 random texts of twelve letters and digits passes.
fn is_worded(value: &[u8]) -> bool {
    let all = Letters::of(value);
    all.words * 4 <= value.len().max(4)
        && all.vowels * 5 >= all.letters
        && all.digits * 4 <= value.len()
        && all.consonants <= 4
}

/// Returns true if the letters are likelier in a random key, by a margin that few words reach.
pub(super) fn is_unworded(value: &[u8]) -> bool {
    let all = Letters::of(value);
    all.words * 3 >= value.len() || all.letters >= 8 && all.vowels * 7 < all.letters
}

/// Returns true for words and variables that replace a secret.
fn is_placeholder(value: &[u8]) -> bool {
    let Some(&first) = value.first() else {
        return true;
    };
    // `PASS‐`: a constant broken at the end of a line.
    let is_broken = value
        .strip_suffix("‐".as_bytes())
        .is_some_and(|rest| rest.iter().all(u8::is_ascii_uppercase));
    let is_ellipsis = value.starts_with("…".as_bytes()) || is_broken;
    if value.iter().all(|&b| b == first) || is_ellipsis || is_variable(value) {
        return true;
    }
    let lower = value.to_ascii_lowercase();
    let end = lower.iter().rposition(|b| !b" .,:;)]>".contains(b));
    let word = &lower[..end.map_or(0, |end| end + 1)];
    // Words that replace a secret, and those for a user or a password in a URL.
    let known = "password passwd passphrase pass pwd secret token string str none null nil true false undefined \
        required optional prompt hidden masked removed empty value user username text bytes option boolean arg \
        argument filename x-oauth-basic x-token-auth oauth2";
    // Parts that do not occur in secrets.
    let parts = "example placeholder changeme change_me change-me redacted your_ your- yourpass yourtoken yourkey \
        my_secret mysecret <your insert_ replace_ dummy foobar deadbeef realm=";
    // The delimiters of a template within a value: the first two characters, and the last one.
    let templates = [("${", b'}'), ("{{", b'}'), ("#{", b'}'), ("$(", b')')];
    known.split(' ').any(|known| known.as_bytes() == word)
        || parts.split(' ').any(|part| {
            // An eighth of the value, because long random text also contains such letters.
            part.len() * 8 >= value.len() && holds_word(value, &lower, part)
        })
        || holds(value, MARKER)
        || templates.iter().any(|(open, close)| {
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
    let is_name =
        name.len() < 6 || is_worded(name) || (name.len() < 16 && name.iter().all(is_capital));
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
            None | Some(b'{' | b'(') => true,
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
fn holds_word(value: &[u8], lower: &[u8], word: &str) -> bool {
    memchr::memmem::find_iter(lower, word).any(|at| {
        let part = value.get(at..at + word.len()).unwrap_or_default();
        let rest = part.get(1..).unwrap_or_default();
        !rest.iter().any(u8::is_ascii_uppercase) || !part.iter().any(u8::is_ascii_lowercase)
    })
}

/// Returns true for any value that is no placeholder, code or constant.
fn is_plain(value: &[u8]) -> bool {
    // The end of a line may break the name at a hyphen: `PASS‐`.
    let is_capital = |b: &u8| b.is_ascii_uppercase() || *b == b'_' || *b >= 0x80;
    let is_constant = value.iter().all(is_capital)
        && value.iter().any(u8::is_ascii_uppercase)
        && (value.len() < 9 || is_worded(value));
    !is_placeholder(value) && !is_code(value) && !is_constant
}

/// Returns true for a character that does not occur in names and words.
fn is_odd(byte: &u8) -> bool {
    byte.is_ascii_digit() || b"!@#%^*?~+&$".contains(byte) || *byte >= 0x80
}

/// Returns true for an identifier in code.
fn is_name(value: &[u8]) -> bool {
    is_code(value) || is_type(value)
}

/// Returns true for a type or a constant, as in paths of code.
fn is_type(value: &[u8]) -> bool {
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
    let lower = letters.iter().filter(|b| b.is_ascii_lowercase()).count();
    one_number(part)
        && lower * 5 >= letters.len() * 3
        && letters.iter().any(u8::is_ascii_uppercase)
        && letters
            .iter()
            .all(|b| b.is_ascii_alphabetic() || *b == b'_')
        && class_changes(&letters) * 2 < letters.len()
        && letters.len() >= 6
}

/// Returns true for code, dotted names included.
fn is_code(value: &[u8]) -> bool {
    is_expression(value) || is_dotted_name(value)
}

/// Returns true for paths, addresses, expressions and constants, by their marks.
fn is_expression(value: &[u8]) -> bool {
    // A path, a URL or an argument; random text may also begin with such a mark.
    let is_marked = match value {
        [b'/', rest @ ..] => is_path(rest),
        [b'.' | b'~' | b'-' | b'@' | b':' | b'_', rest @ ..] => rest.len() < 4 || is_worded(rest),
        [b'0', b'x', rest @ ..] => rest.len() < 32,
        _ => false,
    };
    let holds_mark = |mark: &&str| {
        let is_word = mark.starts_with(|first: char| first.is_ascii_alphabetic());
        memchr::memmem::find_iter(value, mark).any(|at| {
            let before = at.checked_sub(1).and_then(|at| value.get(at));
            !is_word || !before.is_some_and(u8::is_ascii_alphanumeric)
        })
    };
    // A constant or a type, such as `WIN32_ERROR`.
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    is_marked
        || holds(value, "://")
        || CODE.iter().any(holds_mark)
        || value.contains(&b'_')
            && !value.iter().any(u8::is_ascii_lowercase)
            && digits < 4
            && !is_unworded(value)
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
fn is_dotted_name(value: &[u8]) -> bool {
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
    let numbers = part.split(|b| !b.is_ascii_digit());
    numbers.filter(|number| !number.is_empty()).count() <= 1
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Lower,
    Upper,
    Digit,
    Mark,
}

fn class(byte: u8) -> Class {
    match byte {
        b'a'..=b'z' => Class::Lower,
        b'A'..=b'Z' => Class::Upper,
        b'0'..=b'9' => Class::Digit,
        _ => Class::Mark,
    }
}

fn class_changes(text: &[u8]) -> usize {
    let is_change = |two: &&[u8]| class(two[0]) != class(two[1]);
    text.windows(2).filter(is_change).count()
}

/// Returns the number of changes between lower case, upper case and digits in the longest part without marks.
fn transitions(value: &[u8]) -> usize {
    class_changes(longest_part(value))
}

fn longest_part(value: &[u8]) -> &[u8] {
    value
        .split(|b| !b.is_ascii_alphanumeric())
        .max_by_key(|part| part.len())
        .unwrap_or_default()
}

/// Returns true if the letters change case more often than in words.
pub(super) fn has_mixed_case(value: &[u8]) -> bool {
    transitions(value) * 5 >= value.len() * 2
}

fn has_letter_and_digit(value: &[u8]) -> bool {
    value.iter().any(u8::is_ascii_digit) && value.iter().any(u8::is_ascii_alphabetic)
}

/// Returns true if the value cannot be explained by words and numbers.
fn is_random(value: &[u8]) -> bool {
    let part = longest_part(value);
    let is_both =
        part.iter().any(u8::is_ascii_lowercase) && part.iter().any(u8::is_ascii_uppercase);
    let share = if is_both { 2 } else { 1 };
    part.len() >= 8
        && has_letter_and_digit(part)
        && class_changes(part) >= (part.len() * share / 5).max(3)
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

fn holds(text: &[u8], part: &str) -> bool {
    memchr::memmem::find(text, part.as_bytes()).is_some()
}

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
            "passphrase",
            "$DB_PASSWORD",
            "%(password)s",
            "<your password>",
            "self.next_password",
        ] {
            assert!(!is_plain(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn names_are_distinguished_from_random_letters() {
        for name in [
            "next_token_of_the_page",
            "getPasswordFromUser",
            "user.session2.next_token",
            "tokenizer_config",
            "ServerKeyExchange",
            "is required",
            "WIN32_ERROR_CODE",
        ] {
            let name = name.as_bytes();
            assert!(is_worded(name) && !is_unworded(name), "{name:?}");
        }
        for key in [
            "q5ddhppVuhanONrYD.uwsvfwoeh",
            "QGPWDpLNIMPbss7c",
            "xkqzvbwjhgfd",
        ] {
            assert!(!is_worded(key.as_bytes()), "{key}");
        }
    }
}
