//! Rules: the lead or the name that announces a secret, and the body of the secret (pure).
//!
//! A name is a word such as `password` together with its prefix and suffix (`DB_PASSWORD`, `dbPassword2`).
//! Its value follows after quotes, brackets, an operator or the edge of a table cell, on the same line, or on a
//! later one if a pair spans several (`"name": …,` and `"value": …`).

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use regex::bytes::Regex;
use serde::Deserialize;

use super::edges::{MARKER, TextEnd, in_escape, in_word, is_escaped_end};
use super::name_reader::{NameMatch, OPERATORS, Operator, QUOTES, Quote, Reader};
use super::value::ValueCheck;
use super::words::Words;

/// Bytes of a body that are examined for a verdict. Limits `max`, and bodies that need an end.
pub(super) const BODY_BYTES: usize = 256;

/// The part of a match that is redacted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(serde::Serialize))]
pub(super) enum Hide {
    #[default]
    All,
    Body,
    /// As `All`, for a lead of any length that reveals nothing.
    Whole,
}

/// The condition on the text around a keyword. Most words of prose fail here, before a rule is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Edge {
    None,
    /// No letter or digit precedes the keyword.
    Word,
    /// The keyword is not part of another word.
    Name {
        is_part: bool,
    },
}

impl Edge {
    /// Returns the condition on a keyword that a lead begins with, if it does, and if the lead is a word of its own.
    pub(super) fn of_lead(start: bool, word: bool) -> Self {
        if start && word {
            Self::Word
        } else {
            Self::None
        }
    }

    pub(super) fn fits(self, text: &[u8], start: usize, end: usize) -> bool {
        match self {
            Self::None => true,
            Self::Word => !in_word(text, start),
            Self::Name { is_part } => {
                let (first, last) = (text[start], text[end - 1]);
                let goes_on = text.get(end).is_some_and(|next| match last {
                    b'a'..=b'z' => next.is_ascii_lowercase(),
                    b'A'..=b'Z' => next.is_ascii_uppercase() && end - start > 2,
                    _ => false,
                });
                let begins = !is_part
                    || start.checked_sub(1).is_none_or(|at| {
                        let before = text[at];
                        !before.is_ascii_alphabetic()
                            || (before.is_ascii_lowercase() && first.is_ascii_uppercase())
                            || in_escape(text, start)
                    });
                begins && !goes_on
            }
        }
    }
}

/// Returns the text that replaces secrets of a kind.
pub(super) fn marker(id: &str) -> Arc<str> {
    [MARKER, id, "]"].concat().into()
}

/// A compiled rule.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// The text that replaces the secret.
    pub(super) marker: Arc<str>,
    pub(super) keywords: Words,
    pub(super) lead: Lead,
    /// The bytes that the body may contain.
    pub(super) body: Arc<[bool; 256]>,
    pub(super) min: usize,
    pub(super) max: usize,
    pub(super) hide: Hide,
    pub(super) word: bool,
    /// True if the lead begins with its keyword.
    pub(super) start: bool,
    /// The condition on the text around a keyword.
    pub(super) edge: Edge,
    pub(super) until: Option<u8>,
    /// True for the unquoted value of a name.
    pub(super) is_bare: bool,
    pub(super) check: ValueCheck,
    pub(super) lines: bool,
}

/// The text that announces a secret.
#[derive(Clone, Debug)]
pub(super) enum Lead {
    /// One of these texts, longest first; each is a keyword or begins one. Comparing bytes is ten times as fast
    /// as a regular expression.
    Texts(Vec<Vec<u8>>),
    /// A text that is searched around a keyword.
    Pattern(Arc<Pattern>),
    /// A name and the text before its value. The following rules are those of its values, one for each
    /// combination of quotes and operator.
    Name(Box<NameTable>),
    /// The lead of a value, which is found by the rule of its name.
    Value,
    /// A known secret, which is all lead and has no body.
    Exact(Box<[u8]>),
}

impl Rule {
    /// Creates a rule that redacts the whole body behind a lead.
    pub(super) fn new(marker: Arc<str>, lead: Lead, body: Arc<[bool; 256]>) -> Self {
        Self {
            marker,
            keywords: Words::default(),
            lead,
            body,
            min: 1,
            max: usize::MAX,
            hide: Hide::Body,
            word: false,
            start: true,
            edge: Edge::None,
            until: None,
            is_bare: false,
            check: ValueCheck::None,
            lines: false,
        }
    }

    /// Returns true if the text after a keyword may contain the byte that must follow the body, in its line or the
    /// next one. Most URLs have no password, and this check is cheaper than searching for their leads.
    pub(super) fn may_end(&self, text: &[u8], end: TextEnd) -> bool {
        let Some(until) = self.until else {
            return true;
        };
        let near = &text[..text.len().min(LEAD_MAX + BODY_BYTES)];
        let next_line = match memchr::memchr2(until, b'\n', near) {
            Some(at) if near[at] == until => return true,
            Some(at) => &near[at + 1..],
            None => return near.len() == text.len() && end == TextEnd::Cut,
        };
        match memchr::memchr2(until, b'\n', next_line) {
            Some(at) => next_line[at] == until,
            None => near.len() == text.len(),
        }
    }

    /// Returns the lead around a keyword, if any.
    pub(super) fn lead_at(&self, text: &[u8], hit: &std::ops::Range<usize>) -> LeadMatch {
        let found = match &self.lead {
            Lead::Texts(texts) => texts
                .iter()
                .find(|lead| text[hit.start..].starts_with(lead))
                .map(|lead| (hit.start, hit.start + lead.len())),
            Lead::Pattern(pattern) => pattern.find(text, hit),
            Lead::Name(name) => match name.find(text, hit.start) {
                NameMatch::No => None,
                NameMatch::NextLine => return LeadMatch::NextLine,
                NameMatch::Value(from, quote, operator) => {
                    let rule = 1 + quote as usize * OPERATORS.len() + operator as usize;
                    return LeadMatch::Lead(hit.start.min(from), from, rule as u16);
                }
            },
            Lead::Value => None,
            Lead::Exact(value) => {
                let both = value.iter().zip(&text[hit.start..]);
                let end = hit.start + both.take_while(|(a, b)| a == b).count();
                // The rest of the secret may follow, after the end of the text or in the next line.
                let is_complete = end - hit.start == value.len() || end == text.len();
                (is_complete || is_escaped_end(text, end)).then_some((hit.start, end))
            }
        };
        found.map_or(LeadMatch::No, |(start, from)| {
            LeadMatch::Lead(start, from, 0)
        })
    }
}

/// The result of the search for a lead.
#[derive(Clone, Copy, Debug)]
pub(super) enum LeadMatch {
    No,
    /// The lead continues in the next line.
    NextLine,
    /// The start and end of the lead, and the offset from this rule to the rule of the body.
    Lead(usize, usize, u16),
}

/// Maximum length of a lead.
pub(super) const LEAD_MAX: usize = 192;
/// Maximum distance from the start of a lead to its keyword; as many bytes of clean text are kept.
pub(super) const BACK: usize = 80;

/// A regular expression for a lead, compiled when one of its keywords is first found: compiling all leads takes
/// longer than a short command.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) text: String,
    /// True if the lead begins with its keyword.
    start: bool,
    /// The expression, and the minimum and the maximum number of its bytes.
    compiled: OnceLock<(Regex, usize, usize)>,
}

impl Pattern {
    pub(super) fn new(text: String, start: bool) -> Self {
        Self {
            text,
            start,
            compiled: OnceLock::new(),
        }
    }

    /// Compiles the pattern now. Returns the minimum and the maximum number of its bytes, or the reason why it
    /// cannot be used.
    pub(super) fn check(&self) -> Result<(usize, usize), String> {
        let compiled = self.read().map_err(|problem| format!("lead: {problem}"))?;
        let (_, bytes_min, bytes_max) = self.compiled.get_or_init(|| compiled);
        Ok((*bytes_min, *bytes_max))
    }

    /// Returns the start and the end of the lead around a keyword, if any.
    fn find(&self, text: &[u8], hit: &Range<usize>) -> Option<(usize, usize)> {
        #[expect(
            clippy::expect_used,
            reason = "a test compiles the built-in leads, and others are compiled when they are read"
        )]
        let (regex, _, bytes_max) = self
            .compiled
            .get_or_init(|| self.read().expect("the lead is valid"));
        let from = if self.start {
            hit.start
        } else {
            hit.start.saturating_sub(BACK)
        };
        let to = (hit.start + bytes_max).min(text.len());
        regex
            .find_iter(&text[from..to.max(hit.end)])
            .map(|found| (from + found.start(), from + found.end()))
            .find(|&(start, end)| start <= hit.start && end > hit.start)
    }

    fn read(&self) -> Result<(Regex, usize, usize), String> {
        let text = &self.text;
        let hir = regex_syntax::parse(text).map_err(|error| error.to_string())?;
        let properties = hir.properties();
        let Some(bytes_max) = properties.maximum_len() else {
            return Err("its length is unlimited; write {0,8} instead of *".into());
        };
        if bytes_max > LEAD_MAX {
            return Err(format!("it may be longer than {LEAD_MAX} bytes"));
        }
        let begin = if self.start { "^" } else { "" };
        let regex = Regex::new(&format!("{begin}(?:{text})")).map_err(|error| error.to_string())?;
        Ok((regex, properties.minimum_len().unwrap_or(0), bytes_max))
    }
}

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
    pub(super) not: Vec<String>,
}

fn is_ident(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'$')
}

impl NameTable {
    /// Returns the rule of the name, which has these keywords, and the rules of its values.
    pub(super) fn into_rules(self, keywords: Words) -> Vec<Rule> {
        let (marker, check) = (marker(&self.id), self.check);
        let edge = Edge::Name { is_part: self.part };
        let body = Arc::new(Quote::Unquoted.body());
        let mut rules = vec![Rule {
            keywords,
            edge,
            ..Rule::new(Arc::clone(&marker), Lead::Name(Box::new(self)), body)
        }];
        for quote in QUOTES {
            let body = Arc::new(quote.body());
            for operator in OPERATORS {
                let (check, min) = check.of_value(quote, operator);
                rules.push(Rule {
                    is_bare: quote == Quote::Unquoted,
                    check,
                    min,
                    ..Rule::new(Arc::clone(&marker), Lead::Value, Arc::clone(&body))
                });
            }
        }
        rules
    }

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
        match (Reader { text, at: after }).value(is_flag, first) {
            NameMatch::Value(from, Quote::Unquoted, Operator::Assign) if is_shell => {
                NameMatch::Value(from, Quote::Shell, Operator::Assign)
            }
            found => found,
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
        Some((first, after))
    }

    pub(super) fn announces_other(&self, text: &[u8], start: usize) -> bool {
        let Some((first, after)) =
            (self.word_end(text, start)).and_then(|end| self.name(text, start, end))
        else {
            return true;
        };
        let name = &text[first..after];
        let lower = name.to_ascii_lowercase();
        let begins = |at: &usize| {
            at.checked_sub(1).is_none_or(|before| {
                !name[before].is_ascii_alphabetic()
                    || (name[before].is_ascii_lowercase() && name[*at].is_ascii_uppercase())
            })
        };
        self.not.iter().any(|part| match part.strip_prefix('^') {
            Some(part) => memchr::memmem::find_iter(&lower, part.as_bytes()).any(|at| begins(&at)),
            None => memchr::memmem::find(&lower, part.as_bytes()).is_some(),
        })
    }
}
