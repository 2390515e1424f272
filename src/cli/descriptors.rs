//! Raises the limit of open files: a streamed session takes four, and users have many.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Enough for two thousand sessions, and little enough for programs that are started from here and that
/// close whatever they might have open, one by one.
const WANTED: u64 = 8192;

/// Has as many as that, or as many as the system allows. What there is then has to do.
pub(super) fn want_many() {
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
