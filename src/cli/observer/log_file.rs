//! The diagnostics of the background observer: a file of bounded size, and one older file.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{fstat, ftruncate};
use rustix::stdio::{dup2_stderr, stderr};

use crate::child::open_log;

/// The name of the file in the data directory.
const NAME: &str = "observer.log";

/// The size at which the file is renamed to `observer.log.1`.
const BYTES_MAX: u64 = 1024 * 1024;

pub(super) fn path(data: &Path) -> PathBuf {
    data.join(NAME)
}

/// A writer to standard error, which is the log file. Panics bypass it, because they are rare and short.
#[derive(Debug)]
pub(super) struct RotatedLog {
    path: PathBuf,
}

impl RotatedLog {
    /// Creates a writer that rotates the file in this data directory.
    pub fn new(data: &Path) -> Self {
        Self { path: path(data) }
    }

    /// Makes room for more bytes. If the file cannot be replaced, it is truncated, because it must not fill the
    /// disk.
    fn make_room(&self, bytes: usize) -> io::Result<()> {
        let written = fstat(stderr())?;
        let size = u64::try_from(written.st_size).unwrap_or(0);
        if size == 0 || size.saturating_add(bytes as u64) <= BYTES_MAX {
            return Ok(());
        }
        let identity = (written.st_dev, written.st_ino);
        self.rotate(identity)
            .or_else(|_| Ok(ftruncate(stderr(), 0)?))
    }

    /// Renames the file, and redirects standard error to a new one. `written` identifies the present file, so
    /// that another file at its path is not renamed.
    fn rotate(&self, written: (u64, u64)) -> io::Result<()> {
        let in_place = self.path.symlink_metadata();
        if in_place.is_ok_and(|found| (found.dev(), found.ino()) == written) {
            std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
        }
        let file: File = open_log(&self.path)?;
        Ok(dup2_stderr(file)?)
    }
}

impl Write for RotatedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.make_room(bytes.len())?;
        io::stderr().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
