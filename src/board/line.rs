//! The last informative line of a text, which is not a blank row, a rule, a box or an agent's footer.

use crate::agent::{RowKind, StateRules};

/// The most characters of a row's last line.
const CHARS_MAX: usize = 500;

/// Returns the last line that is not decoration; `None` if all lines are.
pub(super) fn last_line(rules: &StateRules, agent: Option<&str>, text: &str) -> Option<String> {
    let mut lines = text.lines().rev();
    let line = lines.find(|line| is_informative(rules, agent, line))?;
    Some(line.trim().chars().take(CHARS_MAX).collect())
}

fn is_informative(rules: &StateRules, agent: Option<&str>, line: &str) -> bool {
    if !line.contains(char::is_alphanumeric) {
        return false;
    }
    agent.is_none_or(|agent| rules.row_kind(agent, line) == RowKind::Text)
}
