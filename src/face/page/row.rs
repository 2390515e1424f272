//! Finds the row that a request names: on the board, or among those of a run that has ended.

use std::time::Duration;

use super::source::PageSource;
use crate::board::Row;
use crate::feed::ended_rows;
use crate::history::RunDirectory;

/// Returns the row with an id.
pub(super) fn find(page: &PageSource, id: &str) -> Option<Row> {
    let board = (page.find)().map(|observer| observer.board(None, Duration::ZERO));
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
    let summary = match run_of(page, id)?.summary(page.clock.wall()) {
        Ok(summary) => summary?,
        Err(error) => {
            log::debug!("{error:?}");
            return None;
        }
    };
    let mut rows = ended_rows(&summary).into_iter();
    rows.find(|row| row.key().to_string() == id)
}

/// Returns the run of a row: its id begins with that of the run, and a colon may follow.
fn run_of(page: &PageSource, id: &str) -> Option<RunDirectory> {
    let colons = id.match_indices(':').map(|(at, _)| at);
    // The id of a run may have colons, too.
    let ends = std::iter::once(id.len()).chain(colons.rev());
    let mut runs = ends.map(|end| page.data.run(&id[..end].into()));
    runs.find(RunDirectory::exists)
}
