//! Finds known lines among rewrapped lines, by their text alone (pure).

use super::lines::LogicalLine;

/// The number of consecutive lines that must match, if as many are known.
const BLOCK_LINES: usize = 12;

/// Finds the last of the known lines (number and text, in order) among `lines`, and returns the number
/// of the first of `lines`. Returns `None` unless exactly one place matches. `possible` may exclude a
/// place; its argument is the index of the line after the known ones.
pub(super) fn place(
    known: &[(i64, &str)],
    lines: &[LogicalLine],
    possible: impl Fn(usize) -> bool,
) -> Option<i64> {
    // Only lines with consecutive numbers must be adjacent.
    let block = &known[known.len().saturating_sub(BLOCK_LINES)..];
    let start = block
        .windows(2)
        .rposition(|pair| pair[0].0 + 1 != pair[1].0)
        .map_or(0, |at| at + 1);
    let block = &block[start..];
    let same = |known: &str, line: &LogicalLine| known.trim_end() == line.text.trim_end();
    let last_number = block.last()?.0;
    if block.iter().all(|(_, text)| text.trim_end().is_empty()) {
        return None;
    }
    // The oldest known lines may be above the capture: a place at its top counts only if the whole
    // block has none.
    let at_end = |end: usize| {
        let seen = block.len().min(end);
        let mut pairs = block[block.len() - seen..]
            .iter()
            .zip(&lines[end - seen..end]);
        let has_text = lines[end - seen..end]
            .iter()
            .any(|line| !line.text.trim_end().is_empty());
        has_text && pairs.all(|((_, text), line)| same(text, line)) && possible(end)
    };
    let number_of_first = |end: usize| last_number - (end as i64 - 1);
    let mut whole = (block.len()..=lines.len()).filter(|&end| at_end(end));
    match (whole.next(), whole.next()) {
        (Some(only), None) => return Some(number_of_first(only)),
        (Some(_), Some(_)) => return None,
        (None, _) => {}
    }
    let mut partial = (1..block.len().min(lines.len() + 1)).filter(|&end| at_end(end));
    match (partial.next(), partial.next()) {
        (Some(only), None) => Some(number_of_first(only)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[&str]) -> Vec<LogicalLine> {
        (0..)
            .zip(texts)
            .map(|(start, text)| LogicalLine {
                start,
                rows: 1,
                text: (*text).into(),
            })
            .collect()
    }

    #[test]
    fn one_place_is_found_and_two_are_not() {
        let known = [(7, "a"), (8, "b")];
        assert_eq!(
            place(&known, &lines(&["x", "a", "b  ", "c"]), |_| true),
            Some(6)
        );
        assert_eq!(place(&known, &lines(&["a", "b", "a", "b"]), |_| true), None);
        assert_eq!(
            place(&known, &lines(&["a", "b", "a", "b"]), |end| end == 4),
            Some(5)
        );
        assert_eq!(place(&known, &lines(&["b", "c"]), |_| true), Some(8));
        assert_eq!(
            place(&[(1, ""), (2, " ")], &lines(&["", ""]), |_| true),
            None
        );
    }
}
