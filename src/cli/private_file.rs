//! Files with secrets, which only their owner can read.

#[cfg(any(feature = "notify", feature = "serve"))]
use std::fs;
use std::io::{self, Write};
#[cfg(any(feature = "notify", feature = "serve"))]
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tempfile::NamedTempFile;

#[cfg(any(feature = "notify", feature = "serve"))]
use crate::history::read_trusted_file;

/// The largest file of a secret, in bytes.
#[cfg(any(feature = "notify", feature = "serve"))]
const SECRET_BYTES_MAX: u64 = 64 * 1024;

/// Returns the only line of a file that only its owner can read.
///
/// # Errors
/// The reason in words.
#[cfg(any(feature = "notify", feature = "serve"))]
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

/// Replaces a file as a whole; only this user can read it.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut file = NamedTempFile::new_in(directory)?;
    file.write_all(content)?;
    file.persist(path).map_err(|failed| failed.error)?;
    Ok(())
}
