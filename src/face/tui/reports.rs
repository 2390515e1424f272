//! What the UI reports to its own terminal: whether a row of the board needs the user (`OSC 7501`). It asks the terminal
//! once, without waiting, and reports only after an answer.

use std::time::Duration;

use crate::agent::{AgentState, REPORTS_QUESTION, own_report};
use crate::board::{Attention, Row};
use crate::face::last_text;

/// The time in which a terminal answers, also over a slow connection. A UI that ends sooner waits for the answer, which its
/// shell would read as keys.
pub(super) const ANSWER_TIME: Duration = Duration::from_secs(1);

/// What the UI asks its terminal: whether it reads reports, and, because each terminal answers that, what it is.
pub(super) fn question() -> Vec<u8> {
    [REPORTS_QUESTION, b"\x1b[c"].concat()
}

/// The answers of a terminal among its keys.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answers {
    /// The terminal has said that it reads reports.
    pub reads_reports: bool,
    /// It answers no more.
    pub are_over: bool,
}

/// How bytes of a terminal relate to its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// They are none.
    None,
    /// They may be the beginning of one.
    Beginning,
    /// They are one.
    Whole,
}

impl Answers {
    /// Takes the bytes since the last key, which begin with an escape.
    pub fn take(&mut self, bytes: &[u8]) -> Part {
        // Some terminals end their sequences with a bell.
        let is_answer = bytes == REPORTS_QUESTION || bytes == b"\x1b]7501;?\x07";
        let is_device = bytes.starts_with(b"\x1b[?") && bytes.ends_with(b"c");
        self.reads_reports |= is_answer;
        self.are_over |= is_device;
        if is_answer || is_device {
            Part::Whole
        } else if bytes.len() > 1 && REPORTS_QUESTION.starts_with(bytes) {
            Part::Beginning
        } else {
            Part::None
        }
    }
}

/// Returns the report about the rows of the board, in their order, with their names.
pub(super) fn report(rows: &[Row], names: &[String]) -> String {
    let mut needs = rows
        .iter()
        .zip(names)
        .filter(|(row, _)| row.attention() == Attention::NeedsYou);
    if let Some((row, name)) = needs.next() {
        let text = format!("{name}: {}", last_text(row));
        return own_report(Some(AgentState::Waiting), Some(&text));
    }
    let is_working = |row: &Row| row.attention() == Attention::Working;
    let state = if rows.iter().any(is_working) {
        AgentState::Working
    } else {
        AgentState::Idle
    };
    own_report(Some(state), None)
}

/// Returns what ends the reports.
pub(super) fn end() -> String {
    own_report(None, None)
}
