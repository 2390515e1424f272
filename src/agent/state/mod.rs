//! Detects an agent's state from its screen (pure). The rules are data, one file per agent.
//!
//! Agents quote screens: their own sources, other agents' answers, this very file. A rule therefore
//! never asks only whether a text is on the screen, but whether it is in a region that only the
//! agent's program writes to: the input box, the rows right above and below it, the foot of the
//! screen. `done` requires a screen that shows the end of a turn; an empty input box is `idle`.

mod debounce;
mod screen;

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

use std::fmt;

use serde::Deserialize;

pub use debounce::StateDebouncer;
pub use row::RowKind;
pub use rules::StateRules;
pub use screen::AgentScreen;

/// The state of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum AgentState {
    /// The agent works.
    Working,
    /// The agent asks a human for permission, an answer, or a decision on a plan.
    Waiting,
    /// The agent accepts input; nothing shows that it has done anything.
    Idle,
    /// A turn has ended, as the screen shows.
    Done,
    /// The turn has ended in an error.
    Error,
    /// A usage limit is reached.
    Limited,
}

impl AgentState {
    /// All states.
    pub const ALL: [Self; 6] = [
        Self::Working,
        Self::Waiting,
        Self::Idle,
        Self::Done,
        Self::Error,
        Self::Limited,
    ];

    /// Returns the name that events use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Waiting => "waiting",
            Self::Idle => "idle",
            Self::Done => "done",
            Self::Error => "error",
            Self::Limited => "limited",
        }
    }
}

impl fmt::Display for AgentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

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
    /// The state is inferred from the screen; otherwise the screen states it.
    pub inferred: bool,
    /// The question of a dialogue in one line, where the screen shows it.
    pub asks: Option<String>,
}

impl DetectedState {
    /// Returns the evidence in one line, as in events.
    #[must_use]
    pub fn evidence(&self) -> String {
        let how = match self.inferred {
            true => "inferred",
            false => "confirmed",
        };
        format!("{} {} ({how}): {}", self.agent, self.rule, self.line)
    }
}
