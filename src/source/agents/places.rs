//! Where agents write: files, directories and patterns, and the files that are found there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex::bytes::Regex;

use crate::error::{Error, Result};

/// The files of a directory that are an agent's, by how their names end.
const EXTENSIONS: [&str; 2] = ["jsonl", "output"];

/// So many files are looked at: a directory may be anybody's.
const FILES_MAX: usize = 10_000;

/// A file, or where files are found.
#[derive(Clone, Debug)]
enum Place {
    File(PathBuf),
    Directory(PathBuf),
    /// The names in a directory that match.
    Pattern(PathBuf, Regex),
}

/// All places, and the names of what was found there.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    places: Vec<Place>,
    found: BTreeSet<PathBuf>,
    /// How often a name was given.
    names: BTreeMap<String, usize>,
}

impl Places {
    /// A file, a directory, or a pattern: `*` and `?` in the last part of the path.
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
            Place::Directory(path.to_owned())
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
                    "* and ? stand in the last part of a path only; let the shell expand it",
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

    /// Whether anything was added.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Files that were not found before, with names that no other has. A file that was named is
    /// found though it is not there yet.
    pub fn find(&mut self) -> Vec<(String, PathBuf)> {
        let mut files = Vec::new();
        for place in &self.places {
            match place {
                Place::File(path) => files.push(path.clone()),
                Place::Directory(path) => files.extend(entries(path, |name| {
                    let extension = name.extension().and_then(|extension| extension.to_str());
                    extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
                })),
                Place::Pattern(path, pattern) => files.extend(entries(path, |name| {
                    pattern.is_match(name.as_os_str().as_encoded_bytes())
                })),
            }
        }
        let mut new = Vec::new();
        for path in files {
            if self.found.len() >= FILES_MAX || !self.found.insert(path.clone()) {
                continue;
            }
            new.push((self.name(&path), path));
        }
        new
    }

    /// Whether more files may be there than are looked at.
    pub fn are_full(&self) -> bool {
        self.found.len() >= FILES_MAX
    }

    /// The file's name without its end, and a number where another has it.
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

/// The files in a directory whose names are wanted, in order. One that is not there, or cannot be
/// read, has none yet.
fn entries(directory: &Path, is_wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let names = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = names
        .filter(|entry| is_wanted(Path::new(&entry.file_name())))
        .map(|entry| entry.path())
        .filter(|path| !path.is_dir())
        .take(FILES_MAX)
        .collect();
    files.sort();
    files
}

/// A name with `*` and `?` as a regular expression.
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

    fn names(places: &mut Places) -> Vec<String> {
        places.find().into_iter().map(|(name, _)| name).collect()
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
