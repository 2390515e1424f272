//! Checks that the value after a name is a secret, and not a placeholder, a variable or code (pure).

use serde::Deserialize;

use super::letters::{is_doubtful, is_unworded};
use super::name_value::{Operator, Quote};
use super::placeholder::is_placeholder;
use super::randomness::{
    CHECKED_BYTES, decodes_to_a_pair, has_letter_and_digit, has_mixed_case, has_unusual_letters,
    holds, is_random, is_repeated, transitions,
};
use super::words::{is_code, is_dotted_name, is_expression, is_odd, is_plain, is_prose, is_type};

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
