//! Threads: named, joined, stopped by dropping a guard, their panics turned into values.
//!
//! The only file that names `std::thread`. Whoever spawns a thread joins it; a handle that is
//! dropped without joining says so in the log.

use std::any::Any;
use std::convert::Infallible;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::error::{Error, Result};

/// What a thread panicked with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("thread {thread} panicked: {message}")]
pub struct Panicked {
    /// The thread's name.
    pub thread: String,
    /// The panic's message.
    pub message: String,
}

/// A running thread. Join it.
#[must_use = "a thread that is not joined may outlive what it uses"]
pub(crate) struct Handle<T> {
    name: String,
    thread: thread::JoinHandle<()>,
    /// Gets the one result; with room for it, so that an abandoned thread still ends.
    result: Receiver<Result<T, Panicked>>,
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Starts a thread with a name that `top -H` and debuggers show (Linux keeps 15 bytes of it).
///
/// # Errors
/// When the system has no more threads to give.
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
            let outcome = catching(&thread_name, body);
            // Nobody waits for an abandoned thread's result.
            let _ = done.send(outcome);
        })
        .map_err(|cause| Error::other(format!("cannot start the thread {name}")).because(cause))?;
    Ok(Handle {
        name,
        thread,
        result,
    })
}

/// Runs `here` in this thread and `beside` in another one, with a name, until both have ended; a
/// panic of either is a value. What `beside` waits for must end when `here` has.
///
/// # Errors
/// When the system has no more threads to give: then neither has run.
pub(crate) fn beside<A: Send, B>(
    name: &str,
    beside: impl FnOnce() -> A + Send,
    here: impl FnOnce() -> B,
) -> Result<(Result<A, Panicked>, Result<B, Panicked>)> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn_scoped(scope, || catching(name, beside))
            .map_err(|cause| {
                Error::other(format!("cannot start the thread {name}")).because(cause)
            })?;
        let own = thread::current();
        let here = catching(own.name().unwrap_or("caller"), here);
        // The body's panics are caught inside.
        let beside = thread.join().unwrap_or_else(|payload| {
            Err(Panicked {
                thread: name.to_owned(),
                message: message_of(payload.as_ref()),
            })
        });
        Ok((beside, here))
    })
}

/// Runs `body` and turns a panic into a value.
pub(crate) fn catching<T>(thread: &str, body: impl FnOnce() -> T) -> Result<T, Panicked> {
    // The state that the body shares with others is behind channels and locks that treat
    // poisoning; what it owns is gone with it.
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
    /// The thread's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the thread has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the end.
    pub(crate) fn join(self) -> Result<T, Panicked> {
        let outcome = self.result.recv();
        // The body's panics are caught inside, so this only waits for the thread to be gone.
        let _ = self.thread.join();
        outcome.unwrap_or_else(|_| {
            Err(Panicked {
                thread: self.name,
                message: "no result".into(),
            })
        })
    }

    /// Waits for the end until a deadline; the handle comes back when it was not reached.
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

/// Wakes a parked thread; see [`park_until`].
#[derive(Clone, Debug)]
pub(crate) struct Waker(thread::Thread);

impl Waker {
    /// A waker for the calling thread.
    pub(crate) fn current() -> Self {
        Self(thread::current())
    }

    /// Lets the thread's present or next park return at once.
    pub(crate) fn wake(&self) {
        self.0.unpark();
    }
}

/// Parks the calling thread until it is woken (or for no reason: look again after it).
pub(crate) fn park(timeout: Option<std::time::Duration>) {
    match timeout {
        Some(timeout) => thread::park_timeout(timeout),
        None => thread::park(),
    }
}

/// How many threads can run at once; one where the system does not say.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Keeps the threads that hold its [`Stop`] running; dropped, it stops them.
#[derive(Debug)]
#[must_use = "dropping the guard stops the threads"]
pub(crate) struct StopGuard {
    _open: Sender<Infallible>,
}

/// A channel that never gets a message and is closed when its guard is dropped: put it into the
/// `select!`, before the data.
pub(crate) type Stop = Receiver<Infallible>;

/// A guard and what it stops.
pub(crate) fn stop_pair() -> (StopGuard, Stop) {
    let (open, stop) = bounded(0);
    (StopGuard { _open: open }, stop)
}

/// Whether the guard is gone.
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
    fn a_panic_is_a_value() {
        let handle = spawn("td-test", || -> u32 { panic!("on purpose") }).unwrap();
        let panicked = handle.join().unwrap_err();
        assert_eq!(panicked.message, "on purpose");
        assert_eq!(panicked.thread, "td-test");
    }

    #[test]
    fn a_thread_that_does_not_end_is_given_back() {
        let (guard, stop) = stop_pair();
        let handle = spawn("td-test", move || stop.recv().is_err()).unwrap();
        let handle = handle
            .join_deadline(Instant::now() + Duration::from_millis(1))
            .unwrap_err();
        drop(guard);
        assert!(handle.join().unwrap());
    }
}
