//! The thread `td-tui-history`: lists the runs of the history, now and then.

use std::cmp::Reverse;
use std::time::Duration;

use crossbeam_channel::select_biased;

use super::effect::Input;
use super::log_files::Reading;
use super::wake::InputSender;
use crate::api::ended_rows;
use crate::board::Row;
use crate::history::RunStatus;
use crate::thread::is_stopped;

/// The pause between two lists.
const PAUSE: Duration = Duration::from_secs(30);

/// The part of the time that listing many runs may take: one in a hundred.
const SHARE: u32 = 100;

/// The latest runs that are listed; those on the board are among them.
const RUNS_MAX: usize = 1_000;

/// Reports the rows of the runs that have ended, the latest first, when they have changed.
pub(super) fn read_history(reading: &Reading, inputs: &InputSender) {
    let mut last = None;
    loop {
        let begun = reading.clock.now();
        let rows = ended(reading);
        if is_stopped(&reading.stop) {
            return;
        }
        if last.as_ref() != Some(&rows) {
            last = Some(rows.clone());
            if inputs.send(Input::History(rows)).is_err() {
                return;
            }
        }
        let took = reading.clock.now().saturating_duration_since(begun);
        select_biased! {
            recv(reading.stop) -> _ => return,
            recv(reading.clock.after(PAUSE.max(took * SHARE))) -> _ => {}
        }
    }
}

fn ended(reading: &Reading) -> Vec<Row> {
    let is_over = || is_stopped(&reading.stop);
    let list = match reading
        .data
        .runs_unless_cancelled(reading.clock.wall(), &is_over)
    {
        Ok(list) => list,
        Err(error) => {
            log::debug!("{error:?}");
            return Vec::new();
        }
    };
    let mut runs = list.runs;
    runs.retain(|run| run.state != RunStatus::Running);
    runs.sort_by_key(|run| Reverse(run.last_event));
    let rows = runs.iter().take(RUNS_MAX).flat_map(ended_rows);
    rows.take(RUNS_MAX).collect()
}
