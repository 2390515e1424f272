//! What a run's metadata say while it goes on, and the ends of runs.

use std::time::Instant;

use serde_json::{Map, Value};

use super::LogWriter;
use crate::clock::Clock;
use crate::history::active_run::ActiveRun;
use crate::history::metadata::RunState;
use crate::history::sync::{SyncJob, SyncPolicy, Syncer};

/// Hands what is new in the metadata to `td-sync`; false where there is no room for it.
pub(super) fn hand_remark(run: &mut ActiveRun, syncer: &Syncer, clock: &Clock) -> bool {
    let Some(job) = run.take_remark(clock) else {
        return true;
    };
    let is_taken = syncer.offer(job).is_ok();
    if !is_taken {
        run.keep_remark();
    }
    is_taken
}

impl LogWriter {
    /// Adds to what the metadata of a run say; what has the same name is replaced.
    pub fn add_metadata(&mut self, execution_id: &str, extra: Map<String, Value>, now: Instant) {
        if let Some(run) = self.runs.get_mut(execution_id) {
            run.add_metadata(extra);
            if !hand_remark(run, &self.syncer, &self.context.clock) {
                self.sync_at.get_or_insert(now);
            }
        }
    }

    /// Ends a run: writes what waits, then its metadata, then gives it to others. A run whose file
    /// cannot be written stays until it can, or until the writer's end. An execution that was
    /// passed over is forgotten.
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

    /// Hands runs that are through to `td-sync`, which writes their last words.
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
