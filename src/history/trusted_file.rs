//! Files that control this program: read completely, and only if no other user can write to them.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::ownership::TrustedOwner;
use crate::error::{Error, Result, if_exists};

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
