//! The timeline: the activity of rows over time, as bands, which the terminal UI, the page and the report share (pure).

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::row::{Row, RowKey};
use super::state::{Attention, RowState};
use crate::event::AgentState;
use crate::timestamp::Timestamp;

/// The maximum number of changes to keep for a row. A busy agent has some hundred a day.
const CHANGES_MAX: usize = 5_000;

/// The activity of a row from a time on, the most urgent first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Band {
    Waiting,
    Error,
    Limited,
    Suspended,
    Done,
    Working,
    Running,
    Idle,
    /// It runs, and the state of the agent in it is not recognised.
    #[default]
    Unknown,
    /// Nothing observes it.
    NotObserved,
    Ended,
}

impl Band {
    /// Every activity.
    #[cfg(any(feature = "report", feature = "tui"))]
    pub const ALL: [Self; 11] = [
        Self::Waiting,
        Self::Error,
        Self::Limited,
        Self::Suspended,
        Self::Done,
        Self::Working,
        Self::Running,
        Self::Idle,
        Self::Unknown,
        Self::NotObserved,
        Self::Ended,
    ];

    /// Returns the activity that a row shows.
    pub fn of(row: &Row) -> Self {
        if row.has_ended() {
            return Self::Ended;
        }
        match &row.state {
            RowState::Agent(state) => match state.known() {
                Some(AgentState::Waiting) => Self::Waiting,
                Some(AgentState::Error) => Self::Error,
                Some(AgentState::Limited) => Self::Limited,
                Some(AgentState::Suspended) => Self::Suspended,
                Some(AgentState::Done) => Self::Done,
                Some(AgentState::Working) => Self::Working,
                Some(AgentState::Idle) => Self::Idle,
                Some(AgentState::Unknown) | None => Self::Unknown,
            },
            RowState::Running => Self::Running,
            RowState::Quiet => Self::Idle,
            RowState::NotObserved | RowState::Connecting | RowState::Unreachable => {
                Self::NotObserved
            }
            RowState::Failed if row.attention() == Attention::Quiet => Self::Idle,
            RowState::Failed => Self::Error,
            RowState::Exited => Self::Ended,
        }
    }

    /// Returns the name, as JSON has it.
    #[cfg(any(feature = "report", feature = "tui"))]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Error => "error",
            Self::Limited => "limited",
            Self::Suspended => "suspended",
            Self::Done => "done",
            Self::Working => "working",
            Self::Running => "running",
            Self::Unknown => "unknown",
            Self::Idle => "idle",
            Self::NotObserved => "not_observed",
            Self::Ended => "ended",
        }
    }
}

#[cfg(any(feature = "report", feature = "tui"))]
impl Band {
    /// Returns the symbol of one column, which shows the activity without colours.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Waiting => "!",
            Self::Error => "x",
            Self::Limited => "%",
            Self::Suspended => "z",
            Self::Done => "✓",
            Self::Working => "█",
            Self::Running => "▒",
            Self::Unknown => "?",
            Self::Idle => "·",
            Self::NotObserved => "-",
            Self::Ended => " ",
        }
    }

    /// Returns the word of a legend; empty for what has ended, of which nothing is drawn.
    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waits",
            Self::Working => "works",
            Self::Running => "runs",
            Self::NotObserved => "not observed",
            Self::Ended => "",
            other => other.as_str(),
        }
    }
}

/// The activity of one row over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timeline {
    /// Each activity lasts until the next one.
    changes: Vec<(Timestamp, Band)>,
}

/// An activity and its time.
#[cfg(feature = "report")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BandSpan {
    pub band: Band,
    pub from: Timestamp,
    pub until: Timestamp,
}

impl Timeline {
    /// Adds the activity of the row from a time on.
    pub fn note(&mut self, row: &Row, at: Timestamp) {
        self.push(at, Band::of(row));
    }

    /// Adds an activity from a time on, unless it is the last one or older than it.
    pub fn push(&mut self, ts: Timestamp, band: Band) {
        let changes = &mut self.changes;
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

    /// Adds the activities of a later timeline.
    #[cfg(feature = "tui")]
    pub fn extend(&mut self, later: Self) {
        for (ts, band) in later.changes {
            self.push(ts, band);
        }
    }

    /// Returns the present activity, and the time at which it began.
    pub fn last(&self) -> Option<(Timestamp, Band)> {
        self.changes.last().copied()
    }

    /// Returns the activity before a time, and the time at which it began.
    #[cfg(feature = "report")]
    pub fn last_before(&self, until: Timestamp) -> Option<(Timestamp, Band)> {
        let begun = self.changes.partition_point(|(ts, _)| *ts < until);
        self.changes[..begun].last().copied()
    }

    /// Returns the activities within a span. The one at its start begins there, unless the row had ended.
    #[cfg(any(feature = "report", feature = "serve"))]
    pub fn within(&self, from: Timestamp, until: Timestamp) -> Vec<(Timestamp, Band)> {
        let begun = self.changes.partition_point(|(ts, _)| *ts <= from);
        let first = begun
            .checked_sub(1)
            .map(|at| (from, self.changes[at].1))
            // A row that ended before the span is not in it.
            .filter(|(_, band)| *band != Band::Ended || begun < self.changes.len());
        let later = self.changes[begun..].iter().copied();
        first
            .into_iter()
            .chain(later.take_while(|(ts, _)| *ts <= until))
            .collect()
    }

    /// Returns the activities within a span, each with its end, without what has ended.
    #[cfg(feature = "report")]
    pub fn spans(&self, from: Timestamp, until: Timestamp) -> Vec<BandSpan> {
        let within = self.within(from, until);
        let ends = within.iter().skip(1).map(|(ts, _)| *ts).chain([until]);
        let spans = within
            .iter()
            .zip(ends)
            .map(|(&(from, band), until)| BandSpan { band, from, until });
        spans
            .filter(|span| span.band != Band::Ended && span.from < span.until)
            .collect()
    }

    /// Returns the activities in cells of equal duration within a span; `None` before the first one. A cell shows the
    /// activity that takes most of it: of a whole night, each cell has some urgent moment.
    #[cfg(feature = "report")]
    pub fn main_cells(
        &self,
        from: Timestamp,
        until: Timestamp,
        columns: usize,
    ) -> Vec<Option<Band>> {
        let spans = self.spans(from, until);
        let mut spans = spans.iter().peekable();
        let columns = i64::try_from(columns).unwrap_or(i64::MAX).max(1);
        let length = until.micros().saturating_sub(from.micros());
        let edge = |cell: i64| from.micros().saturating_add(length / columns * cell);
        let cells = (1..=columns).map(|cell| {
            let end = if cell == columns {
                until.micros()
            } else {
                edge(cell)
            };
            let start = edge(cell - 1);
            let mut times: Vec<(Band, i64)> = Vec::new();
            while let Some(span) = spans.peek().filter(|span| span.from.micros() < end) {
                let time = span.until.micros().min(end) - span.from.micros().max(start);
                match times.iter_mut().find(|(band, _)| *band == span.band) {
                    Some((_, known)) => *known += time,
                    None => times.push((span.band, time)),
                }
                if span.until.micros() > end {
                    break;
                }
                spans.next();
            }
            // Of equal times, the most urgent one.
            let longest = times
                .iter()
                .max_by_key(|(band, time)| (*time, std::cmp::Reverse(*band)));
            longest.map(|(band, _)| *band)
        });
        cells.collect()
    }

    /// Returns the activities in cells of equal duration within a span; `None` before the first one. A cell shows its
    /// most urgent activity.
    #[cfg(feature = "tui")]
    pub fn cells(&self, from: Timestamp, until: Timestamp, columns: usize) -> Vec<Option<Band>> {
        let changes = &self.changes;
        let (start, end) = (from.micros(), until.micros());
        let span = end.saturating_sub(start);
        let columns_wide = i64::try_from(columns).unwrap_or(i64::MAX).max(1);
        let edge = |cell: i64| start.saturating_add(span / columns_wide * cell);
        let mut at = changes.partition_point(|(ts, _)| ts.micros() <= start);
        let mut current = at.checked_sub(1).map(|at| changes[at].1);
        let mut cells = Vec::with_capacity(columns);
        for cell in 1..=columns_wide {
            let mut shown = current;
            let until = if cell == columns_wide {
                end
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

/// The timelines of rows.
pub(crate) type Timelines = HashMap<RowKey, Timeline>;

#[cfg(all(test, feature = "tui", feature = "report"))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn timeline(changes: &[(i64, Band)]) -> Timeline {
        let mut timeline = Timeline::default();
        for (second, band) in changes {
            timeline.push(at(*second), *band);
        }
        timeline
    }

    #[test]
    fn cells_show_the_most_urgent_state() {
        let timeline = timeline(&[
            (970, Band::Working),
            (985, Band::Waiting),
            (986, Band::Working),
            (995, Band::Done),
        ]);
        assert_eq!(
            timeline.cells(at(940), at(1000), 6),
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

    #[test]
    fn main_cells_show_the_state_that_takes_most_of_them() {
        let timeline = timeline(&[
            (970, Band::Working),
            (985, Band::Waiting),
            (986, Band::Working),
            (996, Band::Ended),
        ]);
        assert_eq!(
            timeline.main_cells(at(940), at(1000), 6),
            [
                None,
                None,
                None,
                Some(Band::Working),
                Some(Band::Working),
                Some(Band::Working),
            ]
        );
    }

    #[test]
    fn a_row_that_ended_before_the_span_is_not_in_it() {
        let timeline = timeline(&[(10, Band::Working), (20, Band::Ended)]);
        assert_eq!(timeline.within(at(30), at(40)), []);
        assert_eq!(timeline.spans(at(30), at(40)), []);
        let [span] = timeline.spans(at(15), at(40))[..] else {
            panic!("one activity");
        };
        assert_eq!(
            (span.band, span.from, span.until),
            (Band::Working, at(15), at(20))
        );
    }

    proptest! {
        #[test]
        fn spans_follow_one_another_and_stay_within(
            steps in prop::collection::vec((0i64..50, 0usize..Band::ALL.len()), 0..40),
            from in 0i64..500,
            length in 1i64..500,
        ) {
            let mut timeline = Timeline::default();
            let mut now = 0;
            for (step, band) in steps {
                now += step;
                timeline.push(at(now), Band::ALL[band]);
            }
            let spans = timeline.spans(at(from), at(from + length));
            for span in &spans {
                prop_assert!(at(from) <= span.from && span.from < span.until && span.until <= at(from + length));
            }
            for pair in spans.windows(2) {
                prop_assert!(pair[0].until <= pair[1].from);
            }
        }
    }
}
