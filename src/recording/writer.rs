//! The recording thread: takes input from the queue, encodes it and writes the files, whatever the
//! disk does.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::pane_recording::{FILES_MAX, PaneRecording};
use super::queue::{NextBatch, RecordingKey, RecordingMessage, RecordingQueue};
use crate::event::{ExecutionId, PaneId};
use crate::redact::Rules;
use crate::thread::Panicked;
use crate::timestamp::Timestamp;

/// The time that output may wait for more of its burst; see `pane_encoder`.
const BURST_WAIT: Duration = Duration::from_millis(16);
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
            let is_pending = self.recordings.values().any(PaneRecording::is_pending);
            match self.queue.next_batch(is_pending.then_some(BURST_WAIT)) {
                NextBatch::Messages(messages, bytes) => {
                    let mut latest = None;
                    for message in messages {
                        latest = self.handle(message).max(latest);
                    }
                    // Output of a quiet pane does not wait until the busy panes are quiet, too.
                    if let Some(latest) = latest {
                        self.recordings
                            .values_mut()
                            .for_each(|recording| recording.flush_due(latest));
                    }
                    self.write_all();
                    self.queue.batch_done(bytes);
                }
                NextBatch::Idle => {
                    self.recordings.values_mut().for_each(PaneRecording::flush);
                    self.write_all();
                }
                NextBatch::Closed => break,
            }
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
        if self.recordings.get(key).is_none_or(PaneRecording::is_open) {
            return;
        }
        let is_open = |recording: &&mut PaneRecording| recording.is_open();
        if self.recordings.values_mut().filter(is_open).count() < FILES_MAX {
            return;
        }
        let open = self.recordings.values_mut().filter(is_open);
        if let Some(recording) = open.min_by_key(|recording| recording.used_at) {
            recording.close();
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
