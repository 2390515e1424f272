//! Jobs of an engine: a command, a loop or a set of background agents that runs to its end on a thread
//! of its own, and the one handle to wait for any of them.

use crossbeam_channel::{Receiver, Sender, bounded};

use super::{Source, SourceContext};
use crate::error::{Error, Result};

/// A running job of an [`Engine`](crate::Engine). Dropping the handle changes nothing: the job runs
/// until it ends or the engine is shut down.
///
/// `T` is the job's result; `C` ends the job from another thread.
#[derive(Debug)]
pub struct JobHandle<T, C = ()> {
    control: C,
    result: Receiver<Result<T>>,
}

impl<T, C> JobHandle<T, C> {
    /// Returns the control that ends the job from another thread.
    pub fn control(&self) -> &C {
        &self.control
    }

    /// Waits for the job's end and returns its result.
    ///
    /// # Errors
    /// The error of the job itself, which the method of the engine that started it documents;
    /// `is_gone()` when the job's thread panicked, which the engine's report contains then.
    pub fn wait(self) -> Result<T> {
        self.result
            .recv()
            .unwrap_or_else(|_| Err(Error::gone("the job ended without a result")))
    }
}

/// A source that runs `work` once and sends its result to a [`JobHandle`].
pub(crate) struct Job<T, W> {
    name: String,
    work: W,
    result: Sender<Result<T>>,
}

impl<T, W> Job<T, W> {
    /// Creates the job and its handle. `name` is the thread's name.
    pub fn new<C>(name: String, control: C, work: W) -> (Self, JobHandle<T, C>) {
        // With room for the one result: the handle may be dropped.
        let (sender, result) = bounded(1);
        let job = Self {
            name,
            work,
            result: sender,
        };
        (job, JobHandle { control, result })
    }
}

impl<T, W> Source for Job<T, W>
where
    T: Send + 'static,
    W: FnOnce(&SourceContext) -> Result<T> + Send + 'static,
{
    fn name(&self) -> String {
        self.name.clone()
    }

    fn run(self: Box<Self>, context: SourceContext) {
        // The handle may have been dropped.
        let _ = self.result.send((self.work)(&context));
    }
}
