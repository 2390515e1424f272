//! Lists the event files of a run in order, while a writer may close one and begin the next.

use std::fs::File;
use std::io;

use rustix::fs::{Dir, OFlags};

use crate::history::dir_handle::{DirHandle, EVENTS, FileId};
use crate::history::rotate::{ClosedFile, in_order};

/// The number of attempts to list the files while they change. A writer closes a file only once in many
/// seconds.
const TRIES_MAX: u32 = 100;

/// The maximum number of missing file numbers that are probed by name. A directory listing may miss a few
/// files, but not a million.
const MISSING_MAX: usize = 100;

/// All event files of a run, as of one listing.
#[derive(Debug)]
pub(super) struct RunFiles {
    /// The closed files, oldest first.
    pub(super) closed: Vec<ClosedFile>,
    /// `events.jsonl`, which continues the last closed file. It is open, so that it remains the same file.
    pub(super) newest: Option<File>,
}

impl RunFiles {
    /// Opens the newest file and lists the others.
    pub(super) fn list(dir: &DirHandle) -> io::Result<Self> {
        for _ in 0..TRIES_MAX {
            let newest = dir.existing_file(EVENTS)?;
            let closed = closed_files(dir)?;
            // If the newest file was closed in the meantime, the list may contain it or not.
            let id = newest.as_ref().map(FileId::of).transpose()?;
            if id == dir.identity(EVENTS)? {
                return Ok(Self { closed, newest });
            }
        }
        Err(io::Error::other("its files change too often to be listed"))
    }

    /// Takes the newest file with its length.
    pub(super) fn take_newest(&mut self) -> io::Result<Option<(File, u64)>> {
        let with_len = |file: File| file.metadata().map(|about| (file, about.len()));
        self.newest.take().map(with_len).transpose()
    }

    /// Returns the number that the newest file will have when it is closed.
    pub(super) fn next_number(&self) -> u32 {
        self.closed
            .last()
            .map_or(1, |last| last.number.saturating_add(1))
    }
}

/// Renames `events.jsonl` to a number above all others and at least `at_least`. Requires the run's lock.
pub(super) fn close_newest(dir: &DirHandle, at_least: u32) -> io::Result<u32> {
    let last = closed_files(dir)?.last().copied();
    let behind = last.map_or(1, |last| last.number.saturating_add(1));
    let number = behind.max(at_least);
    dir.rename_new(EVENTS, &ClosedFile::plain(number).name())?;
    Ok(number)
}

/// Lists the closed files without duplicates, oldest first.
pub(super) fn closed_files(dir: &DirHandle) -> io::Result<Vec<ClosedFile>> {
    let mut found = in_order(all_closed(dir)?);
    // A file that is renamed while the directory is read, for example by compression, may be listed under
    // neither name. Missing numbers are therefore probed by name.
    let mut missing = Vec::new();
    let mut expected = found
        .first()
        .map_or(1, |first| first.number.saturating_sub(1).max(1));
    for file in &found {
        missing.extend((expected..file.number).take(MISSING_MAX));
        expected = file.number.saturating_add(1);
    }
    missing.push(expected);
    for number in missing.into_iter().take(MISSING_MAX) {
        // An error means that no such file exists.
        if let Ok((_, closed)) = open_closed(dir, number) {
            found.push(closed);
        }
    }
    Ok(in_order(found))
}

/// Lists the closed files. A file that exists in both forms is listed twice.
pub(super) fn all_closed(dir: &DirHandle) -> io::Result<Vec<ClosedFile>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(dir.fd())? {
        if let Ok(name) = entry?.file_name().to_str() {
            found.extend(ClosedFile::of_name(name));
        }
    }
    Ok(found)
}

/// Opens a closed file in its existing form, and returns that form.
pub(super) fn open_closed(dir: &DirHandle, number: u32) -> io::Result<(File, ClosedFile)> {
    let open = |closed: ClosedFile| {
        let file = dir.file(&closed.name(), OFlags::RDONLY)?;
        Ok((file, closed))
    };
    let is_missing = |cause: &io::Error| cause.kind() == io::ErrorKind::NotFound;
    match open(ClosedFile::gzip(number)) {
        // The compressed form appears before the plain one is removed, so the third attempt finds a file that
        // the second attempt missed.
        Err(cause) if is_missing(&cause) => match open(ClosedFile::plain(number)) {
            Err(cause) if is_missing(&cause) => open(ClosedFile::gzip(number)),
            opened => opened,
        },
        opened => opened,
    }
}
