//! Bounded request queues between the threads of the UI, whose senders never block.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::{Receiver, Sender, bounded};

/// The maximum number of requests that wait for a thread. A person selects fewer rows while one page is read.
const REQUESTS_MAX: usize = 64;

/// The sending end. Dropping it also wakes the receiving thread.
#[derive(Debug)]
pub(super) struct RequestSender<T> {
    requests: Arc<Mutex<VecDeque<T>>>,
    ready: Sender<()>,
}

/// The receiving end.
#[derive(Debug)]
pub(super) struct RequestReceiver<T> {
    requests: Arc<Mutex<VecDeque<T>>>,
    pub ready: Receiver<()>,
}

/// Creates a queue.
pub(super) fn request_queue<T>() -> (RequestSender<T>, RequestReceiver<T>) {
    let requests = Arc::new(Mutex::new(VecDeque::new()));
    let (notify, ready) = bounded(1);
    let sender = RequestSender {
        requests: requests.clone(),
        ready: notify,
    };
    (sender, RequestReceiver { requests, ready })
}

impl<T> RequestSender<T> {
    /// Adds a request. A full queue drops the oldest one.
    pub fn send(&self, request: T) {
        let mut requests = lock(&self.requests);
        if requests.len() >= REQUESTS_MAX {
            requests.pop_front();
        }
        requests.push_back(request);
        drop(requests);
        // A full channel wakes the thread already.
        let _ = self.ready.try_send(());
    }

    /// Replaces all requests by one.
    pub fn replace(&self, request: T) {
        lock(&self.requests).clear();
        self.send(request);
    }
}

impl<T> RequestReceiver<T> {
    /// Takes all requests.
    pub fn take(&self) -> VecDeque<T> {
        std::mem::take(&mut *lock(&self.requests))
    }
}

fn lock<T>(requests: &Mutex<VecDeque<T>>) -> MutexGuard<'_, VecDeque<T>> {
    // The queue is consistent even if the other thread has panicked.
    requests.lock().unwrap_or_else(PoisonError::into_inner)
}
