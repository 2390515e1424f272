//! The server of the API: accepts connections at the observer's socket and serves each in a thread.
//!
//! `td-api` accepts connections; each `td-api-N` reads and answers one request. A slow connection blocks only
//! its own thread, for a bounded time. All threads end when the server is stopped.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::request::{HEAD_BYTES_MAX, Head, Request};
use super::response::Response;
use super::routes::Routes;
use super::socket::{Socket, is_own_peer};
use crate::clock::Clock;
use crate::error::Result;
use crate::thread::{self, Handle, Stop, StopGuard, is_stopped, stop_pair};

/// The most simultaneous connections.
const CONNECTIONS_MAX: usize = 64;

/// The time that a client has to send its request.
const HEAD_TIME: Duration = Duration::from_secs(5);

/// The time that a write may block before the connection is closed.
const WRITE_TIME: Duration = Duration::from_secs(10);

/// The interval at which the server checks its socket's file and whether it must stop.
const CHECK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 500_000_000,
};

/// The largest accepted request body.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// A running server; it stops when it is dropped or joined.
#[derive(Debug)]
pub(crate) struct Server {
    running: StopGuard,
    thread: Handle<()>,
}

impl Server {
    /// Starts to listen at the path of a socket.
    pub fn start(path: &Path, routes: Routes, clock: &Clock) -> Result<Self> {
        let socket = Socket::listen(path)?;
        let (running, stop) = stop_pair();
        let acceptor = Acceptor {
            socket: Some(socket),
            path: path.to_owned(),
            routes,
            clock: clock.clone(),
            stop,
            connections: Vec::new(),
            count: 0,
        };
        let thread = thread::spawn("td-api", move || acceptor.run())?;
        Ok(Self { running, thread })
    }

    /// Stops the server and waits for its threads for at most `time`.
    pub fn stop(self, clock: &Clock, time: Duration) {
        let Self { running, thread } = self;
        drop(running);
        match thread.join_deadline(clock.now() + time) {
            Ok(Ok(())) => {}
            Ok(Err(panicked)) => log::error!("{panicked}"),
            Err(_) => log::warn!("a client of the API holds its connection"),
        }
    }
}

struct Acceptor {
    /// `None` while the socket cannot be created.
    socket: Option<Socket>,
    path: PathBuf,
    routes: Routes,
    clock: Clock,
    stop: Stop,
    connections: Vec<Handle<()>>,
    count: u64,
}

impl Acceptor {
    fn run(mut self) {
        while !is_stopped(&self.stop) {
            self.join_finished();
            self.restore_socket();
            let Some(socket) = &self.socket else {
                thread::park(Some(Duration::from_millis(500)));
                continue;
            };
            let mut fds = [PollFd::new(&socket.listener, PollFlags::IN)];
            match poll(&mut fds, Some(&CHECK)) {
                Ok(0) | Err(_) => continue,
                Ok(_) => {}
            }
            match socket.listener.accept() {
                Ok((stream, _)) => self.serve_in_thread(stream),
                Err(cause) => {
                    // The process may be out of descriptors temporarily.
                    log::warn!("the API cannot accept a connection: {cause}");
                    thread::park(Some(Duration::from_millis(100)));
                }
            }
        }
        // Streams end when the feed or the stop channel is closed.
        drop(self.socket.take());
        self.connections.drain(..).for_each(Handle::join_logged);
    }

    /// Recreates the socket if its file was removed.
    fn restore_socket(&mut self) {
        if self.socket.as_ref().is_some_and(Socket::is_in_place) {
            return;
        }
        self.socket = None;
        match Socket::listen(&self.path) {
            Ok(socket) => {
                log::info!("the API's socket was removed: made again");
                self.socket = Some(socket);
            }
            Err(error) => log::warn!("the API's socket was removed: {error:?}"),
        }
    }

    fn join_finished(&mut self) {
        let finished = self
            .connections
            .extract_if(.., |connection| connection.is_finished());
        finished.for_each(Handle::join_logged);
    }

    fn serve_in_thread(&mut self, stream: UnixStream) {
        let prepared = stream
            .set_read_timeout(Some(HEAD_TIME))
            .and_then(|()| stream.set_write_timeout(Some(WRITE_TIME)));
        if let Err(cause) = prepared {
            log::warn!("the API drops a connection: {cause}");
            return;
        }
        if !is_own_peer(&stream) {
            refuse(&stream, 403, "this observer belongs to another user");
            return;
        }
        self.join_finished();
        if self.connections.len() >= CONNECTIONS_MAX {
            let why = format!("there are {CONNECTIONS_MAX} connections already; try again later");
            refuse(&stream, 503, &why);
            return;
        }
        self.count += 1;
        let (routes, clock, stop) = (self.routes.clone(), self.clock.clone(), self.stop.clone());
        let name = format!("td-api-{}", self.count);
        match thread::spawn(name, move || serve(&stream, &routes, &clock, &stop)) {
            Ok(handle) => self.connections.push(handle),
            // The failed spawn has dropped the connection, so the client sees its end.
            Err(error) => log::warn!("{error:?}"),
        }
    }
}

/// Sends a problem without reading the request, which the client may still be sending.
fn refuse(mut stream: &UnixStream, status: u16, why: &str) {
    if let Err(cause) = Response::problem(status, why).write(&mut stream, true) {
        log::debug!("a refused client of the API is gone: {cause}");
    }
}

fn serve(mut stream: &UnixStream, routes: &Routes, clock: &Clock, stop: &Stop) {
    let answered = match read_request(stream, clock) {
        Ok(Ok((request, body))) => routes.answer(&request, &body, stream, stop),
        Ok(Err(problem)) => problem.write(&mut stream, true),
        Err(cause) => Err(cause),
    };
    if let Err(cause) = answered {
        log::debug!("a client of the API is gone: {cause}");
    }
}

/// Reads the head and the body. The inner error is the response to an invalid request.
fn read_request(
    stream: &UnixStream,
    clock: &Clock,
) -> io::Result<Result<(Request, Vec<u8>), Response>> {
    let problem = |status, why: &str| Ok(Err(Response::problem(status, why)));
    let deadline = clock.now() + HEAD_TIME;
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    let (request, head_bytes) = loop {
        match Request::read(&bytes) {
            Head::Complete(request, length) => break (*request, length),
            Head::Partial => {}
            Head::Invalid(why) => return problem(400, &why),
            Head::TooLarge => {
                let why = format!("the head exceeds {HEAD_BYTES_MAX} bytes");
                return problem(431, &why);
            }
        }
        match read_until(stream, &mut chunk, deadline, clock)? {
            None => return problem(408, "the head did not arrive in 5 s"),
            Some(count) => bytes.extend_from_slice(&chunk[..count]),
        }
    };
    if request.header("transfer-encoding").is_some() {
        let why = "Transfer-Encoding is not supported: send Content-Length";
        return problem(501, why);
    }
    let length = match request.header("content-length").map(str::parse) {
        None => 0,
        Some(Ok(length)) if length <= BODY_BYTES_MAX => length,
        Some(Ok(_)) => {
            let why = format!("the body exceeds {BODY_BYTES_MAX} bytes");
            return problem(413, &why);
        }
        Some(Err(_)) => return problem(400, "Content-Length is no number"),
    };
    let mut body = bytes.split_off(head_bytes);
    while body.len() < length {
        match read_until(stream, &mut chunk, deadline, clock)? {
            None => return problem(408, "the body did not arrive in 5 s"),
            Some(count) => body.extend_from_slice(&chunk[..count]),
        }
    }
    body.truncate(length);
    Ok(Ok((request, body)))
}

/// Reads at least one byte; returns `None` at the deadline.
fn read_until(
    mut stream: &UnixStream,
    chunk: &mut [u8],
    deadline: std::time::Instant,
    clock: &Clock,
) -> io::Result<Option<usize>> {
    let left = deadline.saturating_duration_since(clock.now());
    if left.is_zero() {
        return Ok(None);
    }
    stream.set_read_timeout(Some(left))?;
    let read = loop {
        match stream.read(chunk) {
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            read => break read,
        }
    };
    match read {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(count) => Ok(Some(count)),
        Err(cause)
            if matches!(
                cause.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
            ) =>
        {
            Ok(None)
        }
        Err(cause) => Err(cause),
    }
}
