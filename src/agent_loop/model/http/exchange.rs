//! One request and its answer, on a thread that may wait for the network as long as it must.
//!
//! The thread sends what it reads through a bounded channel and ends when the answer has ended, or
//! when nobody takes it any more. Whoever asked waits for the channel, for a time limit and for a
//! cancel at once, which no socket can be waited for together with. Dropped, the connection is
//! shut down, which ends the thread's wait; only a name that is being looked up, or a connection
//! that is being made, holds it a little longer, and then it is left to end by itself.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use ureq::Agent;

use crate::clock::Clock;
use crate::error::Result;
use crate::thread::{Handle, spawn};

/// Pieces that wait: the network is a little ahead of who reads.
const PIECES: usize = 16;

/// What is read at once: a TLS record.
const PIECE_BYTES: usize = 16 * 1024;

/// How long the thread is waited for when its connection has been shut down.
const JOIN: Duration = Duration::from_millis(50);

/// A request.
pub(super) struct Asked {
    pub url: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Arc<[u8]>,
}

/// What comes of it, in order: a head, bytes, and the end; or a failure at any point.
#[derive(Debug)]
pub(super) enum Piece {
    Head(Head),
    Bytes(Vec<u8>),
    End,
    /// What the network says, and whether a time limit of the connection was reached.
    Failed(String, bool),
}

/// What matters of an answer's head.
#[derive(Clone, Debug, Default)]
pub(super) struct Head {
    pub status: u16,
    pub content_type: String,
    pub retry_after: Option<String>,
    /// Milliseconds, as OpenAI's servers say.
    pub retry_after_ms: Option<String>,
}

/// An exchange that goes on.
#[must_use]
pub(super) struct Exchange {
    agent: Agent,
    /// `None` once it is dropped.
    pieces: Option<Receiver<Piece>>,
    thread: Option<Handle<()>>,
}

impl Exchange {
    /// Begins it. The agent is this exchange's own: it is shut down with it.
    pub fn begin(agent: Agent, asked: Asked) -> Result<Self> {
        let (give, pieces) = bounded(PIECES);
        let other = agent.clone();
        let thread = spawn("td-http", move || exchange(&other, &asked, &give))?;
        Ok(Self {
            agent,
            pieces: Some(pieces),
            thread: Some(thread),
        })
    }

    /// What comes of it.
    pub fn pieces(&self) -> &Receiver<Piece> {
        static NEVER: std::sync::LazyLock<Receiver<Piece>> =
            std::sync::LazyLock::new(crossbeam_channel::never);
        self.pieces.as_ref().unwrap_or(&NEVER)
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // In this order: who cannot hand on ends, and who waits for the network finds it closed.
        self.pieces = None;
        self.agent.clone().shutdown();
        let deadline = Clock::system().now() + JOIN;
        let joined = self
            .thread
            .take()
            .map(|thread| thread.join_deadline(deadline));
        match joined {
            Some(Ok(Err(panicked))) => log::warn!("{panicked}"),
            Some(Err(thread)) => {
                log::debug!("{} is still being connected, and left alone", thread.name());
            }
            Some(Ok(Ok(()))) | None => {}
        }
    }
}

fn exchange(agent: &Agent, asked: &Asked, give: &Sender<Piece>) {
    let mut request = agent.post(&asked.url);
    for (name, value) in &asked.headers {
        request = request.header(*name, value);
    }
    let response = match request.send(&asked.body[..]) {
        Ok(response) => response,
        Err(error) => return fail(error, give),
    };
    let header = |name: &str| {
        let value = response.headers().get(name)?;
        Some(value.to_str().ok()?.to_owned())
    };
    let head = Head {
        status: response.status().as_u16(),
        content_type: header("content-type").unwrap_or_default(),
        retry_after: header("retry-after"),
        retry_after_ms: header("retry-after-ms"),
    };
    if give.send(Piece::Head(head)).is_err() {
        return;
    }
    // Who takes the pieces knows how many are enough.
    let mut body = response
        .into_body()
        .into_with_config()
        .limit(u64::MAX)
        .reader();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = match body.read(&mut piece) {
            Ok(0) => Piece::End,
            Ok(count) => Piece::Bytes(piece[..count].to_vec()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return fail(error.into(), give),
        };
        let is_end = matches!(read, Piece::End);
        if give.send(read).is_err() || is_end {
            return;
        }
    }
}

fn fail(error: ureq::Error, give: &Sender<Piece>) {
    let is_timeout = matches!(error, ureq::Error::Timeout(_));
    // Nobody may want to know any more.
    let _ = give.send(Piece::Failed(error.to_string(), is_timeout));
}
