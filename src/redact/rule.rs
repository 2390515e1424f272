//! Rules: read from TOML, validated and compiled (pure).

use regex::bytes::Regex;
use regex_syntax::hir::{Class, Hir, HirKind, literal::Extractor};
use serde::Deserialize;

use super::marker::MARKER;
use super::span::TextEnd;
use super::value::ValueCheck;
use crate::error::{Error, Result};

/// Number of consecutive bytes of a key that must not be shown: they count as a leak.
pub(super) const LEAK_BYTES: usize = 12;
/// Maximum length of a lead.
pub(super) const LEAD_MAX: usize = 128;
/// Maximum distance from a lead's beginning to its keyword; as many bytes of clean text are kept.
pub(super) const BACK: usize = 16;
/// Bytes of a body that are examined for a verdict; limits `max`, and bodies that need an end.
pub(super) const BODY_BYTES: usize = 256;
/// Maximum number of rules: each costs memory in every prefilter, and there are two dozen built-in ones.
const RULES_MAX: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    #[serde(default)]
    rule: Vec<RuleTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleTable {
    id: String,
    /// For readers of the file only.
    #[serde(default, rename = "about")]
    _about: String,
    #[serde(default, rename = "source")]
    _source: String,
    keywords: Vec<String>,
    lead: String,
    body: String,
    min: usize,
    max: Option<usize>,
    #[serde(default)]
    hide: Hide,
    #[serde(default)]
    word: bool,
    until: Option<String>,
    #[serde(default)]
    check: ValueCheck,
    #[serde(default)]
    lines: bool,
}

/// The part of a match that is redacted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Hide {
    #[default]
    All,
    Body,
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
    pub(super) until: Option<u8>,
    pub(super) check: ValueCheck,
    pub(super) lines: bool,
}

/// The text that announces a secret.
#[derive(Clone, Debug)]
pub(super) enum Lead {
    /// One of these texts, longest first; each begins with a keyword. Most leads are of this kind, and
    /// comparing bytes is ten times as fast as a regular expression.
    Texts(Vec<Vec<u8>>),
    Pattern {
        regex: Regex,
        bytes_max: usize,
    },
}

/// Reads rules; an error names the rule and the problem.
pub(super) fn read(text: &str) -> Result<Vec<Rule>> {
    let file: RuleFile =
        toml::from_str(text).map_err(|error| Error::invalid("invalid rules").because(error))?;
    if file.rule.len() > RULES_MAX {
        return Err(Error::invalid(format!("more than {RULES_MAX} rules")));
    }
    file.rule
        .into_iter()
        .enumerate()
        .map(|(index, written)| {
            let name = format!("rule {} ({})", index + 1, written.id);
            compile(written).map_err(|problem| Error::invalid(format!("{name}: {problem}")))
        })
        .collect()
}

fn compile(written: RuleTable) -> Result<Rule, String> {
    let id = &written.id;
    if id.is_empty()
        || id.len() > 32
        || !id
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    {
        return Err("the id must have 1 to 32 lower-case letters, digits and hyphens".into());
    }
    if written.keywords.is_empty() || written.keywords.iter().any(|word| word.len() < 3) {
        return Err("keywords are required, each with at least 3 bytes".into());
    }
    if written.keywords.iter().any(|word| word.len() > LEAD_MAX) {
        return Err("a keyword is too long".into());
    }
    let hir = parse(&written.lead).map_err(|problem| format!("lead: {problem}"))?;
    let Some(bytes_max) = hir.properties().maximum_len() else {
        return Err("lead: its length is unlimited; write {0,8} instead of *".into());
    };
    let bytes_min = hir.properties().minimum_len().unwrap_or(0);
    if bytes_max > LEAD_MAX {
        return Err(format!("lead: it may be longer than {LEAD_MAX} bytes"));
    }
    if written.min > BODY_BYTES / 2 || written.max.is_some_and(|max| max >= BODY_BYTES) {
        return Err(format!(
            "min is at most {}, max below {BODY_BYTES}",
            BODY_BYTES / 2
        ));
    }
    if written.min == 0 || written.max.is_some_and(|max| max < written.min) {
        return Err("min is at least 1 and at most max".into());
    }
    if written.hide == Hide::All {
        if bytes_max >= LEAK_BYTES {
            return Err(format!(
                "lead: it may be longer than {} bytes, which a truncated text would show; \
                 shorten it, or hide = \"body\"",
                LEAK_BYTES - 1
            ));
        }
        if bytes_min + written.min < LEAK_BYTES {
            return Err(format!(
                "lead and min together must have at least {LEAK_BYTES} bytes"
            ));
        }
    }
    let body = bytes_of(&parse(&written.body).map_err(|problem| format!("body: {problem}"))?)
        .ok_or("body: it must be one character class without newline")?;
    let until = match written.until.as_deref().map(str::as_bytes) {
        None => None,
        Some([byte]) if !body[usize::from(*byte)] => Some(*byte),
        Some(_) => return Err("until must be one byte that the body does not contain".into()),
    };
    Ok(Rule {
        marker: format!("{}{id}]", MARKER),
        lead: lead(&written, &hir, bytes_max)?,
        keywords: written.keywords,
        body,
        min: written.min,
        max: written.max.unwrap_or(usize::MAX),
        hide: written.hide,
        word: written.word,
        until,
        check: written.check,
        lines: written.lines,
    })
}

fn parse(pattern: &str) -> Result<Hir, String> {
    regex_syntax::parse(pattern).map_err(|error| error.to_string())
}

fn lead(written: &RuleTable, hir: &Hir, bytes_max: usize) -> Result<Lead, String> {
    let texts = Extractor::new().extract(hir);
    if texts.is_exact()
        && let Some(texts) = texts.literals()
    {
        let mut texts: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        let begins = |text: &Vec<u8>| {
            (written.keywords.iter()).any(|word| text.starts_with(word.as_bytes()))
        };
        if texts.iter().all(begins) {
            return Ok(Lead::Texts(texts));
        }
    }
    let regex = Regex::new(&written.lead).map_err(|error| format!("lead: {error}"))?;
    Ok(Lead::Pattern { regex, bytes_max })
}

/// Returns the bytes of a class. It contains all bytes beyond ASCII or none, so that no character is
/// cut.
fn bytes_of(hir: &Hir) -> Option<Box<[bool; 256]>> {
    let mut bytes = Box::new([false; 256]);
    match hir.kind() {
        HirKind::Class(Class::Unicode(class)) => {
            for range in class.ranges() {
                for c in range.start()..=range.end().min('\u{80}') {
                    bytes[(c as usize).min(0x80)] = true;
                }
                if range.end() >= '\u{80}' {
                    bytes[0x80..].fill(true);
                }
            }
        }
        HirKind::Class(Class::Bytes(class)) => {
            for range in class.ranges() {
                bytes[usize::from(range.start())..=usize::from(range.end())].fill(true);
            }
        }
        _ => return None,
    }
    // A newline ends every body: text is scanned line by line.
    (!bytes[usize::from(b'\n')]).then_some(bytes)
}

impl Rule {
    /// Returns true if the byte that must follow the body may follow in the text after a keyword. Most
    /// URLs have no password, and this check is cheaper than the search for their leads.
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

    /// Returns the range of the lead around a keyword, if there is one.
    pub(super) fn lead_at(
        &self,
        text: &[u8],
        hit: &std::ops::Range<usize>,
    ) -> Option<(usize, usize)> {
        match &self.lead {
            Lead::Texts(texts) => texts
                .iter()
                .find(|lead| text[hit.start..].starts_with(lead))
                .map(|lead| (hit.start, hit.start + lead.len())),
            Lead::Pattern { regex, bytes_max } => {
                let from = hit.start.saturating_sub(BACK);
                let to = (hit.start + bytes_max).min(text.len());
                regex
                    .find_iter(&text[from..to.max(hit.end)])
                    .map(|found| (from + found.start(), from + found.end()))
                    .find(|&(start, end)| start <= hit.start && end >= hit.end)
            }
        }
    }
}
