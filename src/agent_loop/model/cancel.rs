//! Ending a model's answer from another thread.

use std::sync::{Arc, Mutex, PoisonError};

use crate::thread::{Stop, StopGuard, is_stopped, stop_pair};

/// Ends what it was given to, from any thread. Clones are one and the same; cancelled once, it
/// stays so.
///
/// ```
/// use td_observe::agent_loop::Cancel;
/// let cancel = Cancel::new();
/// let other = cancel.clone();
/// other.cancel();
/// assert!(cancel.is_cancelled());
/// ```
#[derive(Clone, Debug)]
pub struct Cancel {
    guard: Arc<Mutex<Option<StopGuard>>>,
    stop: Stop,
}

impl Default for Cancel {
    fn default() -> Self {
        Self::new()
    }
}

impl Cancel {
    /// One that is not cancelled.
    pub fn new() -> Self {
        let (guard, stop) = stop_pair();
        Self {
            guard: Arc::new(Mutex::new(Some(guard))),
            stop,
        }
    }

    /// Ends what this was given to.
    pub fn cancel(&self) {
        // It is taken out whole: a panic elsewhere leaves nothing half done.
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        drop(guard.take());
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        is_stopped(&self.stop)
    }

    /// Closed when it is cancelled: for a `select!`, before the data.
    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }
}
