//! Rules: the lead that announces a secret, and the body of the secret (pure).

use std::sync::Arc;

use serde::Deserialize;

use super::edges::{in_escape, in_word, is_escaped_end};
use super::lead::{LEAD_MAX, WrittenLead};
use super::name::NameTable;
use super::name_value::{NameMatch, OPERATORS};
use super::span::TextEnd;
use super::value::ValueCheck;

/// Number of consecutive bytes of a key that count as a leak.
pub(super) const LEAK_BYTES: usize = 12;
/// Bytes of a body that are examined for a verdict. Limits `max`, and bodies that need an end.
pub(super) const BODY_BYTES: usize = 256;

/// The part of a match that is redacted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
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

/// A compiled rule.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// The text that replaces the secret.
    pub(super) marker: String,
    pub(super) keywords: Vec<String>,
    pub(super) lead: Lead,
    /// The bytes that the body may contain.
    pub(super) body: Box<[bool; 256]>,
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
    /// A text that is searched around a keyword.
    Written(Arc<WrittenLead>),
    /// A name and the text before its value. The following rules are those of its values, one for each
    /// combination of quotes and operator.
    Name(Box<NameTable>),
    /// The lead of a value, which is found by the rule of its name.
    Value,
    /// A known secret, which is all lead and has no body.
    Exact(Box<[u8]>),
}

impl Rule {
    /// Returns true if the text after a keyword may contain the byte that must follow the body. Most URLs
    /// have no password, and this check is cheaper than searching for their leads.
    pub(super) fn may_end(&self, text: &[u8], end: TextEnd) -> bool {
        let Some(until) = self.until else {
            return true;
        };
        let near = &text[..text.len().min(LEAD_MAX + BODY_BYTES)];
        match memchr::memchr2(until, b'\n', near) {
            Some(at) => near[at] == until,
            None => near.len() == text.len() && end == TextEnd::Cut,
        }
    }

    /// Returns the lead around a keyword, if any.
    pub(super) fn lead_at(&self, text: &[u8], hit: &std::ops::Range<usize>) -> LeadMatch {
        let found = match &self.lead {
            Lead::Written(lead) => lead.find(&self.keywords, text, hit),
            Lead::Name(name) => match name.find(text, hit.start) {
                NameMatch::No => None,
                NameMatch::NextLine => return LeadMatch::NextLine,
                NameMatch::Value(value) => {
                    let (quote, operator) = (value.quote as usize, value.operator as usize);
                    let rule = (1 + quote * OPERATORS.len() + operator) as u16;
                    return LeadMatch::Lead(value.start, value.from, rule);
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
