//! The files of raw recordings: their names, making them, finding them again.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use rustix::fs::{Dir, Mode, OFlags};

use crate::error::{Error, Result};
use crate::event::PaneId;
use crate::history::dir::{Entered, RunDirectory};
use crate::history::name::{decode_name, encode_name};

/// The directory in that of the run.
const RAW: &str = "raw";
const ENDING: &str = ".cast";

/// One tape of a pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawFile {
    /// The pane.
    pub pane: PaneId,
    /// Which of the pane's tapes, from 1.
    pub number: u32,
    /// Where it is.
    pub path: PathBuf,
}

impl RunDirectory {
    /// The tapes of the run's panes; those of one pane in the order of what they hold. A run that was
    /// not recorded has none.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn raw_files(&self) -> Result<Vec<RawFile>> {
        let run = self.enter()?;
        let failed = |cause| Error::file("cannot list", &run.join(RAW), cause);
        match enter(&run) {
            Ok(entered) => files(&entered).map_err(failed),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(cause) => Err(failed(cause)),
        }
    }

    /// Opens a tape for reading; a symbolic link is not followed.
    ///
    /// # Errors
    /// What the system says.
    pub fn open_raw(&self, file: &RawFile) -> Result<File> {
        let failed = |cause| Error::file("cannot open", &file.path, cause);
        let entered = enter(&self.enter()?).map_err(failed)?;
        let name = name(&file.pane, file.number);
        entered.file(&name, OFlags::RDONLY).map_err(failed)
    }
}

/// Begins a tape of a pane: the file, and its number.
pub(super) fn create(run: &RunDirectory, pane: &PaneId) -> io::Result<(File, u32)> {
    let run = run.enter().map_err(io::Error::other)?;
    match rustix::fs::mkdirat(run.fd(), RAW, Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(cause) => return Err(cause.into()),
    }
    let entered = enter(&run)?;
    let known = files(&entered)?;
    let of_pane = known.iter().filter(|file| file.pane == *pane);
    let mut number = of_pane.map(|file| file.number).max().unwrap_or(0);
    loop {
        // What a listing does not show may have the name: a directory, say.
        number = number.saturating_add(1);
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
        match entered.file(&name(pane, number), flags) {
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists && number < u32::MAX => {}
            made => return made.map(|file| (file, number)),
        }
    }
}

/// Opens a tape to go on with it.
pub(super) fn reopen(run: &RunDirectory, pane: &PaneId, number: u32) -> io::Result<File> {
    let run = run.enter().map_err(io::Error::other)?;
    enter(&run)?.file(&name(pane, number), OFlags::WRONLY | OFlags::APPEND)
}

fn enter(run: &Entered) -> io::Result<Entered> {
    run.enter_io(RAW)
}

fn name(pane: &str, number: u32) -> String {
    let pane = encode_name(pane);
    match number {
        0 | 1 => format!("{pane}{ENDING}"),
        number => format!("{pane}.{number}{ENDING}"),
    }
}

/// What a file of this name holds; `None` for one that is none of ours.
fn parse(file_name: &str) -> Option<(PaneId, u32)> {
    let stem = file_name.strip_suffix(ENDING)?;
    let numbered = stem.rsplit_once('.').and_then(|(pane, number)| {
        let number = number.parse().ok()?;
        Some((PaneId::from(decode_name(pane)?), number))
    });
    let first = || Some((PaneId::from(decode_name(stem)?), 1));
    let (pane, number) = numbered.or_else(first)?;
    // Other spellings are none of ours.
    (name(&pane, number) == file_name).then_some((pane, number))
}

fn files(entered: &Entered) -> io::Result<Vec<RawFile>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(entered.fd())? {
        let entry = entry?;
        if let Ok(name) = entry.file_name().to_str()
            && let Some((pane, number)) = parse(name)
        {
            let path = entered.join(name);
            found.push(RawFile { pane, number, path });
        }
    }
    found.sort_by(|a, b| (&*a.pane, a.number).cmp(&(&*b.pane, b.number)));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
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
