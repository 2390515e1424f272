//! Holds the states of all rows over time, and the span of time that is shown (pure).

use crate::board::bands::{Band, Timelines};
use crate::board::{Row, RowKey};
use crate::timestamp::Timestamp;

/// The selectable spans, in seconds.
const SPANS: [i64; 8] = [
    60,
    300,
    900,
    3600,
    4 * 3600,
    12 * 3600,
    24 * 3600,
    7 * 24 * 3600,
];

/// States over time.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    changes: Timelines,
    /// The index of the current span.
    span: usize,
    /// True if the history has been read.
    pub is_loaded: bool,
    pub is_loading: bool,
}

impl Timeline {
    pub fn new() -> Self {
        Self {
            span: 3,
            ..Self::default()
        }
    }

    pub fn note(&mut self, row: &Row) {
        let timeline = self.changes.entry(row.key()).or_default();
        timeline.note(row, row.since);
    }

    /// Adds states from the history before the known ones.
    pub fn add_history(&mut self, history: Timelines) {
        self.is_loaded = true;
        self.is_loading = false;
        for (key, mut timeline) in history {
            timeline.extend(self.changes.remove(&key).unwrap_or_default());
            self.changes.insert(key, timeline);
        }
    }

    /// Returns the current span, in microseconds.
    pub fn span_micros(&self) -> i64 {
        SPANS[self.span] * 1_000_000
    }

    /// Returns the start of the longest span, since which the history is read.
    pub fn start(now: Timestamp) -> Timestamp {
        let longest = SPANS[SPANS.len() - 1] * 1_000_000;
        Timestamp::from_micros(now.micros().saturating_sub(longest))
    }

    /// Selects a longer or a shorter span.
    pub fn zoom(&mut self, is_longer: bool) {
        self.span = if is_longer {
            (self.span + 1).min(SPANS.len() - 1)
        } else {
            self.span.saturating_sub(1)
        };
    }

    /// Returns the bands of a row in cells of equal duration up to `end`; `None` before its first state. A
    /// cell shows its most urgent state.
    pub fn cells(&self, key: &RowKey, end: Timestamp, columns: usize) -> Vec<Option<Band>> {
        let start = Timestamp::from_micros(end.micros().saturating_sub(self.span_micros()));
        let timeline = self.changes.get(key);
        timeline.map_or_else(
            || vec![None; columns.max(1)],
            |timeline| timeline.cells(start, end, columns),
        )
    }
}
