//! The recordings beside the repository: their location and their labels.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the directory of the recordings (`TD_RECORDINGS` overrides it). Prints a notice if it does not
/// exist.
pub fn recordings() -> Option<PathBuf> {
    let root = std::env::var_os("TD_RECORDINGS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
        PathBuf::from,
    );
    if !root.is_dir() {
        eprintln!("NOT TESTED: no recordings in {}", root.display());
        return None;
    }
    Some(root)
}

/// Returns all files below a directory, in order.
pub fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Returns the existing files with labels, each with its label.
pub fn labelled(root: &Path) -> Vec<(String, String)> {
    let sources = fs::read_to_string(root.join("SOURCES.tsv")).unwrap();
    let rows = sources.lines().filter_map(|line| {
        let mut fields = line.split('\t');
        Some((fields.next()?.to_owned(), fields.next()?.to_owned()))
    });
    rows.filter(|(file, _)| root.join(file).is_file()).collect()
}
