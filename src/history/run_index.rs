//! Finding the run of a tmux session again, whatever the session is called by now.

use rustc_hash::FxHashMap;

use crate::error::{Error, Result};
use crate::event::ExecutionId;
use crate::history::dir::{DataDir, LABELS_MAX, RunDirectory, numbered};
use crate::history::metadata::{RunInfo, RunMetadata, TmuxIdentity};
use crate::history::open_run::OpenRun;
use crate::timestamp::Timestamp;

/// How many run directories are looked at; reading 20,000 small files takes about half a second,
/// and who keeps more has the newest ones found by their label still.
const RUNS_SCANNED_MAX: usize = 20_000;
/// Warnings kept of one scan; the rest is more of the same.
const WARNINGS_MAX: usize = 16;

/// A run that exists.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundRun {
    /// Its execution.
    pub execution_id: ExecutionId,
    /// What its metadata say.
    pub metadata: RunMetadata,
}

/// Which tmux session has which run, as of one look at the data directory.
#[derive(Debug, Default)]
pub struct RunIndex {
    by_identity: FxHashMap<TmuxIdentity, FoundRun>,
    warnings: Vec<String>,
}

impl RunIndex {
    /// Reads the metadata of all runs. What cannot be read is left out and named in
    /// [`RunIndex::warnings`].
    pub fn scan(data: &DataDir) -> Self {
        let mut index = Self::default();
        let directories = match data.run_directories() {
            Ok(directories) => directories,
            Err(error) => {
                index.warn(format!("{error:?}"));
                return index;
            }
        };
        if directories.len() > RUNS_SCANNED_MAX {
            index.warn(format!(
                "only {RUNS_SCANNED_MAX} runs in {:?} were looked at",
                data.runs_path()
            ));
        }
        for directory in directories.iter().take(RUNS_SCANNED_MAX) {
            match directory.metadata() {
                // A run that was copied to another name is not the run that it says it is.
                Ok(Some(metadata)) if metadata.execution_id == *directory.execution_id() => {
                    index.add(metadata);
                }
                Ok(_) => {}
                Err(error) => index.warn(format!("{error:?}")),
            }
        }
        index
    }

    /// The run of a session; of several the one that was written last.
    pub fn find(&self, identity: &TmuxIdentity) -> Option<&FoundRun> {
        self.by_identity.get(identity)
    }

    /// Takes a run into the index: one that was opened since the look.
    pub fn add(&mut self, metadata: RunMetadata) {
        let Some(identity) = metadata.identity.clone() else {
            return;
        };
        let newer = self
            .by_identity
            .get(&identity)
            .is_none_or(|known| known.metadata.updated <= metadata.updated);
        if newer {
            let execution_id = metadata.execution_id.clone();
            self.by_identity.insert(
                identity,
                FoundRun {
                    execution_id,
                    metadata,
                },
            );
        }
    }

    /// Forgets a run whose session has ended: it cannot come back.
    pub fn forget(&mut self, execution_id: &ExecutionId) {
        self.by_identity
            .retain(|_, run| run.execution_id != *execution_id);
    }

    /// What could not be read.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn warn(&mut self, warning: String) {
        if self.warnings.len() < WARNINGS_MAX {
            self.warnings.push(warning);
        }
    }

    /// Opens the run of `info.identity`: the one that it has, or a new one named after `label`,
    /// with `-2`, `-3`… behind it where another run has that name.
    ///
    /// # Errors
    /// [`Error::is_locked`] when another process writes the run; what [`RunDirectory::open`] says.
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
        if let Some(found) = info
            .identity
            .as_ref()
            .and_then(|identity| self.find(identity))
        {
            return data.run(&found.execution_id).open(info, ts);
        }
        for n in 1..=LABELS_MAX {
            let directory = data.run(&numbered(label, n));
            if directory.exists() {
                // Made since the look, perhaps by another observer of the same session.
                match directory.metadata() {
                    Ok(Some(metadata))
                        if info.identity.is_some() && metadata.identity == info.identity => {}
                    _ => continue,
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

/// Whether a run that somebody else made at this moment is of another session. Where that cannot
/// be told yet, no: better no log of ours than two runs of one session.
fn is_of_another(directory: &RunDirectory, info: &RunInfo) -> bool {
    // What has no identity is nobody's but its opener's.
    if info.identity.is_none() {
        return true;
    }
    match directory.metadata() {
        Ok(Some(metadata)) => metadata.identity != info.identity,
        _ => false,
    }
}

impl DataDir {
    /// The run of a session, if it has one. For many sessions, scan once: [`RunIndex::scan`].
    pub fn find_run(&self, identity: &TmuxIdentity) -> Option<FoundRun> {
        RunIndex::scan(self).by_identity.remove(identity)
    }
}
