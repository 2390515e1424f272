//! Files of rules that a user wrote: read whole, and only where that cannot take for ever.

use std::fs;
use std::io;
use std::path::Path;

use super::failure::Failure;

/// The text of a file; `None` where there is none.
pub(super) fn read(path: &Path) -> Result<Option<String>, Failure> {
    // A pipe would be waited for.
    if path.metadata().is_ok_and(|about| !about.is_file()) {
        return Err(Failure::usage(format!(
            "{path:?} is no regular file of rules"
        )));
    }
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(Failure::usage(format!("cannot read {path:?}: {cause}"))),
    }
}
