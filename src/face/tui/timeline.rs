//! Holds the states of all rows over time, and the span of time that is shown (pure).

use crate::board::bands::{Band, Bands, note, push};
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
    changes: Bands,
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
        note(&mut self.changes, row, row.since);
    }

    /// Adds states from the history before the known ones.
    pub fn add_history(&mut self, history: Bands) {
        self.is_loaded = true;
        self.is_loading = false;
        for (key, mut changes) in history {
            for (ts, band) in self.changes.remove(&key).unwrap_or_default() {
                push(&mut changes, ts, band);
            }
            self.changes.insert(key, changes);
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
        let changes = self.changes.get(key).map_or(&[][..], Vec::as_slice);
        let span = self.span_micros();
        let start = end.micros().saturating_sub(span);
        let columns_wide = i64::try_from(columns).unwrap_or(i64::MAX).max(1);
        let edge = |cell: i64| start.saturating_add(span / columns_wide * cell);
        let mut at = changes.partition_point(|(ts, _)| ts.micros() <= start);
        let mut current = at.checked_sub(1).map(|at| changes[at].1);
        let mut cells = Vec::with_capacity(columns);
        for cell in 1..=columns_wide {
            let mut shown = current;
            let until = if cell == columns_wide {
                end.micros()
            } else {
                edge(cell)
            };
            while let Some((_, band)) = changes.get(at).filter(|(ts, _)| ts.micros() <= until) {
                current = Some(*band);
                shown = Some(shown.map_or(*band, |shown| shown.min(*band)));
                at += 1;
            }
            cells.push(shown);
        }
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    #[test]
    fn cells_show_the_most_urgent_state() {
        let key = RowKey {
            execution_id: "a".into(),
            part: None,
        };
        let mut timeline = Timeline::new();
        while timeline.span_micros() > 60_000_000 {
            timeline.zoom(false);
        }
        let changes = vec![
            (at(970), Band::Working),
            (at(985), Band::Waiting),
            (at(986), Band::Working),
            (at(995), Band::Done),
        ];
        timeline.add_history([(key.clone(), changes)].into());
        let cells = timeline.cells(&key, at(1000), 6);
        assert_eq!(
            cells,
            [
                None,
                None,
                Some(Band::Working),
                Some(Band::Working),
                Some(Band::Waiting),
                Some(Band::Done)
            ]
        );
    }
}
