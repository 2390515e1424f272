//! The output of a tracker: settled lines, revisions, screens and gaps (pure).

pub use crate::event::GapReason;
use crate::event::{Cursor, GapEvidence, ScreenRow};

/// The meaning of a gap: why lines may be missing, and how certain the loss is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    pub reason: GapReason,
    pub evidence: GapEvidence,
}

impl Loss {
    /// Lines or bytes are unaccounted for.
    pub fn confirmed(reason: GapReason) -> Self {
        let evidence = GapEvidence::Confirmed;
        Self { reason, evidence }
    }

    /// Nothing points to a loss, and nothing excludes it.
    pub fn possible(reason: GapReason) -> Self {
        let evidence = GapEvidence::Possible;
        Self { reason, evidence }
    }
}

/// One thing that a capture at a pane brought to light.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Settled lines, each ended by `\n`, the first of them numbered.
    Lines {
        /// The number of the first line.
        first_line: i64,
        /// The lines.
        chunk: String,
    },
    /// A line reads differently now.
    Revised {
        /// Its number.
        line: i64,
        /// The present text; empty where its row has vanished.
        text: String,
    },
    /// Rows of a full-screen program's screen that changed.
    Screen {
        /// Columns.
        width: u32,
        /// Rows.
        height: u32,
        /// Where its cursor stands.
        cursor: Cursor,
        rows: Vec<ScreenRow>,
    },
    /// Lines are missing before `first_line`.
    Gap {
        /// The number that the first missing line would have, or, where their count is not known,
        /// the number of the line that follows.
        first_line: i64,
        /// Number of are missing, where that is known.
        lost_lines: Option<u64>,
        /// Why.
        reason: GapReason,
        /// The certainty of the loss.
        evidence: GapEvidence,
    },
}
