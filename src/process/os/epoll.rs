//! The epoll set of the exit thread, which reports each descriptor once.

use std::io;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

pub(super) use imp::EpollSet;

/// Returns true if a descriptor is ready now. A pidfd is ready when its process has ended.
pub(super) fn is_ready(fd: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..))
}

#[cfg(target_os = "linux")]
mod imp {
    use std::os::fd::OwnedFd;

    use rustix::buffer::spare_capacity;
    use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
    use rustix::io::Errno;

    use super::{AsFd, io};

    /// The most descriptors per wait. The next wait reports further ones.
    const ROUND: usize = 64;

    /// Descriptors and their numbers.
    #[derive(Debug)]
    pub struct EpollSet(OwnedFd);

    impl EpollSet {
        /// # Errors
        /// When the system has no descriptor left, or is not Linux.
        pub fn new() -> io::Result<Self> {
            Ok(Self(epoll::create(CreateFlags::CLOEXEC)?))
        }

        /// Adds a descriptor.
        ///
        /// # Errors
        /// When the system has no room for it.
        pub fn add(&self, fd: &impl AsFd, number: u64) -> io::Result<()> {
            let once = EventFlags::IN | EventFlags::ONESHOT;
            Ok(epoll::add(&self.0, fd, EventData::new_u64(number), once)?)
        }

        /// Waits once more for a pidfd that was ready, until its process has been reaped.
        pub fn wait_for_reaping(&self, fd: &impl AsFd, number: u64) {
            // Reaping is reported as a hang-up, which needs no flag. The call fails if the descriptor was
            // just removed from the set.
            let data = EventData::new_u64(number);
            let _ = epoll::modify(&self.0, fd, data, EventFlags::ONESHOT);
        }

        pub fn remove(&self, fd: &impl AsFd) {
            // The descriptor is in the set, because it was added and is removed only once.
            let _ = epoll::delete(&self.0, fd);
        }

        /// Blocks until a descriptor is ready; returns the numbers of all ready ones.
        ///
        /// # Errors
        /// The error of the system.
        pub fn wait(&self) -> io::Result<Vec<u64>> {
            let mut events = Vec::with_capacity(ROUND);
            loop {
                match epoll::wait(&self.0, spare_capacity(&mut events), None) {
                    Ok(_) => return Ok(events.iter().map(|event| event.data.u64()).collect()),
                    Err(Errno::INTR) => {}
                    Err(cause) => return Err(cause.into()),
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use super::{AsFd, io};

    #[derive(Debug)]
    pub struct EpollSet;

    impl EpollSet {
        pub fn new() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub fn add(&self, _fd: &impl AsFd, _number: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub fn wait_for_reaping(&self, _fd: &impl AsFd, _number: u64) {}

        pub fn remove(&self, _fd: &impl AsFd) {}

        pub fn wait(&self) -> io::Result<Vec<u64>> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }
}
