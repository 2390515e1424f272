//! The report files of agents' hooks: one per session, in a directory of the user.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::file::read_small;
use crate::agent::{HookFile, is_session};
use crate::process::process_name;
use crate::timestamp::Timestamp;
use rustix::fs::OFlags;

/// The extension of report files.
const EXTENSION: &str = "json";

#[derive(Clone, Debug, Default)]
pub(crate) struct HookFiles {
    /// The possible directories; a report is written to the first writable one.
    pub(super) directories: Vec<PathBuf>,
}

/// The session that reports by hooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundHooks {
    pub session: String,
    /// True if the agent has run the hooks; false if they report from its directory.
    pub is_certain: bool,
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

    /// Returns the session whose hooks the process `pid` runs, which started at `since`: an ancestor of the hook. Else,
    /// that is the only session in `cwd` whose hooks no other agent of the same kind runs, as far as can be seen: a hook
    /// in a container has other process ids.
    pub(super) fn find(&self, pid: u32, cwd: &Path, since: Timestamp) -> Option<FoundHooks> {
        let (namespace, own_name) = (pid_namespace(), process_name(pid));
        let is_such = |other: &u32| own_name.is_some() && process_name(*other) == own_name;
        let mut by_ancestor: Option<HookFile> = None;
        let mut by_directory: Option<HookFile> = None;
        let mut is_unclear = false;
        for path in self.files() {
            let fits = |file: &HookFile| file.at().is_some_and(|at| at >= since);
            let Some(file) = read(&path).filter(fits) else {
                continue;
            };
            let is_here = file.pid_namespace == namespace;
            let found = match () {
                () if is_here && file.ancestors.contains(&pid) => &mut by_ancestor,
                () if is_here && file.ancestors.iter().any(is_such) => continue,
                () if Path::new(&file.cwd) == cwd => {
                    let found = by_directory.as_ref();
                    is_unclear |= found.is_some_and(|found| found.session_id != file.session_id);
                    &mut by_directory
                }
                () => continue,
            };
            if found.as_ref().is_none_or(|found| found.at() < file.at()) {
                *found = Some(file);
            }
        }
        let by_directory = by_directory.filter(|_| !is_unclear);
        let is_certain = by_ancestor.is_some();
        by_ancestor.or(by_directory).map(|file| FoundHooks {
            session: file.session_id,
            is_certain,
        })
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

/// Returns the name of the namespace in which this process sees other processes; empty if it is unknown.
pub(super) fn pid_namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().into_owned()
}

fn read(path: &Path) -> Option<HookFile> {
    // A link or a longer file is not one of ours.
    HookFile::read(&read_small(path, OFlags::NOFOLLOW, 64 * 1024)?)
}
