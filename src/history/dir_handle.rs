//! An open run directory: opens, renames and removes files relative to its descriptor.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;

use crate::error::{Error, Result, if_exists};
use crate::history::ownership::TrustedOwner;

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
