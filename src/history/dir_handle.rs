//! Directories of runs through handles, the event files in them, and the files that this program trusts.
//!
//! Directories and files that another user owns or can write to are refused, as OpenSSH and git do.

// Only the program and kernels read trusted files.
#![cfg_attr(not(feature = "cli"), allow(dead_code))]

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;

use crate::error::{Error, Result, if_exists};
use crate::history::rotate::{ClosedFile, in_order};

/// The names of files in a run directory.
pub(super) const EVENTS: &str = "events.jsonl";
pub(super) const METADATA: &str = "metadata.json";
pub(super) const LOCK: &str = "lock";

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// An open directory. Names in it cannot refer elsewhere, even if its path changes.
#[derive(Debug)]
pub(crate) struct DirHandle {
    fd: OwnedFd,
    path: PathBuf,
}

impl DirHandle {
    /// Opens a run directory of this user.
    ///
    /// # Errors
    /// [`Error::is_invalid_input`] if the directory is a symbolic link or a file, or if another user
    /// owns it or can write to it.
    pub(super) fn open(path: &Path) -> Result<Self> {
        match rustix::fs::openat(CWD, path, DIRECTORY, Mode::empty()) {
            Ok(fd) => {
                let directory = File::from(fd);
                let metadata = directory
                    .metadata()
                    .map_err(|cause| Error::file("cannot open the run directory", path, cause))?;
                TrustedOwner::User.check(path, &metadata)?;
                Ok(Self {
                    fd: directory.into(),
                    path: path.to_owned(),
                })
            }
            Err(Errno::NOTDIR | Errno::LOOP) => Err(Error::invalid(
                "the run directory is a symbolic link or a file, which is not followed:",
            )
            .at(path)),
            Err(cause) => Err(Error::file(
                "cannot open the run directory",
                path,
                cause.into(),
            )),
        }
    }

    /// Opens a subdirectory; never through a symbolic link.
    pub(crate) fn open_subdir(&self, name: &str) -> io::Result<Self> {
        let path = self.join(name);
        let fd = rustix::fs::openat(self.fd(), name, DIRECTORY, Mode::empty())?;
        Ok(Self { fd, path })
    }

    /// Opens a subdirectory, and creates it if it does not exist.
    pub(crate) fn create_subdir(&self, name: &str) -> io::Result<Self> {
        match rustix::fs::mkdirat(self.fd(), name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => self.open_subdir(name),
            Err(cause) => Err(cause.into()),
        }
    }

    /// Opens a regular file; never through a symbolic link, and without waiting for the other end of a named
    /// pipe.
    pub(crate) fn file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = File::from(rustix::fs::openat(self.fd(), name, flags, mode)?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        Ok(file)
    }

    /// Opens an existing file for reading; `None` if there is none.
    pub(super) fn existing_file(&self, name: &str) -> io::Result<Option<File>> {
        if_exists(self.file(name, OFlags::RDONLY))
    }

    /// Returns the identity of the file that currently has the name; `None` if there is none.
    pub(super) fn identity(&self, name: &str) -> io::Result<Option<FileId>> {
        let file = self.existing_file(name)?;
        file.as_ref().map(FileId::of).transpose()
    }

    /// Removes a file, if it exists.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        match rustix::fs::unlinkat(self.fd(), name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(cause) => Err(cause.into()),
        }
    }

    /// Renames a file to a name that must not exist.
    pub(super) fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        let (fd, flags) = (self.fd(), RenameFlags::NOREPLACE);
        Ok(rustix::fs::renameat_with(fd, from, fd, to, flags)?)
    }

    /// Renames a file, replacing any existing one.
    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(self.fd(), from, self.fd(), to)?)
    }

    /// Sets the directory's times to now.
    pub(super) fn set_times(&self) -> io::Result<()> {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        let times = Timestamps {
            last_access: now,
            last_modification: now,
        };
        Ok(rustix::fs::futimens(self.fd(), &times)?)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns the directory's path, for messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a file in the directory, for messages.
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// The identity of a file, independent of its name: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId(u64, u64);

impl FileId {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self(metadata.dev(), metadata.ino()))
    }
}

/// Makes the names in a directory survive a power cut.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    match File::open(path).and_then(|directory| directory.sync_all()) {
        // Some file systems cannot sync a directory. A removed directory needs no sync; the writer detects
        // the removal when it writes.
        Err(cause)
            if matches!(
                cause.kind(),
                io::ErrorKind::InvalidInput
                    | io::ErrorKind::NotFound
                    | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(())
        }
        outcome => outcome,
    }
}

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
        // The number of attempts to list the files while they change. A writer closes a file only once in many
        // seconds.
        for _ in 0..100 {
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

/// The owners whose files are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrustedOwner {
    /// Only the user who runs the program; required for directories that it writes to.
    User,
    /// The user, or root for files that an administrator installed for all users.
    UserOrRoot,
}

impl TrustedOwner {
    /// Checks the owner and the mode of an open or listed file.
    ///
    /// # Errors
    /// [`Error::is_invalid_input`] if another user owns it, or its group or everyone can write to it.
    pub(crate) fn check(self, path: &Path, metadata: &Metadata) -> Result<()> {
        let user = rustix::process::geteuid().as_raw();
        self.check_for(user, path, metadata.uid(), metadata.mode())
    }

    fn check_for(self, user: u32, path: &Path, owner: u32, mode: u32) -> Result<()> {
        let is_trusted = match self {
            Self::User => owner == user,
            Self::UserOrRoot => owner == user || owner == 0,
        };
        if !is_trusted {
            return Err(Error::invalid(format!(
                "refused, because it belongs to another user (uid {owner}, yours is {user}):"
            ))
            .at(path));
        }
        // The mode bits with which users other than the owner can write.
        if mode & 0o022 != 0 {
            return Err(Error::invalid(
                "refused, because other users can write to it; chmod go-w makes it private:",
            )
            .at(path));
        }
        Ok(())
    }

    /// Checks a directory, following symbolic links. A missing directory is accepted, because the caller
    /// creates it or has nothing to read.
    ///
    /// # Errors
    /// Those of [`TrustedOwner::check`], or if the directory cannot be reached.
    pub(super) fn check_directory(self, path: &Path) -> Result<()> {
        let metadata = if_exists(fs::metadata(path))
            .map_err(|cause| Error::file("cannot reach", path, cause))?;
        metadata.map_or(Ok(()), |metadata| self.check(path, &metadata))
    }
}

/// Returns the text of a file of at most `bytes_max` bytes; `None` if it does not exist.
///
/// # Errors
/// `is_invalid_input()` if it is not a regular file, is too long or not UTF-8, or if a user other than this
/// one and root owns it or can write to it; otherwise the system's errors.
pub(crate) fn read_trusted_file(path: &Path, bytes_max: u64) -> Result<Option<String>> {
    let failed = |cause: io::Error| match cause.kind() {
        io::ErrorKind::InvalidData => {
            Error::invalid("refused, because it is no text in UTF-8:").at(path)
        }
        _ => Error::file("cannot read", path, cause),
    };
    // Does not wait for the other end of a named pipe. The flags fit into an `i32`, the type that `open`
    // expects.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let Some(file) = if_exists(opened).map_err(failed)? else {
        return Ok(None);
    };
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(Error::invalid("refused, because it is not a regular file:").at(path));
    }
    TrustedOwner::UserOrRoot.check(path, &metadata)?;
    let mut text = String::new();
    // One byte beyond the limit shows that the file is too long, even while it grows.
    file.take(bytes_max.saturating_add(1))
        .read_to_string(&mut text)
        .map_err(failed)?;
    if text.len() as u64 > bytes_max {
        return Err(Error::invalid(format!(
            "refused, because it is longer than {bytes_max} bytes:"
        ))
        .at(path));
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_owners_and_writers_are_refused() {
        let path = Path::new("/data");
        let check = |user, owner, mode| TrustedOwner::User.check_for(user, path, owner, mode);
        assert!(check(7, 7, 0o40700).is_ok());
        assert!(check(7, 7, 0o40755).is_ok());
        for (owner, mode, text) in [
            (8, 0o40700, "another user (uid 8, yours is 7)"),
            (0, 0o40755, "another user (uid 0, yours is 7)"),
            (7, 0o40777, "other users can write"),
            (7, 0o40770, "other users can write"),
            (7, 0o41777, "other users can write"),
        ] {
            let error = check(7, owner, mode).unwrap_err();
            assert!(error.is_invalid_input());
            assert!(error.to_string().contains(text), "{error}");
            assert!(error.to_string().contains("/data"), "{error}");
        }
    }

    #[test]
    fn files_of_root_are_accepted_where_an_administrator_may_install_them() {
        let check = |owner, mode| {
            TrustedOwner::UserOrRoot.check_for(7, Path::new("/etc/rules.toml"), owner, mode)
        };
        assert!(check(0, 0o100644).is_ok());
        assert!(check(7, 0o100600).is_ok());
        assert!(check(8, 0o100644).is_err());
        assert!(check(0, 0o100666).is_err());
    }
}
