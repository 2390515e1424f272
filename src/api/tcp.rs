//! A server on TCP: accepts connections at an address. What it answers is its service's affair.
//!
//! `td-web` accepts connections; each `td-web-N` reads and answers one request. All threads end when the server is
//! stopped.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::connections::{Connections, Service};
use super::server::{CHECK, Server};
use super::stream::Stream;
use crate::clock::Clock;
use crate::error::Result;
use crate::thread::{self, is_stopped, stop_pair};

impl Server {
    /// Serves the connections to a listening socket.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn on_tcp(listener: TcpListener, service: Arc<dyn Service>, clock: &Clock) -> Result<Self> {
        let (running, stop) = stop_pair();
        let mut connections = Connections::new(service, "td-web", clock, &stop);
        let thread = thread::spawn("td-web", move || {
            while !is_stopped(&stop) {
                connections.join_finished();
                let mut fds = [PollFd::new(&listener, PollFlags::IN)];
                match poll(&mut fds, Some(&CHECK)) {
                    Ok(0) | Err(_) => continue,
                    Ok(_) => {}
                }
                // A client that is gone again would block an accept.
                let accepted = listener.set_nonblocking(true).and_then(|()| {
                    let (stream, _) = listener.accept()?;
                    stream.set_nonblocking(false)?;
                    // Each line is sent at once.
                    stream.set_nodelay(true)?;
                    Ok(stream)
                });
                match accepted {
                    Ok(stream) => connections.take(Stream::Tcp(stream)),
                    Err(cause) if cause.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(cause) => {
                        // The process may be out of descriptors temporarily.
                        log::warn!("the page cannot accept a connection: {cause}");
                        thread::park(Some(Duration::from_millis(100)));
                    }
                }
            }
            drop(listener);
            connections.join_all();
        })?;
        Ok(Self { running, thread })
    }
}
