//! Edges: spans of secrets, the markers that replace them, and the text around them and at the ends of lines
//! (pure).

/// A range of secret bytes and the rule that found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) rule: u16,
}

impl Span {
    pub(super) fn new(start: usize, end: usize, rule: u16) -> Self {
        Self { start, end, rule }
    }
}

/// The kind of a text's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextEnd {
    /// More may follow.
    Cut,
    /// The text, or its line, is complete.
    Complete,
}

/// Number of consecutive bytes of a key that count as a leak.
pub(super) const LEAK_BYTES: usize = 12;
/// The beginning of a marker, which replaces a secret. The rule's id and `]` follow.
pub(crate) const MARKER: &str = "[redacted:";

/// Returns the length of the marker at the beginning of the text, if any.
pub(super) fn marker_len(text: &[u8]) -> Option<usize> {
    let kind = text.strip_prefix(MARKER.as_bytes())?;
    let len = kind
        .iter()
        .take(33)
        .take_while(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || **b == b'-')
        .count();
    (len > 0 && kind.get(len) == Some(&b']')).then_some(MARKER.len() + len + 1)
}

/// Returns true if a backslash joins the line that ends here with the next one.
pub(super) fn is_escaped_end(text: &[u8], at: usize) -> bool {
    text[at..].starts_with(b"\\\n") || text[at..].starts_with(b"\\\r\n")
}

/// Returns the start of the new value if a quoted value ends here and a difference follows: `"old" -> "new"`.
pub(super) fn changed_value(text: &[u8], at: usize) -> Option<usize> {
    let arrows: [&[u8]; 3] = [b"\" -> \"", b"\" => \"", b"' -> '"];
    let arrow = arrows.iter().find(|arrow| text[at..].starts_with(arrow))?;
    Some(at + arrow.len())
}

/// Returns the beginning of the next line's text if only decoration remains on this one, and whether a backslash
/// joins the lines.
pub(super) fn next_line(text: &[u8], at: usize) -> Option<(usize, bool)> {
    let is_escaped = is_escaped_end(text, at);
    let mut end = at + usize::from(is_escaped);
    if !is_escaped {
        end = skip_decoration(text, end);
    }
    if text.get(end) == Some(&b'\r') {
        end += 1;
    }
    (text.get(end) == Some(&b'\n')).then(|| (skip_decoration(text, end + 1), is_escaped))
}

/// Returns the position after blanks, frames and bullets.
pub(super) fn skip_decoration(text: &[u8], mut at: usize) -> usize {
    // No indentation is wider.
    let limit = text.len().min(at + 160);
    while at < limit {
        match &text[at..] {
            [b' ' | b'\t' | b'|' | b'>', ..] => at += 1,
            [0xe2, 0x80..=0xbf, 0x80..=0xbf, ..] => at += 3,
            _ => break,
        }
    }
    at
}

pub(super) fn add(spans: &mut Vec<Span>, start: usize, end: usize, rule: u16) {
    if start == end {
        return;
    }
    match spans.last_mut() {
        // A lead may overlap the previous secret.
        Some(last) if start <= last.end => last.end = last.end.max(end),
        _ => spans.push(Span { start, end, rule }),
    }
}

/// Sorts spans and joins those that overlap or touch. A joined span keeps the rule of the earlier one.
pub(super) fn unite(spans: &mut Vec<Span>) {
    if spans.len() < 2 {
        return;
    }
    spans.sort_by_key(|span| (span.start, span.rule, std::cmp::Reverse(span.end)));
    spans.dedup_by(|next, last| {
        let overlap = next.start <= last.end;
        if overlap {
            last.end = last.end.max(next.end);
        }
        overlap
    });
}

/// Returns true if the position follows a letter or digit that is not part of an escape sequence.
pub(super) fn in_word(text: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| text.get(before));
    before.is_some_and(u8::is_ascii_alphanumeric) && !in_escape(text, at)
}

/// Returns true if the letter before the position ends an escape sequence: `\n` in escaped text, or `ESC [ 1
/// m` from a terminal.
pub(super) fn in_escape(text: &[u8], at: usize) -> bool {
    let Some(before) = at.checked_sub(1) else {
        return false;
    };
    // Its last letter is not part of a word; longer sequences do not stand directly before a secret.
    let rest = &text[at.saturating_sub(12)..before];
    if text[before].is_ascii_lowercase() && rest.last() == Some(&b'\\') {
        return true;
    }
    let number = |b: &u8| b.is_ascii_digit() || *b == b';';
    let digits = rest.iter().rev().take_while(|b| number(b)).count();
    text[before] == b'm' && rest[..rest.len() - digits].ends_with(b"\x1b[")
}

pub(super) fn in_marker(text: &[u8], start: usize, end: usize) -> bool {
    // No marker is longer, because the id of a rule has at most 32 bytes.
    let from = start.saturating_sub(MARKER.len() + 34);
    memchr::memmem::find_iter(&text[from..end], MARKER.as_bytes())
        .map(|at| from + at)
        .any(|at| marker_len(&text[at..]).is_some_and(|len| at + len > start))
}
