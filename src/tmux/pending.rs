//! Pending replies: a channel for each request, and waits that cannot hang.

use std::sync::{Arc, Weak};

use crossbeam_channel::{Receiver, RecvError, Sender, bounded, select_biased};

use crate::error::{Error, Result};
use crate::thread::Stop;

/// The gateway's end of a request, which sends the reply.
#[derive(Debug)]
pub(super) struct ReplySender<T> {
    sender: Sender<Result<T>>,
    requester: Weak<()>,
}

impl<T> ReplySender<T> {
    /// Returns true if the requester is still waiting for the reply.
    pub fn is_awaited(&self) -> bool {
        self.requester.strong_count() > 0
    }

    pub fn send(self, reply: Result<T>) {
        // The channel has room for its only reply. If it is closed, the requester has gone away.
        let _ = self.sender.try_send(reply);
    }
}

/// A reply that has not arrived yet. Dropping it withdraws the request.
#[derive(Debug)]
#[must_use = "a request whose reply is dropped is withdrawn"]
pub struct PendingReply<T> {
    receiver: Receiver<Result<T>>,
    /// Closed once the gateway's thread has ended, even by a panic.
    ended: Stop,
    _requester: Arc<()>,
}

impl<T> PendingReply<T> {
    /// Creates both ends of a request.
    pub(super) fn new(ended: Stop) -> (ReplySender<T>, Self) {
        // Each request has exactly one reply.
        let (sender, receiver) = bounded(1);
        let requester = Arc::new(());
        let reply_to = ReplySender {
            sender,
            requester: Arc::downgrade(&requester),
        };
        let pending = Self {
            receiver,
            ended,
            _requester: requester,
        };
        (reply_to, pending)
    }

    /// Waits for the reply.
    ///
    /// # Errors
    /// `is_gone()` without a server or when the gateway has ended; `is_timeout()` if the server hangs.
    pub fn wait(self) -> Result<T> {
        let never: Stop = crossbeam_channel::never();
        self.wait_or(&never).unwrap_or_else(|| Err(ended()))
    }

    /// Returns the channel of the reply, for a requester that selects over several channels. It is closed
    /// without a reply when the gateway ends; [`PendingReply::wait`] then returns the error.
    pub(crate) fn receiver(&self) -> &Receiver<Result<T>> {
        &self.receiver
    }

    /// Waits for the reply; returns `None` once `interrupt` is ready (a stop or a deadline).
    pub(crate) fn wait_or<I>(self, interrupt: &Receiver<I>) -> Option<Result<T>> {
        // The reply has priority, because the gateway may have sent it just before its end.
        select_biased! {
            recv(self.receiver) -> reply => Some(received(reply)),
            recv(interrupt) -> _ => None,
            recv(self.ended) -> _ => {
                Some(self.receiver.try_recv().unwrap_or_else(|_| Err(ended())))
            }
        }
    }
}

/// Returns what a receiver of replies got; `is_gone()` when the gateway has ended instead.
pub(crate) fn received<T>(reply: std::result::Result<Result<T>, RecvError>) -> Result<T> {
    reply.unwrap_or_else(|_| Err(ended()))
}

pub(super) fn ended() -> Error {
    Error::gone("the tmux gateway has ended")
}
