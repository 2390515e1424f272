//! Finds the row that a client names: on the board, or in a run that has ended.

use std::time::Duration;

use crate::api::FindObserver;
use crate::board::{ExecutionKind, Row, RowKey};
use crate::clock::Clock;
use crate::feed::ended_rows;
use crate::history::{DataDir, RunDirectory, RunKind, RunSummary};

/// Returns the row with an id.
pub(super) fn find_row(
    (find, clock): (&FindObserver, &Clock),
    data: &DataDir,
    id: &str,
) -> Option<Row> {
    let board = find().map(|observer| observer.board(None, Duration::ZERO));
    let rows = match board {
        Ok(Ok(Some((rows, _)))) => rows,
        Ok(Ok(None)) => Vec::new(),
        Ok(Err(error)) => {
            log::debug!("{error:?}");
            Vec::new()
        }
        Err(why) => {
            log::debug!("{why}");
            Vec::new()
        }
    };
    let mut rows = rows.into_iter();
    if let Some(row) = rows.find(|row| row.key().to_string() == id) {
        return Some(row);
    }
    let summary = match run_of(data, id)?.summary(clock.wall()) {
        Ok(summary) => summary?,
        Err(error) => {
            log::debug!("{error:?}");
            return None;
        }
    };
    let mut rows = ended_rows(&summary).into_iter();
    let ended = rows.find(|row| row.key().to_string() == id);
    ended.or_else(|| forgotten_row(&summary, id))
}

/// Returns the row of a pane or an agent that ended so long before its run that no board has it.
fn forgotten_row(run: &RunSummary, id: &str) -> Option<Row> {
    let part = id.strip_prefix(run.execution_id.as_str())?;
    let part = part.strip_prefix(':')?;
    let (name, kind) = match &run.kind {
        RunKind::Tmux | RunKind::Other(_) if part.starts_with('%') => {
            (run.label.as_str(), ExecutionKind::Pane)
        }
        RunKind::Agents => (part, ExecutionKind::Agent),
        _ => return None,
    };
    let key = RowKey {
        execution_id: run.execution_id.clone(),
        part: Some(part.to_owned()),
    };
    let mut row = Row::new(&key, name.to_owned(), kind, run.started);
    row.ended = true;
    Some(row)
}

/// Returns the run of a row: its id begins with that of the run, and a colon may follow.
fn run_of(data: &DataDir, id: &str) -> Option<RunDirectory> {
    let colons = id.match_indices(':').map(|(at, _)| at);
    // The id of a run may have colons, too.
    let ends = std::iter::once(id.len()).chain(colons.rev());
    let mut runs = ends.map(|end| data.run(&id[..end].into()));
    runs.find(RunDirectory::exists)
}
