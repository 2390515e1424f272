//! A fingerprint of a working directory, which changes with the names, sizes and times of its files.

use std::fs;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustc_hash::FxHasher;

use crate::clock::Clock;

/// Limits of the walk, which takes about 2 µs per file. Larger directories have no fingerprint.
const ENTRIES_MAX: usize = 500_000;
const TIME_MAX: Duration = Duration::from_secs(5);
const DEPTH_MAX: usize = 200;

/// Directories of version control systems, which change without any work: `git status` writes its index.
const IGNORED_NAMES: &[&str] = &[".git", ".hg", ".jj", ".svn"];

/// Returns a hash of the names, kinds, sizes, times and inodes of all files below a directory, except
/// those of version control and in `ignored`. Symbolic links are not followed. Returns `None` if the
/// directory is too large or unreadable.
pub(super) fn fingerprint(root: &Path, ignored: Option<&Path>, clock: &Clock) -> Option<u64> {
    let root = fs::canonicalize(root).ok()?;
    let ignored = ignored.and_then(|path| fs::canonicalize(path).ok());
    let mut walk = DirectoryWalk {
        ignored,
        entries: 0,
        deadline: clock.now() + TIME_MAX,
        clock,
        sum: 0,
    };
    walk.directory(&root, 0)?;
    Some(walk.sum)
}

struct DirectoryWalk<'a> {
    ignored: Option<PathBuf>,
    entries: usize,
    deadline: Instant,
    clock: &'a Clock,
    /// The sum of the entries' hashes, which does not depend on their order.
    sum: u64,
}

impl DirectoryWalk<'_> {
    fn directory(&mut self, path: &Path, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX || self.clock.now() >= self.deadline {
            return None;
        }
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            // Removed in the meantime, or unreadable, so that the agent cannot change it either.
            Err(_) if depth > 0 => return Some(()),
            Err(_) => return None,
        };
        for entry in entries.flatten() {
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                return None;
            }
            let path: PathBuf = entry.path();
            let name = entry.file_name();
            let is_ignored = IGNORED_NAMES.iter().any(|ignored| name == *ignored);
            if is_ignored || self.ignored.as_ref() == Some(&path) {
                continue;
            }
            let Ok(metadata) = fs::symlink_metadata(&path) else {
                continue;
            };
            let mut hasher = FxHasher::default();
            (&path, metadata.mode(), metadata.ino()).hash(&mut hasher);
            if !metadata.is_dir() {
                let modified = (metadata.mtime(), metadata.mtime_nsec());
                // Programs cannot set this time.
                let changed = (metadata.ctime(), metadata.ctime_nsec());
                (metadata.size(), modified, changed).hash(&mut hasher);
            }
            self.sum = self.sum.wrapping_add(hasher.finish());
            if metadata.is_dir() {
                self.directory(&path, depth + 1)?;
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_creations_removals_and_renames_are_changes() {
        let temp = tempfile::tempdir().unwrap();
        let (root, clock) = (temp.path(), Clock::system());
        let sub = root.join("sub");
        fs::create_dir(&sub).unwrap();
        fs::create_dir(root.join(".git")).unwrap();
        fs::write(sub.join("a"), "1").unwrap();
        let ignored = root.join("data");
        let current = || fingerprint(root, Some(&ignored), &clock);
        let mut before = current();
        assert!(before.is_some());
        let check = |before: &mut Option<u64>, what: &str, is_same: bool| {
            let after = current();
            assert_eq!(after == *before, is_same, "{what}");
            *before = after;
        };
        check(&mut before, "nothing", true);
        fs::write(sub.join("a"), "22").unwrap();
        check(&mut before, "written", false);
        fs::write(sub.join("b"), "").unwrap();
        check(&mut before, "created", false);
        fs::rename(sub.join("b"), sub.join("c")).unwrap();
        check(&mut before, "renamed", false);
        fs::remove_file(sub.join("c")).unwrap();
        check(&mut before, "removed", false);
        std::os::unix::fs::symlink("/", root.join("all")).unwrap();
        check(&mut before, "a link, which is not followed", false);
        fs::write(root.join(".git/index"), "x").unwrap();
        fs::create_dir(&ignored).unwrap();
        fs::write(ignored.join("log"), "x").unwrap();
        check(&mut before, "ignored files", true);
        assert_eq!(fingerprint(&root.join("none"), None, &clock), None);
    }
}
