//! The homes of the agents that are known: where each keeps its sessions, and of those the ones that
//! live.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::tree::{Listed, Tree};
use crate::timestamp::Timestamp;

/// A session that was written to so short before it was found lives: what was written earlier has
/// ended, until it continues.
const LIVES_MICROS: i64 = 10 * 60 * 1_000_000;

/// Files of ended sessions that are asked in one search whether they continue: 2,000 take some
/// milliseconds.
const ASKED_MAX: usize = 2_000;

/// A directory in which an agent keeps its sessions.
#[derive(Clone, Debug)]
pub(super) struct Home {
    tree: Tree,
    /// When sessions that have ended were written to last.
    ended: HashMap<PathBuf, (i64, i64)>,
    /// Which of them was asked last.
    asked: PathBuf,
}

impl Home {
    fn new(root: PathBuf, only_in: Option<&'static str>) -> Self {
        Self {
            tree: Tree::new(root, only_in),
            ended: HashMap::new(),
            asked: PathBuf::new(),
        }
    }

    /// Where each agent keeps its sessions, by these variables of an environment.
    pub fn all(variable: impl Fn(&str) -> Option<OsString>) -> Vec<Self> {
        let place = |name: &str| {
            let value = variable(name).filter(|value| !value.is_empty());
            value.map(PathBuf::from)
        };
        let home = place("HOME");
        let below = |name: &str| home.as_ref().map(|home| home.join(name));
        // The defaults are searched, too: an agent may have been started without the variable.
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

    /// The directory, where it is there.
    #[cfg(feature = "cli")]
    pub fn existing(&self) -> Option<String> {
        let root = self.tree.root();
        root.is_dir().then(|| root.display().to_string())
    }

    /// Returns how many directories it has, as far as is known.
    pub fn directories(&self) -> usize {
        self.tree.directories()
    }

    /// The files of sessions that live, or continue.
    pub fn list(&mut self, wall: Timestamp, listed: &mut Listed) {
        let mut below = Listed::default();
        self.tree.list(wall, &mut below);
        listed.warnings.append(&mut below.warnings);
        let mut ended = std::mem::take(&mut self.ended);
        let lives = wall
            .micros()
            .saturating_sub(LIVES_MICROS)
            .div_euclid(1_000_000);
        let mut asked = 0;
        let mut last = None;
        // Each search asks the next ones, and begins again where it has asked all.
        let first = below.files.iter().position(|path| *path == self.asked);
        below.files.rotate_left(first.map_or(0, |at| at + 1));
        for path in below.files {
            let before = ended.remove(&path);
            if before.is_some() {
                if asked >= ASKED_MAX {
                    self.ended.extend(before.map(|before| (path, before)));
                    continue;
                }
                asked += 1;
                last = Some(path.clone());
            }
            let Ok(metadata) = fs::metadata(&path) else {
                continue;
            };
            let modified = (metadata.mtime(), metadata.mtime_nsec());
            let is_over = match before {
                Some(before) => before == modified,
                None => modified.0 < lives,
            };
            if is_over {
                self.ended.insert(path, modified);
            } else {
                listed.files.push(path);
            }
        }
        listed.files.sort();
        self.asked = last.unwrap_or_default();
    }
}
