//! Chooses the runs to keep and removes the others.

use std::fs;
use std::time::Duration;

use crate::error::{Error, Result, if_exists};
use crate::history::dir::DataDir;
use crate::history::lock::RunLock;
use crate::history::runs::{RunStatus, RunSummary};
use crate::timestamp::Timestamp;

/// The prefix of runs that are being removed. No run's name begins with a dot.
const REMOVED: &str = ".removed-";

/// The amount of history to keep. Open runs are always kept; of the others, the oldest are removed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The maximum time since a run's last event.
    pub age_max: Option<Duration>,
    /// The maximum number of runs.
    pub runs_max: Option<usize>,
    /// The maximum size of all runs together.
    pub bytes_max: Option<u64>,
}

impl Default for Retention {
    /// 10 GiB: months of many panes, and still a small part of a disk.
    fn default() -> Self {
        Self {
            bytes_max: Some(10 * 1024 * 1024 * 1024),
            ..Self::EVERYTHING
        }
    }
}

impl Retention {
    /// Removes nothing.
    pub const EVERYTHING: Self = Self {
        age_max: None,
        runs_max: None,
        bytes_max: None,
    };

    /// Returns the runs to remove, oldest first.
    pub(super) fn choose<'a>(&self, runs: &'a [RunSummary], now: Timestamp) -> Vec<&'a RunSummary> {
        let mut ended: Vec<&RunSummary> = runs
            .iter()
            .filter(|run| run.state != RunStatus::Running)
            .collect();
        ended.sort_by_key(|run| run.last_event);
        let mut count = runs.len();
        let mut bytes: u64 = runs.iter().map(|run| run.size_bytes).sum();
        let mut goes = |run: &&&RunSummary| {
            let age = now.micros().saturating_sub(run.last_event.micros());
            let is_old = self
                .age_max
                .is_some_and(|max| i128::from(age) > max.as_micros() as i128);
            let is_one_too_many = self.runs_max.is_some_and(|max| count > max)
                || self.bytes_max.is_some_and(|max| bytes > max);
            let goes = is_old || is_one_too_many;
            if goes {
                count -= 1;
                bytes -= run.size_bytes;
            }
            goes
        };
        // All runs after the first one that is kept are younger.
        ended.iter().take_while(|run| goes(run)).copied().collect()
    }
}

/// The result of pruning.
#[derive(Debug, Default)]
pub struct Pruned {
    /// The removed runs, or those that would be removed, oldest first.
    pub runs: Vec<RunSummary>,
    /// The errors of runs that could not be removed.
    pub problems: Vec<Error>,
}

impl DataDir {
    /// Returns the runs that pruning would remove now.
    ///
    /// # Errors
    /// If the directory cannot be listed.
    pub fn prunable(&self, retention: Retention, now: Timestamp) -> Result<Pruned> {
        let list = self.runs(now)?;
        Ok(Pruned {
            runs: retention
                .choose(&list.runs, now)
                .into_iter()
                .cloned()
                .collect(),
            problems: list.problems,
        })
    }

    /// Removes the runs that are not retained. A run that is opened in the meantime is kept.
    ///
    /// # Errors
    /// If the directory cannot be listed.
    pub fn prune(&self, retention: Retention, now: Timestamp) -> Result<Pruned> {
        self.prune_unless_cancelled(retention, now, &|| false)
    }

    /// Prunes as [`DataDir::prune`] does, until `is_cancelled` returns `true`.
    pub(super) fn prune_unless_cancelled(
        &self,
        retention: Retention,
        now: Timestamp,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Pruned> {
        self.remove_leftovers();
        let list = self.runs_unless_cancelled(now, is_cancelled)?;
        let mut pruned = Pruned {
            runs: Vec::new(),
            problems: list.problems,
        };
        for run in retention.choose(&list.runs, now) {
            // If the list is incomplete, its oldest run may be young.
            if is_cancelled() {
                break;
            }
            match self.remove(run) {
                Ok(()) => pruned.runs.push(run.clone()),
                Err(error) if error.is_locked() => {}
                Err(error) => pruned.problems.push(error),
            }
        }
        Ok(pruned)
    }

    fn remove(&self, run: &RunSummary) -> Result<()> {
        let path = run.directory.path();
        let failed = |cause| Error::file("cannot remove the run in", path, cause);
        let dir = run.directory.open_dir()?;
        // Prevents writers from opening the run while it is removed. A writer that waits for the lock then
        // finds a new lock file.
        let lock = RunLock::take(&run.directory, &dir)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // A unique name that stays valid if the run's name has the maximum length.
        let short: String = name.chars().take(32).collect();
        let going = self
            .runs_path()
            .join(format!("{REMOVED}{}-{short}", std::process::id()));
        fs::rename(path, &going).map_err(failed)?;
        drop(lock);
        fs::remove_dir_all(&going).map_err(failed)
    }

    /// Removes the leftovers of an interrupted pruning.
    fn remove_leftovers(&self) {
        let Ok(entries) = fs::read_dir(self.runs_path()) else {
            return;
        };
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(REMOVED)
                && let Err(cause) = if_exists(fs::remove_dir_all(entry.path()))
            {
                log::warn!("cannot remove {:?}: {cause}", entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::history::metadata::{RunKind, RunState};

    fn run(number: usize, ended_s: i64, size_bytes: u64, is_running: bool) -> RunSummary {
        let ts = Timestamp::from_micros(ended_s * 1_000_000);
        RunSummary {
            execution_id: format!("run-{number}").into(),
            kind: RunKind::default(),
            label: String::new(),
            state: match is_running {
                true => RunStatus::Running,
                false => RunStatus::Ended(RunState::Completed),
            },
            started: ts,
            last_event: ts,
            duration_ms: 0,
            events: 1,
            size_bytes,
            exit_status: None,
            directory: DataDir::new("/nowhere").run(&format!("run-{number}").into()),
        }
    }

    proptest! {
        /// The remaining runs respect the limits or are open, and the removed ones were the oldest.
        #[test]
        fn the_limits_hold_and_the_youngest_stay(
            runs in proptest::collection::vec((0..100_i64, 0..100_u64, any::<bool>()), 0..20),
            age_s in proptest::option::of(0..100_u64),
            runs_max in proptest::option::of(0..20_usize),
            bytes_max in proptest::option::of(0..1000_u64),
        ) {
            let runs: Vec<RunSummary> = runs
                .into_iter()
                .enumerate()
                .map(|(number, (ended, size, is_running))| run(number, ended, size, is_running))
                .collect();
            let now = Timestamp::from_micros(100_000_000);
            let retention = Retention { age_max: age_s.map(Duration::from_secs), runs_max, bytes_max };
            let pruned = retention.choose(&runs, now);
            prop_assert!(pruned.iter().all(|run| run.state != RunStatus::Running));
            let is_pruned = |run: &&RunSummary| pruned.iter().any(|pruned| pruned.execution_id == run.execution_id);
            let stays: Vec<&RunSummary> = runs.iter().filter(|run| !is_pruned(run)).collect();
            let ended: Vec<_> = stays.iter().filter(|run| run.state != RunStatus::Running).collect();
            if let Some(youngest) = pruned.iter().map(|run| run.last_event).max() {
                prop_assert!(ended.iter().all(|run| run.last_event >= youngest));
            }
            if !ended.is_empty() {
                prop_assert!(runs_max.is_none_or(|max| stays.len() <= max));
                prop_assert!(bytes_max.is_none_or(|max| stays.iter().map(|run| run.size_bytes).sum::<u64>() <= max));
                let oldest = ended.iter().map(|run| run.last_event.micros()).min().unwrap();
                prop_assert!(age_s.is_none_or(|age| (100_000_000 - oldest) as u64 <= age * 1_000_000));
            }
            prop_assert!(retention != Retention::EVERYTHING || pruned.is_empty());
        }
    }
}
