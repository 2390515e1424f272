//! The report files of agents' hooks: one per session, in a directory of the user.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::file::read_small;
use crate::agent::{HookFile, is_session};
use crate::timestamp::Timestamp;
use rustix::fs::OFlags;

/// The extension of report files.
const EXTENSION: &str = "json";

#[derive(Clone, Debug, Default)]
pub(crate) struct HookFiles {
    /// The possible directories; a report is written to the first writable one.
    pub(super) directories: Vec<PathBuf>,
}

impl HookFiles {
    /// Returns the directories that these environment variables name: the one that is removed at
    /// logout, if there is one, then those for the user's state.
    pub fn of(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let place = |name: &str| {
            let path = variable(name).map(PathBuf::from);
            path.filter(|path| path.is_absolute())
        };
        let places = [
            place("XDG_RUNTIME_DIR"),
            place("XDG_STATE_HOME"),
            place("HOME").map(|home| home.join(".local/state")),
        ];
        let places = places.into_iter().flatten();
        Self {
            directories: places.map(|place| place.join("td-observe/hooks")).collect(),
        }
    }

    /// Returns the last report of a session's hooks.
    pub fn read(&self, session: &str) -> Option<HookFile> {
        if !is_session(session) {
            return None;
        }
        let files = self.directories.iter();
        let files = files.filter_map(|directory| read(&file_of(directory, session)));
        files
            .filter(|file| file.session_id == session)
            .max_by_key(HookFile::at)
    }

    /// Returns the last report since `since` of the session in `cwd`; `None` if there are several.
    pub fn find(&self, cwd: &Path, since: Timestamp) -> Option<HookFile> {
        let mut found: Option<HookFile> = None;
        for path in self.files() {
            let fits = |file: &HookFile| {
                Path::new(&file.cwd) == cwd && file.at().is_some_and(|at| at >= since)
            };
            let Some(file) = read(&path).filter(fits) else {
                continue;
            };
            match &found {
                Some(other) if other.session_id != file.session_id => return None,
                Some(other) if other.at() >= file.at() => {}
                _ => found = Some(file),
            }
        }
        found
    }

    pub(super) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let directories = self.directories.iter();
        let entries = directories.filter_map(|directory| fs::read_dir(directory).ok());
        // The most files of a directory that are read; sessions that were killed leave theirs behind.
        let paths = entries.flatten().take(1_000).flatten();
        paths
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == EXTENSION))
    }
}

pub(super) fn file_of(directory: &Path, session: &str) -> PathBuf {
    directory.join(format!("{session}.{EXTENSION}"))
}

fn read(path: &Path) -> Option<HookFile> {
    // A link or a longer file is not one of ours.
    HookFile::read(&read_small(path, OFlags::NOFOLLOW, 64 * 1024)?)
}
