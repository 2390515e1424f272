//! Files of rules that a user wrote: read whole, and only where that ends and no other user can write them.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::failure::Failure;
use crate::history::TrustedOwner;

/// The most bytes of a file of rules: far above any that a person writes.
const BYTES_MAX: u64 = 16 << 20;

/// Returns the text of a file; `None` if it does not exist.
pub(super) fn read(path: &Path) -> Result<Option<String>, Failure> {
    let failed = |cause: io::Error| Failure::usage(format!("cannot read {path:?}: {cause}"));
    // Without waiting for the peer of a named pipe. The flags fit into an `i32`, as `open` has them.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let mut file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(failed(cause)),
    };
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(Failure::usage(format!(
            "{path:?} is not a regular file of rules"
        )));
    }
    TrustedOwner::UserOrRoot.check(path, &metadata)?;
    if metadata.len() > BYTES_MAX {
        return Err(Failure::usage(format!(
            "{path:?} is too large for a file of rules: {BYTES_MAX} bytes at most"
        )));
    }
    let mut text = String::new();
    (&mut file)
        .take(BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok(Some(text))
}
