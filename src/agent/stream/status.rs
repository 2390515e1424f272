//! An agent's status as its records show it, and what may follow them (pure).

use std::time::Duration;

/// The status of a stream's agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamStatus {
    /// No record has shown it yet.
    #[default]
    Unknown,
    /// The agent works, or waits for a human: records do not distinguish them.
    Working,
    /// The agent has answered, but nothing confirms the end of the turn yet: quiet time or the end
    /// of its process will.
    MaybeDone,
    /// The turn is over, as its records show.
    Done,
    /// The turn is over, but background tasks still run: the agent is not finished.
    Background {
        /// The number of tasks.
        tasks: usize,
    },
    /// The agent failed, or its stream was cut off.
    Failed,
    /// A human stopped the agent.
    Interrupted,
}

/// A record that may follow those that show the status; a reader of a growing file waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FollowUp {
    /// Nothing that the records announce.
    #[default]
    Nothing,
    /// A line that confirms the end of the turn, or a hook's line that makes the agent continue.
    Confirmation,
    /// A verdict on the agent's goal.
    Goal,
    /// The next prompt of the human who stopped the agent.
    Prompt,
    /// A wake-up, this long after the last record.
    Wake(Duration),
}

impl StreamStatus {
    /// Returns the name that events use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Working => "working",
            Self::MaybeDone => "maybe_done",
            Self::Done => "done",
            Self::Background { .. } => "background",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}
