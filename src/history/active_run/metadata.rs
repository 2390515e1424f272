//! What the metadata of a run say while it is written, and its last words.

use serde_json::{Map, Value};

use super::ActiveRun;
use crate::clock::Clock;
use crate::history::metadata::RunState;
use crate::history::sync::{ClosingRun, SyncJob};

impl ActiveRun {
    /// Adds to the metadata; what has the same name is replaced.
    pub(in crate::history) fn add_metadata(&mut self, extra: Map<String, Value>) {
        self.metadata.extra.extend(extra);
        self.has_new_metadata = true;
    }

    /// The metadata, where they say something new. Writing them waits for the disk.
    pub(in crate::history) fn take_remark(&mut self, clock: &Clock) -> Option<SyncJob> {
        std::mem::take(&mut self.has_new_metadata).then(|| {
            self.metadata.updated = clock.wall();
            SyncJob::Metadata {
                directory: self.directory.clone(),
                metadata: Box::new(self.metadata.clone()),
            }
        })
    }

    /// They were not written.
    pub(in crate::history) fn keep_remark(&mut self) {
        self.has_new_metadata = true;
    }

    /// What the run's last words will be.
    pub(in crate::history) fn end(&mut self, state: RunState, exit_status: Option<i32>) {
        self.metadata.state = state;
        self.metadata.exit_status = exit_status;
        self.is_ending = true;
    }

    /// Whether nothing is left to be written of a run that ends.
    pub(in crate::history) fn is_done(&self) -> bool {
        self.is_ending && self.pending.is_empty() && !self.header_due
    }

    /// The numbers that did not reach the file, and why.
    pub(in crate::history) fn unwritten(&self) -> Option<(u64, u64, String)> {
        let (first, last) = self.pending.seq_range()?;
        let why = self.failure.as_ref().map(|failing| failing.cause.clone());
        Some((first, last, why.unwrap_or_default()))
    }

    /// The run as `td-sync` closes it.
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
