//! Detects an agent's state from its screen (pure). The rules are data, one file for each agent.
//!
//! Agents quote screens: their own sources, other agents' answers, even this file. Therefore, a
//! rule searches only regions that the agent's program alone writes to: the input box, the rows
//! directly above and below it, and the foot of the screen. `done` requires a screen that shows the
//! end of a turn; an empty input box means `idle`.

mod debounce;

mod rule_screen;

mod input_box;
mod query;
mod shell;

mod agent_rules;

mod row;
mod rule_file;

mod rules;

#[cfg(test)]
mod tests;

use crate::event::{AgentState, StateEvidence};

pub(crate) use debounce::StateDebouncer;
pub(crate) use row::RowKind;
pub use rule_screen::AgentScreen;
pub use rules::StateRules;

/// A state that a screen shows, and its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetectedState {
    /// The agent whose rule matched.
    pub agent: String,
    /// The state.
    pub state: AgentState,
    /// The id of the rule.
    pub rule: String,
    /// The row that the rule matched, trimmed; at most 200 characters.
    pub line: String,
    /// True if the state is inferred from the screen; false if the screen states it.
    pub inferred: bool,
    /// The question of a dialogue in one line, if the screen shows it.
    pub asks: Option<String>,
}

impl DetectedState {
    /// Returns the evidence in one line, as it appears in events.
    #[must_use]
    pub fn evidence(&self) -> String {
        let evidence = match self.inferred {
            true => StateEvidence::Inferred,
            false => StateEvidence::Confirmed,
        };
        format!("{} {} ({evidence}): {}", self.agent, self.rule, self.line)
    }
}
