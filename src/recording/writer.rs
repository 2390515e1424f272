//! The recording thread: takes input from the queue, encodes it and writes the files, whatever the
//! disk does.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::encoder::TerminalSize;
use super::files;
use super::pane_encoder::{BURST_MICROS, MissingOutput, PaneEncoder};
use crate::clock::Clock;
use crate::event::{ExecutionId, PaneId};
use crate::history::RunDirectory;
use crate::redact::Rules;
use crate::thread::{Panicked, lock};
use crate::timestamp::Timestamp;
use rustc_hash::FxHashMap;

/// The pause after an error: frequent retries do not empty a full disk.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Takes warnings of the recording thread.
pub(super) type OnWarning = Arc<dyn Fn(&ExecutionId, &str) + Send + Sync>;

/// The result of writing raw recordings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct RecordingReport {
    /// The number of bytes written.
    pub bytes_written: u64,
    /// Recordings whose end could not be written.
    pub lost: Vec<LostRecording>,
    /// True if the disk did not respond in time: the thread still runs, and more may be missing.
    pub timed_out: bool,
    /// The panic of the thread.
    pub panicked: Option<Panicked>,
}

/// A recording whose end could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRecording {
    /// The run's execution.
    pub execution_id: ExecutionId,
    /// The pane.
    pub pane: PaneId,
    /// The directory of the recording.
    pub path: PathBuf,
    /// The error message of the system.
    pub cause: String,
}

impl fmt::Display for LostRecording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pane, path, cause) = (&self.pane, self.path.display(), &self.cause);
        write!(
            f,
            "the raw recording of {pane} in {path} is incomplete: {cause}"
        )
    }
}

pub(super) struct WriterThread {
    queue: Arc<RecordingQueue>,
    rules: Rules,
    on_warning: OnWarning,
    recordings: FxHashMap<RecordingKey, PaneRecording>,
    /// Counts writes, to find the least recently written recording.
    writes: u64,
    /// True while nothing has been written since a full disk was reported.
    is_full_reported: bool,
    /// True once the disk is full during shutdown: nothing waits for it any more.
    is_hopeless: bool,
    report: RecordingReport,
}

impl WriterThread {
    pub fn new(queue: Arc<RecordingQueue>, rules: Rules, on_warning: OnWarning) -> Self {
        Self {
            queue,
            rules,
            on_warning,
            recordings: FxHashMap::default(),
            writes: 0,
            is_full_reported: false,
            is_hopeless: false,
            report: RecordingReport::default(),
        }
    }

    pub fn run(mut self) -> RecordingReport {
        loop {
            let is_pending = |recording: &PaneRecording| !recording.encoder.burst.is_empty();
            let is_pending = self.recordings.values().any(is_pending);
            // Output may wait for more of its burst; see `pane_encoder`.
            let wait = is_pending.then_some(Duration::from_micros(BURST_MICROS as u64));
            let Some((messages, bytes)) = self.queue.next_batch(wait) else {
                break;
            };
            if messages.is_empty() {
                self.recordings.values_mut().for_each(PaneRecording::flush);
                self.write_all();
                continue;
            }
            let mut latest = None;
            for message in messages {
                latest = self.handle(message).max(latest);
            }
            // Output of a quiet pane does not wait until the busy panes are quiet, too.
            if let Some(latest) = latest {
                for recording in self.recordings.values_mut() {
                    recording.encoder.flush_due(latest, &mut recording.lines);
                }
            }
            self.write_all();
            self.queue.batch_done(bytes);
        }
        self.recordings.values_mut().for_each(PaneRecording::finish);
        self.write_all();
        self.report
    }

    /// Handles a message and returns the time of its input.
    fn handle(&mut self, message: RecordingMessage) -> Option<Timestamp> {
        match message {
            RecordingMessage::Pane(message) => {
                let key = (message.run.number, message.pane.clone());
                let recording = self.recordings.entry(key.clone()).or_insert_with(|| {
                    PaneRecording::new(message.run, message.pane, self.rules.clone())
                });
                if recording.input(message.input, message.at) {
                    self.end(&key);
                }
                Some(message.at)
            }
            RecordingMessage::EndRun(number) => {
                let of_run = self.recordings.keys().filter(|(run, _)| *run == number);
                let keys: Vec<RecordingKey> = of_run.cloned().collect();
                for key in keys {
                    if let Some(recording) = self.recordings.get_mut(&key) {
                        recording.finish();
                    }
                    self.end(&key);
                }
                None
            }
        }
    }

    /// Writes the rest of a recording and forgets it.
    fn end(&mut self, key: &RecordingKey) {
        self.write(key);
        self.recordings.remove(key);
    }

    fn write_all(&mut self) {
        let due = self
            .recordings
            .iter()
            .filter(|(_, recording)| recording.is_due());
        let keys: Vec<RecordingKey> = due.map(|(key, _)| key.clone()).collect();
        for key in &keys {
            self.write(key);
        }
    }

    /// Writes a recording's lines. Retries on a full disk until there is room or the queue is
    /// closed; meanwhile the queue fills, and its users learn that it has no room.
    fn write(&mut self, key: &RecordingKey) {
        loop {
            let Err(cause) = self.try_write(key) else {
                if std::mem::take(&mut self.is_full_reported) && !self.is_hopeless {
                    self.warn(key, "raw recordings are written again");
                }
                return;
            };
            if !is_full(&cause) {
                self.warn(
                    key,
                    &format!("a raw recording cannot be written and is abandoned: {cause}"),
                );
                return self.abandon(key, &cause);
            }
            if self.is_hopeless {
                return self.abandon(key, &cause);
            }
            if !std::mem::replace(&mut self.is_full_reported, true) {
                self.warn(
                    key,
                    &format!("raw recordings cannot be written, and wait for room: {cause}"),
                );
            }
            // Shutdown retries once and then never again: a full disk is full for all recordings.
            if self.queue.sleep(RETRY_INTERVAL) {
                if self.try_write(key).is_err() {
                    self.is_hopeless = true;
                    self.abandon(key, &cause);
                }
                return;
            }
        }
    }

    fn try_write(&mut self, key: &RecordingKey) -> io::Result<()> {
        self.make_room_for_a_file(key);
        if let Some(recording) = self.recordings.get_mut(key)
            && recording.is_due()
        {
            self.writes += 1;
            recording.used_at = self.writes;
            self.report.bytes_written += recording.write()?;
        }
        Ok(())
    }

    /// Closes the least recently written file if the limit is reached.
    fn make_room_for_a_file(&mut self, key: &RecordingKey) {
        let is_open = |recording: &PaneRecording| recording.file.is_some();
        if self.recordings.get(key).is_none_or(is_open) {
            return;
        }
        let open = self.recordings.values_mut();
        let mut open: Vec<_> = open.filter(|recording| is_open(recording)).collect();
        if open.len() >= FILES_MAX {
            open.sort_by_key(|recording| recording.used_at);
            open[0].file = None;
        }
    }

    fn abandon(&mut self, key: &RecordingKey, cause: &io::Error) {
        if let Some(recording) = self.recordings.get_mut(key)
            && !recording.is_abandoned
        {
            recording.abandon();
            self.report.lost.push(LostRecording {
                execution_id: recording.run.directory.execution_id().clone(),
                pane: recording.pane.clone(),
                path: recording.run.directory.path().join("raw"),
                cause: cause.to_string(),
            });
        }
    }

    fn warn(&self, key: &RecordingKey, warning: &str) {
        if let Some(recording) = self.recordings.get(key) {
            (self.on_warning)(recording.run.directory.execution_id(), warning);
        }
    }
}

/// Returns `true` if there may be room later.
fn is_full(cause: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull, WriteZero};
    matches!(
        cause.kind(),
        StorageFull | QuotaExceeded | ReadOnlyFilesystem | WriteZero
    )
}

// The queue of the recording thread: bounded by bytes, patient with a slow disk, and counting the
// output that it cannot hold.

/// The bytes of output in the queue and in the writer's hands: one second of a flood, and still
/// little memory.
pub(super) const QUEUE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Additional room for everything but output: a thousand first screens, or many more resizes.
const LIFE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The size of a batch for the writer, which may have to write it twice when the disk is full.
const BATCH_BYTES: usize = 1024 * 1024;
/// The size of a message without its text.
const MESSAGE_BYTES: usize = 160;
/// The time without progress of the disk after which nothing waits for room any more; the same as
/// for the history.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval at which a waiting thread checks the clock.
const WAIT_SLICE: Duration = Duration::from_millis(100);

/// A run whose panes are recorded.
#[derive(Debug)]
pub(super) struct RecordedRun {
    /// Unique among the runs of one writer.
    pub number: u64,
    pub directory: RunDirectory,
    pub title: Option<String>,
}

/// Identifies a recording by the run's number and the pane.
pub(super) type RecordingKey = (u64, PaneId);

/// An occurrence in a pane.
#[derive(Debug)]
pub(super) enum PaneInput {
    Begin { size: TerminalSize, screen: Vec<u8> },
    Bytes(Vec<u8>),
    Resized(TerminalSize),
    Missing(MissingOutput),
    Ended(Option<i32>),
}

#[derive(Debug)]
pub(super) struct PaneMessage {
    pub run: Arc<RecordedRun>,
    pub pane: PaneId,
    pub input: PaneInput,
    pub at: Timestamp,
}

#[derive(Debug)]
pub(super) enum RecordingMessage {
    Pane(PaneMessage),
    /// The last recorder of the run with this number is dropped.
    EndRun(u64),
}

#[derive(Debug)]
pub(super) struct RecordingQueue {
    state: Mutex<QueueState>,
    filled: Condvar,
    drained: Condvar,
    clock: Clock,
    runs: AtomicU64,
}

#[derive(Debug, Default)]
struct QueueState {
    messages: VecDeque<(RecordingMessage, usize)>,
    /// The size of all messages, including those in the writer's hands.
    bytes: usize,
    /// Input that found no room, until a message of the same recording does: the marker precedes it.
    dropped: FxHashMap<RecordingKey, DroppedInput>,
    /// Counts the batches that the writer has finished.
    progress: u64,
    /// True once a thread has waited for the disk until the timeout, so that nothing waits before the writer
    /// makes progress.
    has_given_up: bool,
    is_closed: bool,
    is_shutting_down: bool,
}

#[derive(Debug)]
struct DroppedInput {
    run: Arc<RecordedRun>,
    missing: MissingOutput,
    /// The last size among the dropped inputs.
    size: Option<TerminalSize>,
    at: Timestamp,
}

impl PaneInput {
    fn bytes(&self) -> usize {
        match self {
            Self::Begin { screen: bytes, .. } | Self::Bytes(bytes) => bytes.len() + MESSAGE_BYTES,
            _ => MESSAGE_BYTES,
        }
    }

    fn room(&self) -> usize {
        match self {
            Self::Bytes(_) => QUEUE_BYTES_MAX,
            _ => QUEUE_BYTES_MAX + LIFE_BYTES_MAX,
        }
    }
}

impl DroppedInput {
    fn add(&mut self, input: PaneInput) {
        match input {
            PaneInput::Bytes(bytes) => self.missing.add(missing_output(&bytes)),
            PaneInput::Missing(missing) => self.missing.add(missing),
            PaneInput::Begin { size, screen } => {
                self.missing.add(missing_output(&screen));
                self.size = Some(size);
            }
            PaneInput::Resized(size) => self.size = Some(size),
            // The recording ends with its run.
            PaneInput::Ended(_) => {}
        }
    }
}

impl QueueState {
    fn has_room(&self, bytes: usize, room: usize) -> bool {
        // A message that exceeds the room passes when it is alone.
        self.bytes == 0 || self.bytes + bytes <= room
    }

    fn push(&mut self, message: RecordingMessage, bytes: usize) {
        self.bytes += bytes;
        self.messages.push_back((message, bytes));
    }

    fn push_dropped(&mut self, pane: &PaneId, dropped: DroppedInput) {
        let missing = PaneInput::Missing(dropped.missing);
        let size = dropped.size.map(PaneInput::Resized);
        for input in [Some(missing), size].into_iter().flatten() {
            let message = PaneMessage {
                run: Arc::clone(&dropped.run),
                pane: pane.clone(),
                input,
                at: dropped.at,
            };
            self.push(RecordingMessage::Pane(message), MESSAGE_BYTES);
        }
    }
}

impl RecordingQueue {
    pub fn new(clock: Clock) -> Self {
        Self {
            state: Mutex::default(),
            filled: Condvar::new(),
            drained: Condvar::new(),
            clock,
            runs: AtomicU64::new(0),
        }
    }

    pub fn next_run(&self) -> u64 {
        self.runs.fetch_add(1, Ordering::Relaxed)
    }

    /// Queues a message; waits for room while the disk makes progress. Returns `false` if there was no room.
    pub fn push(&self, message: PaneMessage) -> bool {
        let (bytes, room) = (message.input.bytes(), message.input.room());
        let mut state = self.wait_for_room(bytes, room);
        if state.is_closed {
            return false;
        }
        let key = (message.run.number, message.pane.clone());
        if !state.has_room(bytes, room) {
            let dropped = state.dropped.entry(key).or_insert_with(|| DroppedInput {
                run: message.run,
                missing: MissingOutput::default(),
                size: None,
                at: message.at,
            });
            dropped.add(message.input);
            return false;
        }
        if let Some(dropped) = state.dropped.remove(&key) {
            state.push_dropped(&message.pane, dropped);
        }
        state.push(RecordingMessage::Pane(message), bytes);
        drop(state);
        self.filled.notify_one();
        true
    }

    fn wait_for_room(&self, bytes: usize, room: usize) -> MutexGuard<'_, QueueState> {
        let mut state = lock(&self.state);
        let waits = |state: &QueueState| {
            let gives_up = state.has_given_up || state.is_shutting_down || state.is_closed;
            !gives_up && !state.has_room(bytes, room)
        };
        if !waits(&state) {
            return state;
        }
        let mut progress = state.progress;
        let mut deadline = self.clock.now() + STALL_TIMEOUT;
        while waits(&state) {
            let now = self.clock.now();
            if state.progress != progress {
                (progress, deadline) = (state.progress, now + STALL_TIMEOUT);
            }
            if now >= deadline {
                state.has_given_up = true;
                break;
            }
            let waited = self.drained.wait_timeout(state, WAIT_SLICE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }

    pub fn end_run(&self, number: u64) {
        let mut state = lock(&self.state);
        if state.is_closed {
            return;
        }
        let of_run = state.dropped.extract_if(|(run, _), _| *run == number);
        let dropped: Vec<_> = of_run.collect();
        for ((_, pane), dropped) in dropped {
            state.push_dropped(&pane, dropped);
        }
        // Always finds room: there is one such message per run.
        state.push(RecordingMessage::EndRun(number), MESSAGE_BYTES);
        drop(state);
        self.filled.notify_one();
    }

    /// Returns the next messages and their size, which the writer returns with [`RecordingQueue::batch_done`].
    /// Waits for one, at most as long as `timeout`; returns `None` once the queue is closed and empty.
    pub fn next_batch(&self, timeout: Option<Duration>) -> Option<(Vec<RecordingMessage>, usize)> {
        let mut state = lock(&self.state);
        if state.messages.is_empty() && !state.is_closed {
            state = match timeout {
                None => self
                    .filled
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(timeout) => {
                    let waited = self.filled.wait_timeout(state, timeout);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        let (mut messages, mut bytes) = (Vec::new(), 0);
        while bytes < BATCH_BYTES
            && let Some((message, size)) = state.messages.pop_front()
        {
            messages.push(message);
            bytes += size;
        }
        if state.messages.is_empty() {
            // No message of these recordings waits any more, so their markers come next.
            for ((_, pane), dropped) in std::mem::take(&mut state.dropped) {
                state.push_dropped(&pane, dropped);
            }
        }
        let is_over = messages.is_empty() && state.is_closed && state.messages.is_empty();
        (!is_over).then_some((messages, bytes))
    }

    /// Frees the room of a batch that the writer has finished.
    pub fn batch_done(&self, bytes: usize) {
        let mut state = lock(&self.state);
        state.bytes = state.bytes.saturating_sub(bytes);
        state.progress += 1;
        state.has_given_up = false;
        drop(state);
        self.drained.notify_all();
    }

    /// Lets the writer sleep. Returns `true` if the queue is closed, which ends the sleep.
    pub fn sleep(&self, duration: Duration) -> bool {
        let state = lock(&self.state);
        let waited = self
            .filled
            .wait_timeout_while(state, duration, |state| !state.is_closed);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_closed
    }

    /// Stops all waiting for room.
    pub fn begin_shutdown(&self) {
        lock(&self.state).is_shutting_down = true;
        self.drained.notify_all();
    }

    /// Accepts no further messages.
    pub fn close(&self) {
        lock(&self.state).is_closed = true;
        self.filled.notify_all();
        self.drained.notify_all();
    }
}

fn missing_output(bytes: &[u8]) -> MissingOutput {
    MissingOutput {
        bytes: bytes.len() as u64,
        line_ends: memchr::memchr_iter(b'\n', bytes).count() as u64,
    }
}

// One recording while it is written: encodes input, keeps whole lines and appends them to the file.

/// The most recordings that are open at once. The least recently written one is closed, and opened
/// again when it is written to. The sum of all descriptors is in the documentation of `history`.
pub(super) const FILES_MAX: usize = 64;

/// A recording and its file.
#[derive(Debug)]
pub(super) struct PaneRecording {
    pub run: Arc<RecordedRun>,
    pub pane: PaneId,
    encoder: PaneEncoder,
    /// Whole lines that are not in the file yet.
    lines: String,
    file: Option<File>,
    /// The number of the pane's file, once it is created.
    number: Option<u32>,
    /// The length of the file up to its last whole line.
    len: u64,
    /// The writer's count of writes at the last write of this recording.
    pub used_at: u64,
    /// True if the file cannot be written at all.
    pub is_abandoned: bool,
}

impl PaneRecording {
    pub fn new(run: Arc<RecordedRun>, pane: PaneId, rules: Rules) -> Self {
        let title = run.title.as_ref().map(|title| format!("{title} {pane}"));
        Self {
            encoder: PaneEncoder::new(title, rules),
            run,
            pane,
            lines: String::new(),
            file: None,
            number: None,
            len: 0,
            used_at: 0,
            is_abandoned: false,
        }
    }

    /// Encodes an input. Returns `true` if it ends the recording.
    pub fn input(&mut self, input: PaneInput, at: Timestamp) -> bool {
        if self.is_abandoned {
            return false;
        }
        let (encoder, lines) = (&mut self.encoder, &mut self.lines);
        match input {
            PaneInput::Begin { size, screen } => encoder.begin(size, &screen, at, lines),
            PaneInput::Bytes(bytes) => encoder.bytes(&bytes, at, lines),
            PaneInput::Resized(size) => encoder.resized(size, at, lines),
            PaneInput::Missing(missing) => encoder.missing(missing, at, lines),
            PaneInput::Ended(exit_status) => {
                encoder.ended(exit_status, at, lines);
                return true;
            }
        }
        false
    }

    pub fn flush(&mut self) {
        self.encoder.flush(&mut self.lines);
    }

    pub fn finish(&mut self) {
        self.encoder.finish(&mut self.lines);
    }

    pub fn is_due(&self) -> bool {
        !self.lines.is_empty() && !self.is_abandoned
    }

    /// Discards all lines, also those that follow.
    fn abandon(&mut self) {
        self.is_abandoned = true;
        self.file = None;
        self.lines = String::new();
    }

    /// Writes all lines and returns their bytes. After an error the file holds whole lines only,
    /// and the next call retries the others.
    pub fn write(&mut self) -> io::Result<u64> {
        let mut written = 0;
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.open()?,
        };
        while written < self.lines.len() {
            match file.write(&self.lines.as_bytes()[written..]) {
                Ok(0) => {
                    let cause = io::ErrorKind::WriteZero.into();
                    return Err(self.keep_whole_lines(&file, written, cause));
                }
                Ok(more) => written += more,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(self.keep_whole_lines(&file, written, cause)),
            }
        }
        self.len += written as u64;
        self.lines.clear();
        self.lines.shrink_to(1 << 20);
        self.file = Some(file);
        Ok(written as u64)
    }

    /// Opens the file and cuts it after its last whole line.
    fn open(&mut self) -> io::Result<File> {
        let Some(number) = self.number else {
            let (file, number) = files::create(&self.run.directory, &self.pane)?;
            self.number = Some(number);
            return Ok(file);
        };
        let file = files::reopen(&self.run.directory, &self.pane, number)?;
        if file.metadata()?.len() > self.len {
            file.set_len(self.len)?;
        }
        Ok(file)
    }

    /// Keeps the whole lines of a write that failed after `written` bytes.
    fn keep_whole_lines(&mut self, file: &File, written: usize, cause: io::Error) -> io::Error {
        let bytes = &self.lines.as_bytes()[..written];
        let whole = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
        self.len += whole as u64;
        self.lines.drain(..whole);
        // If the file cannot be cut now, `open` cuts it later.
        if let Err(cause) = file.set_len(self.len) {
            log::debug!("cannot truncate a recording: {cause}");
        }
        cause
    }
}
