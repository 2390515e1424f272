//! Joins captured lines that tmux has broken in two, or of which it has only the end (pure).

use std::collections::BTreeMap;

use crate::track::capture::Capture;
use crate::track::lines::{LogicalLine, fills_row};

/// Joins broken lines from a line of this number upwards, and returns the number of the first line.
///
/// When a full-screen program begins, tmux breaks a line of the normal screen whose beginning has
/// scrolled off. Both parts are one line, as it was printed and reported.
pub(super) fn join_up(
    lines: &mut Vec<LogicalLine>,
    at: usize,
    number: i64,
    known: &BTreeMap<i64, &str>,
    width: u32,
) -> i64 {
    let (mut at, mut number) = (at, number);
    loop {
        let text = known.get(&number).copied();
        if at > 0 && text.is_some_and(|text| is_broken(lines, at - 1, text, width)) {
            join(lines, at - 1);
            at -= 1;
        }
        if at == 0 {
            return number;
        }
        (at, number) = (at - 1, number - 1);
    }
}

/// Joins broken lines from the first line downwards, which has the number `first`.
pub(super) fn join_down(
    lines: &mut Vec<LogicalLine>,
    first: i64,
    known: &BTreeMap<i64, &str>,
    width: u32,
) {
    let mut at = 0;
    while at < lines.len() {
        let text = known.get(&(first + at as i64)).copied();
        if text.is_some_and(|text| is_broken(lines, at, text, width)) {
            join(lines, at);
        }
        at += 1;
    }
}

/// Completes the first line if the history was cleared and tmux has only the end of it. `reported` are
/// its possible texts. The dropped rows count as one.
pub(super) fn mend_cut(lines: &mut [LogicalLine], capture: &Capture, reported: &[&str]) {
    let (Some(line), true) = (lines.first_mut(), capture.is_complete()) else {
        return;
    };
    let text = line.text.trim_end_matches(' ');
    if text.is_empty() {
        return;
    }
    let begin = reported.iter().find_map(|reported| {
        let begin = reported.trim_end_matches(' ').strip_suffix(text)?;
        (!begin.is_empty() && fills_row(begin, capture.width)).then_some(begin)
    });
    if let Some(begin) = begin {
        line.text.insert_str(0, begin);
        (line.start, line.rows) = (line.start - 1, line.rows + 1);
    }
}

/// Returns true if a line and the next one are one reported line, broken at the end of a full row. A
/// line that ends elsewhere is a line of its own, for example after `send-keys -R`.
fn is_broken(lines: &[LogicalLine], at: usize, reported: &str, width: u32) -> bool {
    let (Some(line), Some(next)) = (lines.get(at), lines.get(at + 1)) else {
        return false;
    };
    if !fills_row(&line.text, width) {
        return false;
    }
    let rest = reported.strip_prefix(&*line.text);
    !is_blank(&line.text)
        && !is_blank(&next.text)
        && rest.is_some_and(|rest| has_text(rest, &next.text))
}

fn join(lines: &mut Vec<LogicalLine>, at: usize) {
    let next = lines.remove(at + 1);
    lines[at].text.push_str(&next.text);
    lines[at].rows += next.rows;
}

pub(super) fn is_blank(line: &str) -> bool {
    line.trim_end_matches(' ').is_empty()
}

/// Returns true if a line has this text, apart from blanks at its end.
pub(super) fn has_text(line: &str, reported: &str) -> bool {
    line.trim_end_matches(' ') == reported.trim_end_matches(' ')
}
