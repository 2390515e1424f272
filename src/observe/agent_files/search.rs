//! The places where agents write: files, directories and patterns, and the files found there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::homes::Home;
use crate::error::{Error, Result};
use crate::timestamp::Timestamp;
use regex::bytes::Regex;

/// The most files that are checked; a directory may hold any number.
const FOLLOWED_MAX: usize = 10_000;

/// A file, or a place where files are found.
#[derive(Clone, Debug)]
enum Place {
    File(PathBuf),
    Directory(Tree),
    /// The files of a directory whose names match.
    Pattern(PathBuf, Regex),
    /// The directory of an agent's sessions, of which the active ones count.
    Sessions(Sessions),
}

/// All places, and the names of the files found there.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    places: Vec<Place>,
    /// The found files with their names; `None` for a file that is followed under another path.
    found: BTreeMap<PathBuf, Option<String>>,
    /// The same files with all links resolved.
    real: BTreeSet<PathBuf>,
    /// The paths that a warning named.
    warned: BTreeSet<PathBuf>,
    /// The number of files for which each name was requested.
    names: BTreeMap<String, usize>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// New files, with unique names.
    pub new: Vec<(String, PathBuf)>,
    /// Names of paths that were expected to be files and are directories.
    pub gone: Vec<String>,
    /// Warnings that have not been reported before.
    pub warnings: Vec<String>,
}

impl Places {
    /// Adds a file, a directory, or a pattern with `*` and `?` in the last part of the path.
    pub fn add(&mut self, path: &Path) -> Result<()> {
        let invalid = |what: &str| {
            let shown = path.display();
            Err(Error::invalid(format!("{shown:?}: {what}")))
        };
        let has_wildcard = |text: &str| text.contains(['*', '?']);
        if path.as_os_str().is_empty() {
            return invalid("the name of the file is empty");
        }
        let place = if path.is_dir() {
            Place::Directory(Tree::new(path.to_owned(), None))
        } else if path.exists() || !has_wildcard(&path.to_string_lossy()) {
            if path.exists() && !path.is_file() {
                return invalid("it is neither a file nor a directory");
            }
            Place::File(path.to_owned())
        } else {
            let parent = path.parent().unwrap_or(Path::new(""));
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                return invalid("it is no pattern");
            };
            if has_wildcard(&parent.to_string_lossy()) {
                return invalid(
                    "* and ? are allowed in the last part of a path only; let the shell expand it",
                );
            }
            let parent = if parent.as_os_str().is_empty() {
                Path::new(".")
            } else {
                parent
            };
            Place::Pattern(parent.to_owned(), pattern(name)?)
        };
        self.places.push(place);
        Ok(())
    }

    /// Adds the homes of all known agents, according to these environment variables.
    pub fn add_homes(&mut self, variable: impl Fn(&str) -> Option<OsString>) {
        let homes = Home::followed(|name| {
            let value = variable(name).filter(|value| !value.is_empty());
            value.map(PathBuf::from)
        });
        let places = homes.into_iter().map(|(home, root)| {
            let tree = Tree::new(root, home.only_in);
            Place::Sessions(Sessions {
                tree,
                ended: HashMap::new(),
                last_checked: PathBuf::new(),
            })
        });
        self.places.extend(places);
    }

    /// Returns the number of directories that each search reads.
    pub fn directories(&self) -> usize {
        let places = self.places.iter().map(|place| match place {
            Place::File(_) | Place::Pattern(..) => 1,
            Place::Directory(tree) => tree.listings.len(),
            Place::Sessions(sessions) => sessions.tree.listings.len(),
        });
        places.sum()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the files that have appeared since the last search. A named file counts even before it
    /// exists; if a directory appears in its place, the files in it count instead.
    pub fn find(&mut self, wall: Timestamp) -> Found {
        let mut listed = Listed::default();
        let mut found = Found::default();
        for place in &mut self.places {
            if let Place::File(path) = place
                && path.is_dir()
            {
                found.gone.extend(self.found.remove(path).flatten());
                *place = Place::Directory(Tree::new(path.clone(), None));
            }
            place.list(wall, &mut listed);
        }
        for (path, warning) in listed.warnings {
            if self.warned.insert(path) {
                found.warnings.push(warning);
            }
        }
        for path in listed.files {
            if self.found.len() >= FOLLOWED_MAX || self.found.contains_key(&path) {
                continue;
            }
            let real = fs::canonicalize(&path).ok();
            let is_known = real.is_some_and(|real| !self.real.insert(real));
            let name = (!is_known).then(|| self.name(&path));
            match &name {
                Some(name) => found.new.push((name.clone(), path.clone())),
                None => found.warnings.push(format!(
                    "{} is a file that is followed already",
                    path.display()
                )),
            }
            self.found.insert(path, name);
        }
        found
    }

    /// Returns messages about the places without any file yet.
    #[cfg(feature = "cli")]
    pub fn empty(&self) -> Vec<String> {
        let places = self.places.iter().filter_map(|place| {
            let words = match place {
                Place::File(path) if path.exists() => return None,
                Place::File(path) => return Some(format!("{} is not there yet", path.display())),
                Place::Directory(tree) => {
                    format!("{} has no agent's file yet", tree.root.display())
                }
                Place::Pattern(path, _) => {
                    format!("no file in {} has such a name yet", path.display())
                }
                Place::Sessions(_) => return None,
            };
            let mut listed = Listed::default();
            place.clone().list(Timestamp::default(), &mut listed);
            // Warnings are reported by the next search.
            let is_empty = listed.files.is_empty() && listed.warnings.is_empty();
            is_empty.then_some(words)
        });
        places.collect()
    }

    #[cfg(feature = "cli")]
    pub fn homes(&self) -> Vec<String> {
        let homes = self.places.iter().filter_map(|place| match place {
            Place::Sessions(Sessions { tree, .. }) if tree.root.is_dir() => {
                Some(tree.root.display().to_string())
            }
            _ => None,
        });
        homes.collect()
    }

    /// Returns true if there may be more files than are followed.
    pub fn are_full(&self) -> bool {
        self.found.len() >= FOLLOWED_MAX
    }

    /// Returns the file's name without its extension, with a number if the name is taken.
    fn name(&mut self, path: &Path) -> String {
        let stem = path.file_stem().unwrap_or(path.as_os_str());
        let stem = stem.to_string_lossy().into_owned();
        let mut name = stem.clone();
        loop {
            let count = self.names.entry(name.clone()).or_default();
            *count += 1;
            if *count == 1 {
                return name;
            }
            let number = self.names.get(&stem).copied().unwrap_or(1);
            name = format!("{stem}-{number}");
        }
    }
}

impl Place {
    /// Lists the files that exist now.
    fn list(&mut self, wall: Timestamp, listed: &mut Listed) {
        match self {
            Self::File(path) => listed.files.push(path.clone()),
            Self::Directory(tree) => tree.list(wall, listed),
            Self::Pattern(path, pattern) => matching(path, pattern, listed),
            Self::Sessions(sessions) => sessions.list(wall, listed),
        }
    }
}

/// Lists the matching files of a directory in order. A missing directory has none yet. A path that is
/// not a file, or a link to nothing, is skipped until it is a file.
fn matching(directory: &Path, pattern: &Regex, listed: &mut Listed) {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => {
            let message = format!("{} cannot be read: {error}", directory.display());
            return listed.warnings.push((directory.to_owned(), message));
        }
    };
    let mut files = Vec::new();
    for entry in entries.flatten() {
        let is_wanted = pattern.is_match(entry.file_name().as_encoded_bytes());
        if files.len() >= FOLLOWED_MAX || !is_wanted {
            continue;
        }
        let path = entry.path();
        if path.is_file() {
            files.push(path);
        } else if !path.is_dir() {
            let message = not_regular_warning(&path);
            listed.warnings.push((path, message));
        }
    }
    files.sort();
    listed.files.append(&mut files);
}

/// Returns the regular expression for a name with `*` and `?`.
fn pattern(name: &str) -> Result<Regex> {
    let mut regex = String::from("^(?s-u:");
    for c in name.chars() {
        match c {
            '*' => regex.push_str(".*"),
            '?' => regex.push_str("(?u:.)"),
            c => regex.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    regex.push_str(")$");
    Regex::new(&regex)
        .map_err(|cause| Error::invalid(format!("{name:?} is no pattern")).because(cause))
}

// The home directories of known agents: finds the sessions in them that are active.

/// The most files of ended sessions that one search checks: 2,000 take some milliseconds.
const CHECKED_MAX: usize = 2_000;

/// A directory in which an agent keeps its sessions.
#[derive(Clone, Debug)]
struct Sessions {
    tree: Tree,
    /// The last write of each session that has ended.
    ended: HashMap<PathBuf, (i64, i64)>,
    /// The last of them that was checked.
    last_checked: PathBuf,
}

impl Sessions {
    /// Lists the files of active sessions.
    pub fn list(&mut self, wall: Timestamp, listed: &mut Listed) {
        let mut below = Listed::default();
        self.tree.list(wall, &mut below);
        listed.warnings.append(&mut below.warnings);
        let mut ended = std::mem::take(&mut self.ended);
        let active_since = wall
            .micros()
            // A session that was written to within this time is active; an older one has ended for now.
            .saturating_sub(10 * 60 * 1_000_000)
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

// The files below a directory, listed repeatedly at little cost: of an unchanged directory, only its
// modification time is read.

/// The depth of a tree: Codex has `YEAR/MONTH/DAY`, Claude Code up to `PROJECT/SESSION/subagents/*`.
const DEPTH_MAX: usize = 8;

/// The most directories of a tree: years of sessions have a few thousand.
const DIRECTORIES_MAX: usize = 20_000;

/// The most files of a tree whose names are kept, at about 200 bytes each.
const FILES_MAX: usize = 50_000;

/// A directory that has not changed for a day is checked every sixth time only, because its session or
/// day is over. The first two levels, in which sessions begin, are checked each time.
const OLD_MICROS: i64 = 24 * 60 * 60 * 1_000_000;
const OLD_EVERY: u32 = 6;
const CHECKED_DEPTH: usize = 1;

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
            // The clock of a file system has ticks: a listing that is read sooner than this after a change may
            // lack another change of the same tick.
            .saturating_sub(2_000_000)
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
            // The extensions of agents' files.
            let is_agents =
                extension.is_some_and(|extension| ["jsonl", "output"].contains(&extension));
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
    mod places {

        use super::super::*;

        const NOW: Timestamp = Timestamp::from_micros(0);

        fn names(places: &mut Places) -> Vec<String> {
            let found = places.find(NOW);
            assert!(found.warnings.is_empty(), "{found:?}");
            found.new.into_iter().map(|(name, _)| name).collect()
        }

        #[test]
        fn a_path_that_is_no_file_is_skipped_and_reported_once() {
            let temp = tempfile::tempdir().unwrap();
            let at = |name: &str| temp.path().join(name);
            std::os::unix::fs::symlink("later", at("link.output")).unwrap();
            let _socket = std::os::unix::net::UnixListener::bind(at("socket.jsonl")).unwrap();
            let mut places = Places::default();
            places.add(temp.path()).unwrap();
            let found = places.find(NOW);
            assert!(
                found.new.is_empty() && found.warnings.len() == 2,
                "{found:?}"
            );
            assert!(names(&mut places).is_empty());
            fs::write(at("later"), "").unwrap();
            assert_eq!(names(&mut places), ["link"]);
        }

        #[test]
        fn a_directory_may_come_later() {
            let temp = tempfile::tempdir().unwrap();
            let directory = temp.path().join("tasks");
            let mut places = Places::default();
            places.add(&directory).unwrap();
            assert_eq!(names(&mut places), ["tasks"]);
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("a.output"), "").unwrap();
            let found = places.find(NOW);
            assert_eq!(found.gone, ["tasks"]);
            assert_eq!(found.new.len(), 1, "{found:?}");
            assert!(places.find(NOW).gone.is_empty());
        }

        #[test]
        fn one_file_is_one_agent() {
            let temp = tempfile::tempdir().unwrap();
            let at = |name: &str| temp.path().join(name);
            fs::write(at("a.jsonl"), "").unwrap();
            std::os::unix::fs::symlink("a.jsonl", at("b")).unwrap();
            let mut places = Places::default();
            for name in ["a.jsonl", "a.jsonl", "b"] {
                places.add(&at(name)).unwrap();
            }
            places.add(temp.path()).unwrap();
            let found = places.find(NOW);
            assert_eq!(found.new.len(), 1, "{found:?}");
            assert_eq!(found.warnings.len(), 1, "the link is reported: {found:?}");
            assert!(names(&mut places).is_empty());
        }

        #[test]
        fn places_without_files_are_known() {
            let temp = tempfile::tempdir().unwrap();
            let at = |name: &str| temp.path().join(name);
            fs::create_dir(at("empty")).unwrap();
            let mut places = Places::default();
            for name in ["absent", "*.none", "empty"] {
                places.add(&at(name)).unwrap();
            }
            assert_eq!(places.empty().len(), 3);
            fs::write(at("absent"), "").unwrap();
            fs::write(at("empty/a.output"), "").unwrap();
            assert_eq!(places.empty().len(), 1, "{:?}", places.empty());
        }

        #[test]
        fn files_are_found_where_they_come() {
            let temp = tempfile::tempdir().unwrap();
            let at = |name: &str| temp.path().join(name);
            for name in ["b.jsonl", "a.output", "ä.txt", "no.log"] {
                fs::write(at(name), "").unwrap();
            }
            fs::create_dir(at("d.jsonl")).unwrap();
            let mut places = Places::default();
            places.add(temp.path()).unwrap();
            places.add(&at("?.txt")).unwrap();
            places.add(&at("later.jsonl")).unwrap();
            places.add(&at("b*")).unwrap();
            assert_eq!(names(&mut places), ["a", "b", "ä", "later"]);
            fs::write(at("b.output"), "").unwrap();
            assert_eq!(names(&mut places), ["b-2"]);
            assert!(names(&mut places).is_empty());
            for wrong in ["", "*/a.jsonl", "/dev/null"] {
                assert!(places.add(Path::new(wrong)).unwrap_err().is_invalid_input());
            }
        }
    }

    mod tree {
        use std::os::unix::fs::symlink;

        use super::super::*;

        /// By this clock, every directory changed long ago.
        const LATER: Timestamp = Timestamp::from_micros(i64::MAX / 2);

        fn files(tree: &mut Tree, wall: Timestamp) -> Vec<String> {
            let mut listed = Listed::default();
            tree.list(wall, &mut listed);
            let root = tree.root.clone();
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
            assert_eq!(tree.listings.len(), 4);
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
}
