//! What the history has of all runs: the states of their rows over time, and the rows of those that have ended.

use std::cmp::Reverse;

use super::summary::ended_rows;
use crate::board::bands::{Bands, note};
use crate::board::{Board, Row};
use crate::event::EventKind;
use crate::history::{DataDir, LogReader, Query, RunStatus};
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
pub(crate) fn bands_since(
    data: &DataDir,
    (since, now): (Timestamp, Timestamp),
    is_stopped: &dyn Fn() -> bool,
) -> Bands {
    let mut history = Bands::default();
    let Ok(list) = data.runs(now) else {
        return history;
    };
    let query = Query::all().since(since);
    let query = (STATES.iter()).fold(query, |query, kind| query.kind(kind.as_str()));
    for run in list.runs {
        if is_stopped() {
            break;
        }
        let log = match LogReader::open(&run.directory, query.clone()) {
            Ok(log) => log,
            Err(error) => {
                log::debug!("{error:?}");
                continue;
            }
        };
        let mut board = Board::default();
        for record in log {
            let envelope = record.envelope;
            for key in board.apply(&envelope) {
                if let Some(row) = board.row(&key) {
                    note(&mut history, row, envelope.ts);
                }
            }
        }
    }
    history
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
