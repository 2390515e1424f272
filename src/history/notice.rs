//! What the writer has to say: notices for stderr and the stream while it runs, a report at its end.

use std::path::PathBuf;

use crate::event::{ExecutionId, TdEvent};

/// What kind of thing a notice tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogNoticeKind {
    /// Writing began to fail; said once, until it works again.
    Failing,
    /// Writing works again.
    Recovered,
    /// The file was removed, replaced or cut by somebody else, and is written to again.
    Disturbed,
    /// A new file could not be begun, so the old one grows; said once, until it works again.
    NotRotated,
    /// The wall clock went back: numbers tell the order of events, times do not. Said once a run.
    ClockWentBack,
    /// `fdatasync` failed, or the metadata could not be written.
    NotSafe,
    /// Events came for an execution that has no open run; said once an execution.
    NotKept,
}

/// Something about a run's log that its user should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogNotice {
    /// Whose log.
    pub execution_id: ExecutionId,
    /// What kind of thing it is.
    pub kind: LogNoticeKind,
    /// A sentence for a human.
    pub message: String,
}

impl LogNotice {
    /// The notice as an event of its execution.
    pub fn to_event(&self) -> TdEvent {
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

/// What the writer did, at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct LogReport {
    /// Bytes written to event files.
    pub bytes_written: u64,
    /// Runs whose last events could not be written.
    pub lost: Vec<LostRun>,
    /// Events of executions that had no open run.
    pub not_kept: u64,
    /// What went wrong at the very end: syncing, metadata, a disk that did not answer.
    pub problems: Vec<LogNotice>,
}

/// A run whose last events could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRun {
    /// The run's execution.
    pub execution_id: ExecutionId,
    /// Its directory.
    pub path: PathBuf,
    /// The first number that is not in the file.
    pub first_seq: u64,
    /// The last number that was given.
    pub last_seq: u64,
    /// Why.
    pub cause: String,
}
