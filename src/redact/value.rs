//! Checks that the value after a name is a secret, and not a placeholder, a variable, code or prose (pure).

use std::sync::LazyLock;

use serde::Deserialize;

use super::edges::MARKER;
use super::letters::{is_doubtful, is_unworded, is_worded};
use super::name_reader::{Operator, Quote};

/// The condition under which a value is a secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ValueCheck {
    /// No condition; the form of the secret suffices.
    #[default]
    None,
    /// Characters without repetition or examples, such as `xxxx`.
    Form,
    /// A letter and a digit, and no words.
    Mixed,
    /// Not a placeholder or a variable.
    Value,
    /// As `Value`, and not code or a name such as `password`; any other word may be a password.
    Plain,
    /// Also not code, and with a character that does not occur in words.
    Loose,
    /// With a letter and a digit, and not code.
    Strict,
    /// The value of a name such as `token`: as `Strict`, or letters in an order that no word has.
    Secret,
    /// Must look random, whatever the name is.
    Random,
    /// A quoted password: not a placeholder, not a sentence, not code.
    Password,
    /// A password as an argument of a call: as `Loose`, and more than a word with a number.
    Pair,
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
    /// Ends as Azure keys do.
    Azure,
    /// Continues as Twitter tokens do, without repeating one letter.
    Twitter,
}

impl ValueCheck {
    /// Returns the check for a named value, and its minimum length.
    pub(super) fn of_value(self, quote: Quote, operator: Operator) -> (Self, usize) {
        let is_quoted = !matches!(quote, Quote::Unquoted | Quote::Shell);
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

    /// Returns true if a value of which only the beginning has arrived may be a secret. The rest must not
    /// change a verdict after the beginning was shown.
    pub(super) fn accepts_beginning(self, value: &[u8]) -> bool {
        let value = &value[..value.len().min(CHECKED_BYTES)];
        match self {
            Self::Form => true,
            Self::Mixed | Self::Secret | Self::Strict | Self::Header => {
                may_become(value, has_letter_and_digit(value)) && !is_expression(value)
            }
            Self::Random => {
                has_letter_and_digit(value) && !is_placeholder(value) && !is_expression(value)
            }
            Self::Loose => may_become(value, value.iter().any(is_odd)) && !is_code(value),
            Self::Pair => may_become(value, value.iter().any(is_odd)) && is_plain(value),
            Self::Password => is_plain(value),
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

    /// Returns true if the value is a secret, judged by its beginning.
    pub(super) fn accepts(self, value: &[u8]) -> bool {
        let value = &value[..value.len().min(CHECKED_BYTES)];
        match self {
            Self::None => true,
            Self::Form => !is_repeated(value),
            Self::Mixed => {
                let mixed = has_letter_and_digit(value) && transitions(value) >= 3;
                let is_long = value.len() >= 16;
                let is_both = value.iter().any(u8::is_ascii_uppercase)
                    && value.iter().any(u8::is_ascii_lowercase);
                let is_random = has_mixed_case(value) || (is_both && is_unworded(value));
                (mixed || (is_long && is_random)) && !is_repeated(value)
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
                (has_letter_and_digit(value) || has_unusual_letters(value) || is_unworded(value))
                    && !is_placeholder(value)
                    && !is_name(value)
                    && (value.len() >= 12
                        || value.iter().filter(|b| b.is_ascii_digit()).count() > 1)
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
            Self::Password => is_plain(value) && !is_prose(value),
            Self::Pair => {
                let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
                let marks = value.iter().any(|b| b"!@#%^*?~&$".contains(b));
                (digits > 1 || marks || is_unworded(value)) && is_plain(value) && !is_prose(value)
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
            Self::Url => is_url_password(value),
            Self::Azure => value.len() >= 6 && transitions(value) >= 2,
            Self::Twitter => !value.starts_with(b"AAAA") && has_letter_and_digit(value),
        }
    }
}

/// Returns true if the beginning of a value may belong to a secret: it has the required characters, or
/// letters that do not occur in words, so that the required characters may still follow.
fn may_become(value: &[u8], has_secret_parts: bool) -> bool {
    (has_secret_parts || is_doubtful(value)) && !is_placeholder(value)
}

fn is_cookie_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.$".contains(&byte)
}

/// Returns true for an identifier in code.
fn is_name(value: &[u8]) -> bool {
    is_expression(value) || is_dotted_name(value) || is_type(value)
}

/// Returns true for the password of a URL, and false for a port and a path.
fn is_url_password(value: &[u8]) -> bool {
    let digits = value.iter().take_while(|b| b.is_ascii_digit()).count();
    let is_port =
        digits > 0 && digits <= 5 && matches!(value.get(digits), Some(b'/' | b'?' | b',' | b'#'));
    !is_port && !is_placeholder(value) && !value.starts_with(b"//")
}

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

/// Length from which a constant must consist of words; a shorter one may be any abbreviation.
const SHORT_CONSTANT: usize = 9;

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
        && (value.len() < SHORT_CONSTANT || is_worded(value));
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

/// Bytes of a value that are examined. The rest does not change the result, and the limit prevents hostile
/// input from being scanned repeatedly.
pub(super) const CHECKED_BYTES: usize = 128;

/// Returns true if the letters change case more often than in words.
pub(super) fn has_mixed_case(value: &[u8]) -> bool {
    transitions(value) * 5 >= value.len() * 2
}

pub(super) fn has_letter_and_digit(value: &[u8]) -> bool {
    value.iter().any(u8::is_ascii_digit) && value.iter().any(u8::is_ascii_alphabetic)
}

/// Returns true if the value has few distinct characters, a long run of one, or the word `example`.
pub(super) fn is_repeated(value: &[u8]) -> bool {
    let mut seen = [false; 256];
    for byte in value {
        seen[usize::from(*byte)] = true;
    }
    let distinct = seen.iter().filter(|is| **is).count();
    // A quarter of the value, because random text may also repeat a character six times.
    let longest = value
        .chunk_by(|byte, next| byte == next)
        .filter(|run| run[0] != b'A')
        .map(<[u8]>::len)
        .max()
        .unwrap_or(0);
    let repeats = longest >= 6 && longest * 4 >= value.len();
    distinct < 5 || repeats || holds(&value.to_ascii_lowercase(), "example")
}

pub(super) fn class(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        b'0'..=b'9' => 3,
        _ => 0,
    }
}

/// Returns the number of changes between lower case, upper case and digits in the longest part without marks.
pub(super) fn transitions(value: &[u8]) -> usize {
    let part = longest_part(value);
    part.windows(2)
        .filter(|two| class(two[0]) != class(two[1]))
        .count()
}

pub(super) fn longest_part(value: &[u8]) -> &[u8] {
    value
        .split(|b| !b.is_ascii_alphanumeric())
        .max_by_key(|part| part.len())
        .unwrap_or_default()
}

/// Returns true if the value cannot be explained by words and numbers.
pub(super) fn is_random(value: &[u8]) -> bool {
    let part = longest_part(value);
    let digits = part.iter().filter(|b| b.is_ascii_digit()).count();
    let lower = part.iter().any(u8::is_ascii_lowercase);
    let upper = part.iter().any(u8::is_ascii_uppercase);
    let changes_min = if lower && upper {
        part.len() * 2 / 5
    } else {
        part.len() / 5
    };
    part.len() >= 8
        && digits > 0
        && (lower || upper)
        && transitions(part) >= changes_min.max(3)
        && !is_repeated(part)
}

/// Returns true for letters in an order that no language has: mixed case, or too few vowels.
pub(super) fn has_unusual_letters(value: &[u8]) -> bool {
    let part = longest_part(value);
    if part.len() < 16 || !part.iter().all(u8::is_ascii_alphabetic) {
        return false;
    }
    let vowels = part.iter().filter(|b| b"aeiouyAEIOUY".contains(b)).count();
    vowels * 6 < part.len() || (transitions(part) * 5 >= part.len() * 2 && vowels * 4 < part.len())
}

/// Returns true if the text is Base64 of `user:password`.
pub(super) fn decodes_to_a_pair(value: &[u8]) -> bool {
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

pub(super) fn holds(text: &[u8], part: &str) -> bool {
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
