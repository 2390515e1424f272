//! What waits to be written to tapes: bounded by bytes, with patience for a slow disk and counts for what has no room.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::Run;
use crate::clock::Clock;
use crate::event::PaneId;
use crate::recording::{Missing, Size};
use crate::timestamp::Timestamp;

/// What may wait, and be in the writer's hands: a second of a flood, and still little memory.
pub(super) const QUEUE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Room beyond that for everything but output: a thousand first screens, or many more resizes.
const LIFE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// What is taken by the writer at once; as much may be written again when the disk is full.
const BATCH_BYTES: usize = 1024 * 1024;
/// What a message takes beside its text.
const MESSAGE_BYTES: usize = 160;
/// So long the disk may make no progress before nobody waits for it any more: as for the log.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often whoever waits looks at the clock.
const SLICE: Duration = Duration::from_millis(100);

/// Which tape: the run's number, the pane.
pub(super) type Key = (u64, PaneId);

/// What happened to a pane.
#[derive(Debug)]
pub(super) enum What {
    Begin { size: Size, screen: Vec<u8> },
    Bytes(Vec<u8>),
    Resized(Size),
    Missing(Missing),
    Ended(Option<i32>),
}

#[derive(Debug)]
pub(super) enum Message {
    Pane {
        run: Arc<Run>,
        pane: PaneId,
        what: What,
        at: Timestamp,
    },
    /// Nobody records the run any more.
    EndRun(u64),
}

/// What the writer gets.
#[derive(Debug)]
pub(super) enum Taken {
    /// Give the bytes back with [`Queue::done`].
    Batch(Vec<Message>, usize),
    /// Nothing came in time.
    Idle,
    Closed,
}

#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    drained: Condvar,
    clock: Clock,
    runs: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<(Message, usize)>,
    /// Of all messages, those in the writer's hands included.
    bytes: usize,
    /// What had no room, until something of the same tape has: there its marker belongs.
    holes: FxHashMap<Key, Hole>,
    /// Counts what the writer has got rid of.
    progress: u64,
    /// It was waited for the disk in vain. Until it comes on, what has no room is dropped at once.
    has_given_up: bool,
    is_closed: bool,
    is_hurried: bool,
}

#[derive(Debug)]
struct Hole {
    run: Arc<Run>,
    missing: Missing,
    /// The size that the pane has got meanwhile.
    size: Option<Size>,
    at: Timestamp,
}

impl What {
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

impl State {
    fn has_room(&self, bytes: usize, room: usize) -> bool {
        // One that is larger than all the room may pass when it is alone.
        self.bytes == 0 || self.bytes + bytes <= room
    }

    fn push(&mut self, message: Message, bytes: usize) {
        self.bytes += bytes;
        self.messages.push_back((message, bytes));
    }

    fn push_hole(&mut self, pane: &PaneId, hole: Hole) {
        let Hole {
            run,
            missing,
            size,
            at,
        } = hole;
        let pane = pane.clone();
        let resized = size.map(|size| Message::Pane {
            run: Arc::clone(&run),
            pane: pane.clone(),
            what: What::Resized(size),
            at,
        });
        let what = What::Missing(missing);
        self.push(
            Message::Pane {
                run,
                pane,
                what,
                at,
            },
            MESSAGE_BYTES,
        );
        if let Some(resized) = resized {
            self.push(resized, MESSAGE_BYTES);
        }
    }
}

impl Queue {
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

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held; if it did, each message would still be whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands something to the writer, waiting for room with patience; whether there was room.
    pub fn give(&self, run: &Arc<Run>, pane: &PaneId, what: What, at: Timestamp) -> bool {
        let (bytes, room) = (what.bytes(), what.room());
        let mut state = self.wait_for_room(bytes, room);
        if state.is_closed {
            return false;
        }
        let key = (run.number, pane.clone());
        if !state.has_room(bytes, room) {
            let hole = state.holes.entry(key).or_insert_with(|| Hole {
                run: Arc::clone(run),
                missing: Missing::default(),
                size: None,
                at,
            });
            match what {
                What::Bytes(bytes) => hole.missing.add(&missing_of(&bytes)),
                What::Missing(missing) => hole.missing.add(&missing),
                What::Begin { size, screen } => {
                    hole.missing.add(&missing_of(&screen));
                    hole.size = Some(size);
                }
                What::Resized(size) => hole.size = Some(size),
                // The tape ends when its run does.
                What::Ended(_) => {}
            }
            return false;
        }
        if let Some(hole) = state.holes.remove(&key) {
            state.push_hole(pane, hole);
        }
        let message = Message::Pane {
            run: Arc::clone(run),
            pane: pane.clone(),
            what,
            at,
        };
        state.push(message, bytes);
        drop(state);
        self.filled.notify_one();
        true
    }

    fn wait_for_room(&self, bytes: usize, room: usize) -> MutexGuard<'_, State> {
        let mut state = self.state();
        let waits = |state: &State| {
            let gives_up = state.has_given_up || state.is_hurried || state.is_closed;
            !gives_up && !state.has_room(bytes, room)
        };
        if !waits(&state) {
            return state;
        }
        let mut progress = state.progress;
        let mut deadline = self.clock.now() + PATIENCE;
        while waits(&state) {
            let now = self.clock.now();
            if state.progress != progress {
                (progress, deadline) = (state.progress, now + PATIENCE);
            }
            if now >= deadline {
                state.has_given_up = true;
                break;
            }
            let waited = self.drained.wait_timeout(state, SLICE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }

    /// Nothing more comes for the run.
    pub fn end_run(&self, number: u64) {
        let mut state = self.state();
        if state.is_closed {
            return;
        }
        let holes: Vec<Key> = state.holes.keys().cloned().collect();
        for key in holes.into_iter().filter(|(run, _)| *run == number) {
            if let Some(hole) = state.holes.remove(&key) {
                state.push_hole(&key.1, hole);
            }
        }
        // Always room for it: there is one for each run.
        state.push(Message::EndRun(number), MESSAGE_BYTES);
        drop(state);
        self.filled.notify_one();
    }

    /// What there is to write; waits for it, for a while.
    pub fn take(&self, wait: Option<Duration>) -> Taken {
        let mut state = self.state();
        if state.messages.is_empty() && !state.is_closed {
            let waited = match wait {
                None => self.filled.wait(state),
                Some(wait) => match self.filled.wait_timeout(state, wait) {
                    Ok((state, _)) => Ok(state),
                    Err(poisoned) => Err(PoisonError::new(poisoned.into_inner().0)),
                },
            };
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        let (mut messages, mut bytes) = (Vec::new(), 0);
        while bytes < BATCH_BYTES
            && let Some((message, size)) = state.messages.pop_front()
        {
            messages.push(message);
            bytes += size;
        }
        if state.messages.is_empty() && !state.holes.is_empty() {
            // Nothing of these tapes waits any more: here the holes belong.
            for ((_, pane), hole) in std::mem::take(&mut state.holes) {
                state.push_hole(&pane, hole);
            }
        }
        match (
            messages.is_empty(),
            state.is_closed && state.messages.is_empty(),
        ) {
            (false, _) => Taken::Batch(messages, bytes),
            (true, true) => Taken::Closed,
            (true, false) => Taken::Idle,
        }
    }

    /// The writer has got rid of so many bytes.
    pub fn done(&self, bytes: usize) {
        let mut state = self.state();
        state.bytes = state.bytes.saturating_sub(bytes);
        state.progress += 1;
        state.has_given_up = false;
        drop(state);
        self.drained.notify_all();
    }

    /// Lets the writer rest; whether the queue is closed, which ends the rest.
    pub fn rest(&self, wait: Duration) -> bool {
        let state = self.state();
        let waited = self
            .filled
            .wait_timeout_while(state, wait, |state| !state.is_closed);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_closed
    }

    pub fn hurry(&self) {
        self.state().is_hurried = true;
        self.drained.notify_all();
    }

    /// Takes nothing more.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.filled.notify_all();
        self.drained.notify_all();
    }
}

fn missing_of(bytes: &[u8]) -> Missing {
    Missing {
        bytes: bytes.len() as u64,
        line_ends: memchr::memchr_iter(b'\n', bytes).count() as u64,
    }
}
