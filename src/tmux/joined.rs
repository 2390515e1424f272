//! Where tmux wrapped: the rows of a capture walked along the same text captured with its lines joined (pure).
//!
//! `capture-pane -N` has the rows and not which of them go on; `-J` has whole lines and not where
//! they were broken. Both together give each row its mark.
//!
//! Rows have blanks where tmux has tabs.

use std::borrow::Cow;

use crate::track::{Row, without_tabs};

/// The rows, each with its `wrapped` mark. Empty rows inside a wrapped line cannot always be told
/// from empty lines; then the row before them is taken to go on, and the lines read the same.
pub(super) fn rows(rows: &str, joined: &str, width: u32) -> Vec<Row> {
    let rows: Vec<&str> = rows.split('\n').collect();
    let lines: Vec<&str> = joined.split('\n').collect();
    let mut walked = walk(&rows, &lines).unwrap_or_else(|| {
        log::debug!("rows and joined lines of a capture do not agree");
        let unwrapped = |row: &&str| Row {
            text: row.trim_end_matches(' ').into(),
            wrapped: false,
        };
        rows.iter().map(unwrapped).collect()
    });
    for row in &mut walked {
        if let Cow::Owned(text) = without_tabs(&row.text, width as usize) {
            row.text = text;
        }
    }
    walked
}

fn walk(rows: &[&str], lines: &[&str]) -> Option<Vec<Row>> {
    let empty_rows = empty_runs(rows);
    let empty_lines = empty_runs(lines);
    let mut walked = Vec::with_capacity(rows.len());
    let mut line = 0;
    let mut rest = *lines.first()?;
    for (at, row) in rows.iter().enumerate() {
        // More rows than lines: rows are left when the lines are used up.
        if line >= lines.len() {
            return None;
        }
        rest = rest.strip_prefix(row)?;
        // Where the line's text is used up it ends, unless more empty rows follow than empty
        // lines: then the first of those rows still belong to it.
        let wrapped = !rest.is_empty() || empty_rows[at + 1] > empty_lines[line + 1];
        walked.push(Row {
            text: (*row).to_owned(),
            wrapped,
        });
        if !wrapped {
            line += 1;
            rest = lines.get(line).copied().unwrap_or_default();
        }
    }
    (line == lines.len()).then_some(walked)
}

/// For each place, and for the end, how many empty texts stand there in a row.
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
            let walked = rows(&rows_text, &joined, 80);
            let got: Vec<_> = walked
                .iter()
                .map(|row| (row.text.as_str(), row.wrapped))
                .collect();
            assert_eq!(got, case, "{rows_text:?} {joined:?}");
        }
    }

    #[test]
    fn tabs_do_not_hide_where_a_row_goes_on() {
        let walked = rows("a\tb3456789\nx\ty", "a\tb3456789x\ty", 16);
        assert!(walked[0].wrapped && walked[0].text == "a       b3456789");
        assert!(!walked[1].wrapped && walked[1].text == "x       y");
    }

    #[test]
    fn what_does_not_agree_is_left_unwrapped() {
        let walked = rows("ab  \ncd", "something else", 80);
        assert!(walked.iter().all(|row| !row.wrapped));
        assert_eq!(walked[0].text, "ab");
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
        fn the_lines_are_the_same_whatever_is_on_the_screen(
            case in prop::collection::vec((text(), any::<bool>()), 1..30),
        ) {
            let case: Vec<_> = case.iter().map(|(text, wrapped)| (text.as_str(), *wrapped)).collect();
            let (rows_text, joined) = grid(&case);
            let walked = rows(&rows_text, &joined, 80);
            let texts: Vec<_> = walked.iter().map(|row| row.text.as_str()).collect();
            prop_assert_eq!(texts, rows_text.split('\n').collect::<Vec<_>>());
            prop_assert_eq!(lines_of(&walked), joined.split('\n').collect::<Vec<_>>());
            // Without empty rows there is only one answer. Of the last row nothing can be known.
            if case.iter().all(|(text, _)| !text.is_empty()) {
                for (row, (_, wrapped)) in walked.iter().zip(&case[..case.len() - 1]) {
                    prop_assert_eq!(row.wrapped, *wrapped);
                }
            }
        }

        #[test]
        fn anything_at_all_keeps_the_number_of_rows(one in "[ab \n漢]{0,30}", other in "[ab \n漢]{0,30}") {
            prop_assert_eq!(rows(&one, &other, 80).len(), one.split('\n').count());
        }
    }
}
