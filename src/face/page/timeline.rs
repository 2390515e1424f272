//! The states of all rows over time.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use serde::Serialize;

use super::params::invalid;
use super::source::PageSource;
use crate::api::Response;
use crate::board::bands::Band;
use crate::event::ExecutionId;
use crate::feed::HistoryBands;
use crate::thread::lock;
use crate::timestamp::Timestamp;

/// The shortest and the longest span, in seconds: a minute and a week.
const SPAN_MIN: u64 = 60;
const SPAN_MAX: u64 = 7 * 24 * 3600;

/// What the timeline has read so far; requests take turns.
pub(super) type Bands = Mutex<HistoryBands>;

/// The timeline.
#[derive(Debug, Serialize)]
pub(super) struct Timeline {
    from: Timestamp,
    until: Timestamp,
    /// The rows of the board in their order, then those of runs that have ended, the latest first.
    rows: Vec<RowBands>,
}

/// The states of a row.
#[derive(Debug, Serialize)]
struct RowBands {
    id: String,
    name: String,
    #[serde(rename = "ended")]
    has_ended: bool,
    /// Each state lasts until the next one.
    bands: Vec<(Timestamp, Band)>,
}

impl PageSource {
    /// Returns the states within the last seconds.
    pub(super) fn timeline(
        &self,
        span: u64,
        known: &Bands,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Timeline, Response> {
        if !(SPAN_MIN..=SPAN_MAX).contains(&span) {
            let why = format!("span: give seconds from {SPAN_MIN} to {SPAN_MAX}");
            return Err(invalid(why));
        }
        let until = self.clock.wall();
        let micros = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX) * 1_000_000;
        let ago = |seconds| Timestamp::from_micros(until.micros().saturating_sub(micros(seconds)));
        let from = ago(span);
        let (history, ended) = {
            let mut known = lock(known);
            known.read(&self.data, (ago(SPAN_MAX), until), is_over);
            (known.bands(), known.ended_since(from))
        };
        let board = (self.find)().and_then(|observer| {
            let board = observer.board(None, Duration::ZERO);
            board.map_err(|error| format!("{error:?}"))
        });
        let board = board.unwrap_or_else(|why| {
            log::debug!("{why}");
            None
        });
        let board = board.map_or_else(Vec::new, |(rows, _)| rows);
        let known: BTreeSet<&ExecutionId> = board.iter().map(|row| &row.execution_id).collect();
        let ended = ended
            .iter()
            .filter(|row| !known.contains(&row.execution_id));
        let mut rows = Vec::new();
        for row in board.iter().chain(ended) {
            let key = row.key();
            let mut timeline = history.get(&key).cloned().unwrap_or_default();
            timeline.note(row, row.since);
            let bands = timeline.within(from, until);
            // A row of the board that ended before the span is not in it.
            if !row.has_ended() || !bands.is_empty() {
                rows.push(RowBands {
                    id: key.to_string(),
                    has_ended: row.has_ended(),
                    name: row.name.clone(),
                    bands,
                });
            }
        }
        Ok(Timeline { from, until, rows })
    }
}
