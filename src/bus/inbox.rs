//! The bus's inbox: a bounded channel to the fan-out, exact counts of refused events, and closing.
//!
//! Emitters send and never wait. Subscribing and closing also send; they may wait briefly for room, which the
//! fan-out always makes. Only the fan-out receives.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, atomic};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use rustc_hash::FxHashMap;

use crate::bus::doorbell::Doorbell;
use crate::bus::filter::Filter;
use crate::bus::gate::{Gate, GateSlot};
use crate::bus::lossless_account::{LaneStart, LosslessAccount};
use crate::bus::lossy_lane::LossyLane;
use crate::bus::throttle::Throttle;
use crate::clock::Clock;
use crate::event::{EventKind, ExecutionId, TdEvent};
use crate::thread::lock;
use crate::timestamp::Timestamp;

/// Maximum number of events that wait for the fan-out. It takes them within microseconds, so the inbox fills
/// only when the fan-out gets no processor time. With `SMALL_BYTES` each, they take 8 MiB.
pub(super) const INBOX_EVENTS: usize = 8 * 1024;

/// Size up to which an event is bounded by the number of slots alone and not counted in bytes.
pub(super) const SMALL_BYTES: usize = 1024;

/// Memory for larger events that wait for the fan-out. Small and large events together take less than half of
/// the memory on the way to the log, which is free while `has_room` returns true. Events that were accepted
/// then are therefore never dropped.
pub(super) const LARGE_BYTES_MAX: usize = 20 * 1024 * 1024;

/// Quarters of the inbox that text may fill; the rest is reserved for life-cycle events.
pub(super) const TEXT_QUARTERS: usize = 3;

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
        throttle: Option<Throttle>,
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
    pub(super) sender: Sender<InboxMessage>,
    /// Rung after each message; the fan-out sleeps on it.
    pub(super) doorbell: Doorbell,
    pub(super) text_len_max: usize,
    len_max: usize,
    pub(super) large_bytes: AtomicUsize,
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

/// Readers of child processes that wait for room in the inbox and the log.
#[derive(Debug, Default)]
struct RoomWaiters {
    waiting: AtomicUsize,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Inbox {
    pub(super) fn new(
        clock: Clock,
        inbox_events: usize,
        lossless_bytes_max: usize,
    ) -> (Self, Receiver<InboxMessage>) {
        let len_max = inbox_events.max(2);
        let (sender, messages) = bounded(len_max);
        let inbox = Self {
            clock,
            lossless: LosslessAccount::new(lossless_bytes_max),
            gate: Gate::default(),
            sender,
            doorbell: Doorbell::default(),
            text_len_max: (len_max * TEXT_QUARTERS / 4).max(1),
            len_max,
            large_bytes: AtomicUsize::new(0),
            refused: RefusedEvents::default(),
            room: RoomWaiters::default(),
        };
        (inbox, messages)
    }

    /// Frees the room of an event that the fan-out has received.
    pub(super) fn release(&self, bytes: usize) {
        if bytes > SMALL_BYTES {
            self.large_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
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

    /// Makes the fan-out check for refused events and for room.
    pub(super) fn wake_fanout(&self) {
        // A full inbox needs no message, because the fan-out checks after each batch.
        let _ = self.sender.try_send(InboxMessage::Wake);
        self.doorbell.ring();
    }

    /// Sends a control message, waiting for room; returns false when the bus is closed.
    pub(super) fn control(&self, slot: GateSlot, message: InboxMessage) -> bool {
        let Some(_pass) = self.gate.enter(slot) else {
            return false;
        };
        let sent = self.sender.send(message).is_ok();
        self.doorbell.ring();
        sent
    }

    /// Closes the gate and sends the last message.
    pub(super) fn close(&self) {
        self.gate.close();
        self.room.notify();
        // No emitter sends any more, and the fan-out makes room. An error means that the fan-out has already
        // ended.
        let _ = self.sender.send(InboxMessage::Close);
        self.doorbell.ring();
    }

    /// Returns true if the queues to the log are at most half full.
    pub(super) fn has_room(&self) -> bool {
        self.sender.len() <= self.len_max / 2
            && self.large_bytes.load(Ordering::Relaxed) <= LARGE_BYTES_MAX / 2
            && self.lossless.has_room()
    }

    /// Wakes the threads that wait for room, if there is room now. Call it after each step that makes room,
    /// so that the caller of the last necessary step wakes them.
    pub(super) fn made_room(&self) {
        // Either this thread sees `waiting`, or the waiting thread sees the step before this call.
        atomic::fence(Ordering::SeqCst);
        if self.room.waiting.load(Ordering::Relaxed) > 0 && self.has_room() {
            self.room.notify();
        }
    }

    /// Waits until there may be room, at most for `wait`.
    pub(super) fn wait_for_room(&self, wait: Duration) {
        let guard = lock(&self.room.lock);
        self.room.waiting.fetch_add(1, Ordering::SeqCst);
        atomic::fence(Ordering::SeqCst);
        if !self.has_room() && !self.gate.is_closed() {
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
