//! `metadata.json`, which describes the run and its state. Reading tolerates damaged files; writing replaces
//! the whole file.

use std::io::ErrorKind::{QuotaExceeded, StorageFull};
use std::io::{self, Read, Write};

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::retry_on_intr;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::event::{ExecutionId, PaneId};
use crate::history::dir_handle::{DirHandle, METADATA};
use crate::timestamp::Timestamp;

/// The largest file that is read; normal files have some hundred bytes.
const METADATA_BYTES_MAX: u64 = 1024 * 1024;
/// The key in [`RunMetadata::extra`] of the session's present name, if it differs from the label.
pub(crate) const SESSION: &str = "session";

/// The key in [`RunMetadata::extra`] of the tmux pane in whose foreground a command or a loop runs.
pub(crate) const IN_PANE: &str = "in_pane";

const TEMPORARY: &str = "metadata.json.tmp";
/// The file with the space that is reserved for a run's last metadata, under which they are written first. It is
/// empty while the run is open.
const RESERVED: &str = "metadata.json.end";
/// What a run adds to its metadata until its end: the final state, exit status and numbers need 130 bytes, the
/// name of a renamed session the rest.
const ADDED_BYTES_MAX: u64 = 1024;

/// Identifies the tmux session of a run independently of its current name. The fields never change during the
/// life of a session, and no other session has the same ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TmuxIdentity {
    /// The socket of the server.
    pub socket: String,
    /// The process id of the server.
    pub server_pid: u32,
    /// The time when the server started, in seconds since 1970; needed because process ids are reused.
    pub server_started: i64,
    /// The id of the session, for example `$3`.
    pub session_id: String,
    /// The time when the session was created, in seconds since 1970.
    pub session_created: i64,
}

impl TmuxIdentity {
    /// Returns true if both sessions are of the same tmux server.
    pub(super) fn shares_server_with(&self, other: &Self) -> bool {
        let server = |of: &Self| (of.server_pid, of.server_started);
        server(self) == server(other) && self.socket == other.socket
    }
}

/// The kind of a run's execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RunKind {
    /// A tmux session.
    Tmux,
    /// A command, or code of the embedder.
    Process,
    /// An agentic loop.
    Loop,
    /// Background agents.
    Agents,
    /// A Jupyter kernel.
    Kernel,
    /// A kind that the embedder has named, or that this version does not know; empty by default.
    #[serde(untagged)]
    Other(String),
}

impl RunKind {
    /// Returns the kind as it is stored.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Tmux => "tmux",
            Self::Process => "process",
            Self::Loop => "loop",
            Self::Agents => "agents",
            Self::Kernel => "kernel",
            Self::Other(kind) => kind,
        }
    }
}

impl Default for RunKind {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

/// The state of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RunState {
    /// A writer has the run open, or crashed while it had.
    #[default]
    Running,
    /// The observed execution has ended.
    Completed,
    /// The observed execution has failed.
    Failed,
    /// The observer stopped; the observed execution may continue.
    Detached,
    /// A state that this version does not know.
    #[serde(untagged)]
    Other(String),
}

impl RunState {
    /// Returns the state as it is stored.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Detached => "detached",
            Self::Other(state) => state,
        }
    }
}

/// Describes a run when it is opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunInfo {
    /// The kind of execution.
    pub kind: RunKind,
    /// The name of the execution when it was first observed, for users.
    pub label: String,
    /// The tmux session, if the run has one.
    pub identity: Option<TmuxIdentity>,
    /// Additional data: command, target, directory.
    pub extra: Map<String, Value>,
}

/// The content of `metadata.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunMetadata {
    /// The execution of the run.
    pub execution_id: ExecutionId,
    /// The kind of execution.
    #[serde(default)]
    pub kind: RunKind,
    /// The name of the execution when it was first observed, for users.
    #[serde(default)]
    pub label: String,
    /// The tmux session, if the run has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<TmuxIdentity>,
    /// The time when the run began.
    #[serde(default)]
    pub created: Timestamp,
    /// The time when this file was written.
    #[serde(default)]
    pub updated: Timestamp,
    /// The process id of the last writer.
    #[serde(default)]
    pub pid: u32,
    /// The host of the last writer.
    #[serde(default)]
    pub host: String,
    /// The state of the run.
    #[serde(default)]
    pub state: RunState,
    /// The exit status of the execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<i32>,
    /// The number of the next event; set when the run ends normally.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_seq: Option<u64>,
    /// The number of the first event that the last writer could not write, if it had to end without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_from: Option<u64>,
    /// Additional data: command, target, directory.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl RunMetadata {
    pub(super) fn new(execution_id: &ExecutionId, info: RunInfo, ts: Timestamp) -> Self {
        Self {
            execution_id: execution_id.clone(),
            kind: info.kind,
            label: info.label,
            identity: info.identity,
            created: ts,
            updated: ts,
            pid: std::process::id(),
            host: host(),
            state: RunState::Running,
            exit_status: None,
            next_seq: None,
            dropped_from: None,
            extra: info.extra,
            unknown: Map::new(),
        }
    }

    /// Returns the metadata of a resumed run. Keeps the start time, the first label, and all data that `info`
    /// does not replace.
    pub(super) fn resumed(self, info: RunInfo, ts: Timestamp) -> Self {
        let mut extra = self.extra;
        // It may run elsewhere now.
        extra.remove(IN_PANE);
        extra.extend(info.extra);
        let or = |text: String, other| Some(text).filter(|text| !text.is_empty()).unwrap_or(other);
        Self {
            kind: match info.kind.as_str() {
                "" => self.kind,
                _ => info.kind,
            },
            label: or(self.label, info.label),
            identity: info.identity.or(self.identity),
            updated: ts,
            pid: std::process::id(),
            host: host(),
            state: RunState::Running,
            exit_status: None,
            extra,
            ..self
        }
    }

    /// Returns true if these are the metadata of a copy of another host's run that had not ended when its last event was
    /// copied, whether or not something copies it now.
    #[cfg(feature = "cli")]
    pub(crate) fn is_open_copy(&self) -> bool {
        self.state == RunState::Running && self.next_seq.is_none()
    }

    /// Returns the socket of the tmux server and the pane in whose foreground a command or a loop runs.
    pub(crate) fn in_pane(&self) -> Option<(String, PaneId)> {
        let place = self.extra.get(IN_PANE)?;
        let text = |name: &str| place.get(name)?.as_str();
        Some((text("server")?.to_owned(), text("pane")?.into()))
    }

    /// Returns true if the observed execution may go on, and another writer may continue the run.
    #[cfg(feature = "hosts")]
    pub(crate) fn may_continue(&self) -> bool {
        matches!(self.state, RunState::Running | RunState::Detached)
    }

    /// Returns the present name of the session: the label, unless it was renamed.
    pub(super) fn session(&self) -> &str {
        let renamed = self.extra.get(SESSION).and_then(Value::as_str);
        renamed.unwrap_or(&self.label)
    }

    /// Returns the names by which users refer to the run, in addition to its id.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let names = [self.label.as_str(), self.session()];
        names.into_iter().filter(|name| !name.is_empty())
    }

    pub(super) fn read_in(dir: &DirHandle) -> Result<Option<Self>> {
        let failed = |cause| Error::file("cannot use", &dir.join(METADATA), cause);
        let Some(file) = dir.existing_file(METADATA).map_err(failed)? else {
            return Ok(None);
        };
        let mut text = Vec::new();
        file.take(METADATA_BYTES_MAX + 1)
            .read_to_end(&mut text)
            .map_err(failed)?;
        if text.len() as u64 > METADATA_BYTES_MAX {
            return Err(failed(io::Error::new(
                io::ErrorKind::InvalidData,
                "it is too big",
            )));
        }
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|cause| failed(cause.into()))
    }

    /// Reserves the space of [`RunMetadata::write_last`], unless it is reserved. Requires the run's lock.
    ///
    /// # Errors
    /// If the disk is full. A file system that cannot reserve space is no error.
    pub(super) fn reserve(&self, dir: &DirHandle) -> Result<()> {
        let reserve = || {
            let len = serde_json::to_vec_pretty(self)?.len() as u64 + ADDED_BYTES_MAX;
            let file = dir.file(RESERVED, OFlags::WRONLY | OFlags::CREATE)?;
            let flags = FallocateFlags::KEEP_SIZE;
            retry_on_intr(|| fallocate(&file, flags, 0, len)).map_err(io::Error::from)
        };
        match reserve() {
            Err(cause) if matches!(cause.kind(), StorageFull | QuotaExceeded) => {
                let failed = "cannot reserve space for the last version of";
                Err(Error::file(failed, &dir.join(METADATA), cause))
            }
            _ => Ok(()),
        }
    }

    /// Replaces the file atomically. Requires the run's lock, because all writers share one temporary file. One
    /// that is not synced survives a power cut only after `td-sync` has synced the directory.
    pub(super) fn write(&self, dir: &DirHandle, is_synced: bool) -> Result<()> {
        self.write_as(TEMPORARY, dir, is_synced)
    }

    /// Replaces the file atomically at the end of the run. Uses the reserved space, so that a full disk cannot
    /// prevent it.
    pub(super) fn write_last(&self, dir: &DirHandle) -> Result<()> {
        self.write_as(RESERVED, dir, true)
    }

    fn write_as(&self, name: &str, dir: &DirHandle, is_synced: bool) -> Result<()> {
        let write = || {
            let mut file = dir.file(name, OFlags::WRONLY | OFlags::CREATE)?;
            let mut text = serde_json::to_vec_pretty(self)?;
            text.push(b'\n');
            file.write_all(&text)?;
            // Removes what a writer that was killed has left.
            file.set_len(text.len() as u64)?;
            if is_synced {
                // Without this, a power cut may leave an empty file under the new name.
                file.sync_data()?;
            }
            dir.rename(name, METADATA)
        };
        write().map_err(|cause| {
            // An incomplete file only takes space; if it cannot be removed, the next write replaces it.
            let _ = dir.remove(name);
            Error::file("cannot write", &dir.join(METADATA), cause)
        })
    }
}

/// Returns the name of this host.
pub(crate) fn host() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::history::dir::{DataDir, RunDirectory};

    fn run() -> (tempfile::TempDir, RunDirectory) {
        let temp = tempfile::tempdir().unwrap();
        let run = DataDir::new(temp.path()).run(&"a".into());
        run.create().unwrap();
        (temp, run)
    }

    #[test]
    fn kinds_are_stored_as_names() {
        use RunKind::{Agents, Kernel, Loop, Other, Process, Tmux};
        let unknown = Other("build".to_owned());
        for kind in [
            Tmux,
            Process,
            Loop,
            Agents,
            Kernel,
            unknown,
            RunKind::default(),
        ] {
            let json = serde_json::to_value(&kind).unwrap();
            assert_eq!(json, kind.as_str());
            assert_eq!(serde_json::from_value::<RunKind>(json).unwrap(), kind);
        }
    }

    #[test]
    fn unknown_data_are_kept() {
        let (_temp, run) = run();
        let text = r#"{"execution_id":"a","state":"paused","mood":{"is":"good"},"extra":{"x":1}}"#;
        fs::write(run.metadata_path(), text).unwrap();
        let read = run.metadata().unwrap().unwrap();
        assert_eq!(read.state, RunState::Other("paused".into()));
        let resumed = read.resumed(RunInfo::default(), Timestamp::default());
        resumed.write(&run.open_dir().unwrap(), true).unwrap();
        let again = run.metadata().unwrap().unwrap();
        assert_eq!(again, resumed);
        assert_eq!(again.unknown["mood"]["is"], "good");
        assert_eq!(again.extra["x"], 1);
        assert_eq!(again.state, RunState::Running);
    }

    #[test]
    fn the_last_write_replaces_what_a_killed_writer_left() {
        let (_temp, run) = run();
        let dir = run.open_dir().unwrap();
        let metadata = RunMetadata::new(&"a".into(), RunInfo::default(), Timestamp::default());
        for left in ["", "{\"execution_id\": \"a", &"x".repeat(10_000)] {
            fs::write(run.path().join(RESERVED), left).unwrap();
            metadata.reserve(&dir).unwrap();
            metadata.write_last(&dir).unwrap();
            assert_eq!(run.metadata().unwrap().as_ref(), Some(&metadata));
            assert!(!run.path().join(RESERVED).exists());
        }
    }

    #[test]
    fn unusable_files_are_errors_and_are_replaced() {
        let (temp, run) = run();
        assert!(run.metadata().unwrap().is_none());
        for text in ["", "{", "[]", "null", "{\"execution_id\":7}", "\u{0}\u{0}"] {
            fs::write(run.metadata_path(), text).unwrap();
            assert!(run.metadata().is_err(), "{text:?}");
        }
        fs::write(
            run.metadata_path(),
            vec![b' '; METADATA_BYTES_MAX as usize + 1],
        )
        .unwrap();
        assert!(run.metadata().is_err());
        fs::remove_file(run.metadata_path()).unwrap();
        fs::write(temp.path().join("secret"), "{\"execution_id\":\"a\"}").unwrap();
        symlink(temp.path().join("secret"), run.metadata_path()).unwrap();
        assert!(run.metadata().is_err());
        // Writing replaces the link and leaves its target unchanged.
        let metadata = RunMetadata::new(&"a".into(), RunInfo::default(), Timestamp::default());
        metadata.write(&run.open_dir().unwrap(), true).unwrap();
        assert_eq!(run.metadata().unwrap(), Some(metadata));
        assert_eq!(
            fs::read(temp.path().join("secret")).unwrap(),
            b"{\"execution_id\":\"a\"}"
        );
    }
}
