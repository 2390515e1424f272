//! Where an agent stands, as far as what it wrote says, and what may still come (pure).

use std::time::Duration;

/// Where the agent of a stream stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamStatus {
    /// Nothing was seen yet that says.
    #[default]
    Unknown,
    /// It works, or waits for a human: in a file both look alike.
    Working,
    /// It has answered, and nothing confirms that the turn is over: quiet time or the end of its
    /// process will.
    MaybeDone,
    /// Its turn is over, and its records say so.
    Done,
    /// Its turn is over, and so many tasks that it began still run: it is not finished.
    Background {
        /// How many.
        tasks: usize,
    },
    /// It failed, or its stream was cut.
    Failed,
    /// A human stopped it.
    Interrupted,
}

/// What may still come behind the records that say where the agent stands: whoever reads a file
/// that may grow waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FollowUp {
    /// Nothing that the records speak of.
    #[default]
    Nothing,
    /// A line that confirms the end of the turn, or a hook's that sends the agent on.
    Confirmation,
    /// Whether the goal is met that it was given.
    Goal,
    /// The next prompt of the human who stopped it.
    Prompt,
    /// It is to be woken, so long after its last record.
    Wake(Duration),
}

impl StreamStatus {
    /// The word for it, as events write it.
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
