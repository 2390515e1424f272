//! poll(2) on several descriptors.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;

/// Returns a poll entry that waits until the descriptor is readable.
pub(super) fn readable(fd: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(fd, PollFlags::IN)
}

/// Waits until a descriptor is ready or the timeout has passed. Returns the number of ready descriptors. A
/// signal does not end the wait.
pub(super) fn wait(fds: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> io::Result<usize> {
    loop {
        match poll(fds, timeout) {
            Ok(ready) => return Ok(ready),
            Err(Errno::INTR) => {}
            Err(cause) => return Err(cause.into()),
        }
    }
}
