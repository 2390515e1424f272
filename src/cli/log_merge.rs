//! Merges several logs by time.

use std::process::ExitCode;

use super::history::{Ended, Which, report_problems};
use super::log_show::Show;
use crate::history::{LogRecord, Merged, MergedLogs, Query};
use crate::thread::{Stop, is_stopped};

/// Writes the remaining output, and then calls `report`.
pub(super) fn finish<T>(show: &mut Show, report: impl FnOnce() -> T) -> Result<T, Ended> {
    show.page().finish()?;
    show.page().flushed()?.release()?;
    Ok(report())
}

/// Shows several logs merged by time. Calls `note` for each record with the number of its log.
pub(super) fn read_merged(
    whiches: &[Which],
    query: Query,
    show: &mut Show,
    stop: &Stop,
    note: &mut dyn FnMut(usize, &LogRecord),
    has_failed: &mut bool,
) -> Result<(), Ended> {
    let sources = whiches.iter().map(Which::source).collect();
    for merged in MergedLogs::new(sources, query) {
        if is_stopped(stop) {
            break;
        }
        match merged {
            Merged::Opened(number) => show.begin(&whiches[number], stop)?,
            Merged::Record(number, record) => {
                note(number, &record);
                show.record(&record)?;
            }
            Merged::Closed(number, report) => {
                show.end(&whiches[number]);
                *has_failed |= report_problems(&whiches[number], &report) != ExitCode::SUCCESS;
            }
            Merged::Failed(number, error) => {
                // A missing run has been pruned meanwhile.
                if whiches[number].path().exists() {
                    super::output::print_message(&format!("{error:?}"));
                    *has_failed = true;
                }
            }
        }
    }
    Ok(())
}
