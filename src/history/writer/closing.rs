//! Changes the metadata of open runs and closes runs.

use std::time::Instant;

use serde_json::{Map, Value};

use super::LogWriter;
use crate::history::metadata::RunState;
use crate::history::sync::{SyncJob, SyncPolicy};

impl LogWriter {
    /// Adds to the metadata of a run, replacing values with the same name.
    pub fn add_metadata(&mut self, execution_id: &str, extra: Map<String, Value>, now: Instant) {
        if let Some(run) = self.runs.get_mut(execution_id) {
            run.add_metadata(extra);
            if !run.queue_metadata(&self.syncer, &self.context.clock) {
                self.sync_at.get_or_insert(now);
            }
        }
    }

    /// Ends a run: writes its pending lines, then its metadata, then releases its lock. A run whose file
    /// cannot be written stays open until it can, or until the writer finishes. A skipped execution is
    /// forgotten.
    pub fn close_run(
        &mut self,
        execution_id: &str,
        state: RunState,
        exit_status: Option<i32>,
        now: Instant,
    ) {
        self.skipped.remove(execution_id);
        if let Some(run) = self.runs.get_mut(execution_id) {
            run.end(state, exit_status);
            self.flush(execution_id, now);
            self.close_ended();
            self.needs_retry = true;
        }
    }

    /// Queues ended runs for `td-sync`, which writes their final metadata.
    pub(super) fn close_ended(&mut self) {
        let sync = self.policy != SyncPolicy::Never;
        for (_, run) in self.runs.extract_if(|_, run| run.is_done()) {
            self.closing
                .push(run.into_closing(&self.context.clock, sync));
        }
        while let Some(closing) = self.closing.pop() {
            if let Err(job) = self.syncer.offer(SyncJob::Close(Box::new(closing))) {
                if let SyncJob::Close(closing) = job {
                    self.closing.push(*closing);
                }
                break;
            }
        }
    }
}
