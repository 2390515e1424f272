//! Texts that are cut for a model (pure).

use crate::face::sanitize::one_line;
use crate::text::first_chars;

/// Returns a text in one line without control characters, at most so long.
pub(super) fn short(text: &str, chars_max: usize) -> String {
    let line = one_line(text);
    let first = first_chars(&line, chars_max);
    if first.len() == line.len() {
        line
    } else {
        format!("{first}…")
    }
}
