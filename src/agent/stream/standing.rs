//! Where an agent stands, as far as what it wrote says (pure).

/// Where the agent of a stream stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
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

impl Standing {
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
