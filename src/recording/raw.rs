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
use super::writer::{OnWarning, RecordingReport, WriterThread};
use super::writer::{PaneInput, PaneMessage, RecordedRun, RecordingQueue};
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

#[cfg(test)]
mod tests {
    //! Tests of the queue's waits and the content of the files.

    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::super::files::RecordingFile;
    use super::super::writer::RecordingReport;
    use super::super::writer::{
        PaneInput, PaneMessage, QUEUE_BYTES_MAX, RecordedRun, RecordingMessage, RecordingQueue,
    };
    use super::RecordingWriter;
    use crate::clock::{Clock, FakeClock};
    use crate::event::{ExecutionId, PaneId};
    use crate::history::{DataDir, OpenRun, RunInfo};
    use crate::redact::Rules;
    use crate::thread;
    use crate::timestamp::Timestamp;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_micros(1_700_000_000_000_000 + millis * 1000)
    }

    fn open(path: &std::path::Path) -> OpenRun {
        let run = DataDir::new(path).run(&"job".into());
        run.open(RunInfo::default(), at(0)).unwrap()
    }

    /// Returns a writer and its warnings.
    fn writer(rules: Rules) -> (RecordingWriter, Arc<Mutex<Vec<String>>>) {
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&warnings);
        let on_warning = move |id: &ExecutionId, warning: &str| {
            log.lock().unwrap().push(format!("{id}: {warning}"));
        };
        let writer = RecordingWriter::new(rules, Clock::system(), on_warning);
        (writer, warnings)
    }

    fn finish(writer: RecordingWriter) -> RecordingReport {
        let deadline = Clock::system().now() + Duration::from_secs(20);
        writer.finish(deadline).unwrap()
    }

    /// Returns the events of a recording without their times.
    fn events(file: &RecordingFile) -> Vec<(char, String)> {
        let text = fs::read_to_string(&file.path).unwrap();
        assert!(text.ends_with('\n'), "{text}");
        let lines = text.lines().skip(1);
        lines
            .map(|line| {
                let (_, code, data): (f64, char, String) = serde_json::from_str(line).unwrap();
                (code, data)
            })
            .collect()
    }

    fn event(code: char, data: &str) -> (char, String) {
        (code, data.to_owned())
    }

    #[test]
    fn each_begin_after_an_end_is_another_recording() {
        let temp = tempfile::tempdir().unwrap();
        let run = open(temp.path());
        let (one, other) = (PaneId::from("%3"), PaneId::from("%10"));
        for turn in 0..2 {
            let (writer, warnings) = writer(Rules::none());
            let recorder = writer.record(run.directory(), "job").unwrap();
            recorder.begin(&one, (80, 24), b"screen", at(0));
            assert!(recorder.bytes(&one, b"a\xe6", at(1000)));
            recorder.bytes(&other, b"without a beginning\r\n", at(1001));
            recorder.bytes(&one, b"\x97\xa5\r\n", at(1002));
            recorder.resized(&one, (90, 30), at(2000));
            recorder.dropped(&one, 70, 2, at(3000));
            recorder.ended(&one, Some(turn), at(4000));
            // Another program in the same pane.
            recorder.begin(&one, (90, 30), b"", at(5000));
            drop(recorder);
            let report = finish(writer);
            assert_eq!(
                (&report.lost, report.timed_out, &report.panicked),
                (&vec![], false, &None)
            );
            assert_eq!(*warnings.lock().unwrap(), [""; 0]);
        }
        let files = run.directory().recordings().unwrap();
        let names: Vec<_> = files
            .iter()
            .map(|file| file.path.file_name().unwrap().to_str().unwrap())
            .collect();
        let expected = [
            "%2510.cast",
            "%2510.2.cast",
            "%253.cast",
            "%253.2.cast",
            "%253.3.cast",
            "%253.4.cast",
        ];
        assert_eq!(names, expected);
        let expected = [
            event('o', "screen"),
            event('o', "a\u{65e5}\r\n"),
            event('r', "90x30"),
            event('m', "70 bytes are missing here, 2 line ends among them"),
            event('x', "0"),
        ];
        assert_eq!(events(&files[2]), expected);
        assert_eq!(events(&files[0]), [event('o', "without a beginning\r\n")]);
        assert_eq!(events(&files[3]), []);
        let header = fs::read_to_string(&files[2].path).unwrap();
        assert!(
        header.starts_with(
            r#"{"version":3,"term":{"cols":80,"rows":24},"timestamp":1700000000,"title":"job %3"}"#
        ),
        "{header}"
    );
        // Readable by the owner only, counted in the run's size, and removed with the run.
        let mode =
            |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&files[0].path), 0o600);
        assert_eq!(mode(files[0].path.parent().unwrap()), 0o700);
        let data = DataDir::new(temp.path());
        let bytes: u64 = files
            .iter()
            .map(|file| file.path.metadata().unwrap().len())
            .sum();
        drop(run);
        let list = data.runs(at(9000)).unwrap();
        assert!(list.runs[0].size_bytes > bytes, "{:?}", list.runs[0]);
        let nothing = crate::history::Retention {
            runs_max: Some(0),
            ..Default::default()
        };
        assert_eq!(data.prune(nothing, at(9000)).unwrap().runs.len(), 1);
        assert!(!files[0].path.exists());
    }

    #[test]
    fn a_symbolic_link_as_directory_is_not_followed_and_blocks_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let run = open(temp.path());
        let elsewhere = temp.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, run.directory().path().join("raw")).unwrap();
        let (writer, warnings) = writer(Rules::none());
        let recorder = writer.record(run.directory(), "").unwrap();
        let pane = PaneId::from("%1");
        recorder.begin(&pane, (80, 24), b"", at(0));
        for n in 0..1000 {
            recorder.bytes(&pane, &[b'x'; 100_000], at(n));
        }
        drop(recorder);
        let report = finish(writer);
        assert_eq!(report.lost.len(), 1, "{report:?}");
        assert_eq!(warnings.lock().unwrap().len(), 1, "{warnings:?}");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }

    #[test]
    fn many_panes_share_few_open_files() {
        let temp = tempfile::tempdir().unwrap();
        let run = open(temp.path());
        let (writer, warnings) = writer(Rules::none());
        let recorder = writer.record(run.directory(), "").unwrap();
        let panes: Vec<PaneId> = (0..150).map(|n| format!("%{n}").into()).collect();
        for round in 0..3 {
            for pane in &panes {
                recorder.bytes(pane, format!("{round}").as_bytes(), at(round * 1000));
            }
        }
        drop(recorder);
        assert_eq!(finish(writer).lost, []);
        assert_eq!(*warnings.lock().unwrap(), [""; 0]);
        let files = run.directory().recordings().unwrap();
        assert_eq!(files.len(), 150);
        for file in files {
            let text: String = events(&file).into_iter().map(|(_, data)| data).collect();
            assert_eq!(text, "012");
        }
    }

    #[test]
    fn a_stalled_disk_is_waited_for_once_and_output_without_room_is_counted() {
        let temp = tempfile::tempdir().unwrap();
        let run = open(temp.path());
        let fake = FakeClock::new();
        let queue = Arc::new(RecordingQueue::new(fake.clock()));
        let run_of_pane = Arc::new(RecordedRun {
            number: queue.next_run(),
            directory: run.directory().clone(),
            title: None,
        });
        let pane = PaneId::from("%1");
        const PIECE_BYTES: usize = QUEUE_BYTES_MAX / 4;
        let message = |input, millis| PaneMessage {
            run: Arc::clone(&run_of_pane),
            pane: pane.clone(),
            input,
            at: at(millis),
        };
        let bytes = || PaneInput::Bytes(vec![b'\n'; PIECE_BYTES]);
        let push = |queue: &RecordingQueue| queue.push(message(bytes(), 0));
        for _ in 0..3 {
            assert!(push(&queue));
        }
        // Nothing is taken from the queue: the next push waits until five seconds have passed.
        let (full, next) = (Arc::clone(&queue), message(bytes(), 1));
        let waiting = thread::spawn("td-test", move || full.push(next)).unwrap();
        let ceiling = Clock::system().now() + Duration::from_secs(20);
        while !waiting.is_finished() {
            assert!(Clock::system().now() < ceiling, "the push waits forever");
            fake.advance(Duration::from_millis(500));
            thread::park(Some(Duration::from_millis(5)));
        }
        assert!(!waiting.join().unwrap());
        // The next push fails at once; a resize still has room.
        assert!(!push(&queue));
        assert!(queue.push(message(PaneInput::Resized((9, 9)), 2)));
        assert!(!push(&queue));
        let mut messages = Vec::new();
        loop {
            let (batch, bytes) = queue
                .next_batch(Some(Duration::ZERO))
                .expect("the queue is open");
            if batch.is_empty() {
                break;
            }
            messages.extend(batch);
            queue.batch_done(bytes);
        }
        let lost: Vec<String> = messages[3..]
            .iter()
            .map(|message| match message {
                RecordingMessage::Pane(PaneMessage {
                    input: PaneInput::Missing(missing),
                    ..
                }) => missing.bytes.to_string(),
                RecordingMessage::Pane(PaneMessage {
                    input: PaneInput::Resized(size),
                    ..
                }) => format!("{size:?}"),
                other => panic!("{other:?}"),
            })
            .collect();
        let expected = [
            (2 * PIECE_BYTES).to_string(),
            "(9, 9)".to_owned(),
            PIECE_BYTES.to_string(),
        ];
        assert_eq!(lost, expected);
        // There is room again.
        assert!(push(&queue));
        queue.begin_shutdown();
    }
}
