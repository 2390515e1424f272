//! Names: decides if a name announces a secret, and where its value begins (pure).
//!
//! A name is a word such as `password` together with its prefix and suffix (`DB_PASSWORD`, `dbPassword2`).
//! Its value follows after quotes, brackets, an operator, a table cell or a few words of prose, on the same
//! line, or on the next one if a pair spans two lines (`"name": …,` and `"value": …`).

use serde::Deserialize;

use super::name_reader::{NameKind, Reader};
use super::name_value::{NameMatch, Operator, Quote};
use super::value::ValueCheck;

/// Maximum length of a name's prefix and of its suffix.
pub(super) const AROUND: usize = 32;

/// Words that announce a kind of secret, from `rules/names.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NameTable {
    pub(super) id: String,
    pub(super) words: Vec<String>,
    /// True if the word must be a separate part of the name.
    #[serde(default)]
    pub(super) part: bool,
    pub(super) check: ValueCheck,
    /// Parts of a name that announce something other than a secret.
    #[serde(default)]
    not: Vec<String>,
}

fn is_ident(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'$')
}

/// Returns true if the line consists of the name and one word after it, as in a `.netrc`.
fn is_alone(text: &[u8], first: usize, after: usize) -> bool {
    let mut before = text[..first].iter().rev();
    let begins = before
        .find(|b| !matches!(b, b' ' | b'\t'))
        .is_none_or(|b| *b == b'\n');
    let near = &text[after..text.len().min(after + AROUND)];
    let rest = near.split(|b| *b == b'\n').next().unwrap_or_default();
    let rest = rest.trim_ascii();
    begins && !rest.is_empty() && !rest.contains(&b' ')
}

impl NameTable {
    /// Reads the name around a word that begins at `start` and finds its value.
    pub(super) fn find(&self, text: &[u8], start: usize) -> NameMatch {
        let Some(end) = self.word_end(text, start) else {
            return NameMatch::No;
        };
        let Some((first, after)) = self.name(text, start, end) else {
            return NameMatch::No;
        };
        let name = &text[first..after];
        let is_flag = name.starts_with(b"-");
        let is_shell = text.get(after) == Some(&b'=')
            && !name.iter().any(u8::is_ascii_lowercase)
            && first
                .checked_sub(1)
                .is_none_or(|at| !matches!(text[at], b'?' | b'&' | b';'));
        let is_variable = name.contains(&b'_') && !name.iter().any(u8::is_ascii_lowercase);
        // Dockerfiles and the fish shell.
        let is_set = ["ENV ", "ARG ", "-x ", "-gx ", "-Ux "]
            .iter()
            .any(|before| text[..first].ends_with(before.as_bytes()));
        let is_line = name == b"password" && is_alone(text, first, after);
        let is_call = !text[end..after].contains(&b'.');
        let kind = NameKind {
            is_flag,
            is_call,
            is_variable,
        };
        let found = Reader { text, at: after }.value(kind, first);
        match found {
            // `pass` as a verb: `pass it to the compiler`.
            NameMatch::Value(value)
                if name == b"pass" && matches!(value.operator, Operator::Gap | Operator::Blank) =>
            {
                NameMatch::No
            }
            NameMatch::Value(mut value) => {
                // A value may precede its name.
                value.start = start.min(value.from);
                // `ENV TOKEN …`: such names do not occur in prose.
                if value.operator == Operator::Blank {
                    value.operator = match (is_set, is_variable || is_line) {
                        (true, _) => Operator::Assign,
                        (false, true) => Operator::Gap,
                        (false, false) => Operator::Blank,
                    };
                }
                if is_shell && value.quote == Quote::Unquoted && value.operator == Operator::Assign
                {
                    value.quote = Quote::Shell;
                }
                NameMatch::Value(value)
            }
            other => other,
        }
    }

    fn word_end(&self, text: &[u8], start: usize) -> Option<usize> {
        let first = text[start].to_ascii_lowercase();
        let fits = |word: &&String| {
            word.as_bytes()[0] == first
                && text
                    .get(start..start + word.len())
                    .is_some_and(|part| part.eq_ignore_ascii_case(word.as_bytes()))
        };
        let longest = self.words.iter().filter(fits).map(String::len).max()?;
        Some(start + longest)
    }

    /// Returns the range of the whole name; `None` if it announces something other than a secret.
    fn name(&self, text: &[u8], start: usize, end: usize) -> Option<(usize, usize)> {
        let before = text[..start].iter().rev().take(AROUND);
        let first = start - before.take_while(|b| is_ident(**b)).count();
        let more = text[end..].iter().take(AROUND);
        let mut after = end + more.take_while(|b| is_ident(**b)).count();
        // A full stop at the end of a sentence is not part of a name.
        while after > end && matches!(text[after - 1], b'.' | b'-') {
            after -= 1;
        }
        if text
            .get(after)
            .is_some_and(|b| is_ident(*b) && *b != b'.' && *b != b'-')
        {
            return None;
        }
        // Other words, such as `tokenizer` and `secretary`. `tokens` announces a number, but `secrets` may
        // not.
        if end < after {
            let (last, next) = (text[end - 1], text[end]);
            let is_other = (next.is_ascii_lowercase()
                && last.is_ascii_alphabetic()
                && !last.is_ascii_uppercase())
                || (next.is_ascii_lowercase() && last.is_ascii_uppercase() && end - start == 1)
                || (next.is_ascii_alphabetic()
                    && last.is_ascii_uppercase()
                    && next.is_ascii_uppercase());
            if is_other {
                return None;
            }
        }
        if self.part && start > first {
            let (last, next) = (text[start - 1], text[start]);
            let is_part = !last.is_ascii_alphabetic()
                || (last.is_ascii_lowercase() && next.is_ascii_uppercase());
            if !is_part {
                return None;
            }
        }
        Some((first, after))
    }

    /// Returns true if the name around the word at `start` announces something other than a secret.
    pub(super) fn announces_other(&self, text: &[u8], start: usize) -> bool {
        let Some((first, after)) =
            (self.word_end(text, start)).and_then(|end| self.name(text, start, end))
        else {
            return true;
        };
        let mut lower = [0; 3 * AROUND];
        let name = &text[first..after.min(first + lower.len())];
        let lower = &mut lower[..name.len()];
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        let lower: &[u8] = lower;
        let begins = |at: &usize| {
            at.checked_sub(1).is_none_or(|before| {
                !name[before].is_ascii_alphabetic()
                    || (name[before].is_ascii_lowercase() && name[*at].is_ascii_uppercase())
            })
        };
        self.not.iter().any(|part| match part.strip_prefix('^') {
            Some(part) => memchr::memmem::find_iter(lower, part.as_bytes()).any(|at| begins(&at)),
            None => memchr::memmem::find(lower, part.as_bytes()).is_some(),
        })
    }
}
