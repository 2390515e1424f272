//! The connection of a client: a Unix socket, or TCP.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A connection. Reading and writing need no exclusive access, as for std's streams.
#[derive(Debug)]
pub(crate) enum Stream {
    Unix(UnixStream),
    #[cfg_attr(not(feature = "serve"), allow(dead_code))]
    Tcp(TcpStream),
}

impl Stream {
    /// Sets the time after which a read fails.
    pub fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_read_timeout(time),
            Self::Tcp(stream) => stream.set_read_timeout(time),
        }
    }

    /// Sets the time after which a write fails.
    pub fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_write_timeout(time),
            Self::Tcp(stream) => stream.set_write_timeout(time),
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => {
                let mut stream = stream;
                stream.read(buffer)
            }
            Stream::Tcp(stream) => {
                let mut stream = stream;
                stream.read(buffer)
            }
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => {
                let mut stream = stream;
                stream.write(bytes)
            }
            Stream::Tcp(stream) => {
                let mut stream = stream;
                stream.write(bytes)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        // Sockets have no buffer of their own.
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}
