//! Sends requests to the threads of the UI, without blocking.

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};

/// The maximum number of requests that wait for a thread. A person selects fewer rows while one page is read.
const REQUESTS_MAX: usize = 64;

/// The sending end of a bounded queue.
#[derive(Debug)]
pub(super) struct RequestSender<T> {
    requests: Sender<T>,
    /// Drops requests that are obsolete.
    waiting: Receiver<T>,
}

pub(super) fn request_queue<T>() -> (RequestSender<T>, Receiver<T>) {
    let (requests, waiting) = bounded(REQUESTS_MAX);
    let receiver = waiting.clone();
    (RequestSender { requests, waiting }, receiver)
}

impl<T> RequestSender<T> {
    /// Adds a request. A full queue drops the oldest one.
    pub fn send(&self, mut request: T) {
        while let Err(TrySendError::Full(refused)) = self.requests.try_send(request) {
            let _ = self.waiting.try_recv();
            request = refused;
        }
    }

    /// Replaces all requests by one.
    pub fn replace(&self, request: T) {
        self.waiting.try_iter().for_each(drop);
        self.send(request);
    }
}
