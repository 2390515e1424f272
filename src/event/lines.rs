//! The lines of a chunk (pure).

/// The lines in a text that ends each of them, but perhaps the last, with `\n`: without these. The same as
/// `split_terminator('\n')`, and several times as fast where lines are short.
pub(crate) fn lines_in(chunk: &str) -> impl Iterator<Item = &str> {
    let mut rest = chunk;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(end) = memchr::memchr(b'\n', rest.as_bytes()) else {
            return Some(std::mem::take(&mut rest));
        };
        let line = &rest[..end];
        rest = &rest[end + 1..];
        Some(line)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_are_what_they_are_called(chunk in "[a\u{6f22}\n]{0,12}") {
            let expected: Vec<&str> = chunk.split_terminator('\n').collect();
            prop_assert_eq!(lines_in(&chunk).collect::<Vec<_>>(), expected);
        }
    }
}
