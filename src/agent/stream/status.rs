//! The status of an agent as its records show it, and the records that may follow (pure).

use std::time::Duration;

/// The status of a stream's agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamStatus {
    /// No record has shown the status yet.
    #[default]
    Unknown,
    /// The agent works or waits for the user, which records do not distinguish.
    Working,
    /// The agent has answered, but no record has confirmed the end of the turn. Idle time or the
    /// end of its process will confirm it.
    MaybeDone,
    /// The turn has ended, as its records show.
    Done,
    /// The turn has ended, but the agent is not finished because background tasks run.
    Background {
        /// The number of tasks.
        tasks: usize,
    },
    /// The agent failed, or its stream was cut off.
    Failed,
    /// The user has stopped the agent.
    Interrupted,
}

/// A record that may follow and change the status; the reader of a growing file waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FollowUp {
    /// No record is expected.
    #[default]
    Nothing,
    /// A line that confirms the end of the turn, or a line of a hook that makes the agent continue.
    Confirmation,
    /// A verdict on the agent's goal.
    Goal,
    /// The next prompt of the user who has stopped the agent.
    Prompt,
    /// A wake-up, after this time since the last record.
    Wake(Duration),
}

impl StreamStatus {
    /// Returns the name, as events use it.
    pub fn as_str(self) -> &'static str {
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
