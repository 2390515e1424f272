//! Limits how many do something at once.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::thread::{Stop, is_stopped, lock};

/// The interval at which those who wait look for a stop.
const CHECK: Duration = Duration::from_millis(100);

/// A number of slots.
#[derive(Debug)]
pub(super) struct Limit {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A taken slot. Dropping it frees it.
#[derive(Debug)]
pub(super) struct Slot<'a>(&'a Limit);

impl Limit {
    pub fn of(slots: usize) -> Self {
        Self {
            free: Mutex::new(slots),
            freed: Condvar::new(),
        }
    }

    /// Takes a slot, once there is one; `None` after a stop.
    pub fn take(&self, stop: &Stop) -> Option<Slot<'_>> {
        let mut free = lock(&self.free);
        while *free == 0 {
            if is_stopped(stop) {
                return None;
            }
            let woken = self.freed.wait_timeout(free, CHECK);
            free = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        *free -= 1;
        Some(Slot(self))
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *lock(&self.0.free) += 1;
        self.0.freed.notify_one();
    }
}
