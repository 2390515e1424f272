//! `metadata.json`: what a run is of, kept beside its events; read with suspicion, replaced whole.

use std::io::{self, Read, Write};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::event::ExecutionId;
use crate::history::dir::{METADATA, RunDirectory};
use crate::history::dir_handle::DirHandle;
use crate::timestamp::Timestamp;

/// A file beyond this is not ours; ours have some hundred bytes.
const METADATA_BYTES_MAX: u64 = 1024 * 1024;
const TEMPORARY: &str = "metadata.json.tmp";

/// Which tmux session a run is of, whatever the session is called now: these never change in its
/// life, and no other session has the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TmuxIdentity {
    /// The server's socket.
    pub socket: String,
    /// The server's process.
    pub server_pid: u32,
    /// When the server started, in seconds since 1970: process ids come again.
    pub server_started: i64,
    /// The session's id, as `$3`.
    pub session_id: String,
    /// When the session was made, in seconds since 1970.
    pub session_created: i64,
}

/// How a run is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// Somebody writes it, or died while writing it.
    #[default]
    Running,
    /// What was observed has ended.
    Completed,
    /// What was observed has failed.
    Failed,
    /// The observer stopped, and what it observed may go on.
    Detached,
    /// A state that this version does not know.
    #[serde(untagged)]
    Other(String),
}

/// What whoever opens a run says about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunInfo {
    /// What kind of thing is observed: `tmux`, `process`, `loop`, `agents`.
    pub kind: String,
    /// Its name for humans, at first sight.
    pub label: String,
    /// The tmux session, if it is one.
    pub identity: Option<TmuxIdentity>,
    /// Anything else that is worth keeping: command, target, directory.
    pub extra: Map<String, Value>,
}

/// The content of `metadata.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// The run's execution.
    pub execution_id: ExecutionId,
    /// What kind of thing is observed: `tmux`, `process`, `loop`, `agents`.
    #[serde(default)]
    pub kind: String,
    /// Its name for humans, at first sight.
    #[serde(default)]
    pub label: String,
    /// The tmux session, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<TmuxIdentity>,
    /// When the run began.
    #[serde(default)]
    pub created: Timestamp,
    /// When this file was written.
    #[serde(default)]
    pub updated: Timestamp,
    /// The last writer's process.
    #[serde(default)]
    pub pid: u32,
    /// The last writer's host.
    #[serde(default)]
    pub host: String,
    /// How the run is doing.
    #[serde(default)]
    pub state: RunState,
    /// What the observed thing exited with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<i32>,
    /// The number that the next event gets, as of a run's orderly end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_seq: Option<u64>,
    /// Anything else: command, target, directory.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
    /// Fields that this version does not know, kept.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl Metadata {
    /// For a run that begins.
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
            extra: info.extra,
            unknown: Map::new(),
        }
    }

    /// For a run that goes on: its beginning and first label stay, and what nobody replaces.
    pub(super) fn resumed(self, info: RunInfo, ts: Timestamp) -> Self {
        let mut extra = self.extra;
        extra.extend(info.extra);
        Self {
            kind: if info.kind.is_empty() {
                self.kind
            } else {
                info.kind
            },
            label: if self.label.is_empty() {
                info.label
            } else {
                self.label
            },
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

    /// Reads the metadata of a run; `None` when there is none.
    ///
    /// # Errors
    /// When it cannot be used: unreadable, not ours, too big, a link. A run without metadata is as
    /// good as one with, so this is a warning to pass on, never a reason to stop.
    pub fn read(run: &RunDirectory) -> Result<Option<Self>> {
        match DirHandle::open(run.path()) {
            Ok(dir) => Self::read_in(&dir),
            Err(_) if !run.exists() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn read_in(dir: &DirHandle) -> Result<Option<Self>> {
        let failed = |cause| Error::file("cannot use", &dir.join(METADATA), cause);
        let file = match dir.file(METADATA, OFlags::RDONLY) {
            Ok(file) => file,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(failed(cause)),
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

    /// Replaces the file; whoever reads it sees the old or the new one, whole. For the holder of
    /// the run's lock: there is one temporary file.
    pub(super) fn write_in(&self, dir: &DirHandle) -> Result<()> {
        let write = || {
            dir.remove(TEMPORARY)?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            let mut file = dir.file(TEMPORARY, flags)?;
            let mut text = serde_json::to_vec_pretty(self)?;
            text.push(b'\n');
            file.write_all(&text)?;
            // Without this a power cut may leave the new name with nothing in it.
            file.sync_data()?;
            dir.rename(TEMPORARY, METADATA)
        };
        write().map_err(|cause| Error::file("cannot write", &dir.join(METADATA), cause))
    }
}

/// The name of this host.
pub(super) fn host() -> String {
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
    use crate::history::dir::DataDir;

    fn run() -> (tempfile::TempDir, RunDirectory) {
        let temp = tempfile::tempdir().unwrap();
        let run = DataDir::new(temp.path()).run(&"a".into());
        run.create().unwrap();
        (temp, run)
    }

    #[test]
    fn what_is_not_known_is_kept() {
        let (_temp, run) = run();
        let text = r#"{"execution_id":"a","state":"paused","mood":{"is":"good"},"extra":{"x":1}}"#;
        fs::write(run.metadata_path(), text).unwrap();
        let read = Metadata::read(&run).unwrap().unwrap();
        assert_eq!(read.state, RunState::Other("paused".into()));
        let resumed = read.resumed(RunInfo::default(), Timestamp::default());
        resumed.write_in(&run.open_dir().unwrap()).unwrap();
        let again = Metadata::read(&run).unwrap().unwrap();
        assert_eq!(again, resumed);
        assert_eq!(again.unknown["mood"]["is"], "good");
        assert_eq!(again.extra["x"], 1);
        assert_eq!(again.state, RunState::Running);
    }

    #[test]
    fn bad_files_are_an_error_to_tell_not_to_stop_at() {
        let (temp, run) = run();
        assert!(Metadata::read(&run).unwrap().is_none());
        for text in ["", "{", "[]", "null", "{\"execution_id\":7}", "\u{0}\u{0}"] {
            fs::write(run.metadata_path(), text).unwrap();
            assert!(Metadata::read(&run).is_err(), "{text:?}");
        }
        fs::write(
            run.metadata_path(),
            vec![b' '; METADATA_BYTES_MAX as usize + 1],
        )
        .unwrap();
        assert!(Metadata::read(&run).is_err());
        fs::remove_file(run.metadata_path()).unwrap();
        fs::write(temp.path().join("secret"), "{\"execution_id\":\"a\"}").unwrap();
        symlink(temp.path().join("secret"), run.metadata_path()).unwrap();
        assert!(Metadata::read(&run).is_err());
        // Writing replaces the link and does not touch what it leads to.
        let metadata = Metadata::new(&"a".into(), RunInfo::default(), Timestamp::default());
        metadata.write_in(&run.open_dir().unwrap()).unwrap();
        assert_eq!(Metadata::read(&run).unwrap(), Some(metadata));
        assert_eq!(
            fs::read(temp.path().join("secret")).unwrap(),
            b"{\"execution_id\":\"a\"}"
        );
    }
}
