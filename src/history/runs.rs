//! Lists runs with their state and size, and removes those that are not retained.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::error::{Error, Result, if_exists};
use crate::event::ExecutionId;
use crate::history::dir::{DataDir, RunDirectory, RunLock, is_written};
use crate::history::dir_handle::{DirHandle, EVENTS, METADATA, RunFiles, open_closed};
use crate::history::metadata::{RunKind, RunMetadata, RunState};
use crate::history::read::{
    LogReader, MissingEvents, PromisedEnd, Query, ReadReport, first_numbers, last_number,
    without_log,
};
use crate::history::tail;
use crate::timestamp::Timestamp;

/// The state of a run as other processes see it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunStatus {
    /// A writer has the run open.
    Running,
    /// Its writer ended without closing it, because it crashed or was killed.
    CutOff,
    /// The run has ended in this state.
    Ended(RunState),
}

impl RunStatus {
    /// Returns the state of a run with these metadata, if it has some.
    pub(crate) fn of(is_written: bool, metadata: Option<&RunMetadata>) -> Self {
        match metadata {
            _ if is_written => Self::Running,
            // A log from another program has no final state.
            None => Self::Ended(RunState::Other("unknown".to_owned())),
            Some(metadata) if metadata.state == RunState::Running => Self::CutOff,
            Some(metadata) => Self::Ended(metadata.state.clone()),
        }
    }

    /// Returns the name of the state: `running`, `cut off`, `completed`, `failed`, `detached`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Running => RunState::Running.as_str(),
            Self::CutOff => "cut off",
            Self::Ended(state) => state.as_str(),
        }
    }
}

impl Serialize for RunStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A run in a list.
#[derive(Clone, Debug, Serialize)]
pub struct RunSummary {
    /// The execution's id.
    pub execution_id: ExecutionId,
    /// The kind of execution; empty if unknown.
    pub kind: RunKind,
    /// The name of the execution when it was first observed, for users.
    pub label: String,
    /// The state of the run.
    pub state: RunStatus,
    /// The time when the run began.
    pub started: Timestamp,
    /// The time of the last event.
    pub last_event: Timestamp,
    /// The time from the start to the last event, or to now while the run is open, in ms.
    pub duration_ms: u64,
    /// The number of events, which is the last assigned number.
    pub events: u64,
    /// The size of all files, in bytes.
    pub size_bytes: u64,
    /// The exit status of the execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<i32>,
    /// True if the log lacks events that were logged, or a part of it cannot be read.
    #[serde(rename = "incomplete", skip_serializing_if = "std::ops::Not::not")]
    pub is_incomplete: bool,
    /// The events that are missing in the log, as far as the first and last lines of its files show it
    /// ([`RunSummary::verify`] finds all).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingEvents>,
    /// The directory of the run.
    #[serde(rename = "path", serialize_with = "path_of")]
    pub directory: RunDirectory,
}

impl RunSummary {
    /// Reads the whole log, and sets which events are missing. Returns the reader's report.
    ///
    /// # Errors
    /// If the run no longer exists, or its directory cannot be read.
    pub fn verify(&mut self) -> Result<ReadReport> {
        let mut log = LogReader::open(&self.directory, Query::all())?;
        log.by_ref().for_each(drop);
        let report = log.into_report();
        self.is_incomplete = report.missing() > 0 || !report.problems.is_empty();
        self.missing = report.missing_places().to_vec();
        Ok(report)
    }
}

#[cfg(feature = "report")]
impl RunSummary {
    /// Returns true if a writer has the run open.
    pub(crate) fn is_open(&self) -> bool {
        self.state == RunStatus::Running
    }
}

impl RunDirectory {
    /// Returns the summary of this run; `None` if the directory is no run.
    ///
    /// # Errors
    /// If the run cannot be read.
    #[cfg(any(feature = "mcp", feature = "serve"))]
    pub(crate) fn summary(&self, now: Timestamp) -> Result<Option<RunSummary>> {
        summary(self, now, Depth::Full)
    }

    /// Returns the summary of this run as [`DataDir::runs_in_brief`] does; `None` if the directory is no run.
    ///
    /// # Errors
    /// If the run cannot be read.
    #[cfg(feature = "report")]
    pub(crate) fn summary_in_brief(&self, now: Timestamp) -> Result<Option<RunSummary>> {
        summary(self, now, Depth::Brief)
    }
}

fn path_of<S: Serializer>(directory: &RunDirectory, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&directory.path().display())
}

/// The readable runs, and the errors of the others.
#[derive(Debug, Default)]
pub struct RunList {
    /// The runs, ordered by start time.
    pub runs: Vec<RunSummary>,
    /// The errors of unreadable runs.
    pub problems: Vec<Error>,
}

impl DataDir {
    /// Lists all runs, ordered by start time. A data directory that does not exist has no runs.
    ///
    /// # Errors
    /// If the directory cannot be listed.
    pub fn runs(&self, now: Timestamp) -> Result<RunList> {
        self.runs_unless_cancelled(now, &|| false)
    }

    /// Lists runs as [`DataDir::runs`] does, without reading compressed files: the number of their events and what is
    /// missing are not known, and the last event of a run that ends with one is that of its last write.
    ///
    /// # Errors
    /// If the directory cannot be listed.
    #[cfg(any(feature = "report", feature = "sqlite"))]
    pub(crate) fn runs_in_brief(&self, now: Timestamp) -> Result<RunList> {
        self.list(now, &|| false, Depth::Brief)
    }

    /// Lists runs as [`DataDir::runs`] does, until `is_cancelled` returns `true`; the list may then be
    /// incomplete.
    pub(crate) fn runs_unless_cancelled(
        &self,
        now: Timestamp,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<RunList> {
        self.list(now, is_cancelled, Depth::Full)
    }

    fn list(
        &self,
        now: Timestamp,
        is_cancelled: &dyn Fn() -> bool,
        depth: Depth,
    ) -> Result<RunList> {
        let mut list = RunList::default();
        for directory in self.run_directories()? {
            if is_cancelled() {
                break;
            }
            match summary(&directory, now, depth) {
                Ok(Some(summary)) => list.runs.push(summary),
                Ok(None) => {}
                // The run was pruned in the meantime.
                Err(_) if !directory.exists() => {}
                Err(error) => list.problems.push(error),
            }
        }
        list.runs
            .sort_by(|a, b| (a.started, &*a.execution_id).cmp(&(b.started, &*b.execution_id)));
        Ok(list)
    }

    /// Returns the runs whose execution id, label or session `matches` accepts, ordered by start time.
    ///
    /// # Errors
    /// If the directory cannot be listed.
    pub fn matching_runs(&self, matches: impl Fn(&str) -> bool) -> Result<Vec<RunDirectory>> {
        let mut found = Vec::new();
        for directory in self.run_directories()? {
            // A directory without a history is not a run. Unreadable metadata have no names.
            let metadata = directory.metadata().ok().flatten();
            let is_match = matches(directory.execution_id())
                || metadata.as_ref().is_some_and(|of| of.names().any(&matches));
            // What is refused is told by who reads it.
            if is_match && (directory.has_history() || directory.is_refused()) {
                let created = metadata.map(|metadata| metadata.created);
                found.push((created.unwrap_or_default(), directory));
            }
        }
        found.sort_by(|(a, x), (b, y)| (a, x.execution_id()).cmp(&(b, y.execution_id())));
        Ok(found.into_iter().map(|(_, directory)| directory).collect())
    }

    /// Returns the run of the execution with this name, or otherwise the latest run with this label or
    /// session name.
    ///
    /// # Errors
    /// [`Error::is_invalid_input`] if there is none, or an error if the directory cannot be listed.
    pub fn named_run(&self, name: &str) -> Result<RunDirectory> {
        self.named_run_of(name, |_| false)
    }

    /// Like [`DataDir::named_run`], but a preferred run comes before a later one.
    pub(crate) fn named_run_of(
        &self,
        name: &str,
        is_preferred: impl Fn(&RunMetadata) -> bool,
    ) -> Result<RunDirectory> {
        self.check_owner()?;
        let exactly = self.run(&name.into());
        if exactly.exists() {
            return Ok(exactly);
        }
        let mut latest: Option<((bool, Timestamp), RunDirectory)> = None;
        for directory in self.run_directories()? {
            // Unreadable metadata have no names.
            if let Ok(Some(metadata)) = directory.metadata()
                && metadata.names().any(|of| of == name)
            {
                let place = (is_preferred(&metadata), metadata.created);
                if latest.as_ref().is_none_or(|(of, _)| *of <= place) {
                    latest = Some((place, directory));
                }
            }
        }
        latest.map(|(_, directory)| directory).ok_or_else(|| {
            Error::invalid(format!("no run is called {name:?} in")).at(self.runs_path())
        })
    }
}

/// How much of a run a summary reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    /// The end of the log, also if it is compressed, and the ends of all files.
    Full,
    /// The end of a log that is not compressed.
    #[cfg_attr(not(any(feature = "report", feature = "sqlite")), allow(dead_code))]
    Brief,
}

/// Summarizes a run; `None` if the directory is not a run.
fn summary(directory: &RunDirectory, now: Timestamp, depth: Depth) -> Result<Option<RunSummary>> {
    let failed = |cause| Error::file("cannot read the run in", directory.path(), cause);
    let dir = directory.open_dir()?;
    // Checked before the metadata are read, because the writer writes them last.
    let is_written = is_written(&dir).map_err(failed)?;
    let metadata = RunMetadata::read_in(&dir).unwrap_or_default();
    let files = RunFiles::list(&dir).map_err(failed)?;
    if metadata.is_none() && files.newest.is_none() && files.closed.is_empty() {
        return Ok(None);
    }
    let (end, missing) = match depth {
        Depth::Full => {
            let end = LogEnd::of(directory, &dir, &files).map_err(failed)?;
            let metadata = metadata.as_ref();
            let missing = missing_at_ends(&dir, &files, metadata, end.last_seq).map_err(failed)?;
            (end, missing)
        }
        Depth::Brief => (LogEnd::in_brief(&dir, &files).map_err(failed)?, Vec::new()),
    };
    let is_removed = end.last_seq.is_none()
        && end.events == 0
        && files.closed.is_empty()
        && is_empty(&files)
        && without_log(&dir, metadata.as_ref()).is_some();
    let state = RunStatus::of(is_written, metadata.as_ref());
    let created = metadata.as_ref().map(|metadata| metadata.created);
    let started = match created.or(end.first) {
        Some(started) => started,
        None => written(&dir),
    };
    let last_event = end.last.unwrap_or(started);
    let until = if is_written { now } else { last_event };
    let micros = until.micros().saturating_sub(started.micros());
    let (kind, label, exit_status) = metadata
        .map(|metadata| (metadata.kind, metadata.label, metadata.exit_status))
        .unwrap_or_default();
    Ok(Some(RunSummary {
        execution_id: directory.execution_id().clone(),
        kind,
        label,
        state,
        started,
        last_event,
        duration_ms: u64::try_from(micros / 1000).unwrap_or(0),
        events: end.events,
        size_bytes: size_of(directory.path()),
        exit_status,
        is_incomplete: is_removed || !missing.is_empty(),
        missing,
        directory: directory.clone(),
    }))
}

/// The data at the end of a run's log.
#[derive(Default)]
struct LogEnd {
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    last_seq: Option<u64>,
    events: u64,
}

impl LogEnd {
    /// Returns the end as far as it is not compressed, else the time of the last write.
    fn in_brief(dir: &DirHandle, files: &RunFiles) -> io::Result<Self> {
        let mut end = Self::default();
        if let Some(newest) = &files.newest {
            end.first = tail::first_ts(newest)?;
            end.last = tail::last_ts(newest)?;
        }
        if let (Some(closed), None) = (files.closed.last(), end.last) {
            let (file, closed) = open_closed(dir, closed.number)?;
            end.last = if closed.is_gzip {
                let seconds = file.metadata()?.mtime();
                Some(Timestamp::from_micros(seconds.saturating_mul(1_000_000)))
            } else {
                tail::last_ts(&file)?
            };
        }
        Ok(end)
    }

    fn of(directory: &RunDirectory, dir: &DirHandle, files: &RunFiles) -> io::Result<Self> {
        let mut end = Self::default();
        let mut seq = None;
        if let Some(newest) = &files.newest {
            end.first = tail::first_ts(newest)?;
            end.last = tail::last_ts(newest)?;
            seq = tail::last_seq(newest)?;
        }
        // A newest file that has just begun has no events yet, but the previous file has.
        if let (Some(closed), true) = (files.closed.last(), seq.is_none() || end.last.is_none()) {
            let (file, closed) = open_closed(dir, closed.number)?;
            if closed.is_gzip {
                // Compressed files are read from the start; an unreadable one has no end.
                for record in LogReader::open_last(directory, 2, Query::all())
                    .into_iter()
                    .flatten()
                {
                    seq = seq.max(record.envelope.seq.filter(|&seq| seq < tail::SEQ_MAX));
                    end.last = end.last.max(Some(record.envelope.ts));
                }
            } else {
                seq = seq.max(tail::last_seq(&file)?);
                end.last = end.last.max(tail::last_ts(&file)?);
            }
        }
        if seq.is_none() {
            // Without numbers, events are counted.
            let all = LogReader::open(directory, Query::all()).map_err(io::Error::other)?;
            for record in all {
                end.events += 1;
                end.last = end.last.max(Some(record.envelope.ts));
            }
        }
        end.events = seq.unwrap_or(end.events);
        end.last_seq = seq;
        Ok(end)
    }
}

fn is_empty(files: &RunFiles) -> bool {
    let len = files.newest.as_ref().map(File::metadata);
    !len.is_some_and(|about| about.map_or(true, |about| about.len() > 0))
}

/// Returns the events that are missing between the files of a log and at its end. `last_seq` is the last number
/// of the log. Reads a compressed file that does not state its last number only if the next file is missing.
fn missing_at_ends(
    dir: &DirHandle,
    files: &RunFiles,
    metadata: Option<&RunMetadata>,
    last_seq: Option<u64>,
) -> io::Result<Vec<MissingEvents>> {
    let mut missing = Vec::new();
    let mut add = |next: Option<u64>, before: u64, name: &str, offset| {
        if let Some(next) = next.filter(|next| *next < before) {
            missing.push(MissingEvents::new(
                (next, before - 1),
                dir.join(name),
                offset,
            ));
        }
    };
    // The number that follows the previous file, if it is known.
    let mut next = Some(1);
    let mut closed = files.closed.iter().peekable();
    while let Some(file) = closed.next() {
        let number = file.number;
        // The numbers of an unreadable file are missing before those of the next one.
        let Ok((file, file_is)) = open_closed(dir, number) else {
            continue;
        };
        let Some((first, event)) = first_numbers(file.try_clone()?).unwrap_or_default() else {
            continue;
        };
        add(next, first, &file_is.name(), Some(0));
        // A closed file has events.
        let Some(event) = event else {
            next = Some(first);
            continue;
        };
        add(Some(first), event, &file_is.name(), Some(0));
        let is_next_missing = closed
            .peek()
            .is_some_and(|after| after.number != number + 1);
        let stated = || tail::last_seq_in_comment(&file);
        let last = match file_is.is_gzip {
            false => tail::last_seq(&file)?,
            true if is_next_missing => stated().or_else(|| last_number(&file).unwrap_or_default()),
            true => stated(),
        };
        next = last.map(|last| last + 1);
    }
    if let Some(newest) = &files.newest
        && let Some((first, event)) = first_numbers(newest.try_clone()?).unwrap_or_default()
    {
        add(next, first, EVENTS, Some(0));
        add(Some(first), event.unwrap_or(first), EVENTS, Some(0));
    }
    if let Some(end) = metadata.and_then(PromisedEnd::of) {
        let next = last_seq.map_or(1, |last| last + 1);
        add(Some(next), end.next_seq, EVENTS, None);
    }
    Ok(missing)
}

/// Returns the time of the last write, for a run without any other time.
fn written(dir: &DirHandle) -> Timestamp {
    let about = [EVENTS, METADATA].iter().find_map(|name| {
        let file = dir.file(name, rustix::fs::OFlags::RDONLY).ok()?;
        file.metadata().ok()
    });
    let seconds = about.map_or(0, |about| about.mtime());
    Timestamp::from_micros(seconds.saturating_mul(1_000_000))
}

/// Returns the total size of all files below a directory; unreadable files count as empty.
fn size_of(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else {
        return 0;
    };
    let sizes = entries.flatten().map(|entry| {
        // The entry itself is measured, because a symbolic link may lead elsewhere.
        match entry.metadata() {
            Ok(about) if about.is_dir() => size_of(&entry.path()),
            Ok(about) => about.len(),
            Err(_) => 0,
        }
    });
    sizes.sum()
}

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
            state: if is_running {
                RunStatus::Running
            } else {
                RunStatus::Ended(RunState::Completed)
            },
            started: ts,
            last_event: ts,
            duration_ms: 0,
            events: 1,
            size_bytes,
            exit_status: None,
            is_incomplete: false,
            missing: Vec::new(),
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
