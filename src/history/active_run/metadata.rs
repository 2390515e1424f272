//! The metadata of a run, while it is written and when it ends.

use serde_json::{Map, Value};

use super::ActiveRun;
use crate::clock::Clock;
use crate::history::metadata::{RunState, SESSION};
use crate::history::sync::{ClosingRun, SyncJob, Syncer};

impl ActiveRun {
    /// Adds to the metadata, replacing values with the same name.
    pub(in crate::history) fn add_metadata(&mut self, extra: Map<String, Value>) {
        self.metadata.extra.extend(extra);
        self.has_new_metadata = true;
    }

    /// Records the session's present name, by which users can also find the run.
    pub(in crate::history) fn note_name(&mut self, name: &str) {
        if self.metadata.session() != name {
            let name = (SESSION.to_owned(), name.into());
            self.add_metadata(Map::from_iter([name]));
        }
    }

    /// Queues changed metadata for `td-sync`. Returns `false` if the queue has no room.
    pub(in crate::history) fn queue_metadata(&mut self, syncer: &Syncer, clock: &Clock) -> bool {
        if self.has_new_metadata {
            self.metadata.updated = clock.wall();
            let job = SyncJob::Metadata {
                directory: self.directory.clone(),
                metadata: Box::new(self.metadata.clone()),
            };
            self.has_new_metadata = syncer.offer(job).is_err();
        }
        !self.has_new_metadata
    }

    /// Sets the final state of the run.
    pub(in crate::history) fn end(&mut self, state: RunState, exit_status: Option<i32>) {
        self.metadata.state = state;
        self.metadata.exit_status = exit_status;
        self.is_ending = true;
    }

    /// Returns `true` if the run is ending and everything is written.
    pub(in crate::history) fn is_done(&self) -> bool {
        self.is_ending && self.pending.is_empty() && !self.header_due
    }

    /// Returns the numbers that did not reach the file, and the error.
    pub(in crate::history) fn unwritten(&self) -> Option<(u64, u64, String)> {
        let (first, last) = self.pending.seq_range()?;
        let cause = self.failure.as_ref().map(|failing| failing.cause.clone());
        Some((first, last, cause.unwrap_or_default()))
    }

    /// Converts the run for `td-sync`, which closes it.
    pub(in crate::history) fn into_closing(self, clock: &Clock, sync: bool) -> ClosingRun {
        let mut metadata = self.metadata;
        metadata.updated = clock.wall();
        metadata.next_seq = Some(self.next_seq);
        let is_dirty = sync && self.is_dirty;
        ClosingRun {
            directory: self.directory,
            metadata,
            is_dirty,
            is_durable: sync,
            lock: self.lock,
        }
    }
}
