//! Cancellation of a model's answer from another thread.

use std::sync::{Arc, Mutex};

use crossbeam_channel::{Receiver, select_biased};

use crate::error::Result;
use crate::thread::{Stop, StopGuard, is_stopped, lock, spawn, stop_pair};

/// Cancels the operations that hold it, from any thread. Clones share their state, and a cancellation
/// is final.
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
    /// Creates a handle that is not cancelled.
    pub fn new() -> Self {
        let (guard, stop) = stop_pair();
        Self {
            guard: Arc::new(Mutex::new(Some(guard))),
            stop,
        }
    }

    /// Cancels all operations that hold this handle or a clone of it.
    pub fn cancel(&self) {
        drop(lock(&self.guard).take());
    }

    /// Returns true after a cancellation.
    pub fn is_cancelled(&self) -> bool {
        is_stopped(&self.stop)
    }

    /// Does `work`, and cancels when `event` gets a message or is closed meanwhile.
    pub(crate) fn run_until<E: Send + 'static, T>(
        &self,
        thread: &'static str,
        event: Receiver<E>,
        work: impl FnOnce() -> T,
    ) -> Result<T> {
        let (guard, done) = stop_pair();
        let cancel = self.clone();
        let watcher = spawn(thread, move || {
            select_biased! {
                recv(done) -> _ => {}
                recv(event) -> _ => cancel.cancel(),
            }
        })?;
        let result = work();
        drop(guard);
        // Nothing in this thread panics.
        let _ = watcher.join();
        Ok(result)
    }

    /// Returns a channel that a cancellation closes. A `select!` must check it before the data.
    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }
}
