//! The bus's inbox: a queue to the fan-out that is bounded by bytes, exact counts of refused events, and
//! closing.
//!
//! Emitters send and never wait. Only the fan-out receives.

use std::collections::VecDeque;
use std::sync::atomic::{self, AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use rustc_hash::FxHashMap;

use super::lossy_lane::LossyLane;
use super::subscription::Filter;
use super::throttle::Throttle;
use crate::clock::Clock;
use crate::event::{Envelope, EventKind, ExecutionId, TdEvent};
use crate::thread::{self, Waker, lock};
use crate::timestamp::Timestamp;

/// Number of messages in the channel to the fan-out, which takes them within microseconds. More of them, in a
/// burst or while the fan-out gets no processor time, wait in a list.
const CHANNEL_MESSAGES: usize = 8 * 1024;

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

/// A message to the fan-out.
#[derive(Debug)]
pub(super) enum InboxMessage {
    Event {
        ts: Timestamp,
        live: bool,
        event: TdEvent,
    },
    /// Wakes the fan-out: an event was refused, or the log has room again.
    Wake,
    Subscribe {
        lane: Arc<LossyLane>,
        filter: Filter,
        /// Boxed, because every message has the size of the largest.
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
    /// The last message.
    Close,
}

/// State shared by the bus, its emitters, its lossless lanes and the fan-out.
#[derive(Debug)]
pub(super) struct Inbox {
    pub(super) clock: Clock,
    pub(super) lossless: LosslessAccount,
    pub(super) gate: Gate,
    sender: Sender<InboxMessage>,
    overflow: Overflow,
    /// Rung after each message; the fan-out sleeps on it.
    pub(super) doorbell: Doorbell,
    /// Memory of the events that the fan-out has not passed on yet, in bytes.
    queued: AtomicU64,
    pub(super) refused: RefusedEvents,
    room: RoomWaiters,
}

/// Counts of refused events, by execution, kind, and whether they were for live subscribers only.
pub(super) type RefusedCounts = FxHashMap<(ExecutionId, EventKind, bool), u64>;

#[derive(Debug, Default)]
pub(super) struct RefusedEvents {
    /// True while there are counts; changed under the lock only, so that one `Wake` is sent.
    pub(super) any: AtomicBool,
    pub(super) counts: Mutex<RefusedCounts>,
}

/// The messages behind a full channel. While there are any, all new ones join them, so that each thread's messages
/// keep their order. Bounded by the bytes of the events.
#[derive(Debug, Default)]
struct Overflow {
    /// True while messages are here; changed under the lock.
    is_used: AtomicBool,
    messages: Mutex<MessageList>,
}

/// Messages in order. A list that grows as a whole would take up to three times its memory for a moment, and keep it
/// until the last message is taken.
#[derive(Debug, Default)]
pub(super) struct MessageList(VecDeque<VecDeque<InboxMessage>>);

impl MessageList {
    /// Number of messages that are allocated together: a few hundred kilobytes.
    const PART: usize = 1024;

    fn push_back(&mut self, message: InboxMessage) {
        if let Some(last) = self.0.back_mut().filter(|last| last.len() < Self::PART) {
            last.push_back(message);
        } else {
            let mut part = VecDeque::with_capacity(Self::PART);
            part.push_back(message);
            self.0.push_back(part);
        }
    }

    pub(super) fn pop_front(&mut self) -> Option<InboxMessage> {
        let first = self.0.front_mut()?;
        let message = first.pop_front();
        if first.is_empty() {
            self.0.pop_front();
        }
        message
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
    pub(super) fn new(clock: Clock, lossless_bytes_max: usize) -> (Self, Receiver<InboxMessage>) {
        let (sender, messages) = bounded(CHANNEL_MESSAGES);
        let inbox = Self {
            clock,
            lossless: LosslessAccount::new(lossless_bytes_max),
            gate: Gate::default(),
            sender,
            overflow: Overflow::default(),
            doorbell: Doorbell::default(),
            queued: AtomicU64::new(0),
            refused: RefusedEvents::default(),
            room: RoomWaiters::default(),
        };
        (inbox, messages)
    }

    /// Takes room for an event; returns false if there is none. A single event always finds room, because it
    /// may be larger than all of it.
    pub(super) fn take_room(&self, bytes: u64, is_text: bool) -> bool {
        let (part, max) = if is_text {
            (INBOX_PART, self.lossless.text_max())
        } else {
            (INBOX_PART / 2, self.lossless.bytes_max)
        };
        let before = self.queued.fetch_add(bytes, Ordering::Relaxed);
        let has_room = before == 0
            || before + bytes <= self.lossless.bytes_max / part
            || before + bytes + self.lossless.pending().unwrap_or(0) <= max;
        if !has_room {
            self.release(bytes);
        }
        has_room
    }

    /// Frees the room of events that the fan-out has passed on.
    pub(super) fn release(&self, bytes: u64) {
        self.queued.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Takes the counts of events refused since the last call.
    pub(super) fn take_refused(&self) -> Option<RefusedCounts> {
        // Read without the lock: a `Wake` follows each change to true, so the fan-out checks again.
        if !self.refused.any.load(Ordering::SeqCst) {
            return None;
        }
        let mut counts = lock(&self.refused.counts);
        self.refused.any.store(false, Ordering::SeqCst);
        Some(std::mem::take(&mut *counts))
    }

    /// Adds a message, behind all that the calling thread knows of; returns false if the fan-out has ended. The
    /// caller has taken room for an event.
    pub(super) fn push(&self, message: InboxMessage) -> bool {
        let sent = if self.overflow.is_used.load(Ordering::Acquire) {
            self.push_over(message)
        } else {
            match self.sender.try_send(message) {
                Err(TrySendError::Full(message)) => self.push_over(message),
                sent => sent.is_ok(),
            }
        };
        self.doorbell.ring();
        sent
    }

    fn push_over(&self, message: InboxMessage) -> bool {
        let mut messages = lock(&self.overflow.messages);
        if self.overflow.is_used.load(Ordering::Acquire) {
            messages.push_back(message);
            return true;
        }
        match self.sender.try_send(message) {
            Err(TrySendError::Full(message)) => {
                self.overflow.is_used.store(true, Ordering::Release);
                messages.push_back(message);
                drop(messages);
                // The fan-out may have emptied the channel since, and sleep. If it is still full, the fan-out is
                // awake.
                let wake = self.sender.try_send(InboxMessage::Wake);
                !matches!(wake, Err(TrySendError::Disconnected(_)))
            }
            sent => sent.is_ok(),
        }
    }

    /// Returns the next message when the channel was found empty, and moves the list to `rest`, which is empty. Only the
    /// fan-out calls it.
    pub(super) fn take_overflow(
        &self,
        channel: &Receiver<InboxMessage>,
        rest: &mut MessageList,
    ) -> Option<InboxMessage> {
        if !self.overflow.is_used.load(Ordering::Acquire) {
            return None;
        }
        let mut messages = lock(&self.overflow.messages);
        // The channel may have been filled since, and its messages precede those of the list. Under the lock, none
        // joins the list whose predecessor is not seen here.
        if let Ok(message) = channel.try_recv() {
            return Some(message);
        }
        self.overflow.is_used.store(false, Ordering::Release);
        *rest = std::mem::take(&mut *messages);
        rest.pop_front()
    }

    /// Makes the fan-out check for refused events and for room.
    pub(super) fn wake_fanout(&self) {
        // False means that the fan-out has ended.
        let _ = self.push(InboxMessage::Wake);
    }

    /// Sends a control message; returns false when the bus is closed.
    pub(super) fn control(&self, slot: GateSlot, message: InboxMessage) -> bool {
        let pass = self.gate.enter(slot);
        pass.is_some() && self.push(message)
    }

    /// Closes the gate and sends the last message.
    pub(super) fn close(&self) {
        self.gate.close();
        self.room.notify();
        // No emitter sends any more. False means that the fan-out has already ended.
        let _ = self.push(InboxMessage::Close);
    }

    /// Returns true if the queues to the log are at most half full.
    pub(super) fn has_room(&self) -> bool {
        self.is_filled_below(2)
    }

    /// Returns true if a program's reader need not wait.
    pub(super) fn has_room_for_reader(&self) -> bool {
        let queued = self.queued.load(Ordering::Relaxed);
        queued <= self.lossless.bytes_max / READER_PART / 8 && self.is_filled_below(READER_PART)
    }

    /// Returns true if the queues to the log are filled to at most this fraction (1/n).
    fn is_filled_below(&self, part: u64) -> bool {
        let queued = self.queued.load(Ordering::Relaxed);
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
        if !self.has_room_for_reader() && !self.gate.is_closed() {
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

// The gate that every emit passes; once it is closed, no emit is in progress.
//
// An event whose emit returned `Accepted` must be delivered. A flag alone cannot guarantee this, because an
// emitter may be between reading the flag and sending. The gate therefore counts emits in progress, and
// closing waits until the count is 0. An emit never blocks inside the gate.

/// Number of counters, so that emitters on different cores seldom share one. More counters than most machines
/// have cores would only make closing slower.
const COUNTERS: usize = 16;

/// Pause between two checks while the gate closes. An emit takes well under a microsecond, unless the system
/// preempts its thread.
const CLOSE_POLL: Duration = Duration::from_micros(50);

#[derive(Debug, Default)]
pub(super) struct Gate {
    is_closed: AtomicBool,
    inside: [GateCounter; COUNTERS],
    next_slot: AtomicUsize,
}

/// A counter on its own cache line (and the neighbour that the processor prefetches).
#[derive(Debug, Default)]
#[repr(align(128))]
struct GateCounter(AtomicUsize);

/// The index of the counter that an emitter uses.
pub(super) type GateSlot = usize;

/// RAII guard for an emit in progress.
pub(super) struct GateGuard<'a>(&'a GateCounter);

impl Gate {
    /// Assigns a slot to a new emitter.
    pub(super) fn assign_slot(&self) -> GateSlot {
        self.next_slot.fetch_add(1, Ordering::Relaxed) % COUNTERS
    }

    /// Enters the gate; `None` when it is closed.
    pub(super) fn enter(&self, slot: GateSlot) -> Option<GateGuard<'_>> {
        let counter = &self.inside[slot];
        // `enter` counts, then reads the flag; `close` sets the flag, then reads the counters. In
        // the single order of all SeqCst operations, at least one of the two sees the other.
        counter.0.fetch_add(1, Ordering::SeqCst);
        let guard = GateGuard(counter);
        (!self.is_closed.load(Ordering::SeqCst)).then_some(guard)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Closes the gate and waits until no emit is in progress.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        while self
            .inside
            .iter()
            .any(|counter| counter.0.load(Ordering::SeqCst) != 0)
        {
            thread::park(Some(CLOSE_POLL));
        }
    }
}

impl Drop for GateGuard<'_> {
    fn drop(&mut self) {
        // Pairs with the load in `close`: a thread that reads 0 sees all effects of the emit.
        self.0.0.fetch_sub(1, Ordering::Release);
    }
}

// Wakes one parked thread; ringing costs a single atomic load while that thread is awake.
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

    /// Undoes [`Doorbell::arm`] when the sleeper does not park.
    pub(super) fn disarm(&self) {
        self.is_armed.store(false, Ordering::Relaxed);
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
    pub(super) batch: Arc<[Envelope]>,
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
