//! The report of an engine about its work.

use crate::history::LogReport;
use crate::recording::RecordingReport;
use crate::thread::Panicked;

/// The result of an engine's work.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The report of the log; `None` without a log.
    pub log: Option<LogReport>,
    /// The report of raw recordings; `None` if there were none.
    pub raw: Option<RecordingReport>,
    /// The threads that panicked.
    pub panicked: Vec<Panicked>,
    /// The names of threads that did not end in time and still run.
    pub left: Vec<String>,
}
