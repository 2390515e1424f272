//! Finds the run of a tmux session, regardless of the session's current name.

use rustc_hash::FxHashMap;

use crate::error::{Error, Result};
use crate::event::ExecutionId;
use crate::history::dir::{DataDir, LABELS_MAX, RunDirectory, numbered};
use crate::history::metadata::{RunInfo, RunMetadata, TmuxIdentity};
use crate::history::open_run::OpenRun;
use crate::timestamp::Timestamp;

/// The maximum number of run directories that are scanned: 20,000 small files take about half a second.
/// Beyond it, the newest runs are still found by their label.
const RUNS_SCANNED_MAX: usize = 20_000;

/// The runs of tmux sessions, as of one scan of the data directory.
#[derive(Debug, Default)]
pub struct RunIndex {
    by_identity: FxHashMap<TmuxIdentity, RunMetadata>,
}

impl RunIndex {
    /// Reads the metadata of all runs. Skips unreadable ones.
    pub fn scan(data: &DataDir) -> Self {
        let mut index = Self::default();
        let directories = data.run_directories().unwrap_or_default();
        for directory in directories.iter().take(RUNS_SCANNED_MAX) {
            // A copy under another name is not the run that its metadata describe.
            if let Ok(Some(metadata)) = directory.metadata()
                && metadata.execution_id == *directory.execution_id()
            {
                index.add(metadata);
            }
        }
        index
    }

    /// Returns the run of a session; if there are several, the one that was written last.
    pub fn find(&self, identity: &TmuxIdentity) -> Option<&RunMetadata> {
        self.by_identity.get(identity)
    }

    /// Adds a run that was opened after the scan.
    pub fn add(&mut self, metadata: RunMetadata) {
        let Some(identity) = metadata.identity.clone() else {
            return;
        };
        let newer = self
            .by_identity
            .get(&identity)
            .is_none_or(|known| known.updated <= metadata.updated);
        if newer {
            self.by_identity.insert(identity, metadata);
        }
    }

    /// Removes a run whose session has ended and cannot return.
    pub fn forget(&mut self, execution_id: &ExecutionId) {
        self.by_identity
            .retain(|_, run| run.execution_id != *execution_id);
    }

    /// Opens the run of `info.identity`: the existing run, or a new one named `label`, with the suffix `-2`,
    /// `-3`… if the name is taken.
    ///
    /// # Errors
    /// [`Error::is_locked`] if another process writes the run; otherwise the errors of
    /// [`RunDirectory::open`].
    pub fn open_run(
        &mut self,
        data: &DataDir,
        label: &str,
        info: RunInfo,
        ts: Timestamp,
    ) -> Result<OpenRun> {
        let run = self.open_found_or_new(data, label, info, ts)?;
        self.add(run.metadata().clone());
        Ok(run)
    }

    fn open_found_or_new(
        &self,
        data: &DataDir,
        label: &str,
        info: RunInfo,
        ts: Timestamp,
    ) -> Result<OpenRun> {
        let identity = info.identity.as_ref();
        if let Some(found) = identity.and_then(|identity| self.find(identity)) {
            return data.run(&found.execution_id).open(info, ts);
        }
        for n in 1..=LABELS_MAX {
            let directory = data.run(&numbered(label, n));
            if directory.exists() {
                // The run was created after the scan, perhaps by another observer of the same session.
                let metadata = directory.metadata().ok().flatten();
                let is_same = |run: RunMetadata| run.identity == info.identity;
                if info.identity.is_none() || !metadata.is_some_and(is_same) {
                    continue;
                }
            }
            match directory.open(info.clone(), ts) {
                Err(error) if error.is_locked() && is_of_another(&directory, &info) => {}
                opened => return opened,
            }
        }
        Err(Error::other(format!("too many runs are called {label:?}")))
    }
}

/// Returns `true` if a run that is just being created belongs to another session. Returns `false` while this
/// is unknown, because no log is better than two runs of one session.
fn is_of_another(directory: &RunDirectory, info: &RunInfo) -> bool {
    // A run without an identity belongs to the process that opened it.
    let metadata = || directory.metadata().ok().flatten();
    info.identity.is_none() || metadata().is_some_and(|run| run.identity != info.identity)
}
