//! The set of descriptors that the thread of the exits waits for (epoll): each is told of once.

use std::io;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

/// Whether a descriptor is ready now: of a pidfd, whether its process has ended.
pub(super) fn is_ready(fd: &impl AsFd) -> bool {
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&at_once)), Ok(1..))
}

/// Descriptors with their numbers.
#[derive(Debug)]
pub(super) struct ReadySet(imp::Set);

impl ReadySet {
    /// # Errors
    /// When no descriptor is left, or this is no Linux.
    pub fn new() -> io::Result<Self> {
        imp::Set::new().map(Self)
    }

    /// Waits for a descriptor, too.
    ///
    /// # Errors
    /// When the system has no room for it.
    pub fn add(&self, fd: &impl AsFd, number: u64) -> io::Result<()> {
        self.0.add(fd, number)
    }

    /// Waits once more for a pidfd that was ready, until its process has been waited for.
    pub fn wait_for_last(&self, fd: &impl AsFd, number: u64) {
        self.0.wait_for_last(fd, number);
    }

    /// Waits no more for a descriptor.
    pub fn remove(&self, fd: &impl AsFd) {
        self.0.remove(fd);
    }

    /// The numbers of those that are ready; blocks until one is.
    ///
    /// # Errors
    /// What the system says.
    pub fn wait(&self) -> io::Result<Vec<u64>> {
        self.0.wait()
    }
}

#[cfg(target_os = "linux")]
mod imp {
    use std::io;
    use std::os::fd::{AsFd, OwnedFd};

    use rustix::buffer::spare_capacity;
    use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
    use rustix::io::Errno;

    /// Ends that are taken at a time; more wait for the next round.
    const ROUND: usize = 64;

    #[derive(Debug)]
    pub struct Set(OwnedFd);

    impl Set {
        pub fn new() -> io::Result<Self> {
            Ok(Self(epoll::create(CreateFlags::CLOEXEC)?))
        }

        pub fn add(&self, fd: &impl AsFd, number: u64) -> io::Result<()> {
            let once = EventFlags::IN | EventFlags::ONESHOT;
            Ok(epoll::add(&self.0, fd, EventData::new_u64(number), once)?)
        }

        pub fn wait_for_last(&self, fd: &impl AsFd, number: u64) {
            // That it has been waited for is told as a hang-up, which needs no flag. One that is let
            // go at this moment is not in the set any more.
            let data = EventData::new_u64(number);
            let _ = epoll::modify(&self.0, fd, data, EventFlags::ONESHOT);
        }

        pub fn remove(&self, fd: &impl AsFd) {
            // It is in the set: it was added, and this is done once.
            let _ = epoll::delete(&self.0, fd);
        }

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
    use std::io;
    use std::os::fd::AsFd;

    #[derive(Debug)]
    pub struct Set;

    impl Set {
        pub fn new() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub fn add(&self, _fd: &impl AsFd, _number: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub fn wait_for_last(&self, _fd: &impl AsFd, _number: u64) {}

        pub fn remove(&self, _fd: &impl AsFd) {}

        pub fn wait(&self) -> io::Result<Vec<u64>> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }
}
