//! The output of a tracker: settled lines, revisions, screens and gaps (pure).

pub use crate::event::GapReason;
use crate::event::{Cursor, GapEvidence, ScreenRow};

/// The reason of a gap, and the certainty of the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    pub reason: GapReason,
    pub evidence: GapEvidence,
}

impl Loss {
    /// Creates a loss of lines or bytes that are unaccounted for.
    pub fn confirmed(reason: GapReason) -> Self {
        let evidence = GapEvidence::Confirmed;
        Self { reason, evidence }
    }

    /// Creates a loss that nothing proves and nothing excludes.
    pub fn possible(reason: GapReason) -> Self {
        let evidence = GapEvidence::Possible;
        Self { reason, evidence }
    }
}

/// A change of a pane that a capture or its bytes revealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Settled lines with consecutive numbers.
    Lines {
        /// The number of the first line.
        first_line: i64,
        /// The lines, each ended by `\n`.
        chunk: String,
    },
    /// The text of a line has changed.
    Revised {
        /// Its number.
        line: i64,
        /// The present text; empty where its row has vanished.
        text: String,
    },
    /// Rows on the screen of a full-screen program have changed.
    Screen {
        /// Columns.
        width: u32,
        /// Rows.
        height: u32,
        /// The position of its cursor.
        cursor: Cursor,
        /// The changed rows.
        rows: Vec<ScreenRow>,
    },
    /// Lines are missing before `first_line`.
    Gap {
        /// The number of the first missing line or, if their count is not known, of the line after the
        /// gap.
        first_line: i64,
        /// The number of missing lines, if it is known.
        lost_lines: Option<u64>,
        /// The reason of the gap.
        reason: GapReason,
        /// The certainty of the loss.
        evidence: GapEvidence,
    },
}
