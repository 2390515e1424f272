//! Scans a piece of text for secrets and returns the state for the next piece: secrets over two lines, and
//! private keys over many (pure).

use super::edges::{
    LEAK_BYTES, Span, TextEnd, add, changed_value, in_marker, in_word, marker_len, next_line,
    skip_decoration, unite,
};
use super::finder::{Finder, Hit};
use super::rule::{BACK, BODY_BYTES, Hide, LEAD_MAX, Lead, LeadMatch, Rule};
use super::value::{ValueCheck, has_mixed_case, is_unworded};
use crate::error::{Error, Result};

/// Bytes at the end of a text that are kept after a keyword: a truncated lead, and the part of its secret
/// that may be shown before the secret is recognized.
const KEEP: usize = LEAD_MAX + 2 * LEAK_BYTES;

/// Bytes examined before a keyword: the start of the lead, and an escape before it.
const BEFORE: usize = BACK + 2;

/// The state at the end of a text that affects the following text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Continuation {
    /// No secret or block is open; the kept text suffices.
    #[default]
    None,
    /// The text ended within a secret of this rule.
    Secret(u16),
    /// The text ended within a block of this rule.
    Block(u16, Block),
    /// The text ended with a secret of this rule and the end of its line; the next line may begin with the
    /// rest of the secret.
    Ended(u16),
    /// As `Ended`, after a backslash: the next line begins with the rest, after its indentation.
    Escaped(u16),
}

/// All rules and the finder of their keywords.
#[derive(Debug)]
pub(super) struct RuleSet {
    pub(super) rules: Vec<Rule>,
    pub(super) finder: Finder,
}

/// The result of [`RuleSet::scan`] that the following text needs.
#[derive(Debug)]
pub(super) struct ScanRest {
    pub(super) open: Continuation,
    /// The position from which the text must be scanned again with the following text.
    pub(super) keep: usize,
    /// True if a secret may have begun and only the next line can decide.
    pub(super) is_pending: bool,
}

/// The result of the search for a secret at a keyword.
pub(super) enum RuleMatch {
    No,
    /// Undecided until more text arrives; the lead begins at this position.
    Undecided(usize),
    /// Undecided until the next line arrives; the text from this position is needed. The spans are secret whatever
    /// follows.
    NextLine(usize, [Option<Span>; 2]),
    /// A secret, and its rest in the next line, if any.
    Secret(Span, Option<Span>),
    /// A block begins at this position, after its lead.
    Block(usize),
}

impl RuleSet {
    pub(super) fn new(rules: Vec<Rule>) -> Result<Self> {
        if rules.len() > usize::from(u16::MAX) {
            return Err(Error::invalid("there are too many rules"));
        }
        let finder = Finder::new(&rules)?;
        Ok(Self { rules, finder })
    }

    /// Returns the number of bytes of clean text that must be kept: the length of a keyword less one, and the
    /// bytes that may precede it.
    pub(super) fn overlap(&self) -> usize {
        (self.finder.longest + BEFORE).saturating_sub(1)
    }

    pub(super) fn marker(&self, rule: u16) -> &str {
        &self.rules[usize::from(rule)].marker
    }

    /// Scans a text whose beginning continues `open`; adds spans of secrets in order.
    pub(super) fn scan(
        &self,
        text: &[u8],
        open: Continuation,
        end: TextEnd,
        spans: &mut Vec<Span>,
    ) -> ScanRest {
        let rest = |open, keep| ScanRest {
            open,
            keep,
            is_pending: false,
        };
        // The rest of an earlier secret: its rule, its start, and its end in the first line.
        let (rule, from, mut at) = match open {
            Continuation::None => (None, 0, 0),
            Continuation::Secret(rule) => (Some(rule), 0, self.run(rule, text, 0, text.len())),
            Continuation::Block(rule, mut block) => match block.take(text, 0, rule, spans) {
                Some(end) => (None, 0, end),
                None => return rest(Continuation::Block(rule, block), text.len()),
            },
            Continuation::Escaped(rule) => {
                let from = skip_decoration(text, 0);
                if from == text.len() {
                    return rest(Continuation::Escaped(rule), text.len());
                }
                (Some(rule), from, self.run(rule, text, from, text.len()))
            }
            Continuation::Ended(rule) => {
                let from = skip_decoration(text, 0);
                let run = self.run(rule, text, from, text.len());
                if self.is_likely_rest(rule, &text[from..run]) {
                    (Some(rule), from, run)
                } else if run == text.len() && run - from < LEAK_BYTES && from < run + KEEP {
                    return rest(Continuation::Ended(rule), text.len().saturating_sub(KEEP));
                } else {
                    (None, 0, 0)
                }
            }
        };
        if let Some(rule) = rule {
            add(spans, from, at, rule);
            if at == text.len() {
                return rest(Continuation::Secret(rule), at);
            }
            if let Some(open) = self.next_lines(rule, text, &mut at, spans) {
                return rest(open, text.len());
            }
        }
        let begin = at;
        let mut keep = text.len().saturating_sub(self.overlap());
        let mut open = Continuation::None;
        // The end of the secrets so far, and the start of the part that only the next line can decide.
        let (mut covered, mut pending) = (begin, None);
        let mut undecided = usize::MAX;
        let mut hits = self.finder.hits(text, at);
        while let Some(Hit { range: hit, rules }) = hits.next() {
            if hit.start + KEEP >= text.len() {
                keep = keep.min(hit.start.saturating_sub(BEFORE));
            }
            for &rule in rules {
                match self.match_rule(rule, text, &hit, (begin, covered), end) {
                    RuleMatch::No => {}
                    // A lead may begin in an earlier line.
                    RuleMatch::Undecided(start) => undecided = undecided.min(start),
                    RuleMatch::NextLine(start, known) => {
                        spans.extend(known.into_iter().flatten());
                        pending = Some(pending.map_or(start, |before: usize| before.min(start)));
                    }
                    RuleMatch::Secret(first, rest) => {
                        spans.push(first);
                        spans.extend(rest);
                        let span = rest.unwrap_or(first);
                        let mut to = span.end;
                        if let Some(start) = changed_value(text, to) {
                            to = self.run(span.rule, text, start, text.len());
                            add(spans, start, to, span.rule);
                        }
                        if to == text.len() {
                            // A known value may be complete.
                            let length = span.end - span.start;
                            let lead = &self.rules[usize::from(span.rule)].lead;
                            let is_whole =
                                matches!(lead, Lead::Exact(value) if value.len() == length);
                            if open == Continuation::None && !is_whole {
                                open = Continuation::Secret(span.rule);
                            }
                        } else if let Some(more) = self.next_lines(span.rule, text, &mut to, spans)
                        {
                            open = more;
                        }
                        covered = covered.max(to);
                    }
                    RuleMatch::Block(start) if start >= covered => {
                        let mut block = Block::default();
                        match block.take(text, start, rule, spans) {
                            Some(end) => hits.skip_to(end),
                            None => {
                                unite(spans);
                                return rest(Continuation::Block(rule, block), text.len());
                            }
                        }
                        break;
                    }
                    RuleMatch::Block(_) => {}
                }
            }
        }
        unite(spans);
        if open != Continuation::None {
            return rest(open, text.len());
        }
        // The rest of an earlier secret is not scanned again, and neither are complete lines.
        let line = memchr::memrchr(b'\n', text).map_or(0, |newline| newline + 1);
        let earlier = undecided.min(pending.unwrap_or(usize::MAX));
        let keep = keep.max(line).min(earlier).max(begin);
        ScanRest {
            open,
            keep,
            is_pending: pending.is_some(),
        }
    }

    /// Returns the end of the body that begins at `from`; at most `to`.
    pub(super) fn run(&self, rule: u16, text: &[u8], from: usize, to: usize) -> usize {
        let body = &self.rules[usize::from(rule)].body;
        let mut at = from;
        while at < to && body[usize::from(text[at])] {
            if text[at] == b'[' && marker_len(&text[at..]).is_some() {
                break;
            }
            at += 1;
        }
        at
    }

    fn match_rule(
        &self,
        number: u16,
        text: &[u8],
        hit: &std::ops::Range<usize>,
        (begin, covered): (usize, usize),
        end: TextEnd,
    ) -> RuleMatch {
        let hit_rule = &self.rules[usize::from(number)];
        if !hit_rule.may_end(&text[hit.end..], end)
            || (hit_rule.start && hit_rule.word && in_word(text, hit.start))
        {
            return RuleMatch::No;
        }
        let (start, from, number) = match hit_rule.lead_at(text, hit) {
            LeadMatch::No => return RuleMatch::No,
            LeadMatch::NextLine => {
                return RuleMatch::NextLine(hit.start.saturating_sub(BACK), [None; 2]);
            }
            LeadMatch::Lead(start, from, more) => (start, from, number + more),
        };
        let rule = &self.rules[usize::from(number)];
        if let Lead::Exact(value) = &rule.lead {
            // At the end of the text, a part is enough if it would reveal the value. A part elsewhere
            // continues in the next line.
            let is_enough = from < text.len() || end == TextEnd::Cut && from - start >= LEAK_BYTES;
            let is_found = from - start == value.len() || is_enough;
            return match (is_found && start >= begin, from == text.len()) {
                (true, _) => RuleMatch::Secret(Span::new(start, from, number), None),
                (false, true) => RuleMatch::Undecided(start),
                (false, false) => RuleMatch::No,
            };
        }
        // Redacted text is never part of another secret.
        if start < begin || (rule.word && in_word(text, start)) || in_marker(text, start, from) {
            return RuleMatch::No;
        }
        if rule.lines {
            return RuleMatch::Block(from);
        }
        // The verdict uses a bounded number of bytes, so that text full of leads is not scanned repeatedly.
        let limit = text.len().min(from + BODY_BYTES);
        let mut to = self.run(number, text, from, limit);
        let mut is_cut = to == text.len() && end == TextEnd::Cut;
        if rule.check == ValueCheck::Url {
            match end_of_password(&text[from..to]) {
                Some(at) => {
                    is_cut = false;
                    to = from + at;
                }
                None if is_cut && memchr::memchr(b'/', &text[from..to]).is_none() => {}
                None => return self.address_in_two_lines(number, text, start, from, to),
            }
        }
        let bytes = to - from;
        let shown = match rule.hide {
            Hide::Body => bytes,
            Hide::All | Hide::Whole => to - start,
        };
        let is_known = shown >= LEAK_BYTES || (bytes >= rule.min && rule.until.is_none());
        if bytes > rule.max {
            return RuleMatch::No;
        }
        if bytes < rule.min && !is_cut {
            return self.in_two_lines(number, text, start, from, to);
        }
        // A call, an index or a path in code.
        let is_call = match text.get(to) {
            Some(b'(' | b'[' | b'{' | b'<') if rule.is_bare => {
                bytes < LEAK_BYTES || !is_unworded(&text[from..to])
            }
            Some(b'(') => rule.check == ValueCheck::Strict && !is_unworded(&text[from..to]),
            _ => false,
        };
        if is_call {
            return RuleMatch::No;
        }
        let is_beginning = is_cut && shown >= LEAK_BYTES;
        let is_accepted = if is_beginning {
            rule.check.accepts_beginning(&text[from..to])
        } else {
            rule.check.accepts(&text[from..to])
        };
        if is_cut && !(is_known && is_accepted) {
            // The text before a name determines where its value is.
            let is_name = matches!(hit_rule.lead, Lead::Name(_));
            return RuleMatch::Undecided(start.saturating_sub(if is_name { BACK } else { 0 }));
        }
        if !is_cut && rule.until.is_some_and(|until| text.get(to) != Some(&until)) || !is_accepted {
            return RuleMatch::No;
        }
        // Text within an earlier secret is not read again.
        if to == limit && limit >= covered {
            to = self.run(number, text, to, text.len());
        }
        if let Lead::Name(name) = &hit_rule.lead
            && name.announces_other(text, hit.start)
        {
            return RuleMatch::No;
        }
        let start = if rule.hide == Hide::Body { from } else { start };
        RuleMatch::Secret(Span::new(start, to, number), None)
    }
}

/// Returns where the password ends in the rest of an address. A password may contain `@`, and one that is not encoded
/// `/`, `?` and `#`; a path, a query and a fragment may contain `@`, too.
fn end_of_password(rest: &[u8]) -> Option<usize> {
    let host = memchr::memchr3(b'/', b'?', b'#', rest).unwrap_or(rest.len());
    memchr::memrchr(b'@', &rest[..host]).or_else(|| memchr::memrchr(b'@', rest))
}

/// Returns the text with markers in place of the spans. If `is_marked`, a span at the beginning gets no
/// marker, because the previous text ended with its marker.
pub(super) fn redact_spans(set: &RuleSet, text: &str, spans: &[Span], is_marked: bool) -> String {
    let mut out = String::with_capacity(text.len() + 32);
    let mut at = 0;
    for span in spans {
        out.push_str(&text[at..span.start]);
        if !(is_marked && span.start == 0) {
            out.push_str(set.marker(span.rule));
        }
        at = span.end;
    }
    out.push_str(&text[at..]);
    out
}

impl RuleSet {
    /// Follows a secret at the end of its line into the following lines, and moves `at` to its end. Returns
    /// the state if the text ends before the end is certain.
    pub(super) fn next_lines(
        &self,
        rule: u16,
        text: &[u8],
        at: &mut usize,
        spans: &mut Vec<Span>,
    ) -> Option<Continuation> {
        if self.rules[usize::from(rule)].max != usize::MAX {
            return None;
        }
        while let Some((from, is_escaped)) = next_line(text, *at) {
            if from == text.len() {
                return Some(if is_escaped {
                    Continuation::Escaped(rule)
                } else {
                    Continuation::Ended(rule)
                });
            }
            let end = self.run(rule, text, from, text.len());
            if end == from || !(is_escaped || self.is_likely_rest(rule, &text[from..end])) {
                return None;
            }
            spans.push(Span::new(from, end, rule));
            *at = end;
            if end == text.len() {
                return Some(Continuation::Secret(rule));
            }
        }
        None
    }

    pub(super) fn is_likely_rest(&self, rule: u16, run: &[u8]) -> bool {
        let rule = &self.rules[usize::from(rule)];
        run.len() >= LEAK_BYTES
            && !matches!(rule.check, ValueCheck::Plain | ValueCheck::Value)
            && (ValueCheck::Mixed.accepts(run) || has_mixed_case(run))
    }

    /// Judges the password of an address that ends with its line: a program may have broken a long line there.
    fn address_in_two_lines(
        &self,
        number: u16,
        text: &[u8],
        start: usize,
        from: usize,
        to: usize,
    ) -> RuleMatch {
        let first = &text[from..to];
        let Some((next, is_escaped)) = next_line(text, to) else {
            return RuleMatch::No;
        };
        // The kept part of a text may begin within its line.
        let is_long = match memchr::memrchr(b'\n', &text[..start]) {
            Some(newline) => to - newline > BROKEN_COLUMNS,
            None => true,
        };
        let is_part = first.iter().all(u8::is_ascii_digit) || memchr::memchr(b'/', first).is_some();
        if is_part || !(is_long || is_escaped) {
            return RuleMatch::No;
        }
        let rule = &self.rules[usize::from(number)];
        let is_secret = |value: &[u8]| {
            rule.check.accepts(value) && (ValueCheck::Mixed.accepts(value) || has_mixed_case(value))
        };
        let end = self.run(number, text, next, text.len().min(next + BODY_BYTES));
        let rest = &text[next..end];
        let (first_span, rest_at) = (Span::new(from, to, number), memchr::memchr(b'@', rest));
        let joined = [first, &rest[..rest_at.unwrap_or(rest.len())]].concat();
        if memchr::memchr(b'/', &joined).is_some() {
            return RuleMatch::No;
        }
        let Some(at) = rest_at else {
            if end < text.len() {
                return RuleMatch::No;
            }
            // This text is shown before the next line arrives. A port, a host or a tag is shorter or made of words.
            let is_likely = is_secret(&joined)
                && (joined.len() >= LEAK_BYTES || ValueCheck::Random.accepts(&joined));
            let rest = (rest.len() >= LEAK_BYTES).then(|| Span::new(next, end, number));
            let known = if is_likely {
                [Some(first_span), rest]
            } else {
                [None; 2]
            };
            return RuleMatch::NextLine(start, known);
        };
        if !is_secret(&joined) {
            return RuleMatch::No;
        }
        let rest = (at > 0).then(|| Span::new(next, next + at, number));
        RuleMatch::Secret(first_span, rest)
    }

    /// Judges a secret that has too few bytes before the end of its line.
    pub(super) fn in_two_lines(
        &self,
        number: u16,
        text: &[u8],
        start: usize,
        from: usize,
        to: usize,
    ) -> RuleMatch {
        let rule = &self.rules[usize::from(number)];
        let shown = to - if rule.hide == Hide::Body { from } else { start };
        // Minimum number of bytes of a secret before the end of the line that divides it.
        let Some((next, is_escaped)) = next_line(text, to).filter(|_| shown >= 6) else {
            return RuleMatch::No;
        };
        if next == text.len() {
            // The line is shown before the next one arrives.
            let is_likely = shown >= LEAK_BYTES
                && rule.hide != Hide::Body
                && ValueCheck::Mixed.accepts(&text[from..to])
                && (rule.check == ValueCheck::Jwt || rule.check.accepts_beginning(&text[from..to]));
            return if is_likely {
                RuleMatch::Secret(Span::new(start, to, number), None)
            } else {
                RuleMatch::NextLine(start.saturating_sub(2), [None; 2])
            };
        }
        let limit = text.len().min(next + BODY_BYTES);
        let end = self.run(number, text, next, limit);
        let joined = [&text[from..to], &text[next..end]].concat();
        let is_rest = is_escaped || self.is_likely_rest(number, &text[next..end]);
        if !(rule.min..=rule.max).contains(&joined.len())
            || !is_rest
            || !rule.check.accepts(&joined)
        {
            return RuleMatch::No;
        }
        let first = Span::new(to - shown, to, number);
        RuleMatch::Secret(first, Some(Span::new(next, end, number)))
    }
}

/// A program breaks no shorter lines; the names of hosts and images that end a line are in shorter ones.
const BROKEN_COLUMNS: usize = 40;

/// Minimum length of a run of key bytes; words of prose are shorter.
const LONG_RUN: u16 = 20;

/// The position in a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    lines: u16,
    /// Length of the current run of key bytes.
    run: u16,
    /// Length of the previous run on the same line.
    before: u16,
    /// True if both runs consist of digits, such as line numbers.
    digits: bool,
    /// True in a header of the block (`Proc-Type: …`), the rest of which is redacted.
    header: bool,
    /// True after a hyphen within a run; a second hyphen ends the block.
    hyphen: bool,
    /// True if the previous line was short. The last line of a key is short; two consecutive short lines are
    /// not a key.
    short: bool,
    /// Length of the longest run of this line.
    longest: u16,
    /// True if the block was already redacted; any other text is after its end.
    redacted: bool,
}

impl Block {
    /// Reads the text from `at` and adds spans of the key. Returns the block's end; `None` if the block
    /// continues.
    pub(super) fn take(
        &mut self,
        text: &[u8],
        mut at: usize,
        rule: u16,
        spans: &mut Vec<Span>,
    ) -> Option<usize> {
        while at < text.len() {
            if at == 0 || text[at - 1] == b'\n' {
                at += grep_prefix(&text[at..]);
                if at == text.len() {
                    break;
                }
            }
            let byte = text[at];
            let end = match byte {
                b'\n' => self.end_line(),
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' | b'=' => {
                    self.add_key_byte(byte)
                }
                _ if self.header => false,
                b'-' if self.run > 0 && !self.hyphen && text.get(at + 1) != Some(&b'-') => {
                    self.hyphen = true;
                    push(spans, at, rule);
                    at += 1;
                    continue;
                }
                b'-' => self.hyphen || text.get(at + 1) == Some(&b'-'),
                b':' if self.run > 0 => {
                    self.header = true;
                    false
                }
                // Escaped text contains a newline as `\n`.
                b'\\' => {
                    self.end_run();
                    self.before = 0;
                    false
                }
                b'[' => match marker_len(&text[at..]) {
                    Some(len) => {
                        self.redacted = true;
                        at += len;
                        continue;
                    }
                    None => true,
                },
                b' ' | b'\t' | b'\r' | b'"' | b'\'' | b',' | b'|' | b'>' | b'*' | b'#' | 0x80.. => {
                    self.end_run();
                    at += 1;
                    continue;
                }
                _ => true,
            };
            if end {
                return Some(at);
            }
            if byte != b'\n' && byte != b'-' {
                push(spans, at, rule);
            }
            self.hyphen = false;
            at += 1;
        }
        None
    }

    /// Ends a line; returns true if the block ends with it.
    pub(super) fn end_line(&mut self) -> bool {
        let longest = self.longest.max(self.run);
        let short = longest > 0 && longest < LONG_RUN && !self.header && !self.digits;
        // Maximum number of lines in a block; the largest keys in use have about 250.
        let end = self.lines >= 400 || (short && self.short);
        *self = Self {
            lines: self.lines + 1,
            redacted: self.redacted,
            short: short || (self.short && longest == 0),
            ..Self::default()
        };
        end
    }

    /// Adds a byte that may belong to the key; returns true if it belongs to a word of prose.
    fn add_key_byte(&mut self, byte: u8) -> bool {
        if self.redacted {
            return true;
        }
        if self.run == 0 {
            let word = self.before > 0 && self.before < LONG_RUN && !self.digits && !self.header;
            if word {
                return true;
            }
            self.digits = true;
        }
        self.digits &= byte.is_ascii_digit();
        self.run = self.run.saturating_add(1);
        self.longest = self.longest.max(self.run);
        false
    }

    fn end_run(&mut self) {
        if self.run > 0 {
            self.before = self.run;
            self.run = 0;
        }
    }
}

/// Returns the length of the prefix that `grep -n` writes before a line: a path and a number, between colons
/// or hyphens.
fn grep_prefix(line: &[u8]) -> usize {
    // No useful path is longer.
    let line = &line[..line.len().min(200)];
    let end = line
        .iter()
        .position(|b| matches!(b, b' ' | b'\n' | b'"' | b'\\'))
        .unwrap_or(line.len());
    let line = &line[..end];
    for (at, byte) in line.iter().enumerate() {
        if at == 0 || !matches!(byte, b':' | b'-') {
            continue;
        }
        let digits = line[at + 1..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
        let after = at + 1 + digits;
        if digits > 0 && line.get(after) == Some(byte) {
            return after + 1;
        }
    }
    0
}

fn push(spans: &mut Vec<Span>, at: usize, rule: u16) {
    match spans.last_mut() {
        Some(last) if last.end == at && last.rule == rule => last.end += 1,
        _ => spans.push(Span::new(at, at + 1, rule)),
    }
}
