//! Rules as they are written and as they are used: read from TOML, checked, compiled (pure).

use regex::bytes::Regex;
use regex_syntax::hir::{Class, Hir, HirKind, literal::Extractor};
use serde::Deserialize;

use super::scan::{End, LOOK};
use super::value::Check;
use crate::error::{Error, Result};

/// A key of which so many bytes in a row were shown counts as given away.
pub(super) const GIVEN_AWAY: usize = 12;
/// The longest lead: how far around a keyword a rule looks.
pub(super) const LEAD_MAX: usize = 128;
/// How far before its keyword a lead may begin: so much of clean text is kept from piece to piece.
pub(super) const BACK: usize = 16;
/// Rules at most: each costs memory in every prefilter, and the built-in ones are two dozen.
const RULES_MAX: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: String,
    /// For who reads the rules; kept in the file only.
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
    check: Check,
    #[serde(default)]
    lines: bool,
}

/// What of a match is the secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Hide {
    #[default]
    All,
    Body,
}

/// One rule, ready to use.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// What stands in the place of the secret.
    pub(super) marker: String,
    pub(super) keywords: Vec<String>,
    pub(super) lead: Lead,
    /// Which bytes the body runs over.
    pub(super) body: Box<[bool; 256]>,
    pub(super) min: usize,
    pub(super) max: usize,
    pub(super) hide: Hide,
    pub(super) word: bool,
    pub(super) until: Option<u8>,
    pub(super) check: Check,
    pub(super) lines: bool,
}

/// What announces a secret.
#[derive(Clone, Debug)]
pub(super) enum Lead {
    /// One of these, longest first; each begins with a keyword. Most leads are of this sort, and
    /// comparing bytes is ten times as fast as asking a regular expression.
    Texts(Vec<Vec<u8>>),
    Pattern {
        regex: Regex,
        bytes_max: usize,
    },
}

/// Reads rules; an error names the rule and what is wrong with it.
pub(super) fn read(text: &str) -> Result<Vec<Rule>> {
    let file: File = toml::from_str(text)
        .map_err(|error| Error::invalid("the rules are not as expected").because(error))?;
    if file.rule.len() > RULES_MAX {
        return Err(Error::invalid(format!("more than {RULES_MAX} rules")));
    }
    file.rule
        .into_iter()
        .enumerate()
        .map(|(index, written)| {
            let name = format!("rule {} ({})", index + 1, written.id);
            compile(written).map_err(|why| Error::invalid(format!("{name}: {why}")))
        })
        .collect()
}

fn compile(written: Written) -> Result<Rule, String> {
    let id = &written.id;
    if id.is_empty()
        || id.len() > 32
        || !id
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    {
        return Err("an id has up to 32 small letters, digits and hyphens".into());
    }
    if written.keywords.is_empty() || written.keywords.iter().any(|word| word.len() < 3) {
        return Err("it needs keywords, of 3 bytes or more".into());
    }
    if written.keywords.iter().any(|word| word.len() > LEAD_MAX) {
        return Err("a keyword is too long".into());
    }
    let hir = parse(&written.lead).map_err(|why| format!("lead: {why}"))?;
    let Some(bytes_max) = hir.properties().maximum_len() else {
        return Err("lead: it has no longest match; write {0,8} instead of *".into());
    };
    let bytes_min = hir.properties().minimum_len().unwrap_or(0);
    if bytes_max > LEAD_MAX {
        return Err(format!("lead: it can be longer than {LEAD_MAX} bytes"));
    }
    if written.min > LOOK / 2 || written.max.is_some_and(|max| max >= LOOK) {
        return Err(format!("min is at most {}, max below {LOOK}", LOOK / 2));
    }
    if written.min == 0 || written.max.is_some_and(|max| max < written.min) {
        return Err("min is at least 1 and at most max".into());
    }
    if written.hide == Hide::All {
        if bytes_max >= GIVEN_AWAY {
            return Err(format!(
                "lead: it can be longer than {} bytes, which a cut would show; \
                 shorten it, or hide = \"body\"",
                GIVEN_AWAY - 1
            ));
        }
        if bytes_min + written.min < GIVEN_AWAY {
            return Err(format!("lead and min together are {GIVEN_AWAY} or more"));
        }
    }
    let body = bytes_of(&parse(&written.body).map_err(|why| format!("body: {why}"))?)
        .ok_or("body: it is one character class, without newline")?;
    let until = match written.until.as_deref().map(str::as_bytes) {
        None => None,
        Some([byte]) if !body[usize::from(*byte)] => Some(*byte),
        Some(_) => return Err("until is one byte that the body does not have".into()),
    };
    Ok(Rule {
        marker: format!("{}{id}]", super::MARKER),
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

fn lead(written: &Written, hir: &Hir, bytes_max: usize) -> Result<Lead, String> {
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

/// The bytes of a class. Beyond ASCII it is all or nothing, so that no character is cut.
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
    // A line's end ends every body: lines are told apart before rules are tried.
    (!bytes[usize::from(b'\n')]).then_some(bytes)
}

impl Rule {
    /// Whether what must follow the body may follow, in the text behind a keyword. Most addresses
    /// have no password, and this is known sooner than where their leads lie.
    pub(super) fn may_end(&self, text: &[u8], end: End) -> bool {
        let Some(until) = self.until else {
            return true;
        };
        let near = &text[..text.len().min(LEAD_MAX + LOOK)];
        match memchr::memchr2(until, b'\n', near) {
            Some(at) => near[at] == until,
            None => near.len() == text.len() && end == End::Cut,
        }
    }

    /// Where the lead around a keyword's hit lies, if it is there.
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
