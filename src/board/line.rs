//! The last line of a text that says something: no blank row, no rule, no box, no footer of an agent.

use crate::agent::{RowKind, StateRules};

/// The most characters of a row's last line.
const CHARS_MAX: usize = 500;

/// Returns the last line that is not decoration; `None` if there is none.
pub(super) fn last_line(rules: &StateRules, agent: Option<&str>, text: &str) -> Option<String> {
    let mut lines = text.lines().rev();
    let line = lines.find(|line| says_something(rules, agent, line))?;
    Some(line.trim().chars().take(CHARS_MAX).collect())
}

fn says_something(rules: &StateRules, agent: Option<&str>, line: &str) -> bool {
    if !line.contains(char::is_alphanumeric) {
        return false;
    }
    agent.is_none_or(|agent| rules.row_kind(agent, line) == RowKind::Text)
}
