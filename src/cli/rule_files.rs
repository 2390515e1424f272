//! Files of rules that a user wrote.

use std::path::Path;

use super::failure::Failure;
use crate::history::read_trusted_file;

/// The most bytes of a file of rules: far above any that a person writes.
const BYTES_MAX: u64 = 16 << 20;

/// Returns the text of a file; `None` if it does not exist.
pub(super) fn read(path: &Path) -> Result<Option<String>, Failure> {
    // A file that cannot be used is bad input.
    read_trusted_file(path, BYTES_MAX).map_err(|error| Failure::usage(format!("{error:?}")))
}
