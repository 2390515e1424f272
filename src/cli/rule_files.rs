//! Reads the user's files of rules.

use std::path::Path;

use super::failure::Failure;
use crate::history::read_trusted_file;

/// Maximum size of a file of rules, in bytes; far larger than any file written by hand.
const BYTES_MAX: u64 = 16 << 20;

/// Returns the text of a file; `None` if it does not exist.
pub(super) fn read(path: &Path) -> Result<Option<String>, Failure> {
    // An unusable file is bad input.
    read_trusted_file(path, BYTES_MAX).map_err(|error| usage!("{error:?}"))
}
