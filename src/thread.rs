//! Threads: named, joined, stopped by dropping a guard; panics are values.
//!
//! Only this file names `std::thread`. The code that spawns a thread joins it.

use std::any::Any;
use std::convert::Infallible;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::error::{Error, Result};

/// Locks a mutex, even after a panic of its holder: each change under a lock of this crate is made at once, so
/// that a panic leaves nothing half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The panic of a thread.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("thread {thread} panicked: {message}")]
pub struct Panicked {
    /// The thread's name.
    pub thread: String,
    /// The panic's message.
    pub message: String,
}

/// A running thread, which must be joined.
#[must_use = "a thread that is not joined may outlive what it uses"]
pub(crate) struct Handle<T> {
    name: String,
    thread: thread::JoinHandle<()>,
    /// Receives the result. The channel has room for it, so that an abandoned thread still ends.
    result: Receiver<Result<T, Panicked>>,
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Starts a thread with a name, which `top -H` and debuggers show (Linux keeps the first 15 bytes).
///
/// # Errors
/// When the system cannot start a thread.
pub(crate) fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<Handle<T>> {
    let name: String = name.into().replace('\0', " ");
    let (done, result) = bounded(1);
    let thread_name = name.clone();
    let thread = thread::Builder::new()
        .name(name.clone())
        .spawn(move || {
            let outcome = catch_panic(&thread_name, body);
            // An error means that the handle is dropped.
            let _ = done.send(outcome);
        })
        .map_err(|cause| Error::other(format!("cannot start the thread {name}")).because(cause))?;
    Ok(Handle {
        name,
        thread,
        result,
    })
}

/// Runs `other` in a thread with this name and `here` in the calling thread, and waits for both. Panics of
/// both are returned as values. `other` must end once `here` has ended.
///
/// # Errors
/// When the system cannot start a thread; neither has run then.
pub(crate) fn run_beside<A: Send, B>(
    name: &str,
    other: impl FnOnce() -> A + Send,
    here: impl FnOnce() -> B,
) -> Result<(Result<A, Panicked>, Result<B, Panicked>)> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn_scoped(scope, || catch_panic(name, other))
            .map_err(|cause| {
                Error::other(format!("cannot start the thread {name}")).because(cause)
            })?;
        let own = thread::current();
        let here = catch_panic(own.name().unwrap_or("caller"), here);
        // Panics of the body are caught inside the thread.
        let other = thread.join().unwrap_or_else(|payload| {
            Err(Panicked {
                thread: name.to_owned(),
                message: message_of(payload.as_ref()),
            })
        });
        Ok((other, here))
    })
}

/// Runs `body` and returns its panic, if any, as a value.
pub(crate) fn catch_panic<T>(thread: &str, body: impl FnOnce() -> T) -> Result<T, Panicked> {
    // State that the body shares is behind channels and locks whose users handle poisoning. State that it
    // owns is dropped.
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| Panicked {
        thread: thread.to_owned(),
        message: message_of(payload.as_ref()),
    })
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "no message".to_owned()
    }
}

impl<T> Handle<T> {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if the thread has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until the thread has ended.
    pub(crate) fn join(self) -> Result<T, Panicked> {
        let outcome = self.result.recv();
        // Panics of the body are caught inside the thread, so this only waits for the thread's exit.
        let _ = self.thread.join();
        outcome.unwrap_or_else(|_| {
            Err(Panicked {
                thread: self.name,
                message: "no result".into(),
            })
        })
    }

    /// Waits until the thread has ended, and logs its panic.
    pub(crate) fn join_logged(self) {
        if let Err(panicked) = self.join() {
            log::error!("{panicked}");
        }
    }

    /// Waits until the thread has ended, at most until the deadline. Returns the handle if it has not.
    pub(crate) fn join_deadline(self, deadline: Instant) -> Result<Result<T, Panicked>, Self> {
        match self.result.recv_deadline(deadline) {
            Ok(outcome) => {
                let _ = self.thread.join();
                Ok(outcome)
            }
            Err(_) if self.thread.is_finished() => Ok(self.join()),
            Err(_) => Err(self),
        }
    }
}

/// Wakes a parked thread, see [`park`], or rings a channel that a thread selects.
#[derive(Clone, Debug)]
pub(crate) enum Waker {
    Thread(thread::Thread),
    Bell(Sender<()>),
}

impl Waker {
    /// Returns a waker for the calling thread.
    pub(crate) fn current() -> Self {
        Self::Thread(thread::current())
    }

    /// Ends the thread's current or next park, or makes the channel ready.
    pub(crate) fn wake(&self) {
        match self {
            Self::Thread(thread) => thread.unpark(),
            // A full channel is ready.
            Self::Bell(bell) => drop(bell.try_send(())),
        }
    }
}

/// Parks the calling thread until it is woken or the timeout has passed. It may return early without a
/// reason, so the caller must check its condition again.
pub(crate) fn park(timeout: Option<std::time::Duration>) {
    match timeout {
        Some(timeout) => thread::park_timeout(timeout),
        None => thread::park(),
    }
}

/// Returns the number of threads that can run in parallel; 1 if the system does not report it.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// A guard that stops all threads with its [`Stop`] when it is dropped.
#[derive(Debug)]
#[must_use = "dropping the guard stops the threads"]
pub(crate) struct StopGuard {
    _open: Sender<Infallible>,
}

/// A channel that never receives a message and is closed when its guard is dropped. Place it first in a
/// `select!`, before the data.
pub(crate) type Stop = Receiver<Infallible>;

/// Creates a guard and its stop channel.
pub(crate) fn stop_pair() -> (StopGuard, Stop) {
    let (open, stop) = bounded(0);
    (StopGuard { _open: open }, stop)
}

/// Returns true if the guard is dropped.
pub(crate) fn is_stopped(stop: &Stop) -> bool {
    matches!(
        stop.try_recv(),
        Err(crossbeam_channel::TryRecvError::Disconnected)
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_panic_is_returned_by_join() {
        let handle = spawn("td-test", || -> u32 { panic!("on purpose") }).unwrap();
        let panicked = handle.join().unwrap_err();
        assert_eq!(panicked.message, "on purpose");
        assert_eq!(panicked.thread, "td-test");
    }

    #[test]
    fn a_thread_that_misses_the_deadline_is_returned() {
        let (guard, stop) = stop_pair();
        let handle = spawn("td-test", move || stop.recv().is_err()).unwrap();
        let handle = handle
            .join_deadline(Instant::now() + Duration::from_millis(1))
            .unwrap_err();
        drop(guard);
        assert!(handle.join().unwrap());
    }
}
