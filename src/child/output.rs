//! An output of a child: read without blocking.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

/// The reading end of a pipe or of a terminal.
#[derive(Debug)]
pub(crate) struct OutputReader {
    /// `None` once the output has ended.
    source: Option<OwnedFd>,
    /// The source is a terminal whose other side no process has open. Another process of its session
    /// may open it again.
    is_hung_up: bool,
}

impl OutputReader {
    /// Takes over a reading end; `None` is an output that has ended.
    ///
    /// # Errors
    /// The system's error when the source cannot be made non-blocking.
    pub(crate) fn new(source: Option<impl Into<OwnedFd>>) -> io::Result<Self> {
        let source = source.map(Into::into);
        if let Some(source) = &source {
            rustix::io::ioctl_fionbio(source, true)?;
        }
        Ok(Self {
            source,
            is_hung_up: false,
        })
    }

    /// Asks the system for a larger pipe, so that writer and reader alternate less often. A refusal is
    /// ignored: the pipe works with its usual size.
    pub(crate) fn enlarge_pipe(&self, bytes: usize) {
        #[cfg(target_os = "linux")]
        if let Some(source) = &self.source {
            let _ = rustix::pipe::fcntl_setpipe_size(source, bytes);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = bytes;
    }

    /// Returns the descriptor to wait for. A hung-up terminal has none: it is always ready, so it is
    /// read once per round instead.
    pub(crate) fn waits_for(&self) -> Option<PollFd<'_>> {
        let source = self.source.as_ref().filter(|_| !self.is_hung_up)?;
        Some(PollFd::from_borrowed_fd(source.as_fd(), PollFlags::IN))
    }

    /// Returns true if no process holds the other end and everything has been read.
    pub(crate) fn has_ended(&self) -> bool {
        self.source.is_none() || self.is_hung_up
    }

    /// Closes the reading end: the next write of the child fails, and signals `SIGPIPE`.
    pub(super) fn close(&mut self) {
        self.source = None;
    }

    /// Reads what is available and passes it to `handle`; returns the number of bytes. Stops soon after
    /// `bytes_max`, because the writer may never pause.
    pub(crate) fn read(
        &mut self,
        buffer: &mut [u8],
        bytes_max: usize,
        mut handle: impl FnMut(&[u8]),
    ) -> io::Result<usize> {
        let mut total = 0;
        while total < bytes_max
            && let Some(source) = &self.source
        {
            let result = rustix::io::read(source, &mut *buffer);
            self.is_hung_up = result == Err(Errno::IO);
            match result {
                Ok(0) => self.source = None,
                Ok(count) => {
                    handle(&buffer[..count]);
                    total += count;
                    // A pipe returns everything that it holds, so it is empty now.
                    if count < buffer.len() {
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::IO) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(total)
    }
}
