//! The activity of rows over time, as bands of a timeline (pure).

use std::collections::HashMap;

use serde::Serialize;

use super::row::{Attention, Row, RowKey, RowState};
use crate::event::AgentState;
use crate::timestamp::Timestamp;

/// The maximum number of changes to keep for a row. A busy agent has some hundred a day.
const CHANGES_MAX: usize = 5_000;

/// The activity of a row from a time on, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Band {
    Waiting,
    Error,
    Limited,
    Suspended,
    Done,
    Working,
    Running,
    Idle,
    Ended,
}

impl Band {
    /// Every activity.
    #[cfg(feature = "tui")]
    pub const ALL: [Self; 9] = [
        Self::Waiting,
        Self::Error,
        Self::Limited,
        Self::Suspended,
        Self::Done,
        Self::Working,
        Self::Running,
        Self::Idle,
        Self::Ended,
    ];

    pub fn of(row: &Row) -> Self {
        match (row.attention(), &row.state) {
            (_, RowState::Exited) => Self::Ended,
            (Attention::NeedsYou, RowState::Agent(state)) => match state.known() {
                Some(AgentState::Error) => Self::Error,
                Some(AgentState::Limited) => Self::Limited,
                Some(AgentState::Suspended) => Self::Suspended,
                _ => Self::Waiting,
            },
            (Attention::NeedsYou, _) | (Attention::Finished, RowState::Failed) => Self::Error,
            (_, RowState::Running) => Self::Running,
            (Attention::Working, _) => Self::Working,
            (Attention::Finished, _) => Self::Done,
            (Attention::Quiet, RowState::Agent(state)) if state.as_str() == "done" => Self::Done,
            (Attention::Quiet, _) => Self::Idle,
        }
    }
}

/// The changes of rows over time.
pub(crate) type Bands = HashMap<RowKey, Vec<(Timestamp, Band)>>;

/// Records the state of a row at a time.
pub(crate) fn note(bands: &mut Bands, row: &Row, at: Timestamp) {
    push(bands.entry(row.key()).or_default(), at, Band::of(row));
}

/// Adds a state from a time on, unless it is the last one or older than it.
pub(crate) fn push(changes: &mut Vec<(Timestamp, Band)>, ts: Timestamp, band: Band) {
    if let Some((last, known)) = changes.last_mut() {
        if *known == band || ts < *last {
            return;
        }
        if *last == ts {
            *known = band;
            return;
        }
    }
    if changes.len() >= CHANGES_MAX {
        changes.drain(..CHANGES_MAX / 2);
    }
    changes.push((ts, band));
}
