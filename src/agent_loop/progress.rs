//! The progress of a loop, and its outcome (pure).

use super::prompt::PreviousFailure;

/// The progress of a loop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The current phase, from 0.
    pub(crate) phase: usize,
    /// The number of iterations that have begun.
    pub(crate) iteration: u32,
    /// The number of iterations that have begun in this phase.
    pub(crate) in_phase: u32,
    /// The failure of the previous iteration, which the next prompt describes.
    pub(crate) previous_failure: Option<PreviousFailure>,
    /// True if the previous iteration changed no file.
    pub(crate) unchanged: bool,
    /// True if the log already contains the `LoopStarted` of this loop.
    pub(crate) is_resumed: bool,
}

impl Progress {
    /// Returns the progress at the beginning of the next phase.
    pub(super) fn next_phase(&self) -> Self {
        Self {
            phase: self.phase + 1,
            iteration: self.iteration,
            ..Self::default()
        }
    }
}

/// The outcome of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoopOutcome {
    /// True if all checks have passed.
    pub success: bool,
    /// The number of iterations.
    pub iterations: u32,
    /// The reason why the loop ended.
    pub end: LoopEnd,
}

/// The reason why a loop ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoopEnd {
    /// All checks have passed.
    Passed,
    /// The maximum number of iterations was reached.
    MaxIterations,
    /// The loop's timeout passed.
    Timeout,
    /// The loop was cancelled.
    Cancelled,
    /// The loop cannot continue, for this reason.
    Failed(String),
}

impl LoopEnd {
    /// Returns the reason in words, for people.
    #[must_use]
    pub fn words(&self) -> &str {
        match self {
            Self::Passed => "all checks have passed",
            Self::MaxIterations => "the maximum number of iterations is reached",
            Self::Timeout => "the time limit is reached",
            Self::Cancelled => "cancelled",
            Self::Failed(why) => why,
        }
    }
}
