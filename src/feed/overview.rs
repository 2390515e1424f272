//! What the history has of all runs: the states of their rows over time, and the rows of those that have ended.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::states::RunStates;
use super::summary::ended_rows;
use crate::board::bands::Timelines;
use crate::board::{Board, Row};
use crate::event::{EventKind, ExecutionId, TdEvent};
use crate::history::{DataDir, LogReader, Query, RunStatus, RunSummary};
use crate::timestamp::Timestamp;

/// The maximum number of ended runs to list.
const RUNS_MAX: usize = 1_000;

/// The events that change the state of a row.
const STATES: [EventKind; 14] = [
    EventKind::AgentState,
    EventKind::AgentRegistered,
    EventKind::AgentCompleted,
    EventKind::AgentFailed,
    EventKind::TurnCompleted,
    EventKind::SessionStarted,
    EventKind::SessionEnded,
    EventKind::PaneOpened,
    EventKind::PaneClosed,
    EventKind::ExecutionStarted,
    EventKind::ExecutionCompleted,
    EventKind::LoopStarted,
    EventKind::LoopCompleted,
    EventKind::Error,
];

/// Folds the states of all rows since a time, until now or until it is stopped.
#[cfg(feature = "tui")]
pub(crate) fn bands_since(
    data: &DataDir,
    span: (Timestamp, Timestamp),
    is_stopped: &dyn Fn() -> bool,
) -> Timelines {
    let mut history = HistoryBands::default();
    history.read(data, span, is_stopped);
    history.bands()
}

/// The states of all rows over time. It remembers what it has read of each run, so that reading again is cheap.
#[derive(Debug, Default)]
pub(crate) struct HistoryBands {
    runs: BTreeMap<ExecutionId, RunBands>,
}

/// The states of the rows of a run.
#[derive(Debug, Default)]
struct RunBands {
    /// The number of the last event that the log had, and the number and time of the last one that was read.
    events: u64,
    last: (u64, Timestamp),
    /// The states of the rows after it.
    states: RunStates,
    /// True for a run that has ended, whose rows do not change any more.
    has_ended: bool,
    /// The rows of a run that has ended.
    #[cfg(feature = "serve")]
    ended: Vec<Row>,
}

/// The time by which a later reading begins before the last event, because clocks are set back.
const OVERLAP_MICROS: i64 = 60_000_000;

impl HistoryBands {
    /// Reads what the logs have of a span, and was not read before, until it is stopped. Later spans must not begin
    /// earlier.
    pub fn read(
        &mut self,
        data: &DataDir,
        (since, now): (Timestamp, Timestamp),
        is_stopped: &dyn Fn() -> bool,
    ) {
        let Ok(list) = data.runs_unless_cancelled(now, is_stopped) else {
            return;
        };
        if is_stopped() {
            return;
        }
        let mut known = std::mem::take(&mut self.runs);
        for run in list.runs {
            let mut bands = known.remove(&run.execution_id).unwrap_or_default();
            if run.last_event >= since && !is_stopped() {
                bands.read(&run, since);
            }
            self.runs.insert(run.execution_id, bands);
        }
    }

    /// Returns the states of all rows.
    pub fn bands(&self) -> Timelines {
        let runs = self.runs.values().flat_map(|run| &run.states.timelines);
        runs.map(|(key, bands)| (key.clone(), bands.clone()))
            .collect()
    }

    /// Returns the rows of the runs that have ended since a time, the latest first.
    #[cfg(feature = "serve")]
    pub fn ended_since(&self, since: Timestamp) -> Vec<Row> {
        let rows = self.runs.values().flat_map(|run| &run.ended);
        let mut rows: Vec<Row> = rows.filter(|row| row.since >= since).cloned().collect();
        rows.sort_by_key(|row| Reverse(row.since));
        rows
    }
}

impl RunBands {
    fn read(&mut self, run: &RunSummary, since: Timestamp) {
        let is_running = run.state == RunStatus::Running;
        if self.events == run.events && is_running != self.has_ended {
            return;
        }
        if self.has_ended {
            *self = Self::default();
        }
        let overlap = Timestamp::from_micros(self.last.1.micros().saturating_sub(OVERLAP_MICROS));
        let query = Query::all().since(since.max(overlap));
        let query = (STATES.iter()).fold(query, |query, kind| query.kind(kind.as_str()));
        let query = query.headers();
        match LogReader::open(&run.directory, query) {
            Ok(log) => {
                for record in log {
                    let envelope = record.envelope;
                    let number = match &envelope.event {
                        TdEvent::LogOpened { first_seq, .. } => Some(*first_seq),
                        _ => envelope.seq,
                    };
                    if number.is_some_and(|number| number <= self.last.0) {
                        continue;
                    }
                    if record.is_wanted {
                        self.last = (envelope.seq.unwrap_or(self.last.0), envelope.ts);
                    }
                    self.states
                        .apply(&envelope, &mut |seq| run.directory.last_before(seq));
                }
            }
            Err(error) => log::debug!("{error:?}"),
        }
        self.events = run.events;
        self.has_ended = !is_running;
        if self.has_ended {
            self.states.board = Board::default();
            #[cfg(feature = "serve")]
            {
                self.ended = ended_rows(run);
            }
        }
    }
}

/// Returns the rows of the runs that have ended, the latest first.
pub(crate) fn latest_ended(
    data: &DataDir,
    now: Timestamp,
    is_stopped: &dyn Fn() -> bool,
) -> Vec<Row> {
    let mut runs = match data.runs_unless_cancelled(now, is_stopped) {
        Ok(list) => list.runs,
        Err(error) => {
            log::debug!("{error:?}");
            return Vec::new();
        }
    };
    runs.retain(|run| run.state != RunStatus::Running);
    runs.sort_by_key(|run| Reverse(run.last_event));
    let rows = runs.iter().take(RUNS_MAX).flat_map(ended_rows);
    rows.take(RUNS_MAX).collect()
}
