//! Limits of the process: refuses to start with so little address space that an allocation might abort the
//! program, and raises the limit of open files, because each streamed session needs four descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::failure::Failure;

/// Minimum address space in bytes. Measured on Linux: a `watch` of one pane needs about 60 MiB, and reading a
/// history with a line of maximum size about 160 MiB.
const BYTES_MIN: u64 = 192 << 20;

/// Enough for two thousand sessions. A higher limit would slow down child programs that close every possible
/// descriptor one by one.
const DESCRIPTORS: u64 = 8192;

/// Checks the limit, which shells set with `ulimit -v`.
pub(super) fn check_address_space() -> Result<(), Failure> {
    match getrlimit(Resource::As).current {
        Some(bytes) if bytes < BYTES_MIN => Err(usage!(
            "the address space is limited to {} MiB, at least {} MiB are needed; raise it with ulimit -v",
            bytes >> 20,
            BYTES_MIN >> 20
        )),
        _ => Ok(()),
    }
}

/// Raises the limit to [`DESCRIPTORS`], or as far as the system allows. A failure is not fatal.
pub(super) fn raise_descriptors() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(DESCRIPTORS, |maximum| maximum.min(DESCRIPTORS));
    if current.is_some_and(|current| current < wanted) {
        let limit = Rlimit {
            current: Some(wanted),
            maximum,
        };
        if let Err(cause) = setrlimit(Resource::Nofile, limit) {
            log::debug!("the limit of open files stays as it is: {cause}");
        }
    }
}
