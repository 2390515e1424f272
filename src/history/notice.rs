//! The writer's notices and final report.

use std::path::PathBuf;

use crate::event::{ExecutionId, TdEvent};

/// The kind of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogNoticeKind {
    /// Writing has begun to fail. Reported once, until it works again.
    Failing,
    /// Writing works again.
    Recovered,
    /// Another program removed, replaced or truncated the file; writing continues.
    Disturbed,
    /// A new file could not be created, so the old one grows. Reported once, until rotation works again.
    NotRotated,
    /// The wall clock was set back: numbers are in order, times are not. Reported once per run.
    ClockWentBack,
    /// `fdatasync` failed, or the metadata could not be written.
    NotSafe,
    /// Events arrived for an execution that has no open run. Reported once per execution.
    NotKept,
}

/// A condition of a run's log that its user should know about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogNotice {
    /// The execution of the run.
    pub execution_id: ExecutionId,
    /// The kind of the notice.
    pub(crate) kind: LogNoticeKind,
    /// A sentence for users.
    pub message: String,
}

impl LogNotice {
    /// Returns the notice as an event of its execution.
    pub(crate) fn to_event(&self) -> TdEvent {
        let execution_id = self.execution_id.clone();
        let (context, message) = ("log".to_owned(), self.message.clone());
        match self.kind {
            LogNoticeKind::Failing => TdEvent::Error {
                execution_id,
                context,
                message,
            },
            _ => TdEvent::Warning {
                execution_id,
                context,
                message,
            },
        }
    }
}

/// The result of writing logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct LogReport {
    /// The number of bytes written to event files.
    pub bytes_written: u64,
    /// Runs whose last events could not be written.
    pub lost: Vec<LostRun>,
    /// The number of events of executions without an open run.
    pub not_kept: u64,
    /// Problems at the end: syncing, metadata, or a disk that did not respond.
    pub problems: Vec<LogNotice>,
}

/// A run whose last events could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRun {
    /// The run's execution.
    pub execution_id: ExecutionId,
    /// The directory of the run.
    pub path: PathBuf,
    /// The first number that is not in the file.
    pub first_seq: u64,
    /// The last number that was assigned.
    pub last_seq: u64,
    /// The system's error message.
    pub cause: String,
}
