//! The job that is the program of a shell's row.

use std::time::Duration;

use super::row::{Row, after};
use crate::timestamp::Timestamp;

/// The time after which a job in a shell is the program of its row: the short commands of a loop are not, so that the
/// row does not change with each of them.
const JOB_NAMED_AFTER: Duration = Duration::from_secs(3);

/// Returns true if a job that has run so long is the program of its row.
pub(super) fn is_job_named(millis: u64) -> bool {
    u128::from(millis) >= JOB_NAMED_AFTER.as_millis()
}

impl Row {
    /// Makes the job the program of the row.
    pub(super) fn name_job(&mut self) {
        self.agent = self.job.as_ref().map(|(name, _)| name.clone());
    }

    /// Makes the job the program of the row if it has run long enough; returns true if the row has changed.
    pub(super) fn name_due_job(&mut self, now: Timestamp) -> bool {
        let job = self.job.as_ref();
        let is_due = job.is_some_and(|(_, began)| now >= after(*began, JOB_NAMED_AFTER));
        let is_new = is_due && !self.has_named_job();
        if is_new {
            self.name_job();
        }
        is_new
    }

    /// Returns true if a job runs in the pane's shell, and is the program of the row.
    pub(super) fn has_named_job(&self) -> bool {
        let job = self.job.as_ref().map(|(name, _)| name);
        job.is_some() && job == self.agent.as_ref()
    }
}
