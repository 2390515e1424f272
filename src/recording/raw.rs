//! Raw recordings: every byte of a pane in `raw/{pane}.cast` beside the run's history.
//!
//! Any thread records through a [`RunRecorder`]. The thread `td-raw` is started with the first one.
//! It blocks on its queue and on the disk; on a full disk it keeps what it has and retries. A
//! recording thread may wait for room in the queue, at most five seconds without progress of the
//! disk. After that, output without room is dropped and counted, and the recording contains a marker
//! in its place. `td-raw` ends when [`RecordingWriter::finish`] closes the queue and everything in it
//! is written or cannot be written.
//!
//! A pane's first recording is `raw/{pane}.cast`. Another one follows when another observer resumes
//! the run or another program begins in the pane: `raw/{pane}.2.cast` and so on, in the order of
//! their content. The pane's id is encoded in the way of run directories. Each file is a complete
//! recording with exact times: its `timestamp` and its intervals add up to the time of each event.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::pane_encoder::MissingOutput;
use super::queue::{PaneInput, PaneMessage, RecordedRun, RecordingQueue};
use super::writer::{OnWarning, RecordingReport, WriterThread};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::{ExecutionId, PaneId};
use crate::history::RunDirectory;
use crate::redact::Rules;
use crate::thread::{self, Handle, lock};
use crate::timestamp::Timestamp;

/// Writes raw recordings; owns the thread `td-raw`.
///
/// ```
/// use td_observe::history::{DataDir, RunInfo};
/// use td_observe::internals::history::open_run;
/// use td_observe::internals::recording::RecordingWriter;
/// use td_observe::{Clock, redact::Rules};
///
/// let temp = tempfile::tempdir().unwrap();
/// let clock = Clock::system();
/// let run = DataDir::new(temp.path()).run(&"job".into());
/// let open = open_run(&run, RunInfo::default(), clock.wall())?;
/// let writer = RecordingWriter::new(Rules::builtin(), clock.clone(), |id, warning| {
///     eprintln!("{id}: {warning}");
/// });
/// let recorder = writer.record(open.directory(), "a title")?;
/// recorder.begin(&"%3".into(), (80, 24), b"", clock.wall());
/// recorder.bytes(&"%3".into(), b"hello\r\n", clock.wall());
/// drop(recorder);
/// let report = writer.finish(clock.now() + std::time::Duration::from_secs(5));
/// assert!(report.unwrap().lost.is_empty());
/// assert_eq!(run.recordings()?.len(), 1);
/// # Ok::<(), td_observe::Error>(())
/// ```
#[must_use = "dropping the writer without `finish` loses what is queued"]
pub struct RecordingWriter {
    queue: Arc<RecordingQueue>,
    rules: Rules,
    on_warning: OnWarning,
    thread: Mutex<ThreadState>,
}

enum ThreadState {
    NotStarted,
    Running(Handle<RecordingReport>),
    Finished,
}

impl RecordingWriter {
    /// Returns a writer without recordings. What `rules` find is redacted. `on_warning` is called on
    /// the writer's thread when the disk does not accept data.
    pub fn new(
        rules: Rules,
        clock: Clock,
        on_warning: impl Fn(&ExecutionId, &str) + Send + Sync + 'static,
    ) -> Self {
        Self {
            queue: Arc::new(RecordingQueue::new(clock)),
            rules,
            on_warning: Arc::new(on_warning),
            thread: Mutex::new(ThreadState::NotStarted),
        }
    }

    /// Records the panes of a run. The run must be open for writing, because its lock excludes other
    /// writers. Each recording has the title, if it is not empty.
    ///
    /// # Errors
    /// If the writer is finished, or the thread cannot be started.
    pub fn record(&self, run: &RunDirectory, title: &str) -> Result<RunRecorder> {
        let mut thread = lock(&self.thread);
        match *thread {
            ThreadState::NotStarted => {
                let writer = WriterThread::new(
                    Arc::clone(&self.queue),
                    self.rules.clone(),
                    Arc::clone(&self.on_warning),
                );
                *thread = ThreadState::Running(thread::spawn("td-raw", move || writer.run())?);
            }
            ThreadState::Running(_) => {}
            ThreadState::Finished => return Err(Error::gone("the engine is shutting down")),
        }
        let title = Some(self.rules.text(title).into_owned()).filter(|title| !title.is_empty());
        let run = RecordedRun {
            number: self.queue.next_run(),
            directory: run.clone(),
            title,
        };
        let queue = Arc::clone(&self.queue);
        let run = Arc::new(run);
        Ok(RunRecorder(Arc::new(OpenRecorder { run, queue })))
    }

    /// Stops all waiting for room: from now on, output without room is counted at once.
    pub fn begin_shutdown(&self) {
        self.queue.begin_shutdown();
    }

    /// Writes what is queued and ends the thread; what is recorded afterwards is dropped. Waits until
    /// the deadline for a disk that does not respond. Returns `None` if nothing was recorded.
    pub fn finish(&self, deadline: Instant) -> Option<RecordingReport> {
        let state = std::mem::replace(&mut *lock(&self.thread), ThreadState::Finished);
        self.queue.close();
        let ThreadState::Running(thread) = state else {
            return None;
        };
        Some(match thread.join_deadline(deadline) {
            Ok(Ok(report)) => report,
            Ok(Err(panicked)) => RecordingReport {
                panicked: Some(panicked),
                ..RecordingReport::default()
            },
            Err(_) => RecordingReport {
                timed_out: true,
                ..RecordingReport::default()
            },
        })
    }
}

impl Drop for RecordingWriter {
    fn drop(&mut self) {
        // An open queue would keep the thread waiting forever.
        self.queue.close();
    }
}

/// Records the panes of one run, from any thread. Cheap to clone; dropping the last clone ends the
/// run's recordings.
///
/// The calls for one pane come from one thread at a time, in the order of what happened. A call
/// takes microseconds, except while 16 MiB wait for the disk: then it waits for room, at most five
/// seconds without progress of the disk. Output without room is counted, and a marker in the
/// recording states the count.
#[derive(Clone, Debug)]
pub struct RunRecorder(Arc<OpenRecorder>);

#[derive(Debug)]
struct OpenRecorder {
    run: Arc<RecordedRun>,
    queue: Arc<RecordingQueue>,
}

impl RunRecorder {
    /// Begins a pane's recording, with its size in columns and rows, and with bytes that draw its
    /// screen. Resumes a recording that has begun, for example after dropped output.
    pub fn begin(&self, pane: &PaneId, size: (u32, u32), screen: &[u8], at: Timestamp) {
        let screen = screen.to_vec();
        self.push(pane, PaneInput::Begin { size, screen }, at);
    }

    /// Records output of the pane, cut anywhere. Returns `false` if there was no room for it; the
    /// recording then has a marker, and the caller calls [`begin`](Self::begin) when it knows the
    /// screen again.
    pub fn bytes(&self, pane: &PaneId, bytes: &[u8], at: Timestamp) -> bool {
        bytes.is_empty() || self.push(pane, PaneInput::Bytes(bytes.to_vec()), at)
    }

    /// Records the pane's new size in columns and rows.
    pub fn resized(&self, pane: &PaneId, size: (u32, u32), at: Timestamp) {
        self.push(pane, PaneInput::Resized(size), at);
    }

    /// Marks output that was dropped before it reached the recorder: bytes, and line ends among
    /// them.
    pub fn dropped(&self, pane: &PaneId, bytes: u64, line_ends: u64, at: Timestamp) {
        let missing = MissingOutput { bytes, line_ends };
        self.push(pane, PaneInput::Missing(missing), at);
    }

    /// Ends the pane's recording together with its program. Output that follows begins another
    /// recording.
    pub fn ended(&self, pane: &PaneId, exit_status: Option<i32>, at: Timestamp) {
        self.push(pane, PaneInput::Ended(exit_status), at);
    }

    fn push(&self, pane: &PaneId, input: PaneInput, at: Timestamp) -> bool {
        self.0.queue.push(PaneMessage {
            run: Arc::clone(&self.0.run),
            pane: pane.clone(),
            input,
            at,
        })
    }
}

impl Drop for OpenRecorder {
    fn drop(&mut self) {
        self.queue.end_run(self.run.number);
    }
}
