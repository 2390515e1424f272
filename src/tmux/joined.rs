//! The wrap marks of rows, found by comparing a capture of rows with one of the same text as joined lines
//! (pure).
//!
//! `capture-pane -N` prints rows without showing which of them continue. `-J` prints whole lines without
//! showing where they were wrapped. Together, they give each row its mark. Tabs become blanks.

use std::borrow::Cow;

use crate::track::{Row, expand_tabs};

/// Returns the rows, each with its `wrapped` mark. Empty rows within a wrapped line cannot always be
/// distinguished from empty lines. The row before them then counts as wrapped, which gives the same lines.
pub(super) fn rows(rows: &str, joined: &str, width: u32) -> Vec<Row> {
    let rows: Vec<&str> = rows.split('\n').collect();
    let lines: Vec<&str> = joined.split('\n').collect();
    let mut marked = mark_wraps(&rows, &lines).unwrap_or_else(|| {
        log::debug!("the rows and the joined lines of a capture do not match");
        let unwrapped = |row: &&str| Row {
            text: row.trim_end_matches(' ').into(),
            wrapped: false,
        };
        rows.iter().map(unwrapped).collect()
    });
    for row in &mut marked {
        if let Cow::Owned(text) = expand_tabs(&row.text, width as usize) {
            row.text = text;
        }
    }
    marked
}

fn mark_wraps(rows: &[&str], lines: &[&str]) -> Option<Vec<Row>> {
    let empty_rows = empty_runs(rows);
    let empty_lines = empty_runs(lines);
    let mut marked = Vec::with_capacity(rows.len());
    let mut line = 0;
    let mut rest = *lines.first()?;
    for (at, row) in rows.iter().enumerate() {
        // There are more rows than lines.
        if line >= lines.len() {
            return None;
        }
        rest = rest.strip_prefix(row)?;
        // A line ends with its text, unless more empty rows than empty lines follow. The first of those rows
        // then still belong to it.
        let wrapped = !rest.is_empty() || empty_rows[at + 1] > empty_lines[line + 1];
        marked.push(Row {
            text: (*row).to_owned(),
            wrapped,
        });
        if !wrapped {
            line += 1;
            rest = lines.get(line).copied().unwrap_or_default();
        }
    }
    (line == lines.len()).then_some(marked)
}

/// Returns the number of consecutive empty texts from each index on, and 0 for the end.
fn empty_runs(texts: &[&str]) -> Vec<usize> {
    let mut runs = vec![0; texts.len() + 1];
    for (at, text) in texts.iter().enumerate().rev() {
        if text.is_empty() {
            runs[at] = runs[at + 1] + 1;
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grid(rows: &[(&str, bool)]) -> (String, String) {
        let mut joined = String::new();
        for (at, (text, wrapped)) in rows.iter().enumerate() {
            joined.push_str(text);
            if !wrapped && at + 1 < rows.len() {
                joined.push('\n');
            }
        }
        (
            rows.iter()
                .map(|(text, _)| *text)
                .collect::<Vec<_>>()
                .join("\n"),
            joined,
        )
    }

    fn lines_of(rows: &[Row]) -> Vec<String> {
        let mut lines = vec![String::new()];
        for (at, row) in rows.iter().enumerate() {
            lines.last_mut().unwrap().push_str(&row.text);
            if !row.wrapped && at + 1 < rows.len() {
                lines.push(String::new());
            }
        }
        lines
    }

    #[test]
    fn plain_cases() {
        for case in [
            &[("one", false)][..],
            &[("", false), ("", false), ("", false)],
            &[("12345", true), ("678", false), ("", false)],
            &[
                ("12345", true),
                ("     ", true),
                ("  x", false),
                ("x", false),
            ],
            &[("12345", true), ("", true), ("678", false), ("9", false)],
            &[("12345", true), ("", false), ("", false)],
            &[("1234", true), ("漢字", true), ("x ", false)],
            &[
                ("aaaaa", true),
                ("aaaaa", false),
                ("aaaaa", false),
                ("aaaaa", true),
                ("a", false),
            ],
        ] {
            let (rows_text, joined) = grid(case);
            let marked = rows(&rows_text, &joined, 80);
            let got: Vec<_> = marked
                .iter()
                .map(|row| (row.text.as_str(), row.wrapped))
                .collect();
            assert_eq!(got, case, "{rows_text:?} {joined:?}");
        }
    }

    #[test]
    fn tabs_do_not_hide_a_wrap() {
        let marked = rows("a\tb3456789\nx\ty", "a\tb3456789x\ty", 16);
        assert!(marked[0].wrapped && marked[0].text == "a       b3456789");
        assert!(!marked[1].wrapped && marked[1].text == "x       y");
    }

    #[test]
    fn rows_that_do_not_match_stay_unwrapped() {
        let marked = rows("ab  \ncd", "something else", 80);
        assert!(marked.iter().all(|row| !row.wrapped));
        assert_eq!(marked[0].text, "ab");
        assert_eq!(rows("a\nb", "a", 80).len(), 2);
        assert_eq!(rows("a", "a\nb", 80).len(), 1);
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            2 => Just(String::new()),
            1 => Just("   ".to_owned()),
            3 => "[ab ]{1,6}",
            2 => "[a漢é👍 ]{1,6}",
        ]
    }

    proptest! {
        #[test]
        fn the_joined_rows_are_always_the_lines(
            case in prop::collection::vec((text(), any::<bool>()), 1..30),
        ) {
            let case: Vec<_> = case.iter().map(|(text, wrapped)| (text.as_str(), *wrapped)).collect();
            let (rows_text, joined) = grid(&case);
            let marked = rows(&rows_text, &joined, 80);
            let texts: Vec<_> = marked.iter().map(|row| row.text.as_str()).collect();
            prop_assert_eq!(texts, rows_text.split('\n').collect::<Vec<_>>());
            prop_assert_eq!(lines_of(&marked), joined.split('\n').collect::<Vec<_>>());
            // Without empty rows, the result is unique except for the last row.
            if case.iter().all(|(text, _)| !text.is_empty()) {
                for (row, (_, wrapped)) in marked.iter().zip(&case[..case.len() - 1]) {
                    prop_assert_eq!(row.wrapped, *wrapped);
                }
            }
        }

        #[test]
        fn any_input_keeps_the_number_of_rows(rows_text in "[ab \n漢]{0,30}", joined in "[ab \n漢]{0,30}") {
            prop_assert_eq!(rows(&rows_text, &joined, 80).len(), rows_text.split('\n').count());
        }
    }
}
