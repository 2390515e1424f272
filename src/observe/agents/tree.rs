//! The files below a directory, listed repeatedly at little cost: of an unchanged directory, only its
//! modification time is read.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::timestamp::Timestamp;

/// The depth of a tree: Codex has `YEAR/MONTH/DAY`, Claude Code up to `PROJECT/SESSION/subagents/*`.
const DEPTH_MAX: usize = 8;

/// The most directories of a tree: years of sessions have a few thousand.
const DIRECTORIES_MAX: usize = 20_000;

/// The most files of a tree whose names are kept, at about 200 bytes each.
const FILES_MAX: usize = 50_000;

/// The clock of a file system has ticks: a listing that is read sooner than this after a change may
/// lack another change of the same tick.
const SETTLED_MICROS: i64 = 2_000_000;

/// A directory that has not changed for a day is checked every sixth time only, because its session or
/// day is over. The first two levels, in which sessions begin, are checked each time.
const OLD_MICROS: i64 = 24 * 60 * 60 * 1_000_000;
const OLD_EVERY: u32 = 6;
const CHECKED_DEPTH: usize = 1;

/// The extensions of agents' files.
const EXTENSIONS: [&str; 2] = ["jsonl", "output"];

/// The files and warnings that a search has found.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub files: Vec<PathBuf>,
    /// Paths with a problem, and the problem.
    pub warnings: Vec<(PathBuf, String)>,
}

/// A directory and everything below it.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    root: PathBuf,
    /// The name of the directories whose files count; `None` for all.
    only_in: Option<&'static str>,
    listings: HashMap<PathBuf, Listing>,
    /// The number of listings.
    count: u32,
}

/// The entries of one directory.
#[derive(Clone, Debug, Default)]
struct Listing {
    modified: (i64, i64),
    /// The directory must not be read again until it changes.
    is_settled: bool,
    files: Vec<PathBuf>,
    directories: Vec<PathBuf>,
}

impl Tree {
    pub fn new(root: PathBuf, only_in: Option<&'static str>) -> Self {
        Self {
            root,
            only_in,
            listings: HashMap::new(),
            count: 0,
        }
    }

    #[cfg(any(test, feature = "cli"))]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the number of known directories.
    pub fn directories(&self) -> usize {
        self.listings.len()
    }

    /// Lists agents' files: those of a directory in order, before those of its subdirectories. A
    /// missing directory has none yet. A path that is not a file, or a link to nothing, is skipped
    /// until it is a file. Links to directories are not followed.
    pub fn list(&mut self, wall: Timestamp, listed: &mut Listed) {
        let mut before = std::mem::take(&mut self.listings);
        let long_ago = wall.micros().saturating_sub(OLD_MICROS);
        let checks_old = self.count.is_multiple_of(OLD_EVERY);
        self.count = self.count.wrapping_add(1);
        let mut open = vec![(self.root.clone(), 0)];
        let mut count = 0;
        while let Some((directory, depth)) = open.pop() {
            if self.listings.len() >= DIRECTORIES_MAX || count >= FILES_MAX {
                let message = format!(
                    "{} has more than is searched: {DIRECTORIES_MAX} directories, {FILES_MAX} files",
                    self.root.display()
                );
                listed.warnings.push((self.root.clone(), message));
                break;
            }
            let listing = match before.remove(&directory) {
                Some(listing)
                    if !checks_old && depth > CHECKED_DEPTH && listing.is_old(long_ago)
                        || listing.is_of(&directory) =>
                {
                    listing
                }
                _ => match Listing::read(&directory, self.only_in, wall, listed) {
                    Ok(listing) => listing,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => {
                        let message = format!("{} cannot be read: {error}", directory.display());
                        listed.warnings.push((directory, message));
                        continue;
                    }
                },
            };
            count += listing.files.len();
            listed.files.extend(listing.files.iter().cloned());
            if depth < DEPTH_MAX {
                let below = listing.directories.iter().rev();
                open.extend(below.map(|below| (below.clone(), depth + 1)));
            }
            self.listings.insert(directory, listing);
        }
    }
}

impl Listing {
    /// Returns true if the listing is settled and the directory had not changed for a day.
    fn is_old(&self, micros: i64) -> bool {
        self.is_settled && self.modified.0 < micros.div_euclid(1_000_000)
    }

    /// Returns true if the directory has not changed since the listing.
    fn is_of(&self, directory: &Path) -> bool {
        let metadata = fs::metadata(directory);
        let modified = metadata.map(|metadata| (metadata.mtime(), metadata.mtime_nsec()));
        self.is_settled && modified.is_ok_and(|modified| modified == self.modified)
    }

    fn read(
        directory: &Path,
        only_in: Option<&str>,
        wall: Timestamp,
        listed: &mut Listed,
    ) -> io::Result<Self> {
        // The time is read before the entries, so that the next listing notices a change in between.
        let metadata = fs::metadata(directory)?;
        let entries = fs::read_dir(directory)?;
        let seconds = wall
            .micros()
            .saturating_sub(SETTLED_MICROS)
            .div_euclid(1_000_000);
        let mut listing = Self {
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            is_settled: metadata.mtime() < seconds,
            ..Self::default()
        };
        let counts =
            only_in.is_none_or(|name| directory.file_name().is_some_and(|own| own == name));
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() {
                if listing.directories.len() < DIRECTORIES_MAX {
                    listing.directories.push(entry.path());
                }
                continue;
            }
            let path = entry.path();
            let extension = path.extension().and_then(|extension| extension.to_str());
            let is_agents = extension.is_some_and(|extension| EXTENSIONS.contains(&extension));
            if !counts || !is_agents || listing.files.len() >= FILES_MAX {
                continue;
            }
            // Most entries are files according to the directory.
            if kind.is_file() || path.is_file() {
                listing.files.push(path);
            } else if !path.is_dir() {
                // The target of a link may appear without a change of the directory.
                listing.is_settled = false;
                let message = not_regular_warning(&path);
                listed.warnings.push((path, message));
            }
        }
        listing.files.sort();
        listing.directories.sort();
        Ok(listing)
    }
}

pub(super) fn not_regular_warning(path: &Path) -> String {
    format!(
        "{} is no regular file, or a link to nothing: it is passed over",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// By this clock, every directory changed long ago.
    const LATER: Timestamp = Timestamp::from_micros(i64::MAX / 2);

    fn files(tree: &mut Tree, wall: Timestamp) -> Vec<String> {
        let mut listed = Listed::default();
        tree.list(wall, &mut listed);
        let root = tree.root().to_owned();
        let below = |path: &PathBuf| path.strip_prefix(&root).unwrap().display().to_string();
        listed.files.iter().map(below).collect()
    }

    #[test]
    fn files_are_found_at_any_depth_and_as_they_come() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        fs::create_dir_all(at("p/s/subagents")).unwrap();
        for name in [
            "z.jsonl",
            "p/s.jsonl",
            "p/s/subagents/agent-1.jsonl",
            "p/notes.txt",
        ] {
            fs::write(at(name), "").unwrap();
        }
        // Following a link to a directory above would never end.
        symlink(temp.path(), at("p/loop")).unwrap();
        let mut tree = Tree::new(temp.path().to_owned(), None);
        let all = ["z.jsonl", "p/s.jsonl", "p/s/subagents/agent-1.jsonl"];
        for wall in [Timestamp::from_micros(0), LATER, LATER] {
            assert_eq!(files(&mut tree, wall), all);
        }
        assert_eq!(tree.directories(), 4);
        fs::write(at("p/s/subagents/agent-2.jsonl"), "").unwrap();
        fs::remove_file(at("z.jsonl")).unwrap();
        let found = (0..OLD_EVERY).map(|_| files(&mut tree, LATER));
        let found: Vec<_> = found.map(|files| files.len()).collect();
        assert_eq!((found[0], found.last()), (2, Some(&3)), "{found:?}");
        let mut chats = Tree::new(temp.path().to_owned(), Some("subagents"));
        assert_eq!(files(&mut chats, LATER).len(), 2);
    }

    #[test]
    fn a_link_is_followed_when_its_target_comes() {
        let temp = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        symlink(other.path().join("a.jsonl"), temp.path().join("a.output")).unwrap();
        let mut tree = Tree::new(temp.path().to_owned(), None);
        assert!(files(&mut tree, LATER).is_empty());
        fs::write(other.path().join("a.jsonl"), "").unwrap();
        assert_eq!(files(&mut tree, LATER), ["a.output"]);
    }
}
