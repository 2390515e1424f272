//! The home directories of known agents: finds the sessions in them that are active.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::tree::{Listed, Tree};
use crate::timestamp::Timestamp;

/// A session that was written to within this time is active; an older one has ended for now.
const ACTIVE_MICROS: i64 = 10 * 60 * 1_000_000;

/// The most files of ended sessions that one search checks: 2,000 take some milliseconds.
const CHECKED_MAX: usize = 2_000;

/// A directory in which an agent keeps its sessions.
#[derive(Clone, Debug)]
pub(super) struct Home {
    tree: Tree,
    /// The last write of each session that has ended.
    ended: HashMap<PathBuf, (i64, i64)>,
    /// The last of them that was checked.
    last_checked: PathBuf,
}

impl Home {
    fn new(root: PathBuf, only_in: Option<&'static str>) -> Self {
        Self {
            tree: Tree::new(root, only_in),
            ended: HashMap::new(),
            last_checked: PathBuf::new(),
        }
    }

    /// Returns the directories in which agents keep their sessions, by these environment variables.
    pub fn all(variable: impl Fn(&str) -> Option<OsString>) -> Vec<Self> {
        let place = |name: &str| {
            let value = variable(name).filter(|value| !value.is_empty());
            value.map(PathBuf::from)
        };
        let home = place("HOME");
        let below = |name: &str| home.as_ref().map(|home| home.join(name));
        // The defaults are searched, too, because an agent may run without the variable.
        let places = [
            (below(".claude"), "projects", None),
            (place("CLAUDE_CONFIG_DIR"), "projects", None),
            (below(".codex"), "sessions", None),
            (place("CODEX_HOME"), "sessions", None),
            (below(".gemini"), "tmp", Some("chats")),
            (
                place("GEMINI_CLI_HOME").map(|home| home.join(".gemini")),
                "tmp",
                Some("chats"),
            ),
            (below(".qwen"), "projects", Some("chats")),
            (place("QWEN_RUNTIME_DIR"), "projects", Some("chats")),
        ];
        let mut roots: Vec<PathBuf> = Vec::new();
        let mut homes = Vec::new();
        for (config, name, only_in) in places {
            let Some(root) = config.map(|config| config.join(name)) else {
                continue;
            };
            if !roots.contains(&root) {
                roots.push(root.clone());
                homes.push(Self::new(root, only_in));
            }
        }
        homes
    }

    /// Returns the directory, if it exists.
    #[cfg(feature = "cli")]
    pub fn existing(&self) -> Option<String> {
        let root = self.tree.root();
        root.is_dir().then(|| root.display().to_string())
    }

    /// Returns the number of known directories.
    pub fn directories(&self) -> usize {
        self.tree.directories()
    }

    /// Lists the files of active sessions.
    pub fn list(&mut self, wall: Timestamp, listed: &mut Listed) {
        let mut below = Listed::default();
        self.tree.list(wall, &mut below);
        listed.warnings.append(&mut below.warnings);
        let mut ended = std::mem::take(&mut self.ended);
        let active_since = wall
            .micros()
            .saturating_sub(ACTIVE_MICROS)
            .div_euclid(1_000_000);
        let mut checked = 0;
        let mut last = None;
        // Each search checks the next files, and starts again after the last one.
        let first = below
            .files
            .iter()
            .position(|path| *path == self.last_checked);
        below.files.rotate_left(first.map_or(0, |at| at + 1));
        for path in below.files {
            let before = ended.remove(&path);
            if before.is_some() {
                if checked >= CHECKED_MAX {
                    self.ended.extend(before.map(|before| (path, before)));
                    continue;
                }
                checked += 1;
                last = Some(path.clone());
            }
            let Ok(metadata) = fs::metadata(&path) else {
                continue;
            };
            let modified = (metadata.mtime(), metadata.mtime_nsec());
            let is_over = match before {
                Some(before) => before == modified,
                None => modified.0 < active_since,
            };
            if is_over {
                self.ended.insert(path, modified);
            } else {
                listed.files.push(path);
            }
        }
        listed.files.sort();
        self.last_checked = last.unwrap_or_default();
    }
}
