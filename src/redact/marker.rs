//! Markers: the text that replaces a secret (pure).

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
