//! The socket of one channel of a kernel, with its protocol state.

use super::connection::Endpoint;
use super::socket::Socket;
use super::wire::Channel;
use super::zmtp::{Peer, SocketType};

/// The socket of one channel, connected or not.
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

    /// Returns true when the peer has answered the handshake.
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
