//! Summaries of runs: the rows of the board in a run's metadata, so that an observer can start without
//! reading the logs.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::memory::Summary;
use super::others::is_stopped;
use super::position::Numbers;
#[cfg(feature = "report")]
use super::states::RunStates;
use super::survivors::Survivors;
use crate::agent::StateRules;
#[cfg(feature = "report")]
use crate::board::bands::Band;
use crate::board::{Board, ENDED_AGE_MAX, Fate, Row};
#[cfg(any(feature = "mcp", feature = "serve", feature = "tui"))]
use crate::board::{ExecutionKind, RowKey};
use crate::clock::Clock;
use crate::error::Result;
use crate::history::{DataDir, RunDirectory, RunMetadata, RunStatus, RunSummary, host};

/// The field of the summary in a run's metadata.
const FIELD: &str = "board";

/// Returns the metadata of a summary: the rows, the number of the last event in them, and the offset of the
/// later events in the newest file.
pub(crate) fn summary_of(data: &DataDir, summary: &Summary) -> Map<String, Value> {
    let run = data.run(&summary.execution_id);
    let offset = run.offset_after(summary.seq).ok();
    let value = json!({"seq": summary.seq, "offset": offset, "rows": summary.rows});
    Map::from_iter([(FIELD.to_owned(), value)])
}

/// Builds the board from each run's summary and the events after it. What a run's own process ran, such as a command
/// or a loop, has ended with it; panes that are still there and background agents go on. Returns the board, and the number of the
/// last event of each run.
///
/// # Errors
/// If the runs cannot be listed. A run that cannot be read is logged and omitted.
pub(crate) fn board_of_history(
    data: &DataDir,
    rules: StateRules,
    clock: &Clock,
) -> Result<(Board, Numbers)> {
    fill_board((Board::new(rules), false), data, clock)
}

/// Builds the board of copies, the ids of whose runs begin with their hosts, as [`board_of_history`] does.
///
/// # Errors
/// The same as those of [`board_of_history`].
#[cfg(feature = "redis")]
pub(crate) fn board_of_copies(
    data: &DataDir,
    rules: StateRules,
    clock: &Clock,
) -> Result<(Board, Numbers)> {
    fill_board((Board::new(rules).with_hosts(), true), data, clock)
}

fn fill_board(
    (mut board, are_copies): (Board, bool),
    data: &DataDir,
    clock: &Clock,
) -> Result<(Board, Numbers)> {
    let now = clock.wall();
    let mut survivors = Survivors::new(clock.clone());
    let mut numbers = Numbers::new();
    let age_max = i64::try_from(ENDED_AGE_MAX.as_micros()).unwrap_or(i64::MAX);
    let list = data.runs(now)?;
    for problem in &list.problems {
        log::warn!("{problem:?}");
    }
    for run in list.runs {
        let is_recent = now.micros().saturating_sub(run.last_event.micros()) <= age_max;
        if !is_recent && run.state != RunStatus::Running {
            // An old run gets a row only if its execution continues.
            numbers.insert(run.execution_id, run.events);
            continue;
        }
        let metadata = run.directory.metadata().unwrap_or_default();
        match add_run(&mut board, &run.directory, metadata.as_ref()) {
            Ok(seq) => {
                let goes_on =
                    are_copies && metadata.as_ref().is_some_and(RunMetadata::is_open_copy);
                if goes_on {
                    // Whoever copied it may have ended, which says nothing of the run.
                } else if run.state != RunStatus::Running {
                    let survivors = survivors.of(metadata.as_ref());
                    end(&mut board, &run, |row| survivors.fate(row));
                } else if let Some(writer) = metadata.as_ref().filter(|of| of.host == host()) {
                    let is_suspended = is_stopped(writer.pid);
                    board.set_suspended(&run.execution_id, is_suspended, run.last_event);
                }
                numbers.insert(run.execution_id, seq.max(run.events));
            }
            Err(error) => log::warn!("{error:?}"),
        }
    }
    board.tell_ends();
    board.tick(now);
    Ok((board, numbers))
}

/// Adds a run to the board; returns the number of its last event.
fn add_run(board: &mut Board, run: &RunDirectory, metadata: Option<&RunMetadata>) -> Result<u64> {
    if let Some(identity) = metadata.and_then(|of| of.identity.as_ref()) {
        board.set_server(run.execution_id(), &identity.socket);
    }
    let stored = metadata.and_then(|of| of.extra.get(FIELD));
    let rows = stored.and_then(rows_of);
    let number = |name: &str| stored.and_then(|stored| stored.get(name)?.as_u64());
    let (mut seq, offset) = match (rows, number("seq")) {
        (Some(rows), Some(seq)) => {
            for row in rows {
                board.restore(row);
            }
            (seq, number("offset"))
        }
        _ => (0, None),
    };
    run.for_each_after(seq, offset, &mut |envelope| {
        board.apply(envelope);
        seq = envelope.seq.unwrap_or(seq);
    })?;
    board.set_place(run.execution_id(), metadata.and_then(RunMetadata::in_pane));
    Ok(seq)
}

/// Ends the rows of a run that nothing writes, or marks those that go on.
fn end(board: &mut Board, run: &RunSummary, fate: impl Fn(&Row) -> Fate) {
    let is_cut_off = run.state == RunStatus::CutOff;
    board.end(
        &run.execution_id,
        run.exit_status,
        is_cut_off,
        run.last_event,
        fate,
    );
}

/// Ends what nothing writes any more, as the board of the history does.
#[cfg(feature = "report")]
#[derive(Debug)]
pub(crate) struct RunEnds {
    survivors: Survivors,
}

#[cfg(feature = "report")]
impl RunEnds {
    pub fn new(clock: &Clock) -> Self {
        Self {
            survivors: Survivors::new(clock.clone()),
        }
    }

    /// Ends the rows of a run, or marks those that go on; a run that has a writer goes on.
    pub fn apply(&mut self, states: &mut RunStates, run: &RunSummary) {
        if run.state == RunStatus::Running {
            return;
        }
        let metadata = run.directory.metadata().unwrap_or_default();
        let survivors = self.survivors.of(metadata.as_ref());
        end(&mut states.board, run, |row| survivors.fate(row));
        let rows = states.board.rows_of(&run.execution_id);
        for row in rows.filter(|row| matches!(Band::of(row), Band::Ended | Band::NotObserved)) {
            let timeline = states.timelines.entry(row.key()).or_default();
            timeline.note(row, run.last_event);
        }
    }
}

/// Returns the rows of an ended run from its metadata, without reading its log.
#[cfg(any(feature = "mcp", feature = "serve", feature = "tui"))]
pub(crate) fn ended_rows(run: &RunSummary) -> Vec<Row> {
    let mut board = Board::default();
    // A run gets a row even if its metadata cannot be read.
    let metadata = run.directory.metadata().unwrap_or_default();
    let stored = metadata.as_ref().and_then(|of| of.extra.get(FIELD));
    for row in stored.and_then(rows_of).unwrap_or_default() {
        board.restore(row);
    }
    if board.rows_of(&run.execution_id).next().is_none() {
        let key = RowKey {
            execution_id: run.execution_id.clone(),
            part: None,
        };
        let name = match run.label.as_str() {
            "" => run.execution_id.to_string(),
            label => label.to_owned(),
        };
        let kind = match run.kind.as_str() {
            "tmux" => ExecutionKind::Pane,
            "loop" => ExecutionKind::Loop,
            _ => ExecutionKind::Command,
        };
        board.restore(Row::new(&key, name, kind, run.started));
    }
    end(&mut board, run, |_| Fate::Ended);
    board.rows_of(&run.execution_id).cloned().collect()
}

/// Parses the rows of a summary; `None` if one is damaged or of a later version.
fn rows_of(stored: &Value) -> Option<Vec<Row>> {
    Deserialize::deserialize(stored.get("rows")?).ok()
}
