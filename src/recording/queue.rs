//! The queue of the recording thread: bounded by bytes, patient with a slow disk, and counting the
//! output that it cannot hold.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::pane_encoder::{MissingOutput, TerminalSize};
use crate::clock::Clock;
use crate::event::PaneId;
use crate::history::RunDirectory;
use crate::thread::lock;
use crate::timestamp::Timestamp;

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

/// The reply to the writer's request for messages.
#[derive(Debug)]
pub(super) enum NextBatch {
    /// Messages and their size, which the writer returns with [`RecordingQueue::batch_done`].
    Messages(Vec<RecordingMessage>, usize),
    /// No message arrived in time.
    Idle,
    Closed,
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

    /// Returns the next messages. Waits for one, at most as long as `timeout`.
    pub fn next_batch(&self, timeout: Option<Duration>) -> NextBatch {
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
        if !messages.is_empty() {
            NextBatch::Messages(messages, bytes)
        } else if state.is_closed && state.messages.is_empty() {
            NextBatch::Closed
        } else {
            NextBatch::Idle
        }
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
