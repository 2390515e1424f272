//! Wakes one parked thread; ringing costs a single atomic load while that thread is awake.
//!
//! The sleeper arms the doorbell, checks its queue once more, and parks. A producer rings after it has added
//! an item. A blocking channel would spin for some microseconds before it sleeps, on the processor that the
//! woken threads need.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use crate::thread::{Waker, lock};

#[derive(Debug, Default)]
pub(super) struct Doorbell {
    is_armed: AtomicBool,
    sleeper: Mutex<Option<Waker>>,
}

impl Doorbell {
    /// Arms the doorbell: the next ring wakes the calling thread, which must check its queue again before it
    /// parks.
    pub(super) fn arm(&self) {
        *lock(&self.sleeper) = Some(Waker::current());
        self.is_armed.store(true, Ordering::SeqCst);
        // Together with the fence in `ring`: either the sleeper's check sees the new item, or the
        // ring sees the doorbell armed.
        fence(Ordering::SeqCst);
    }

    /// Undoes [`Doorbell::arm`] when the sleeper does not park.
    pub(super) fn disarm(&self) {
        self.is_armed.store(false, Ordering::Relaxed);
    }

    /// Wakes the sleeper, if one is armed. Call it after adding an item.
    pub(super) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.is_armed.load(Ordering::Relaxed) && self.is_armed.swap(false, Ordering::SeqCst) {
            // The lock is released before the sleeper wakes.
            let sleeper = lock(&self.sleeper).clone();
            if let Some(sleeper) = sleeper {
                sleeper.wake();
            }
        }
    }
}
