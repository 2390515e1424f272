//! Raw recordings: every byte of a pane on a tape beside the log, `raw/{pane}.cast`, asciicast v3.
//!
//! ```text
//! sources (any thread): RawTapes::bytes… ─> queue (bounded by bytes) ─> td-raw ─> files
//! ```
//!
//! Whoever calls may wait for room, never longer than five seconds without progress of the disk;
//! then what has no room is dropped and counted, and the tape gets a marker in that place. `td-raw`
//! blocks on its queue and on the disk; on a full disk it holds what it has and tries again. It ends
//! when [`RawRecorder::finish`] closes the queue and all in it is written, or cannot be.
//!
//! A pane's first tape is `raw/{pane}.cast`, those after it (another observer went on with the run,
//! another program began in the pane) `raw/{pane}.2.cast` and so on: the order of their numbers is
//! the order of what they hold. The pane's id is spelt as run directories are. Each file is a whole
//! recording; its times are true, since its `timestamp` and all intervals add up to the time of each
//! event.

mod files;
mod queue;
mod tape;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use crate::clock::Clock;
use crate::error::Result;
use crate::event::{ExecutionId, PaneId};
use crate::history::dir::RunDirectory;
use crate::redact::Rules;
use crate::thread::{self, Handle, Panicked};
use crate::timestamp::Timestamp;

pub use self::files::RawFile;
use self::queue::{Queue, What};
use self::writer::Work;

/// Takes what is to be said, for stderr and the stream.
type Say = Box<dyn Fn(&ExecutionId, &str) + Send>;

/// A run whose panes are recorded.
#[derive(Debug)]
struct Run {
    /// Which of the runs of this recorder.
    number: u64,
    directory: RunDirectory,
    title: Option<String>,
}

/// Writes tapes; owns `td-raw`.
///
/// ```
/// use td_observe::history::{DataDir, RawRecorder, RunInfo};
/// use td_observe::{Clock, redact::Rules};
///
/// let temp = tempfile::tempdir().unwrap();
/// let clock = Clock::system();
/// let run = DataDir::new(temp.path()).run(&"job".into());
/// let open = run.open(RunInfo::default(), clock.wall())?;
/// let recorder = RawRecorder::start(Rules::builtin(), clock.clone(), |id, what| {
///     eprintln!("{id}: {what}");
/// })?;
/// let tapes = recorder.tapes(open.directory(), None);
/// tapes.begin(&"%3".into(), (80, 24), b"", clock.wall());
/// tapes.bytes(&"%3".into(), b"hello\r\n", clock.wall());
/// drop(tapes);
/// let report = recorder.finish(clock.now() + std::time::Duration::from_secs(5));
/// assert!(report.lost.is_empty());
/// assert_eq!(run.raw_files()?.len(), 1);
/// # Ok::<(), td_observe::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a recorder that is not finished loses what waits in it"]
pub struct RawRecorder {
    queue: Arc<Queue>,
    thread: Option<Handle<RawReport>>,
}

impl RawRecorder {
    /// A recorder without tapes. What `rules` take for a secret does not get on them; `say` is called
    /// on the recorder's thread when the disk does not take what is to be written.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn start(
        rules: Rules,
        clock: Clock,
        say: impl Fn(&ExecutionId, &str) + Send + 'static,
    ) -> Result<Self> {
        let queue = Arc::new(Queue::new(clock));
        let work = Work::new(Arc::clone(&queue), rules, Box::new(say));
        let thread = thread::spawn("td-raw", move || work.run())?;
        Ok(Self {
            queue,
            thread: Some(thread),
        })
    }

    /// Where the panes of a run are recorded, which must be open for writing: its lock keeps others
    /// away. The title gets into each tape.
    pub fn tapes(&self, run: &RunDirectory, title: Option<String>) -> RawTapes {
        RawTapes(Arc::new(Tapes {
            run: Arc::new(Run {
                number: self.queue.next_run(),
                directory: run.clone(),
                title,
            }),
            queue: Arc::clone(&self.queue),
        }))
    }

    /// Nobody waits for room any more: the end is near, and what has no room is counted.
    pub fn hurry(&self) {
        self.queue.hurry();
    }

    /// Writes what waits and ends the thread; what is given to tapes afterwards is dropped. Waits for
    /// a disk that does not answer until the deadline.
    pub fn finish(mut self, deadline: Instant) -> RawReport {
        self.queue.close();
        match self
            .thread
            .take()
            .map(|thread| thread.join_deadline(deadline))
        {
            Some(Ok(Ok(report))) => report,
            Some(Ok(Err(panicked))) => RawReport {
                panicked: Some(panicked),
                ..RawReport::default()
            },
            // Only a dropped recorder has no thread.
            Some(Err(_)) | None => RawReport {
                is_left: true,
                ..RawReport::default()
            },
        }
    }
}

impl Drop for RawRecorder {
    fn drop(&mut self) {
        // Without it the thread would wait for ever.
        self.queue.close();
    }
}

/// What the recorder did, at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct RawReport {
    /// Bytes written to tapes.
    pub bytes_written: u64,
    /// Tapes whose end could not be written.
    pub lost: Vec<LostTape>,
    /// The disk did not answer in time: its thread was left, and more may be missing.
    pub is_left: bool,
    /// Its thread panicked.
    pub panicked: Option<Panicked>,
}

/// A tape whose end could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostTape {
    /// The run's execution.
    pub execution_id: ExecutionId,
    /// The pane.
    pub pane: PaneId,
    /// The directory of the tape.
    pub path: PathBuf,
    /// Why.
    pub why: String,
}

/// Where the panes of one run are recorded, from any thread. Cheap to clone; when the last one is
/// dropped, the tapes of the run are ended.
///
/// For each pane the calls come from one thread at a time, in the order of what happened. A call
/// takes microseconds, unless 16 MiB wait for the disk: then it waits for room, at most five seconds
/// without progress of the disk. What has no room then is counted, and the tape says so in its place.
#[derive(Clone, Debug)]
pub struct RawTapes(Arc<Tapes>);

#[derive(Debug)]
struct Tapes {
    run: Arc<Run>,
    queue: Arc<Queue>,
}

impl RawTapes {
    /// The pane is recorded from here on: it has this size, columns first, and `screen` draws what
    /// stands on it. On a tape that has begun it draws the pane anew, after a gap for example.
    pub fn begin(&self, pane: &PaneId, size: (u32, u32), screen: &[u8], at: Timestamp) {
        let screen = screen.to_vec();
        self.give(pane, What::Begin { size, screen }, at);
    }

    /// The pane has printed this, cut anywhere. Whether there was room for it; where there was none
    /// the tape has a marker, and it is well to [`begin`](Self::begin) anew as soon as the screen is
    /// known again.
    pub fn bytes(&self, pane: &PaneId, bytes: &[u8], at: Timestamp) -> bool {
        bytes.is_empty() || self.give(pane, What::Bytes(bytes.to_vec()), at)
    }

    /// The pane has another size, columns first.
    pub fn resized(&self, pane: &PaneId, size: (u32, u32), at: Timestamp) {
        self.give(pane, What::Resized(size), at);
    }

    /// So many bytes are missing here, with so many line ends: somebody else had no room for them.
    pub fn dropped(&self, pane: &PaneId, bytes: u64, line_ends: u64, at: Timestamp) {
        let missing = crate::recording::Missing { bytes, line_ends };
        self.give(pane, What::Missing(missing), at);
    }

    /// The pane's program has ended, or the pane. What it prints afterwards is another tape.
    pub fn ended(&self, pane: &PaneId, exit_status: Option<i32>, at: Timestamp) {
        self.give(pane, What::Ended(exit_status), at);
    }

    fn give(&self, pane: &PaneId, what: What, at: Timestamp) -> bool {
        self.0.queue.give(&self.0.run, pane, what, at)
    }
}

impl Drop for Tapes {
    fn drop(&mut self) {
        self.queue.end_run(self.run.number);
    }
}

#[cfg(test)]
mod tests;
