//! Raises the limit of open files, because each streamed session needs four descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Enough for two thousand sessions. A higher limit would slow down child programs that close every possible
/// descriptor one by one.
const WANTED: u64 = 8192;

/// Raises the limit to [`WANTED`], or as far as the system allows. A failure is not fatal.
pub(super) fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(WANTED, |maximum| maximum.min(WANTED));
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
