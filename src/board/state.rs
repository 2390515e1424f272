//! The kinds of rows, their states, and the urgency with which they ask for the user.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::event::{AgentState, EnumOrUnknown};

/// The urgency with which a row asks for the user, in the order in which faces show the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Attention {
    /// The agent waits for an answer, failed, or has reached a limit.
    NeedsYou,
    /// The agent is done, or the execution has ended, and no user has viewed it since.
    Finished,
    /// The execution makes progress.
    Working,
    /// Nothing happens and no question is open, or the user has viewed the result.
    Quiet,
}

impl Attention {
    /// Every value, in its order.
    pub const ALL: [Self; 4] = [Self::NeedsYou, Self::Finished, Self::Working, Self::Quiet];

    /// Returns the name: `needs_you`, `finished`, `working` or `quiet`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NeedsYou => "needs_you",
            Self::Finished => "finished",
            Self::Working => "working",
            Self::Quiet => "quiet",
        }
    }
}

impl fmt::Display for Attention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The kind of execution that a row represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ExecutionKind {
    /// A tmux pane.
    Pane,
    /// A command that the observer runs.
    Command,
    /// An agentic loop.
    Loop,
    /// A background agent.
    Agent,
    /// A kernel.
    Kernel,
    /// A host whose observer is not read: its own rows are absent.
    Host,
}

impl ExecutionKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::Pane,
        Self::Command,
        Self::Loop,
        Self::Agent,
        Self::Kernel,
        Self::Host,
    ];

    /// Returns the name: `pane`, `command`, `loop`, `agent`, `kernel` or `host`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pane => "pane",
            Self::Command => "command",
            Self::Loop => "loop",
            Self::Agent => "agent",
            Self::Kernel => "kernel",
            Self::Host => "host",
        }
    }
}

/// The state of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowState {
    /// The state of the agent.
    Agent(EnumOrUnknown<AgentState>),
    /// The execution runs, and no agent is known in it.
    Running,
    /// The execution runs, and has printed nothing for five minutes.
    Quiet,
    /// The execution has ended.
    Exited,
    /// The execution has ended in failure, or the last job of a shell did.
    Failed,
    /// The execution may run, and nothing observes it.
    NotObserved,
    /// The first answer of a host's observer is on its way.
    Connecting,
    /// The observer of a host cannot be read.
    Unreachable,
}

impl RowState {
    /// Returns the name: that of an agent's state, `running`, `quiet`, `exited`, `failed`, `not_observed`, `connecting`
    /// or `unreachable`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Agent(state) => state.as_str(),
            Self::Running => "running",
            Self::Quiet => "quiet",
            Self::Exited => "exited",
            Self::Failed => "failed",
            Self::NotObserved => "not_observed",
            Self::Connecting => "connecting",
            Self::Unreachable => "unreachable",
        }
    }
}

/// Reads the name of a state.
pub(super) fn state_of_name<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<RowState, D::Error> {
    let name = String::deserialize(deserializer)?;
    Ok(match name.as_str() {
        "running" => RowState::Running,
        "quiet" => RowState::Quiet,
        "exited" => RowState::Exited,
        "failed" => RowState::Failed,
        "not_observed" => RowState::NotObserved,
        "connecting" => RowState::Connecting,
        "unreachable" => RowState::Unreachable,
        state => RowState::Agent(state.into()),
    })
}
