//! The thread `td-tui-history` lists the runs of the history periodically.

use std::cmp::Reverse;
use std::time::Duration;

use crossbeam_channel::select_biased;

use super::effect::Input;
use super::log_files::LogAccess;
use super::wake::InputSender;
use crate::api::ended_rows;
use crate::board::Row;
use crate::history::RunStatus;
use crate::thread::is_stopped;

/// The pause between two lists.
const PAUSE: Duration = Duration::from_secs(30);

/// The least ratio of the pause to the time of a listing: listing many runs takes at most 1 % of the time.
const SHARE: u32 = 100;

/// The maximum number of runs to list, the latest first; runs on the board are among them.
const RUNS_MAX: usize = 1_000;

/// Reports the rows of the runs that have ended, the latest first, whenever they change.
pub(super) fn read_history(access: &LogAccess, inputs: &InputSender) {
    let mut last = None;
    loop {
        let begun = access.clock.now();
        let rows = ended(access);
        if is_stopped(&access.stop) {
            return;
        }
        if last.as_ref() != Some(&rows) {
            last = Some(rows.clone());
            if inputs.send(Input::History(rows)).is_err() {
                return;
            }
        }
        let took = access.clock.now().saturating_duration_since(begun);
        select_biased! {
            recv(access.stop) -> _ => return,
            recv(access.clock.after(PAUSE.max(took * SHARE))) -> _ => {}
        }
    }
}

fn ended(access: &LogAccess) -> Vec<Row> {
    let is_over = || is_stopped(&access.stop);
    let list = match access
        .data
        .runs_unless_cancelled(access.clock.wall(), &is_over)
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
