//! The places where agents write: files, directories and patterns, and the files found there.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use regex::bytes::Regex;

use super::homes::Home;
use super::tree::{Listed, Tree, not_regular_warning};
use crate::error::{Error, Result};
use crate::timestamp::Timestamp;

/// The most files that are checked; a directory may hold any number.
const FILES_MAX: usize = 10_000;

/// A file, or a place where files are found.
#[derive(Clone, Debug)]
enum Place {
    File(PathBuf),
    Directory(Tree),
    /// The files of a directory whose names match.
    Pattern(PathBuf, Regex),
    /// The directory of an agent's sessions, of which the active ones count.
    Home(Home),
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
            let parent = match parent.as_os_str().is_empty() {
                true => Path::new("."),
                false => parent,
            };
            Place::Pattern(parent.to_owned(), pattern(name)?)
        };
        self.places.push(place);
        Ok(())
    }

    /// Adds the homes of all known agents, according to these environment variables.
    pub fn add_homes(&mut self, variable: impl Fn(&str) -> Option<OsString>) {
        let homes = Home::all(variable).into_iter();
        self.places.extend(homes.map(Place::Home));
    }

    /// Returns the number of directories that each search reads.
    pub fn directories(&self) -> usize {
        let places = self.places.iter().map(|place| match place {
            Place::File(_) | Place::Pattern(..) => 1,
            Place::Directory(tree) => tree.directories(),
            Place::Home(home) => home.directories(),
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
            if self.found.len() >= FILES_MAX || self.found.contains_key(&path) {
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
                    format!("{} has no agent's file yet", tree.root().display())
                }
                Place::Pattern(path, _) => {
                    format!("no file in {} has such a name yet", path.display())
                }
                Place::Home(_) => return None,
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
            Place::Home(home) => home.existing(),
            _ => None,
        });
        homes.collect()
    }

    /// Returns true if there may be more files than are followed.
    pub fn are_full(&self) -> bool {
        self.found.len() >= FILES_MAX
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
            Self::Home(home) => home.list(wall, listed),
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
        if files.len() >= FILES_MAX || !is_wanted {
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

#[cfg(test)]
mod tests {
    use super::*;

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
