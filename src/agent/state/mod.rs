//! Where an agent stands, read from its screen: rules as data, one file an agent (pure).
//!
//! Agents quote screens: their own sources, other agents' answers, this very file. So a rule never
//! asks whether a text stands somewhere, but whether it stands in a place that only the agent's
//! program writes to: the input box, the rows right above and below it, the foot of the screen.
//! And `done` is said only where the screen says that a turn has ended; an empty box is `idle`.

mod agent_rules;
mod debounce;
mod query;
mod row;
mod rule_file;
mod rule_screen;
mod rules;
mod screen;
mod shell;

#[cfg(test)]
mod tests;

use std::fmt;

use serde::Deserialize;

pub use debounce::StateDebouncer;
pub use row::RowKind;
pub use rules::StateRules;
pub use screen::AgentScreen;

/// Where an agent stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentState {
    /// It does something.
    Working,
    /// A human is asked: for permission, an answer, a decision on a plan.
    Waiting,
    /// It could be given something to do; nothing says that it has done anything.
    Idle,
    /// A turn has ended, as the screen says.
    Done,
    /// The turn has ended in an error.
    Error,
    /// A usage limit is reached.
    Limited,
}

impl AgentState {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Working,
        Self::Waiting,
        Self::Idle,
        Self::Done,
        Self::Error,
        Self::Limited,
    ];

    /// As it is written in events.
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

/// What a screen says, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetectedState {
    /// The agent whose rule it was.
    pub agent: String,
    /// Where it stands.
    pub state: AgentState,
    /// The id of the rule.
    pub rule: String,
    /// The row of the screen that the rule matched, without blanks around it; at most 200 characters.
    pub line: String,
    /// It follows from what is shown; else the screen says so.
    pub inferred: bool,
    /// What a dialogue asks about, in one line, where the screen shows it.
    pub asks: Option<String>,
}

impl DetectedState {
    /// Why, in one line, as events have it.
    #[must_use]
    pub fn evidence(&self) -> String {
        let how = match self.inferred {
            true => "inferred",
            false => "confirmed",
        };
        format!("{} {} ({how}): {}", self.agent, self.rule, self.line)
    }
}
