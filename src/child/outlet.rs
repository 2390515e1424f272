//! One pipe that a child writes to: what is there is taken, nothing is waited for.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The reading end of a pipe or of a terminal.
#[derive(Debug)]
pub(crate) struct Outlet {
    /// `None` once it has ended.
    end: Option<OwnedFd>,
    /// A terminal whose other side nobody holds now; as long as it is somebody's terminal, it may
    /// be opened again.
    is_hung_up: bool,
}

impl Outlet {
    /// Takes over a reading end, if there is one.
    pub(crate) fn new(end: Option<impl Into<OwnedFd>>) -> io::Result<Self> {
        let end = end.map(Into::into);
        if let Some(end) = &end {
            rustix::io::ioctl_fionbio(end, true)?;
        }
        let is_hung_up = false;
        Ok(Self { end, is_hung_up })
    }

    /// Asks for more room in the pipe: fewer turns between who writes and who reads. What the
    /// system does not give is not needed.
    pub(crate) fn widen(&self, bytes: usize) {
        #[cfg(target_os = "linux")]
        if let Some(end) = &self.end {
            let _ = rustix::pipe::fcntl_setpipe_size(end, bytes);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = bytes;
    }

    /// What is to be waited for, while it has not ended.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        // One that is hung up is always ready, and is looked at with each round instead.
        let end = self.end.as_ref().filter(|_| !self.is_hung_up);
        end.map(AsFd::as_fd)
    }

    /// Whether nobody holds the other end now, and all has been read.
    pub(crate) fn is_ended(&self) -> bool {
        self.end.is_none() || self.is_hung_up
    }

    /// Hands on what is there, but not much more than `bytes_max`: somebody may write without end.
    /// How many bytes it was.
    pub(super) fn take(
        &mut self,
        buffer: &mut [u8],
        bytes_max: usize,
        mut hand_on: impl FnMut(&[u8]),
    ) -> io::Result<usize> {
        let mut taken = 0;
        while taken < bytes_max
            && let Some(end) = &self.end
        {
            match rustix::io::read(end, &mut *buffer).map_err(io::Error::from) {
                Ok(0) => self.end = None,
                Ok(count) => {
                    self.is_hung_up = false;
                    hand_on(&buffer[..count]);
                    taken += count;
                    // A pipe gives all that it has: whoever writes on is not waited for.
                    if count < buffer.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_hung_up = false;
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_hung_up(&error) => {
                    self.is_hung_up = true;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }
}

fn is_hung_up(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}
