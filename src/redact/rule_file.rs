//! Rule files: read from TOML, validated and compiled (pure).

use std::sync::Arc;

use regex_syntax::hir::{Class, Hir, HirKind, literal::Extractor};
use serde::Deserialize;

use super::lead::{LEAD_MAX, WrittenLead};
use super::marker::MARKER;
use super::name::{AROUND, NameTable};
use super::name_value::{OPERATORS, QUOTES, Quote};
use super::rule::{BODY_BYTES, Edge, Hide, LEAK_BYTES, Lead, Rule};
use super::value::ValueCheck;
use crate::error::{Error, Result};

/// Minimum length of a keyword, for the prefilter.
const KEYWORD_MIN: usize = 3;

/// Maximum number of rules, because each costs memory in every prefilter. About 230 are built in.
const RULES_MAX: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    #[serde(default)]
    rule: Vec<RuleTable>,
    #[serde(default)]
    name: Vec<NameTable>,
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
    #[serde(default)]
    prefixes: Vec<String>,
    #[serde(default)]
    keywords: Vec<String>,
    /// Regular expressions that expand to a few more keywords.
    #[serde(default)]
    finds: Vec<String>,
    #[serde(default)]
    lead: String,
    body: String,
    min: usize,
    max: Option<usize>,
    #[serde(default)]
    hide: Hide,
    #[serde(default)]
    word: bool,
    /// True if the lead begins with its keyword.
    #[serde(default)]
    start: bool,
    /// Examples, for readers and tests.
    #[serde(default, rename = "yes")]
    _yes: String,
    #[serde(default, rename = "no")]
    _no: String,
    until: Option<String>,
    #[serde(default)]
    check: ValueCheck,
    #[serde(default)]
    lines: bool,
}

/// Reads rules. An error states the rule and the problem.
pub(super) fn read(text: &str) -> Result<Vec<Rule>> {
    read_rules(text, check_lead)
}

/// Reads built-in rules, whose leads are compiled when they are needed. A test checks them.
pub(super) fn read_builtin(text: &str) -> Result<Vec<Rule>> {
    read_rules(text, |_, _| Ok(()))
}

fn read_rules(text: &str, check: LeadCheck) -> Result<Vec<Rule>> {
    let file: RuleFile =
        toml::from_str(text).map_err(|error| Error::invalid("invalid rules").because(error))?;
    if file.rule.len() > RULES_MAX {
        return Err(Error::invalid(format!("more than {RULES_MAX} rules")));
    }
    let mut rules = Vec::with_capacity(file.rule.len());
    let invalid = |name, problem| Error::invalid(format!("{name}: {problem}"));
    for (number, written) in (1..).zip(file.rule) {
        let name = format!("rule {number} ({})", written.id);
        rules.push(compile(written, check).map_err(|problem| invalid(name, problem))?);
    }
    for (number, written) in (1..).zip(file.name) {
        let name = format!("name {number} ({})", written.id);
        rules.extend(compile_name(written).map_err(|problem| invalid(name, problem))?);
    }
    Ok(rules)
}

/// Checks a lead with its keywords.
type LeadCheck = fn(&RuleTable, &WrittenLead) -> Result<(), String>;

fn check_id(id: &str) -> Result<(), String> {
    let is_valid = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if id.is_empty() || id.len() > 32 || !id.bytes().all(is_valid) {
        return Err("the id must have 1 to 32 lower-case letters, digits and hyphens".into());
    }
    Ok(())
}

/// Returns the rule of a name and the rules of its values.
fn compile_name(written: NameTable) -> Result<Vec<Rule>, String> {
    check_id(&written.id)?;
    if written.words.is_empty()
        || written
            .words
            .iter()
            .any(|word| word.len() < 2 || word.len() > AROUND)
    {
        return Err(format!("words are required, each with 2 to {AROUND} bytes"));
    }
    let marker = format!("{}{}]", MARKER, written.id);
    let is_part = written.part;
    let keywords = cases(&written.words);
    let mut rules = vec![Rule {
        marker: marker.clone(),
        keywords: Vec::new(),
        lead: Lead::Value,
        body: Quote::Unquoted.body(),
        min: 1,
        max: usize::MAX,
        hide: Hide::Body,
        word: false,
        start: true,
        edge: Edge::Name { is_part },
        until: None,
        is_bare: false,
        check: ValueCheck::None,
        lines: false,
    }];
    for quote in QUOTES {
        for operator in OPERATORS {
            let (check, min) = written.check.of_value(quote, operator);
            rules.push(Rule {
                marker: marker.clone(),
                body: quote.body(),
                is_bare: quote == Quote::Unquoted,
                check,
                min,
                ..rules[0].clone()
            });
        }
    }
    (rules[0].keywords, rules[0].lead) = (keywords, Lead::Name(Box::new(written)));
    Ok(rules)
}

/// Returns the words in lower case, in upper case and capitalised, as names contain them.
fn cases(words: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    for word in words {
        let mut capital = word.clone();
        if let Some(first) = capital.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        let mut is_first = true;
        let title: String = word
            .chars()
            .map(|c| {
                let c = if is_first { c.to_ascii_uppercase() } else { c };
                is_first = !c.is_ascii_alphanumeric();
                c
            })
            .collect();
        // `apiKey` and `ApiKey`: a capital within the word.
        let camel = word.strip_suffix("key").map(|rest| format!("{rest}Key"));
        let both = capital.strip_suffix("key").map(|rest| format!("{rest}Key"));
        all.extend([word.clone(), word.to_ascii_uppercase(), capital, title]);
        all.extend(camel.into_iter().chain(both));
    }
    all.sort_unstable();
    all.dedup();
    all
}

fn compile(mut written: RuleTable, check: LeadCheck) -> Result<Rule, String> {
    check_id(&written.id)?;
    let body = body_bytes(&written.body)?;
    let prefixes = match written.prefixes.is_empty() {
        true => None,
        false => Some(expand_prefixes(&mut written, &body)?),
    };
    let id = &written.id;
    for find in &written.finds {
        let hir = parse(find).map_err(|problem| format!("finds: {problem}"))?;
        let mut extractor = Extractor::new();
        extractor
            .limit_class(100)
            .limit_total(9_000)
            .limit_repeat(8);
        let texts = extractor.extract(&hir);
        let texts = texts
            .literals()
            .filter(|_| texts.is_exact())
            .ok_or("finds: too many texts")?;
        let texts = texts
            .iter()
            .map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned());
        written.keywords.extend(texts);
    }
    if written.keywords.is_empty() || written.keywords.iter().any(|word| word.len() < KEYWORD_MIN) {
        return Err(format!(
            "keywords are required, each with at least {KEYWORD_MIN} bytes"
        ));
    }
    if written.keywords.iter().any(|word| word.len() > LEAD_MAX) {
        return Err("a keyword is too long".into());
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
    let lead = match prefixes {
        Some(prefixes) => WrittenLead::of_texts(prefixes),
        None => WrittenLead::new(std::mem::take(&mut written.lead), written.start),
    };
    check(&written, &lead)?;
    let until = match written.until.as_deref().map(str::as_bytes) {
        None => None,
        Some([byte]) if !body[usize::from(*byte)] || written.check == ValueCheck::Url => {
            Some(*byte)
        }
        Some(_) => return Err("until must be one byte that the body does not contain".into()),
    };
    Ok(Rule {
        marker: format!("{}{id}]", MARKER),
        lead: Lead::Written(Arc::new(lead)),
        keywords: written.keywords,
        min: written.min,
        max: written.max.unwrap_or(usize::MAX),
        hide: written.hide,
        word: written.word,
        start: written.start,
        edge: match written.start && written.word {
            true => Edge::Word,
            false => Edge::None,
        },
        until,
        is_bare: false,
        check: written.check,
        lines: written.lines,
        body,
    })
}

/// Compiles a lead, and checks that no text that it matches shows too much or too little.
fn check_lead(written: &RuleTable, lead: &WrittenLead) -> Result<(), String> {
    let (bytes_min, bytes_max) = lead.compile(&written.keywords)?;
    if written.hide == Hide::All && bytes_max >= LEAK_BYTES {
        return Err(format!(
            "lead: it may be longer than {} bytes, which a truncated text would show; \
             shorten it, or hide = \"body\"",
            LEAK_BYTES - 1
        ));
    }
    if written.hide != Hide::Body && bytes_min + written.min < LEAK_BYTES {
        return Err(format!(
            "lead and min together must have at least {LEAK_BYTES} bytes"
        ));
    }
    Ok(())
}

/// Converts prefixes to keywords and a lead. A long prefix is shown, because it appears before its body
/// arrives.
fn expand_prefixes(written: &mut RuleTable, body: &[bool; 256]) -> Result<Vec<Vec<u8>>, String> {
    if !written.keywords.is_empty() || !written.lead.is_empty() {
        return Err("prefixes stand for keywords and lead".into());
    }
    let prefixes = std::mem::take(&mut written.prefixes);
    let texts: Vec<Vec<u8>> = prefixes
        .iter()
        .map(|text| text.clone().into_bytes())
        .collect();
    // A prefix of two bytes becomes a keyword together with the first byte of its body.
    written.keywords = prefixes;
    while written.keywords.iter().any(|word| word.len() < KEYWORD_MIN) {
        let (short, mut long): (Vec<_>, Vec<_>) =
            (written.keywords.drain(..)).partition(|word| word.len() < KEYWORD_MIN);
        let bytes = (0..0x80_u8).filter(|byte| body[usize::from(*byte)]);
        let bytes: Vec<char> = bytes.map(char::from).collect();
        let more = short
            .iter()
            .flat_map(|word| bytes.iter().map(move |c| format!("{word}{c}")));
        long.extend(more);
        written.keywords = long;
    }
    (written.start, written.word) = (true, true);
    written.hide = match texts.iter().any(|text| text.len() >= LEAK_BYTES) {
        true => Hide::Whole,
        false => Hide::All,
    };
    Ok(texts)
}

/// Returns the bytes of a body: a name of a set of bytes, or a character class.
fn body_bytes(body: &str) -> Result<Box<[bool; 256]>, String> {
    let is_in: fn(u8) -> bool = match body {
        "alnum" => |b| b.is_ascii_alphanumeric(),
        "upper" => |b| b.is_ascii_uppercase() || b.is_ascii_digit(),
        "hex" => |b| b.is_ascii_hexdigit(),
        "base64" => |b| b.is_ascii_alphanumeric() || b"+/=_-".contains(&b),
        "url" => |b| b.is_ascii_alphanumeric() || b"_-".contains(&b),
        "word" => |b| b.is_ascii_alphanumeric() || b == b'_',
        class => {
            let hir = parse(class).map_err(|problem| format!("body: {problem}"))?;
            let bytes = bytes_of(&hir);
            return bytes
                .ok_or_else(|| "body: it must be one character class without newline".to_owned());
        }
    };
    let mut bytes = Box::new([false; 256]);
    for byte in 0..0x80_u8 {
        bytes[usize::from(byte)] = is_in(byte);
    }
    Ok(bytes)
}

fn parse(pattern: &str) -> Result<Hir, String> {
    regex_syntax::parse(pattern).map_err(|error| error.to_string())
}

/// Returns the bytes of a class. It contains either all bytes beyond ASCII or none, so that no character is
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
    // A newline ends every body, because text is scanned line by line.
    (!bytes[usize::from(b'\n')]).then_some(bytes)
}
