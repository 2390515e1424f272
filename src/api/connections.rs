//! The connections of a server: reads one request from each, and has it answered, in a thread of its own. A slow
//! connection blocks only its thread, for a bounded time.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::http::{HEAD_BYTES_MAX, Head, Request, Response};
use super::stream::Stream;
use crate::clock::Clock;
use crate::thread::{self, Handle, Stop};

/// The most simultaneous connections.
const CONNECTIONS_MAX: usize = 64;

/// The time that a client has to send its request.
const HEAD_TIME: Duration = Duration::from_secs(5);

/// The time that a write may block before the connection is closed.
const WRITE_TIME: Duration = Duration::from_secs(10);

/// The largest accepted request body.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// Answers requests.
pub(crate) trait Service: Send + Sync {
    /// Answers a request. The connection is closed afterwards.
    ///
    /// # Errors
    /// If the client is gone.
    fn answer(
        &self,
        request: &Request,
        body: &[u8],
        stream: &Stream,
        stop: &Stop,
    ) -> io::Result<()>;
}

/// The threads of the connections.
pub(super) struct Connections {
    service: Arc<dyn Service>,
    clock: Clock,
    stop: Stop,
    threads: Vec<Handle<()>>,
    /// The beginning of their names.
    name: &'static str,
    count: u64,
}

impl Connections {
    pub fn new(service: Arc<dyn Service>, name: &'static str, clock: &Clock, stop: &Stop) -> Self {
        Self {
            service,
            clock: clock.clone(),
            stop: stop.clone(),
            threads: Vec::new(),
            name,
            count: 0,
        }
    }

    pub fn join_finished(&mut self) {
        let finished = self.threads.extract_if(.., |thread| thread.is_finished());
        finished.for_each(Handle::join_logged);
    }

    /// Waits for all threads, which end when the server is stopped.
    pub fn join_all(&mut self) {
        self.threads.drain(..).for_each(Handle::join_logged);
    }

    /// Serves a new connection. Beyond the limit, it is refused, and those that are served stay.
    pub fn take(&mut self, stream: Stream) {
        let prepared = stream
            .set_read_timeout(Some(HEAD_TIME))
            .and_then(|()| stream.set_write_timeout(Some(WRITE_TIME)));
        if let Err(cause) = prepared {
            log::warn!("the API drops a connection: {cause}");
            return;
        }
        self.join_finished();
        if self.threads.len() >= CONNECTIONS_MAX {
            let why = format!("there are {CONNECTIONS_MAX} connections already; try again later");
            refuse(&stream, 503, &why);
            return;
        }
        self.count += 1;
        let (service, clock) = (Arc::clone(&self.service), self.clock.clone());
        let stop = self.stop.clone();
        let name = format!("{}-{}", self.name, self.count);
        match thread::spawn(name, move || serve(&stream, &*service, &clock, &stop)) {
            Ok(handle) => self.threads.push(handle),
            // The failed spawn has dropped the connection, so the client sees its end.
            Err(error) => log::warn!("{error:?}"),
        }
    }
}

/// Sends a problem without reading the request, which the client may still be sending.
pub(super) fn refuse(mut stream: &Stream, status: u16, why: &str) {
    if let Err(cause) = Response::problem(status, why).write(&mut stream, true) {
        log::debug!("a refused client of the API is gone: {cause}");
    }
}

fn serve(mut stream: &Stream, service: &dyn Service, clock: &Clock, stop: &Stop) {
    let answered = match read_request(stream, clock) {
        Ok(Ok((request, body))) => service.answer(&request, &body, stream, stop),
        Ok(Err(problem)) => problem.write(&mut stream, true),
        Err(cause) => Err(cause),
    };
    if let Err(cause) = answered {
        log::debug!("a client of the API is gone: {cause}");
    }
}

/// Reads the head and the body. The inner error is the response to an invalid request.
fn read_request(
    stream: &Stream,
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
    let lengths: Vec<&str> = request.values("content-length").collect();
    let is_number = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
    let length = match lengths[..] {
        [] => Some(Ok(0)),
        [length] => Some(length).filter(is_number).map(str::parse::<usize>),
        _ => None,
    };
    let length = match length {
        Some(Ok(length)) if length <= BODY_BYTES_MAX => length,
        Some(_) => {
            let why = format!("the body exceeds {BODY_BYTES_MAX} bytes");
            return problem(413, &why);
        }
        None => return problem(400, "Content-Length is not one number"),
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
    mut stream: &Stream,
    chunk: &mut [u8],
    deadline: Instant,
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
