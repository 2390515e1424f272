//! The files of raw recordings: their names, creating, listing and opening them.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use rustix::fs::{Dir, OFlags};

use crate::error::{Error, Result, if_exists};
use crate::event::PaneId;
use crate::history::{DirHandle, RunDirectory, decode_name, encode_name};

/// The subdirectory of a run's directory.
const RAW: &str = "raw";
const ENDING: &str = ".cast";

/// One raw recording of a pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingFile {
    /// The pane.
    pub pane: PaneId,
    /// The number of the recording among those of the pane, from 1.
    pub number: u32,
    /// The path of the file.
    pub path: PathBuf,
}

impl RunDirectory {
    /// Returns the raw recordings of the run's panes. Those of one pane are in the order of their
    /// content. A run that was not recorded has none.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn recordings(&self) -> Result<Vec<RecordingFile>> {
        let run = self.open_dir()?;
        let failed = |cause| Error::file("cannot list", &run.join(RAW), cause);
        let raw = if_exists(run.open_subdir(RAW)).map_err(failed)?;
        raw.map_or(Ok(Vec::new()), |raw| list(&raw).map_err(failed))
    }

    /// Opens a raw recording for reading. Does not follow a symbolic link.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open_recording(&self, file: &RecordingFile) -> Result<File> {
        let failed = |cause| Error::file("cannot open", &file.path, cause);
        let raw = self.open_dir()?.open_subdir(RAW).map_err(failed)?;
        let name = name(&file.pane, file.number);
        raw.file(&name, OFlags::RDONLY).map_err(failed)
    }
}

/// Creates the next recording of a pane. Returns the file and its number.
pub(super) fn create(run: &RunDirectory, pane: &PaneId) -> io::Result<(File, u32)> {
    let run = run.open_dir().map_err(io::Error::other)?;
    let raw = run.create_subdir(RAW)?;
    let known = list(&raw)?;
    let of_pane = known.iter().filter(|file| file.pane == *pane);
    let mut number = of_pane.map(|file| file.number).max().unwrap_or(0);
    loop {
        // Something that the listing omits may have the name, for example a directory.
        number = number.saturating_add(1);
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
        match raw.file(&name(pane, number), flags) {
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists && number < u32::MAX => {}
            created => return created.map(|file| (file, number)),
        }
    }
}

/// Opens a recording again to append to it.
pub(super) fn reopen(run: &RunDirectory, pane: &PaneId, number: u32) -> io::Result<File> {
    let run = run.open_dir().map_err(io::Error::other)?;
    let raw = run.open_subdir(RAW)?;
    raw.file(&name(pane, number), OFlags::WRONLY | OFlags::APPEND)
}

fn name(pane: &str, number: u32) -> String {
    let pane = encode_name(pane);
    match number {
        0 | 1 => format!("{pane}{ENDING}"),
        number => format!("{pane}.{number}{ENDING}"),
    }
}

/// Parses the name of a recording; `None` for other files.
fn parse(file_name: &str) -> Option<(PaneId, u32)> {
    let stem = file_name.strip_suffix(ENDING)?;
    let numbered = stem.rsplit_once('.').and_then(|(pane, number)| {
        let number = number.parse().ok()?;
        Some((PaneId::from(decode_name(pane)?), number))
    });
    let first = || Some((PaneId::from(decode_name(stem)?), 1));
    let (pane, number) = numbered.or_else(first)?;
    // Another spelling of the name is not a recording.
    (name(&pane, number) == file_name).then_some((pane, number))
}

fn list(raw: &DirHandle) -> io::Result<Vec<RecordingFile>> {
    let mut files = Vec::new();
    for entry in Dir::read_from(raw.fd())? {
        let entry = entry?;
        if let Ok(name) = entry.file_name().to_str()
            && let Some((pane, number)) = parse(name)
        {
            let path = raw.join(name);
            files.push(RecordingFile { pane, number, path });
        }
    }
    files.sort_by(|a, b| (&*a.pane, a.number).cmp(&(&*b.pane, b.number)));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for (pane, number, expected) in [
            ("%3", 1, "%253.cast"),
            ("%3", 2, "%253.2.cast"),
            ("%3", 10, "%253.10.cast"),
            ("../x", 1, "%2E.%2Fx.cast"),
        ] {
            assert_eq!(name(pane, number), expected);
            assert_eq!(parse(expected), Some((pane.into(), number)));
        }
        for foreign in [
            "%253",
            "%253.1.cast",
            "%253.02.cast",
            "%3.cast",
            "a.txt",
            ".cast",
        ] {
            assert_eq!(parse(foreign), None, "{foreign}");
        }
    }
}
