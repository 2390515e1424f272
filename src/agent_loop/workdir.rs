//! Whether a working directory has changed: what its files are and when they were written.

use std::fs;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustc_hash::FxHasher;

use crate::clock::Clock;

/// Looking at a directory costs some 2 µs a file. Beyond these bounds nothing is said of it.
const ENTRIES_MAX: usize = 500_000;
const TIME_MAX: Duration = Duration::from_secs(5);
const DEPTH_MAX: usize = 200;

/// What changes without anything having been done: `git status` alone writes its index.
const PASSED_OVER: &[&str] = &[".git", ".hg", ".jj", ".svn"];

/// What a directory has in it, as one number: names, kinds, sizes, times and inodes of all files
/// below it, but for those of version control and of `leave_out`. Links are not followed. `None`
/// where it is too large, or cannot be read.
pub(super) fn fingerprint(root: &Path, leave_out: Option<&Path>, clock: &Clock) -> Option<u64> {
    let root = fs::canonicalize(root).ok()?;
    let leave_out = leave_out.and_then(|path| fs::canonicalize(path).ok());
    let mut walk = Walk {
        leave_out,
        entries: 0,
        until: clock.now() + TIME_MAX,
        clock,
        sum: 0,
    };
    walk.directory(&root, 0)?;
    Some(walk.sum)
}

struct Walk<'a> {
    leave_out: Option<PathBuf>,
    entries: usize,
    until: Instant,
    clock: &'a Clock,
    /// Of all entries, in whatever order the directories have them.
    sum: u64,
}

impl Walk<'_> {
    fn directory(&mut self, path: &Path, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX || self.clock.now() >= self.until {
            return None;
        }
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            // Removed meanwhile, or not ours to read: then it is not ours to change either.
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
            let is_passed_over = PASSED_OVER.iter().any(|passed| name == *passed);
            if is_passed_over || self.leave_out.as_ref() == Some(&path) {
                continue;
            }
            let Ok(about) = fs::symlink_metadata(&path) else {
                continue;
            };
            let mut hasher = FxHasher::default();
            (&path, about.mode(), about.ino()).hash(&mut hasher);
            if !about.is_dir() {
                let written = (about.mtime(), about.mtime_nsec());
                // That is what nobody can set back.
                let changed = (about.ctime(), about.ctime_nsec());
                (about.size(), written, changed).hash(&mut hasher);
            }
            self.sum = self.sum.wrapping_add(hasher.finish());
            if about.is_dir() {
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
    fn what_is_written_made_removed_or_renamed_is_a_change() {
        let temp = tempfile::tempdir().unwrap();
        let (root, clock) = (temp.path(), Clock::system());
        let sub = root.join("sub");
        fs::create_dir(&sub).unwrap();
        fs::create_dir(root.join(".git")).unwrap();
        fs::write(sub.join("a"), "1").unwrap();
        let left_out = root.join("data");
        let now = || fingerprint(root, Some(&left_out), &clock);
        let mut before = now();
        assert!(before.is_some());
        let still = |before: &mut Option<u64>, what: &str, is_same: bool| {
            let after = now();
            assert_eq!(after == *before, is_same, "{what}");
            *before = after;
        };
        still(&mut before, "nothing", true);
        fs::write(sub.join("a"), "22").unwrap();
        still(&mut before, "written", false);
        fs::write(sub.join("b"), "").unwrap();
        still(&mut before, "made", false);
        fs::rename(sub.join("b"), sub.join("c")).unwrap();
        still(&mut before, "renamed", false);
        fs::remove_file(sub.join("c")).unwrap();
        still(&mut before, "removed", false);
        std::os::unix::fs::symlink("/", root.join("all")).unwrap();
        still(&mut before, "a link, which is not followed", false);
        fs::write(root.join(".git/index"), "x").unwrap();
        fs::create_dir(&left_out).unwrap();
        fs::write(left_out.join("log"), "x").unwrap();
        still(&mut before, "what is passed over", true);
        assert_eq!(fingerprint(&root.join("none"), None, &clock), None);
    }
}
