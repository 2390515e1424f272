//! What runs there are, and how each is doing.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Serialize, Serializer};

use crate::error::{Error, Result};
use crate::event::ExecutionId;
use crate::history::dir::{DataDir, RunDirectory};
use crate::history::dir_handle::{DirHandle, EVENTS, METADATA};
use crate::history::lock::is_written;
use crate::history::metadata::{RunMetadata, RunState};
use crate::history::read::{LogReader, Query};
use crate::history::run_files::{RunFiles, open_closed};
use crate::history::tail;
use crate::timestamp::Timestamp;

/// How a run is doing, as far as can be told from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunStatus {
    /// Somebody writes it.
    Running,
    /// Its writer is gone without a word: it crashed, or was killed.
    CutOff,
    /// It has ended, and this is what its writer said of it.
    Ended(RunState),
}

impl RunStatus {
    /// As it is shown: `running`, `cut off`, `completed`, `failed`, `detached`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Running | Self::Ended(RunState::Running) => "running",
            Self::CutOff => "cut off",
            Self::Ended(RunState::Completed) => "completed",
            Self::Ended(RunState::Failed) => "failed",
            Self::Ended(RunState::Detached) => "detached",
            Self::Ended(RunState::Other(state)) => state,
        }
    }
}

impl Serialize for RunStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One run, as a list of them shows it.
#[derive(Clone, Debug, Serialize)]
pub struct RunSummary {
    /// Its execution.
    pub execution_id: ExecutionId,
    /// What kind of thing was observed: `tmux`, `process`, `loop`, `agents`; empty when not known.
    pub kind: String,
    /// Its name for humans, at first sight.
    pub label: String,
    /// How it is doing.
    pub state: RunStatus,
    /// When it began.
    pub started: Timestamp,
    /// When its last event happened.
    pub last_event: Timestamp,
    /// From its beginning to its last event, in ms; to now while it is running.
    pub duration_ms: u64,
    /// How many events it has had: the last number that it gave.
    pub events: u64,
    /// What all its files take, in bytes.
    pub size_bytes: u64,
    /// What the observed thing exited with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<i32>,
    /// Its directory.
    #[serde(rename = "path", serialize_with = "path_of")]
    pub directory: RunDirectory,
}

fn path_of<S: Serializer>(directory: &RunDirectory, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&directory.path().display())
}

/// All runs that could be read, and what could not.
#[derive(Debug, Default)]
pub struct RunList {
    /// In the order in which they began.
    pub runs: Vec<RunSummary>,
    /// Why others are missing.
    pub problems: Vec<Error>,
}

impl DataDir {
    /// All runs, in the order in which they began. A data directory that does not exist has none.
    ///
    /// # Errors
    /// When the directory cannot be listed.
    pub fn runs(&self, now: Timestamp) -> Result<RunList> {
        self.runs_unless_cancelled(now, &|| false)
    }

    /// The same, as far as it comes until it is to be given up.
    pub(super) fn runs_unless_cancelled(
        &self,
        now: Timestamp,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<RunList> {
        let mut list = RunList::default();
        for directory in self.run_directories()? {
            if is_cancelled() {
                break;
            }
            match summary(&directory, now) {
                Ok(Some(summary)) => list.runs.push(summary),
                Ok(None) => {}
                // Pruned while we were looking.
                Err(_) if !directory.exists() => {}
                Err(error) => list.problems.push(error),
            }
        }
        list.runs
            .sort_by(|a, b| (a.started, &*a.execution_id).cmp(&(b.started, &*b.execution_id)));
        Ok(list)
    }

    /// The run that somebody means: the one of this execution, else the latest one that was called
    /// so.
    ///
    /// # Errors
    /// [`Error::is_invalid_input`] when there is none; when the directory cannot be listed.
    pub fn named_run(&self, name: &str) -> Result<RunDirectory> {
        let exactly = self.run(&name.into());
        if exactly.exists() {
            return Ok(exactly);
        }
        let mut latest: Option<(Timestamp, RunDirectory)> = None;
        for directory in self.run_directories()? {
            // What cannot be read has no name.
            if let Ok(Some(metadata)) = directory.metadata()
                && metadata.label == name
                && latest
                    .as_ref()
                    .is_none_or(|(created, _)| *created <= metadata.created)
            {
                latest = Some((metadata.created, directory));
            }
        }
        latest.map(|(_, directory)| directory).ok_or_else(|| {
            Error::invalid(format!("no run is called {name:?} in")).at(self.runs_path())
        })
    }
}

/// What there is to say of a run; `None` for a directory that is none.
fn summary(directory: &RunDirectory, now: Timestamp) -> Result<Option<RunSummary>> {
    let failed = |cause| Error::file("cannot read the run in", directory.path(), cause);
    let dir = directory.open_dir()?;
    // Asked before the metadata are read, which its writer writes last.
    let is_written = is_written(&dir).map_err(failed)?;
    let metadata = RunMetadata::read_in(&dir).unwrap_or_default();
    let files = RunFiles::list(&dir).map_err(failed)?;
    if metadata.is_none() && files.newest.is_none() && files.closed.is_empty() {
        return Ok(None);
    }
    let end = LogEnd::of(directory, &dir, &files).map_err(failed)?;
    let state = match &metadata {
        _ if is_written => RunStatus::Running,
        // A log of another program has no word of its end; what it was is not known.
        None => RunStatus::Ended(RunState::Other("unknown".to_owned())),
        Some(metadata) if metadata.state == RunState::Running => RunStatus::CutOff,
        Some(metadata) => RunStatus::Ended(metadata.state.clone()),
    };
    let created = metadata.as_ref().map(|metadata| metadata.created);
    let started = match created.or(end.first) {
        Some(started) => started,
        None => written(&dir),
    };
    let last_event = end.last.unwrap_or(started);
    let until = if is_written { now } else { last_event };
    let micros = until.micros().saturating_sub(started.micros());
    let of = |text: fn(&RunMetadata) -> &String| metadata.as_ref().map(text).cloned();
    Ok(Some(RunSummary {
        execution_id: directory.execution_id().clone(),
        kind: of(|metadata| &metadata.kind).unwrap_or_default(),
        label: of(|metadata| &metadata.label).unwrap_or_default(),
        state,
        started,
        last_event,
        duration_ms: u64::try_from(micros / 1000).unwrap_or(0),
        events: end.events,
        size_bytes: size_of(directory.path()),
        exit_status: metadata.and_then(|metadata| metadata.exit_status),
        directory: directory.clone(),
    }))
}

/// What the ends of a run's log tell.
#[derive(Default)]
struct LogEnd {
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    events: u64,
}

impl LogEnd {
    fn of(directory: &RunDirectory, dir: &DirHandle, files: &RunFiles) -> io::Result<Self> {
        let mut end = Self::default();
        let mut seq = None;
        if let Some(newest) = &files.newest {
            end.first = tail::first_ts(newest)?;
            end.last = tail::last_ts(newest)?;
            seq = tail::last_seq(newest)?;
        }
        // The newest may have just begun: the one before has what it lacks.
        if let (Some(closed), true) = (files.closed.last(), seq.is_none() || end.last.is_none()) {
            let (file, closed) = open_closed(dir, closed.number)?;
            if closed.is_gzip {
                end.read(directory, &mut seq);
            } else {
                seq = seq.max(tail::last_seq(&file)?);
                end.last = end.last.max(tail::last_ts(&file)?);
            }
        }
        if seq.is_none() {
            // A log of a time before numbers is counted.
            let all = LogReader::open(directory, Query::all()).map_err(io::Error::other)?;
            for record in all {
                end.events += 1;
                end.last = end.last.max(Some(record.envelope.ts));
            }
        }
        end.events = seq.unwrap_or(end.events);
        Ok(end)
    }

    /// The same out of files that have no end to look at.
    fn read(&mut self, directory: &RunDirectory, seq: &mut Option<u64>) {
        let Ok(last) = LogReader::open_last(directory, 2, Query::all()) else {
            return;
        };
        for record in last {
            *seq = (*seq).max(record.envelope.seq.filter(|&seq| seq < tail::SEQ_MAX));
            self.last = self.last.max(Some(record.envelope.ts));
        }
    }
}

/// When the run was last written to, where nothing in it tells.
fn written(dir: &DirHandle) -> Timestamp {
    let about = [EVENTS, METADATA].iter().find_map(|name| {
        let file = dir.file(name, rustix::fs::OFlags::RDONLY).ok()?;
        file.metadata().ok()
    });
    let seconds = about.map_or(0, |about| about.mtime());
    Timestamp::from_micros(seconds.saturating_mul(1_000_000))
}

/// What all files below a directory take; what cannot be looked at takes nothing.
fn size_of(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else {
        return 0;
    };
    let sizes = entries.flatten().map(|entry| {
        // Of the entry itself: a symbolic link leads elsewhere.
        match entry.metadata() {
            Ok(about) if about.is_dir() => size_of(&entry.path()),
            Ok(about) => about.len(),
            Err(_) => 0,
        }
    });
    sizes.sum()
}
