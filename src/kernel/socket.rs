//! A socket of a kernel: connects, then reads and writes without blocking.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::connection::Endpoint;

/// A connected socket.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Connects to a kernel's socket. Waits at most `wait` for each address of its host.
    pub fn connect(endpoint: &Endpoint, wait: Duration) -> io::Result<Self> {
        match endpoint {
            Endpoint::Path(path) => {
                let socket = UnixStream::connect(path)?;
                socket.set_nonblocking(true)?;
                Ok(Self::Unix(socket))
            }
            Endpoint::Tcp(host, port) => {
                let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, wait) {
                        Ok(socket) if is_connected_to_itself(&socket) => {
                            failed = io::ErrorKind::ConnectionRefused.into();
                        }
                        Ok(socket) => {
                            socket.set_nodelay(true)?;
                            socket.set_nonblocking(true)?;
                            return Ok(Self::Tcp(socket));
                        }
                        Err(error) => failed = error,
                    }
                }
                Err(failed)
            }
        }
    }

    /// Reads available bytes; returns `None` if none are available now, and 0 at the end.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        available(match self {
            Self::Tcp(socket) => socket.read(buffer),
            Self::Unix(socket) => socket.read(buffer),
        })
    }

    /// Writes as many bytes as the socket accepts; returns `None` if it accepts none now.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        available(match self {
            Self::Tcp(socket) => socket.write(bytes),
            Self::Unix(socket) => socket.write(bytes),
        })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Unix(socket) => socket.as_fd(),
        }
    }
}

/// Returns true if a connection was made to its own port. The system can choose the target's port as the
/// local port while a kernel that does not listen yet is retried.
fn is_connected_to_itself(socket: &TcpStream) -> bool {
    socket.local_addr().ok() == socket.peer_addr().ok()
}

fn available(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        },
    }
}
