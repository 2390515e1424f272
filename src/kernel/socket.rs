//! The sockets of a kernel: connect, then read and write without blocking, each with the state of its
//! protocol.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::connection::Endpoint;
use super::wire::Channel;
use super::zmtp::{Peer, SocketType};

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

#[derive(Debug)]
pub(super) struct ChannelSocket {
    pub channel: Channel,
    pub endpoint: Endpoint,
    pub socket: Option<Socket>,
    pub peer: Peer,
}

impl ChannelSocket {
    pub fn new(channel: Channel, endpoint: Endpoint, identity: &[u8]) -> Self {
        Self {
            channel,
            endpoint,
            socket: None,
            peer: peer(channel, identity),
        }
    }

    /// Returns true if the peer has answered the handshake.
    pub fn is_ready(&self) -> bool {
        self.socket.is_some() && self.peer.is_ready()
    }

    /// Closes the connection, so that it can be made again.
    pub fn close(&mut self, identity: &[u8]) {
        self.socket = None;
        self.peer = peer(self.channel, identity);
    }

    /// Writes as much pending output as the socket accepts. Returns false if the peer has gone.
    pub fn write(&mut self) -> bool {
        let Some(socket) = &mut self.socket else {
            return true;
        };
        while !self.peer.output().is_empty() {
            match socket.write(self.peer.output()) {
                Ok(Some(count)) => self.peer.written(count),
                Ok(None) => return true,
                Err(cause) => {
                    log::debug!("{}: {cause}", self.endpoint);
                    return false;
                }
            }
        }
        true
    }
}

fn peer(channel: Channel, identity: &[u8]) -> Peer {
    match channel {
        // The kernel routes its questions by the identity of the request's sender, so these sockets share one
        // identity.
        Channel::Shell | Channel::Stdin | Channel::Control => {
            Peer::new(SocketType::Dealer, identity)
        }
        Channel::Iopub => Peer::new(SocketType::Sub, b""),
        Channel::Heartbeat => Peer::new(SocketType::Req, b""),
    }
}
