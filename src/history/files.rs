//! The files of a run in the order of what they hold, while a writer may be closing one and beginning the next.

use std::fs::File;
use std::io;

use rustix::fs::{Dir, OFlags};

use crate::history::dir::EVENTS;
use crate::history::dir_handle::{DirHandle, FileId};
use crate::history::rotate::{Closed, in_order};

/// How often the files may change while they are listed before that is an error; a writer closes
/// one once in many seconds.
const TRIES_MAX: u32 = 100;

/// Numbers without a file that are asked for by name: a few may be missing in a listing, a million
/// are somebody's joke.
const MISSING_MAX: usize = 100;

/// All files of a run as they stood together at one moment.
#[derive(Debug)]
pub(super) struct Files {
    /// The closed ones, the oldest first.
    pub(super) closed: Vec<Closed>,
    /// `events.jsonl`, which goes on where the last closed one ends; open, so that it stays the one
    /// that it was.
    pub(super) newest: Option<File>,
}

impl Files {
    /// Opens the newest and lists the others.
    pub(super) fn list(dir: &DirHandle) -> io::Result<Self> {
        for _ in 0..TRIES_MAX {
            let newest = open_newest(dir)?;
            let closed = closed_files(dir)?;
            // Closed while we were listing, it may be missing in the list, or stand there as well.
            let id = newest.as_ref().map(FileId::of).transpose()?;
            if id == dir.identity(EVENTS)? {
                return Ok(Self { closed, newest });
            }
        }
        Err(io::Error::other("its files change all the time"))
    }

    /// The number that the newest gets when it is closed.
    pub(super) fn next_number(&self) -> u32 {
        self.closed
            .last()
            .map_or(1, |last| last.number.saturating_add(1))
    }
}

fn open_newest(dir: &DirHandle) -> io::Result<Option<File>> {
    match dir.file(EVENTS, OFlags::RDONLY) {
        Ok(file) => Ok(Some(file)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// Gives `events.jsonl` the number behind all others, `at_least` this one. For the holder of the
/// run's lock.
pub(super) fn close_newest(dir: &DirHandle, at_least: u32) -> io::Result<u32> {
    let last = closed_files(dir)?.last().copied();
    let behind = last.map_or(1, |last| last.number.saturating_add(1));
    let number = behind.max(at_least);
    dir.rename_new(EVENTS, &Closed::plain(number).name())?;
    Ok(number)
}

/// The closed files, each once, the oldest first.
pub(super) fn closed_files(dir: &DirHandle) -> io::Result<Vec<Closed>> {
    let mut found = in_order(all_closed(dir)?);
    // A file that gets another name while the directory is read, as it does when it has been
    // compressed, may be read under neither: where one may be missing, it is asked for by name.
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
        // Else there is none, or what has the name is no file.
        if let Ok((_, closed)) = open_closed(dir, number) {
            found.push(closed);
        }
    }
    Ok(in_order(found))
}

/// The closed files, one that is there both plain and compressed twice.
pub(super) fn all_closed(dir: &DirHandle) -> io::Result<Vec<Closed>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(dir.fd())? {
        if let Ok(name) = entry?.file_name().to_str() {
            found.extend(Closed::of_name(name));
        }
    }
    Ok(found)
}

/// Opens a closed file, whether it is compressed by now or not; says which.
pub(super) fn open_closed(dir: &DirHandle, number: u32) -> io::Result<(File, Closed)> {
    let open = |closed: Closed| {
        let file = dir.file(&closed.name(), OFlags::RDONLY)?;
        Ok((file, closed))
    };
    let is_missing = |cause: &io::Error| cause.kind() == io::ErrorKind::NotFound;
    match open(Closed::gzip(number)) {
        // It is compressed before the plain one goes: the third look finds what the second missed.
        Err(cause) if is_missing(&cause) => match open(Closed::plain(number)) {
            Err(cause) if is_missing(&cause) => open(Closed::gzip(number)),
            opened => opened,
        },
        opened => opened,
    }
}
