//! Jobs of an engine: a command, a loop, a set of background agents or code on a kernel, each of which runs to
//! its end on a thread of its own, and the one handle to wait for any of them.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};

use super::{OpenedRun, RunName, Source, SourceContext};
use crate::error::{Error, Result};
use crate::event::ExecutionId;
use crate::history::{IN_PANE, RunInfo};
use crate::thread::{Stop, StopGuard, lock, stop_pair};
use crate::tmux::pane_in_front;
use serde_json::{Value, json};

/// A running job of an [`Engine`](crate::Engine). Dropping the handle changes nothing: the job runs
/// until it ends or the engine ends.
///
/// `T` is the job's result; `C` ends the job from another thread.
///
/// ```
/// use std::time::Duration;
/// use td_observe::channel::select;
/// use td_observe::process::Command;
/// use td_observe::{Builder, Clock};
///
/// # fn main() -> td_observe::Result<()> {
/// let mut engine = Builder::new().start()?;
/// let job = engine.execute_as("listing", Command::new("ls"))?;
/// assert_eq!(job.execution_id()?.as_str(), "listing");
/// let timeout = Clock::system().after(Duration::from_secs(60));
/// select! {
///     recv(job.done()) -> _ => {}
///     recv(timeout) -> _ => job.control().end(15),
/// }
/// assert_eq!(job.wait()?.code(), 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct JobHandle<T, C = ()> {
    control: C,
    result: Receiver<Result<T>>,
    /// The result, once it is received.
    received: Option<Result<T>>,
    done: Stop,
    opened: Receiver<ExecutionId>,
    execution_id: OnceLock<ExecutionId>,
}

impl<T, C> JobHandle<T, C> {
    /// Returns the control that ends the job from another thread.
    pub fn control(&self) -> &C {
        &self.control
    }

    /// Returns the name of the job's run. Waits until the run is opened, which a command does when it has
    /// started, and a kernel when it is connected.
    ///
    /// # Errors
    /// `is_gone()` when the job has ended without a run; [`wait`](Self::wait) returns the reason.
    pub fn execution_id(&self) -> Result<&ExecutionId> {
        if self.execution_id.get().is_none()
            && let Ok(id) = self.opened.recv()
        {
            // Another thread that waited has not received it.
            let _ = self.execution_id.set(id);
        }
        (self.execution_id.get()).ok_or_else(|| Error::gone("the job has ended without a run"))
    }

    /// Returns a channel that is closed when the job has ended, for
    /// [`select!`](crate::channel::select). Then [`JobHandle::try_wait`] has the result. A closed channel is always
    /// ready: a loop that goes on puts [`never`](crate::channel::never) in its place.
    pub fn done(&self) -> &Receiver<Infallible> {
        &self.done
    }

    /// Returns the job's result if it has ended. Further calls return it again.
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait), as text, without their causes.
    pub fn try_wait(&mut self) -> Result<Option<&T>> {
        if self.received.is_none() {
            self.received = match self.result.try_recv() {
                Ok(result) => Some(result),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => Some(Err(no_result())),
            };
        }
        self.result_so_far()
    }

    /// Waits for the job's end, at most for `timeout`, and returns its result; `None` if it still runs.
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait), as text, without their causes.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Option<&T>> {
        if self.received.is_none() {
            self.received = match self.result.recv_timeout(timeout) {
                Ok(result) => Some(result),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Err(no_result())),
            };
        }
        self.result_so_far()
    }

    fn result_so_far(&self) -> Result<Option<&T>> {
        match &self.received {
            None => Ok(None),
            Some(Ok(result)) => Ok(Some(result)),
            Some(Err(error)) => Err(error.without_cause()),
        }
    }

    /// Waits for the job's end and returns its result: also that of a command which the engine has ended, with the code
    /// 143 or 137.
    ///
    /// # Errors
    /// The error of the job itself, which the method of the engine that started it documents;
    /// `is_gone()` when the job's thread panicked, which the engine's report contains then.
    pub fn wait(mut self) -> Result<T> {
        match self.received.take() {
            Some(result) => result,
            None => self.result.recv().unwrap_or_else(|_| Err(no_result())),
        }
    }
}

fn no_result() -> Error {
    Error::gone("the job ended without a result")
}

/// The ids of the jobs that run. Two jobs under one id would write one run, which the first of them would end.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobIds(Arc<Mutex<HashSet<ExecutionId>>>);

impl JobIds {
    /// Claims the name of a job until the job has ended.
    ///
    /// # Errors
    /// `is_invalid_input()` when a job with this id runs.
    pub fn claim(&self, run: RunName) -> Result<JobName> {
        if let RunName::Exact(id) = &run
            && !lock(&self.0).insert(id.clone())
        {
            let what = format!(
                "a job {id} runs already: wait for its end, or choose another execution id"
            );
            return Err(Error::invalid(what));
        }
        let ids = self.clone();
        Ok(JobName { run, ids })
    }
}

/// The claimed name of a job's run.
#[derive(Debug)]
pub(crate) struct JobName {
    run: RunName,
    ids: JobIds,
}

impl Drop for JobName {
    fn drop(&mut self) {
        if let RunName::Exact(id) = &self.run {
            lock(&self.ids.0).remove(id);
        }
    }
}

/// Opens the run of a job.
pub(crate) struct JobRun<'a> {
    name: &'a JobName,
    opened: Sender<ExecutionId>,
}

impl JobRun<'_> {
    /// Opens the run, and tells the handle its name.
    ///
    /// # Errors
    /// When the engine is shutting down.
    pub fn open(self, context: &SourceContext, info: RunInfo) -> Result<OpenedRun> {
        let opened = context.runs.open(self.name.run.clone(), info)?;
        // The handle may have been dropped.
        let _ = self.opened.send(opened.emitter.execution_id().clone());
        Ok(opened)
    }
}

/// A source that runs `work` once and sends its result to a [`JobHandle`].
pub(crate) struct Job<T, W> {
    thread: String,
    name: JobName,
    work: W,
    opened: Sender<ExecutionId>,
    // Dropped in this order when the job panics.
    result: Sender<Result<T>>,
    done: StopGuard,
}

impl<T, W> Job<T, W> {
    /// Creates the job and its handle. `thread` is the thread's name.
    pub fn new<C>(thread: String, name: JobName, control: C, work: W) -> (Self, JobHandle<T, C>) {
        // With room for the one result and the one run: the handle may be dropped.
        let (sender, result) = bounded(1);
        let (opener, opened) = bounded(1);
        let (guard, done) = stop_pair();
        let job = Self {
            thread,
            name,
            work,
            opened: opener,
            result: sender,
            done: guard,
        };
        let handle = JobHandle {
            control,
            result,
            received: None,
            done,
            opened,
            execution_id: OnceLock::new(),
        };
        (job, handle)
    }
}

impl<T, W> Source for Job<T, W>
where
    T: Send + 'static,
    W: FnOnce(&SourceContext, JobRun<'_>) -> Result<T> + Send + 'static,
{
    fn name(&self) -> String {
        self.thread.clone()
    }

    fn run(self: Box<Self>, context: SourceContext) {
        let Self {
            name,
            work,
            opened,
            result: sender,
            done,
            ..
        } = *self;
        let run = JobRun {
            name: &name,
            opened,
        };
        let result = work(&context, run);
        // Its id is free before anyone learns of its end.
        drop(name);
        // The handle may have been dropped.
        let _ = sender.send(result);
        drop(done);
    }
}

/// Returns the metadata of the run of what this process does now: the tmux pane of which it has the foreground, if any.
pub(crate) fn place() -> Option<(String, Value)> {
    let (server, pane) = pane_in_front()?;
    let place = json!({"server": server, "pane": pane});
    Some((IN_PANE.to_owned(), place))
}
