//! The urgency with which a row asks for the user.

use std::fmt;

use serde::Serialize;

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
