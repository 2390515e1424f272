//! Files that only their owner can read: secrets, and what is written of histories.

use std::fs;
#[cfg(any(feature = "report", feature = "sqlite"))]
use std::fs::File;
use std::io::{self, Write};
#[cfg(any(feature = "notify", feature = "redis", feature = "serve"))]
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

#[cfg(any(feature = "notify", feature = "redis", feature = "serve"))]
use crate::history::read_trusted_file;

/// The largest file of a secret, in bytes.
#[cfg(any(feature = "notify", feature = "redis", feature = "serve"))]
const SECRET_BYTES_MAX: u64 = 64 * 1024;

/// Returns the only line of a file that only its owner can read.
///
/// # Errors
/// The reason in words.
#[cfg(any(feature = "notify", feature = "redis", feature = "serve"))]
pub(super) fn private_line(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let metadata = fs::metadata(path).map_err(|cause| format!("cannot read {shown}: {cause}"))?;
    if metadata.is_file() && metadata.mode() & 0o077 != 0 {
        return Err(format!(
            "{shown} can be read by other users: chmod 600 makes it private"
        ));
    }
    let content =
        read_trusted_file(path, SECRET_BYTES_MAX).map_err(|error| format!("{error:?}"))?;
    let content = content.unwrap_or_default();
    let content = content.trim();
    if content.is_empty() {
        return Err(format!("{shown} is empty"));
    }
    if content.contains(|c: char| !c.is_ascii_graphic()) {
        return Err(format!(
            "{shown} is no secret: it has several words or lines, or characters that none has"
        ));
    }
    Ok(content.to_owned())
}

/// A file that appears under its name when it is complete, in place of an older one. Only this user can read it.
/// Dropped before that, it is removed.
#[derive(Debug)]
pub(super) struct NewFile {
    temporary: NamedTempFile,
    output: PathBuf,
}

impl NewFile {
    /// Creates the file beside its name, or beside the target of a link.
    ///
    /// # Errors
    /// If something has the name that is no regular file, or the file cannot be created.
    pub fn beside(output: &Path) -> io::Result<Self> {
        let output = match fs::metadata(output) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => output.to_owned(),
            Err(cause) => return Err(cause),
            Ok(about) if about.is_file() => output.canonicalize()?,
            Ok(_) => return Err(io::Error::other("it is not a regular file")),
        };
        let temporary = tempfile::Builder::new()
            .prefix(".td-observe-")
            .tempfile_in(directory_of(&output))?;
        Ok(Self { temporary, output })
    }

    /// Returns its path until it is complete.
    #[cfg(feature = "sqlite")]
    pub fn path(&self) -> &Path {
        self.temporary.path()
    }

    /// Gives the file its name, and lets it survive a power cut.
    ///
    /// # Errors
    /// If the file cannot be synced or renamed.
    #[cfg(any(feature = "report", feature = "sqlite"))]
    pub fn persist(self) -> io::Result<()> {
        // Without this, the file may be empty under its name.
        self.temporary.as_file().sync_data()?;
        let directory = File::open(directory_of(&self.output));
        self.rename()?;
        // Some file systems cannot sync a directory.
        let _ = directory.and_then(|directory| directory.sync_all());
        Ok(())
    }

    fn rename(self) -> io::Result<()> {
        let renamed = self.temporary.persist(self.output);
        renamed.map(drop).map_err(|failed| failed.error)
    }
}

#[cfg(feature = "report")]
impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.temporary.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.temporary.flush()
    }
}

fn directory_of(path: &Path) -> &Path {
    let directory = path.parent();
    let directory = directory.filter(|path| !path.as_os_str().is_empty());
    directory.unwrap_or(Path::new("."))
}

/// Replaces a file as a whole; only this user can read it. It costs no sync: a later one replaces what a power cut leaves.
///
/// # Errors
/// The same as [`NewFile::beside`], or if the file cannot be written or renamed.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = NewFile::beside(path)?;
    file.temporary.write_all(content)?;
    file.rename()
}
