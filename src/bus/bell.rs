//! Wakes one sleeping thread, and costs whoever rings a look when it is awake.
//!
//! The sleeper arms the bell, looks once more whether there is something, and parks. Whoever puts
//! something there rings after it. Channels could block instead, but they spin for some
//! microseconds before they sleep, on the processor that those just woken are waiting for.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, PoisonError};

use crate::thread::Waker;

#[derive(Debug, Default)]
pub(super) struct Bell {
    armed: AtomicBool,
    sleeper: Mutex<Option<Waker>>,
}

impl Bell {
    /// From here on a ring wakes the calling thread: look once more, then park.
    pub(super) fn arm(&self) {
        *self.sleeper.lock().unwrap_or_else(PoisonError::into_inner) = Some(Waker::current());
        self.armed.store(true, Ordering::SeqCst);
        // Together with the fence in `ring`: either the sleeper's look sees what was put there,
        // or the ring sees the bell armed.
        fence(Ordering::SeqCst);
    }

    /// Awake again, without a ring.
    pub(super) fn disarm(&self) {
        self.armed.store(false, Ordering::Relaxed);
    }

    /// Wakes the sleeper, if there is one. Call it after putting something there.
    pub(super) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.armed.load(Ordering::Relaxed) && self.armed.swap(false, Ordering::SeqCst) {
            let sleeper = self
                .sleeper
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            if let Some(sleeper) = sleeper {
                sleeper.wake();
            }
        }
    }
}
