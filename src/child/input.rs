//! The input of a child: bytes that are known from the start, or typed at a terminal.

use std::borrow::Cow;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

/// Maximum number of typed bytes that wait for the child: a page of a paste. The terminal holds the rest.
const TYPED_BYTES_MAX: usize = 4096;

/// Writes a child's input as fast as the child reads it.
#[derive(Debug)]
pub(crate) struct ChildInput<'a> {
    /// The terminal that is typed at; `None` where `pending` is the whole input.
    terminal: Option<BorrowedFd<'a>>,
    /// `None` once the input has ended.
    child: Option<OwnedFd>,
    pending: Cow<'a, [u8]>,
    /// The number of bytes of `pending` that the child has.
    written: usize,
}

impl<'a> ChildInput<'a> {
    /// Returns an input that this program does not write.
    pub(crate) fn none() -> Self {
        Self {
            terminal: None,
            child: None,
            pending: Cow::Borrowed(&[]),
            written: 0,
        }
    }

    /// Writes `bytes` into a pipe and closes it.
    ///
    /// # Errors
    /// The system's error when the pipe cannot be made non-blocking.
    pub(crate) fn bytes(pipe: impl Into<OwnedFd>, bytes: &'a [u8]) -> io::Result<Self> {
        let pipe = pipe.into();
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Self {
            // An empty pipe is closed at once, so that the child reads an end of file.
            child: (!bytes.is_empty()).then_some(pipe),
            pending: Cow::Borrowed(bytes),
            ..Self::none()
        })
    }

    /// Passes bytes typed at `terminal` on to the child's terminal.
    pub(crate) fn typed(terminal: BorrowedFd<'a>, child: OwnedFd) -> Self {
        Self {
            terminal: Some(terminal),
            child: Some(child),
            ..Self::none()
        }
    }

    /// Returns the descriptor that must be ready before [`ChildInput::transfer`] can do anything.
    pub(super) fn waits_for(&self) -> Option<PollFd<'_>> {
        let child = self.child.as_ref()?.as_fd();
        let (fd, flags) = match self.terminal {
            Some(terminal) if self.is_written() => (terminal, PollFlags::IN),
            _ => (child, PollFlags::OUT),
        };
        Some(PollFd::from_borrowed_fd(fd, flags))
    }

    /// Writes as much as the child takes. `is_ready` states that the awaited descriptor is ready:
    /// a terminal that is read before that would block.
    pub(super) fn transfer(&mut self, is_ready: bool) -> io::Result<()> {
        if is_ready && self.is_written() && !self.read_terminal() {
            return Ok(());
        }
        while let Some(child) = &self.child
            && !self.is_written()
        {
            match rustix::io::write(child, &self.pending[self.written..]) {
                Ok(count) => self.written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                // The child does not read (EPIPE), or no process has its terminal open (EIO).
                Err(Errno::PIPE | Errno::IO) => self.child = None,
                Err(error) => return Err(error.into()),
            }
        }
        if self.terminal.is_none() {
            self.child = None;
        }
        Ok(())
    }

    /// Reads typed bytes; returns false when there is nothing to write.
    fn read_terminal(&mut self) -> bool {
        let Some(terminal) = self.terminal else {
            return false;
        };
        let mut typed = [0; TYPED_BYTES_MAX];
        match rustix::io::read(terminal, &mut typed) {
            Ok(count @ 1..) => {
                (self.pending, self.written) = (Cow::Owned(typed[..count].to_vec()), 0);
                true
            }
            Err(Errno::INTR | Errno::AGAIN) => false,
            // An end or an error: the terminal is gone.
            _ => {
                self.child = None;
                false
            }
        }
    }

    fn is_written(&self) -> bool {
        self.written == self.pending.len()
    }
}
