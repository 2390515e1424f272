//! The bus's inbox: a queue to the fan-out that is bounded by bytes, exact counts of refused events, and
//! closing.
//!
//! Emitters add events and never wait for a reader: one lock guards the queue, and is held for a few moves. Emitters
//! build the batches themselves, so that the fan-out takes and numbers a whole batch where it is. An atomic step for
//! each of room, closing, queue and wake-up cost more than this lock does. Only the fan-out takes.

use std::collections::VecDeque;
use std::sync::atomic::{self, AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crossbeam_channel::Sender;
use rustc_hash::FxHashMap;

use super::Batch;
use super::lossy_lane::LossyLane;
use super::subscription::Filter;
use super::throttle::Throttle;
use crate::clock::Clock;
use crate::event::{Envelope, EventKind, ExecutionId, TdEvent};
use crate::thread::{Waker, lock};

/// Maximum number of events in a batch. Larger batches hardly save locks, and a reader that keeps one event
/// of a batch keeps the memory of the whole batch.
const BATCH_EVENTS_MAX: usize = 256;

/// Fraction (1/n) of the queues to the log that a program's reader fills before it waits. Its own pipe holds the
/// rest, and a log that keeps up needs less than a batch. The inbox has an eighth of that, which is in the
/// processor's caches.
const READER_PART: u64 = 8;

/// Fraction (1/n) of the queues to the log that the inbox may use although a slow log fills them, because
/// subscribers still receive events then. Life-cycle events may use twice as much.
const INBOX_PART: u64 = 16;

/// The result of emitting an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Emitted {
    /// The event will be delivered, or counted as missed where a subscriber or the log is too slow.
    Accepted,
    /// The inbox had no room: the event is numbered, and every lane counts it as missed.
    Refused,
    /// The bus is closed: the event is dropped.
    Closed,
}

/// What the fan-out does next.
#[derive(Debug)]
pub(super) enum InboxItem {
    Events(EventBatch),
    Subscribe {
        lane: Arc<LossyLane>,
        filter: Filter,
        /// Boxed, because every item has the size of the largest.
        throttle: Option<Box<Throttle>>,
        /// The execution whose next number the reply carries.
        numbered: Option<ExecutionId>,
        /// Receives the number of that execution's first event for this lane.
        done: Sender<u64>,
    },
    SubscribeLossless {
        reply: Sender<LaneStart>,
    },
    /// Starts an execution's numbers at `next_seq`, unless it has numbers already.
    StartNumbers {
        id: ExecutionId,
        next_seq: u64,
        /// True if an execution whose numbers are lower continues at `next_seq`.
        skips: bool,
        /// Receives the next number.
        done: Sender<u64>,
    },
    /// The last item.
    Close,
}

/// Consecutive events, without numbers yet.
#[derive(Debug, Default)]
pub(super) struct EventBatch {
    pub(super) envelopes: Vec<Envelope>,
    /// Their memory.
    pub(super) bytes: usize,
    /// True if they are for lossy lanes only, and get no numbers.
    pub(super) live: bool,
}

impl EventBatch {
    pub(super) fn with_capacity(events: usize) -> Self {
        Self {
            envelopes: Vec::with_capacity(events),
            ..Self::default()
        }
    }
}

/// What the fan-out takes at a time.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) item: Option<InboxItem>,
    /// Events refused since the last time.
    pub(super) refused: RefusedCounts,
}

/// Counts of refused events, by execution, kind, and whether they were for live subscribers only.
pub(super) type RefusedCounts = FxHashMap<(ExecutionId, EventKind, bool), u64>;

/// State shared by the bus, its emitters, its lossless lanes and the fan-out.
#[derive(Debug)]
pub(super) struct Inbox {
    pub(super) clock: Clock,
    pub(super) lossless: LosslessAccount,
    shared: Shared,
    /// No account includes the batch that the fan-out passes on, so it must fit beside all events that were accepted
    /// while there was room; and several batches must fit into a lane.
    batch_bytes_max: usize,
    room: RoomWaiters,
}

/// What each emit changes, on cache lines of its own (and the neighbour that the processor prefetches): moving a line
/// from core to core is most of what an emit costs while others emit.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shared {
    queue: Mutex<InboxQueue>,
    /// Memory of the events that the fan-out has not passed on yet, in bytes. Changed under the lock only.
    queued: AtomicU64,
}

#[derive(Debug, Default)]
struct InboxQueue {
    /// The newest events, behind all items.
    newest: EventBatch,
    /// Set only while the fan-out sleeps, so that a burst of events wakes it once.
    sleeper: Option<Waker>,
    /// True if the fan-out must look for room although nothing is here.
    is_woken: bool,
    is_closed: bool,
    items: VecDeque<InboxItem>,
    refused: RefusedCounts,
}

impl InboxQueue {
    fn add(&mut self, envelope: Envelope, bytes: usize, live: bool, batch_bytes_max: usize) {
        if self.newest.live != live
            || self.newest.envelopes.len() >= BATCH_EVENTS_MAX
            || self.newest.bytes >= batch_bytes_max
        {
            self.end_batch();
            self.newest.live = live;
        }
        self.newest.envelopes.push(envelope);
        self.newest.bytes += bytes;
    }

    fn end_batch(&mut self) {
        if !self.newest.envelopes.is_empty() {
            // A queue that is longer than a batch grows on.
            let next = EventBatch::with_capacity(self.newest.envelopes.len());
            let batch = std::mem::replace(&mut self.newest, next);
            self.items.push_back(InboxItem::Events(batch));
        }
    }

    fn add_item(&mut self, item: InboxItem) {
        self.end_batch();
        self.items.push_back(item);
    }
}

/// Wakes the fan-out, if it sleeps, once the lock is released.
fn wake(mut queue: MutexGuard<'_, InboxQueue>) {
    if queue.sleeper.is_none() {
        return;
    }
    let sleeper = queue.sleeper.take();
    drop(queue);
    if let Some(sleeper) = sleeper {
        sleeper.wake();
    }
}

/// Readers of child processes that wait for room in the inbox and the log.
#[derive(Debug, Default)]
struct RoomWaiters {
    waiting: AtomicUsize,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Inbox {
    pub(super) fn new(clock: Clock, lossless_bytes_max: usize) -> Self {
        Self {
            clock,
            lossless: LosslessAccount::new(lossless_bytes_max),
            shared: Shared::default(),
            batch_bytes_max: (1024 * 1024).min(lossless_bytes_max / 64),
            room: RoomWaiters::default(),
        }
    }

    /// Adds an event, or returns it if there is no room.
    #[allow(
        clippy::result_large_err,
        reason = "an event that finds no room is returned unchanged"
    )]
    pub(super) fn send(&self, event: TdEvent, live: bool) -> Result<Emitted, TdEvent> {
        let (bytes, is_text) = (event.memory_bytes(), event.is_text());
        let envelope = Envelope::new(None, self.clock.wall(), event);
        let mut queue = lock(&self.shared.queue);
        if queue.is_closed {
            return Ok(Emitted::Closed);
        }
        if !self.take_room(bytes as u64, is_text) {
            return Err(envelope.event);
        }
        queue.add(envelope, bytes, live, self.batch_bytes_max);
        wake(queue);
        Ok(Emitted::Accepted)
    }

    /// Counts an event that found no room.
    pub(super) fn refuse(&self, event: &TdEvent, live: bool) -> Emitted {
        let id = event.cloned_execution();
        let mut queue = lock(&self.shared.queue);
        if queue.is_closed {
            return Emitted::Closed;
        }
        *queue.refused.entry((id, event.kind(), live)).or_default() += 1;
        wake(queue);
        Emitted::Refused
    }

    /// Takes room for an event, under the lock; returns false if there is none. A single event always finds room,
    /// because it may be larger than all of it.
    fn take_room(&self, bytes: u64, is_text: bool) -> bool {
        let (part, max) = if is_text {
            (INBOX_PART, self.lossless.text_max())
        } else {
            (INBOX_PART / 2, self.lossless.bytes_max)
        };
        let before = self.shared.queued.load(Ordering::Relaxed);
        let has_room = before == 0
            || before + bytes <= self.lossless.bytes_max / part
            || before + bytes + self.lossless.pending().unwrap_or(0) <= max;
        if has_room {
            self.shared.queued.store(before + bytes, Ordering::Relaxed);
        }
        has_room
    }

    /// Frees the room of events that the fan-out has passed on.
    pub(super) fn release(&self, bytes: u64) {
        let _queue = lock(&self.shared.queue);
        let queued = self.shared.queued.load(Ordering::Relaxed);
        self.shared.queued.store(queued - bytes, Ordering::Relaxed);
    }

    /// Takes what is next. If nothing is here, the next change wakes the sleeper. Only the fan-out calls it. The empty
    /// batch is for the events that follow.
    pub(super) fn take(
        &self,
        empty: &mut EventBatch,
        sleeper: impl FnOnce() -> Waker,
    ) -> Option<Taken> {
        let mut queue = lock(&self.shared.queue);
        queue.sleeper = None;
        let mut item = queue.items.pop_front();
        if item.is_none() && !queue.newest.envelopes.is_empty() {
            let events = std::mem::replace(&mut queue.newest, std::mem::take(empty));
            item = Some(InboxItem::Events(events));
        }
        let is_woken = std::mem::take(&mut queue.is_woken);
        if item.is_none() && queue.refused.is_empty() && !is_woken {
            queue.sleeper = Some(sleeper());
            return None;
        }
        let refused = std::mem::take(&mut queue.refused);
        Some(Taken { item, refused })
    }

    /// Makes the fan-out look for room.
    pub(super) fn wake_fanout(&self) {
        let mut queue = lock(&self.shared.queue);
        queue.is_woken = true;
        wake(queue);
    }

    /// Adds an item that is not an event, behind all that the calling thread knows of; returns false when the bus is
    /// closed.
    pub(super) fn control(&self, item: InboxItem) -> bool {
        let mut queue = lock(&self.shared.queue);
        let is_open = !queue.is_closed;
        if is_open {
            queue.add_item(item);
        }
        wake(queue);
        is_open
    }

    /// Refuses all further items, behind the last one.
    pub(super) fn close(&self) {
        let mut queue = lock(&self.shared.queue);
        if !std::mem::replace(&mut queue.is_closed, true) {
            queue.add_item(InboxItem::Close);
        }
        wake(queue);
        self.room.notify();
    }

    /// Drops what is left, so that nobody waits for a reply. The fan-out has ended, or has panicked.
    pub(super) fn end(&self) {
        self.close();
        let left = std::mem::take(&mut lock(&self.shared.queue).items);
        drop(left);
    }

    pub(super) fn is_closed(&self) -> bool {
        lock(&self.shared.queue).is_closed
    }

    /// Returns true if the queues to the log are at most half full.
    pub(super) fn has_room(&self) -> bool {
        self.is_filled_below(2)
    }

    /// Returns true if a program's reader need not wait.
    pub(super) fn has_room_for_reader(&self) -> bool {
        let queued = self.shared.queued.load(Ordering::Relaxed);
        queued <= self.lossless.bytes_max / READER_PART / 8 && self.is_filled_below(READER_PART)
    }

    /// Returns true if the queues to the log are filled to at most this fraction (1/n).
    fn is_filled_below(&self, part: u64) -> bool {
        let queued = self.shared.queued.load(Ordering::Relaxed);
        queued + self.lossless.pending().unwrap_or(0) <= self.lossless.bytes_max / part
    }

    /// Wakes the threads that wait for room, if there is room now. Call it after each step that makes room,
    /// so that the caller of the last necessary step wakes them.
    pub(super) fn made_room(&self) {
        // Either this thread sees `waiting`, or the waiting thread sees the step before this call.
        atomic::fence(Ordering::SeqCst);
        if self.room.waiting.load(Ordering::Relaxed) > 0 && self.has_room_for_reader() {
            self.room.notify();
        }
    }

    /// Waits until there may be room, at most for `wait`.
    pub(super) fn wait_for_room(&self, wait: Duration) {
        let guard = lock(&self.room.lock);
        self.room.waiting.fetch_add(1, Ordering::SeqCst);
        atomic::fence(Ordering::SeqCst);
        if !self.has_room_for_reader() && !self.is_closed() {
            // The caller checks again, whatever ended the wait.
            drop(self.room.changed.wait_timeout(guard, wait));
        }
        self.room.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl RoomWaiters {
    fn notify(&self) {
        // While the lock is held, no thread is between its check and its wait.
        drop(lock(&self.lock));
        self.changed.notify_all();
    }
}

// Wakes the reader of a lossless lane, which is a parked thread; ringing costs a single atomic load while that thread is awake.
//
// The sleeper arms the doorbell, checks its queue once more, and parks. A producer rings after it has added
// an item. A blocking channel would spin for some microseconds before it sleeps, on the processor that the
// woken threads need.

#[derive(Debug, Default)]
pub(super) struct Doorbell {
    is_armed: AtomicBool,
    sleeper: Mutex<Option<Waker>>,
}

impl Doorbell {
    /// Arms the doorbell: the next ring wakes the calling thread, which must check its queue again before it
    /// parks.
    pub(super) fn arm(&self) {
        *lock(&self.sleeper) = Some(Waker::current());
        self.is_armed.store(true, Ordering::SeqCst);
        // Together with the fence in `ring`: either the sleeper's check sees the new item, or the
        // ring sees the doorbell armed.
        fence(Ordering::SeqCst);
    }

    /// Wakes the sleeper, if one is armed. Call it after adding an item.
    pub(super) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.is_armed.load(Ordering::Relaxed) && self.is_armed.swap(false, Ordering::SeqCst) {
            // The lock is released before the sleeper wakes.
            let sleeper = lock(&self.sleeper).clone();
            if let Some(sleeper) = sleeper {
                sleeper.wake();
            }
        }
    }
}

// Accounts for the batches on their way to lossless lanes: the bytes sent and the bytes that each reader has
// read.

/// Memory for events that the slowest lossless lane has not read: minutes of output of a busy machine on a
/// slow disk.
pub(super) const LOSSLESS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A batch on its way, with its size and number.
#[derive(Clone, Debug)]
pub(super) struct NumberedBatch {
    pub(super) batch: Batch,
    pub(super) bytes: u64,
    /// Counts batches, so that a lane skips those that were sent before it was opened.
    pub(super) number: u64,
}

/// Bytes sent to and read from all lossless lanes, shared by the fan-out, the readers and the
/// emitters.
#[derive(Debug)]
pub(super) struct LosslessAccount {
    pub(super) bytes_max: u64,
    /// Bytes of all batches ever sent.
    pub(super) sent: AtomicU64,
    /// Bytes of `sent` that the slowest reader has taken; [`NO_READER`] without readers. Changed only under
    /// the lock of `readers`; emitters read it for every event that may wait.
    slowest: AtomicU64,
    readers: Mutex<Vec<Arc<LaneReader>>>,
    /// True while the fan-out holds batches back and must be woken when the ring is empty.
    pub(super) wants_wake: AtomicBool,
    /// Set once, when the fan-out ends.
    pub(super) remainder: Mutex<Option<Remainder>>,
}

/// A new lane's connection to the ring.
pub(super) struct LaneStart {
    pub(super) ring: bus::BusReader<NumberedBatch>,
    pub(super) reader: Arc<LaneReader>,
    /// The number of the first batch for the lane.
    pub(super) first: u64,
}

/// The value of `slowest` without readers.
const NO_READER: u64 = u64::MAX;

/// The shared state of one reader.
#[derive(Debug)]
pub(super) struct LaneReader {
    /// Bytes of `sent` that this reader has taken.
    pub(super) read: AtomicU64,
    pub(super) doorbell: Doorbell,
    /// True if the reader must return although its lane is empty.
    pub(super) is_interrupted: AtomicBool,
}

/// The batches that the fan-out had not delivered when it ended.
#[derive(Debug)]
pub(super) struct Remainder {
    pub(super) backlog: VecDeque<NumberedBatch>,
    /// Keeps the ring alive until readers have taken its last batches.
    pub(super) _ring: Option<bus::Bus<NumberedBatch>>,
}

impl LosslessAccount {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max: bytes_max as u64,
            sent: AtomicU64::new(0),
            slowest: AtomicU64::new(NO_READER),
            readers: Mutex::default(),
            wants_wake: AtomicBool::new(false),
            remainder: Mutex::default(),
        }
    }

    /// Returns the bytes that the slowest reader has not taken yet; `None` without readers.
    pub(super) fn pending(&self) -> Option<u64> {
        let slowest = self.slowest.load(Ordering::SeqCst);
        let pending = self.sent.load(Ordering::SeqCst).saturating_sub(slowest);
        (slowest != NO_READER).then_some(pending)
    }

    /// Returns the memory that text may fill, in bytes; the rest is reserved for life-cycle events, enough for
    /// tens of thousands.
    pub(super) fn text_max(&self) -> u64 {
        self.bytes_max - self.bytes_max / 16
    }

    /// Registers a new reader, which skips `backlog_bytes` of earlier batches.
    pub(super) fn add_reader(&self, backlog_bytes: u64) -> Arc<LaneReader> {
        let read = self.sent.load(Ordering::SeqCst);
        let reader = Arc::new(LaneReader {
            read: AtomicU64::new(read.saturating_sub(backlog_bytes)),
            doorbell: Doorbell::default(),
            is_interrupted: AtomicBool::new(false),
        });
        self.change(|readers| readers.push(Arc::clone(&reader)));
        reader
    }

    /// Changes the readers or their positions, and determines the slowest reader again.
    pub(super) fn change(&self, change: impl FnOnce(&mut Vec<Arc<LaneReader>>)) {
        let mut readers = lock(&self.readers);
        change(&mut readers);
        let readers = readers.iter();
        let read = readers.map(|reader| reader.read.load(Ordering::SeqCst));
        self.slowest
            .store(read.min().unwrap_or(NO_READER), Ordering::SeqCst);
    }

    /// Wakes sleeping readers.
    pub(super) fn ring_doorbells(&self) {
        for reader in lock(&self.readers).iter() {
            reader.doorbell.ring();
        }
    }

    /// Hands over the batches that the fan-out had not delivered when it ended.
    pub(super) fn end(&self, remainder: Remainder) {
        *lock(&self.remainder) = Some(remainder);
        self.ring_doorbells();
    }
}
