//! One HTTP request and its response, on a thread that may block on the network.
//!
//! The thread reads bytes and sends them through a bounded channel. It ends with the response or when the
//! receiver is dropped. The channel lets the caller wait for data, a timeout and a cancellation at once,
//! which a socket does not. Dropping the exchange shuts the connection down and so wakes the thread. Only a
//! name lookup or a connection attempt may delay the thread; then it is not joined and ends on its own.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, never};
use ureq::Agent;
use ureq::http::HeaderValue;

use crate::clock::Clock;
use crate::error::Result;
use crate::thread::{Handle, spawn};

/// Capacity of the channel in parts, so that the network is slightly ahead of the reader.
const PARTS_MAX: usize = 16;

/// Maximum number of bytes to read at once: one TLS record.
const READ_BYTES: usize = 16 * 1024;

/// Maximum time to wait for the thread after the connection is shut down.
const JOIN_TIMEOUT: Duration = Duration::from_millis(50);

pub(super) struct HttpRequest {
    pub url: String,
    pub headers: Vec<(&'static str, HeaderValue)>,
    pub body: Arc<[u8]>,
}

/// A part of a response: a head, then bytes, then the end; a failure may replace any of them.
#[derive(Debug)]
pub(super) enum HttpPart {
    Head(ResponseHead),
    Bytes(Vec<u8>),
    End,
    Failed {
        message: String,
        /// True if the connection timed out.
        is_timeout: bool,
    },
}

/// The relevant fields of a response's head.
#[derive(Clone, Debug, Default)]
pub(super) struct ResponseHead {
    pub status: u16,
    pub content_type: String,
    pub retry_after: Option<String>,
    /// In milliseconds, as OpenAI's servers send it.
    pub retry_after_ms: Option<String>,
}

#[must_use]
pub(super) struct Exchange {
    agent: Agent,
    pub parts: Receiver<HttpPart>,
    thread: Option<Handle<()>>,
}

impl Exchange {
    /// Starts the thread. The agent belongs to this exchange and is shut down with it.
    pub fn begin(agent: Agent, request: HttpRequest) -> Result<Self> {
        let (sender, parts) = bounded(PARTS_MAX);
        let thread_agent = agent.clone();
        let thread = spawn("td-http", move || run(&thread_agent, &request, &sender))?;
        Ok(Self {
            agent,
            parts,
            thread: Some(thread),
        })
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // Dropping the receiver ends a thread that is sending; the shutdown ends one that is reading.
        self.parts = never();
        self.agent.clone().shutdown();
        let deadline = Clock::system().now() + JOIN_TIMEOUT;
        let joined = self
            .thread
            .take()
            .map(|thread| thread.join_deadline(deadline));
        match joined {
            Some(Ok(Err(panicked))) => log::warn!("{panicked}"),
            Some(Err(thread)) => {
                log::debug!("{} is still connecting, and ends on its own", thread.name());
            }
            Some(Ok(Ok(()))) | None => {}
        }
    }
}

fn run(agent: &Agent, request: &HttpRequest, sender: &Sender<HttpPart>) {
    let mut post = agent.post(&request.url);
    for (name, value) in &request.headers {
        post = post.header(*name, value);
    }
    let response = match post.send(&request.body[..]) {
        Ok(response) => response,
        Err(error) => return fail(error, sender),
    };
    let header = |name: &str| {
        let value = response.headers().get(name)?;
        Some(value.to_str().ok()?.to_owned())
    };
    let head = ResponseHead {
        status: response.status().as_u16(),
        content_type: header("content-type").unwrap_or_default(),
        retry_after: header("retry-after"),
        retry_after_ms: header("retry-after-ms"),
    };
    if sender.send(HttpPart::Head(head)).is_err() {
        return;
    }
    // The receiver limits the size.
    let mut body = response
        .into_body()
        .into_with_config()
        .limit(u64::MAX)
        .reader();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let read = match body.read(&mut buffer) {
            Ok(0) => HttpPart::End,
            Ok(count) => HttpPart::Bytes(buffer[..count].to_vec()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return fail(error.into(), sender),
        };
        let is_end = matches!(read, HttpPart::End);
        if sender.send(read).is_err() || is_end {
            return;
        }
    }
}

fn fail(error: ureq::Error, sender: &Sender<HttpPart>) {
    let is_timeout = matches!(error, ureq::Error::Timeout(_));
    let message = error.to_string();
    // An error means that the exchange was dropped.
    let _ = sender.send(HttpPart::Failed {
        message,
        is_timeout,
    });
}
