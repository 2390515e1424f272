//! Refuses to start when the address space is so limited that an allocation might abort the program.

use rustix::process::{Resource, getrlimit};

use super::failure::Failure;

/// Minimum address space in bytes. Measured on Linux: a `watch` of one pane needs about 60 MiB, and reading a
/// history with a line of maximum size about 160 MiB.
const BYTES_MIN: u64 = 192 << 20;

/// Checks the limit, which shells set with `ulimit -v`.
pub(super) fn check() -> Result<(), Failure> {
    match getrlimit(Resource::As).current {
        Some(bytes) if bytes < BYTES_MIN => Err(Failure::usage(format!(
            "the address space is limited to {} MiB, at least {} MiB are needed; raise it with ulimit -v",
            bytes >> 20,
            BYTES_MIN >> 20,
        ))),
        _ => Ok(()),
    }
}
