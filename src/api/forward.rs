//! Forwards a request to the observer at a socket, and its answer to the client.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::http::{Request, Response, percent_encoded};
use super::server::{CHECK, connect};
use super::stream::Stream;
use crate::thread::{Stop, is_stopped};

/// The time that a write to the observer may block.
const WRITE_TIME: Duration = Duration::from_secs(10);

/// Headers that concern the connection of the client only.
const OWN: [&str; 5] = [
    "authorization",
    "content-length",
    "cookie",
    "host",
    "origin",
];

/// Forwards a request and whatever follows in both directions, until one side closes its connection.
///
/// # Errors
/// If the client is gone.
pub(crate) fn forward(
    socket: &Path,
    request: &Request,
    body: &[u8],
    mut client: &Stream,
    stop: &Stop,
) -> io::Result<()> {
    let observer = match begin(socket, request, body) {
        Ok(observer) => observer,
        Err(cause) => {
            log::debug!("the observer does not answer: {cause}");
            let why = "the observer has just ended: td-observe start begins another";
            return Response::problem(503, why).write(&mut client, request.method != "HEAD");
        }
    };
    relay(&observer, client, stop)
}

fn begin(socket: &Path, request: &Request, body: &[u8]) -> io::Result<UnixStream> {
    let mut observer = connect(socket)?;
    observer.set_write_timeout(Some(WRITE_TIME))?;
    let mut head = format!("{} {}", request.method, request.path);
    for (at, (name, value)) in request.query.iter().enumerate() {
        head.push(if at == 0 { '?' } else { '&' });
        head.push_str(&percent_encoded(name));
        head.push('=');
        head.push_str(&percent_encoded(value));
    }
    head.push_str(" HTTP/1.1\r\nHost: observer\r\n");
    for (name, value) in &request.headers {
        if !OWN.contains(&name.as_str()) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    observer.write_all(head.as_bytes())?;
    observer.write_all(body)?;
    Ok(observer)
}

fn relay(mut observer: &UnixStream, mut client: &Stream, stop: &Stop) -> io::Result<()> {
    let mut bytes = vec![0; 32 * 1024];
    while !is_stopped(stop) {
        let ready = {
            let mut fds = [
                PollFd::new(observer, PollFlags::IN),
                PollFd::new(client, PollFlags::IN | PollFlags::RDHUP),
            ];
            match poll(&mut fds, Some(&CHECK)) {
                Ok(_) => fds.map(|fd| !fd.revents().is_empty()),
                Err(rustix::io::Errno::INTR) => continue,
                Err(cause) => return Err(cause.into()),
            }
        };
        if ready[0] {
            match observer.read(&mut bytes)? {
                0 => return Ok(()),
                count => client.write_all(&bytes[..count])?,
            }
        }
        if ready[1] {
            match client.read(&mut bytes)? {
                0 => return Err(io::ErrorKind::BrokenPipe.into()),
                count => observer.write_all(&bytes[..count])?,
            }
        }
    }
    Ok(())
}
