//! What a child is given to read: bytes that are there already, or what somebody types.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;

/// What was typed and the child has not taken yet: a page of a paste. More stays in the terminal.
const TYPED_BYTES: usize = 4096;

/// Where a child's input comes from.
#[derive(Debug)]
pub(crate) enum Inlet<'a> {
    /// It has none, or one that needs no help.
    None,
    /// These bytes, and then the end.
    Bytes(OwnedFd, &'a [u8]),
    /// What is typed into the first goes into the second, as it is.
    Typed {
        from: BorrowedFd<'a>,
        to: OwnedFd,
        waiting: Vec<u8>,
    },
}

impl<'a> Inlet<'a> {
    /// These bytes, into a pipe, which is closed behind them.
    pub(crate) fn bytes(pipe: impl Into<OwnedFd>, bytes: &'a [u8]) -> io::Result<Self> {
        if bytes.is_empty() {
            // Closed at once: the child reads an end of file.
            return Ok(Self::None);
        }
        let pipe = pipe.into();
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Self::Bytes(pipe, bytes))
    }

    /// What is typed at one terminal, into another.
    pub(crate) fn typed(from: BorrowedFd<'a>, to: OwnedFd) -> Self {
        let waiting = Vec::with_capacity(TYPED_BYTES);
        Self::Typed { from, to, waiting }
    }

    /// What is to be waited for.
    pub(super) fn waits_for(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        match self {
            Self::None => None,
            Self::Bytes(pipe, _) => Some((pipe.as_fd(), PollFlags::OUT)),
            Self::Typed { from, waiting, .. } if waiting.is_empty() => Some((*from, PollFlags::IN)),
            Self::Typed { to, .. } => Some((to.as_fd(), PollFlags::OUT)),
        }
    }

    /// Writes what can be written. `is_ready`: what it waits for has come.
    pub(super) fn pass_on(&mut self, is_ready: bool) -> io::Result<()> {
        match self {
            Self::None => {}
            Self::Bytes(pipe, rest) => loop {
                match write(pipe.as_fd(), rest)? {
                    Written::Some(count) => *rest = rest.get(count..).unwrap_or_default(),
                    Written::Full => return Ok(()),
                    // The child does not want to read: that is its own affair.
                    Written::Gone => *rest = &[],
                }
                if rest.is_empty() {
                    *self = Self::None;
                    return Ok(());
                }
            },
            Self::Typed { from, to, waiting } => {
                if waiting.is_empty() && is_ready {
                    let mut typed = [0; TYPED_BYTES];
                    // An end, or an error: the terminal is gone, and nothing more is typed.
                    match rustix::io::read(*from, &mut typed) {
                        Ok(count @ 1..) => waiting.extend_from_slice(&typed[..count]),
                        Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => return Ok(()),
                        _ => {
                            *self = Self::None;
                            return Ok(());
                        }
                    }
                }
                while !waiting.is_empty() {
                    match write(to.as_fd(), waiting)? {
                        Written::Some(count) => drop(waiting.drain(..count)),
                        Written::Full => return Ok(()),
                        Written::Gone => {
                            *self = Self::None;
                            return Ok(());
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

enum Written {
    Some(usize),
    Full,
    Gone,
}

fn write(to: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<Written> {
    loop {
        match rustix::io::write(to, bytes).map_err(io::Error::from) {
            Ok(count) => return Ok(Written::Some(count)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Written::Full),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Written::Gone),
            // The other side of a terminal that nobody holds any more.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
                return Ok(Written::Gone);
            }
            Err(error) => return Err(error),
        }
    }
}
