//! The way in: a bounded channel to the fan-out, what it refuses counted exactly, and closing.
//!
//! Emitters send and never wait; `subscribe`, `keep` and `close` send too and may wait a moment
//! for room, which the fan-out always makes. Only the fan-out receives.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, atomic};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use rustc_hash::FxHashMap;

use crate::bus::bell::Bell;
use crate::bus::filter::Filter;
use crate::bus::gate::{Gate, Side};
use crate::bus::kept::{KeptLane, KeptShared};
use crate::bus::lane::Lane;
use crate::bus::limit::Limiter;
use crate::clock::Clock;
use crate::event::{EventKind, ExecutionId, TdEvent};
use crate::timestamp::Timestamp;

/// Events that wait for the fan-out, which takes them in microseconds: only a machine that gives
/// it no time at all fills this. With `SMALL_BYTES` each they take 8 MiB.
pub(super) const INBOX_EVENTS: usize = 8 * 1024;

/// Events up to this size are bounded by the number of slots alone, so that they need not be
/// counted on the way.
const SMALL_BYTES: usize = 1024;

/// Memory of the larger events that wait for the fan-out. Together with the small ones it is less
/// than the half of the way to the log that is free while `has_room` says yes: so what was let in
/// then is never dropped.
const LARGE_BYTES_MAX: usize = 20 * 1024 * 1024;

/// Text is let in while less than this part of the inbox is taken; the rest is for life cycle.
const TEXT_QUARTERS: usize = 3;

/// What became of an emitted event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Emitted {
    /// It will be delivered, or counted as missed where a subscriber or the log is too slow.
    Accepted,
    /// There was no room: it is counted as missed by everyone, with its number.
    Refused,
    /// The bus is closed: nobody will hear of it.
    Closed,
}

/// What the fan-out is sent.
#[derive(Debug)]
pub(super) enum Msg {
    Event {
        ts: Timestamp,
        live: bool,
        event: TdEvent,
    },
    /// Look around: something was refused, or there is room again on the way to the log.
    Look,
    Subscribe {
        lane: Arc<Lane>,
        filter: Filter,
        limiter: Option<Limiter>,
        /// Of which execution the next number is to be told.
        numbers_of: Option<ExecutionId>,
        /// Gets the first number of it that this lane is sent.
        done: Sender<u64>,
    },
    Keep {
        reply: Sender<KeptLane>,
    },
    /// An execution's numbers go on from here, unless it has numbers already.
    Number {
        id: ExecutionId,
        next_seq: u64,
        done: Sender<()>,
    },
    /// The last message.
    Close,
}

/// What the bus, its emitters, its kept lanes and the fan-out share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) clock: Clock,
    pub(super) kept: KeptShared,
    gate: Gate,
    inbox: Sender<Msg>,
    /// Rung after each message; the fan-out sleeps on it.
    pub(super) bell: Bell,
    text_len_max: usize,
    len_max: usize,
    large_bytes: AtomicUsize,
    refused: Refused,
    room: Room,
}

/// Counts of refused events, by execution, kind and whether they were live only.
pub(super) type RefusedCounts = FxHashMap<(ExecutionId, EventKind, bool), u64>;

#[derive(Debug, Default)]
struct Refused {
    /// Whether there are counts; changed under the lock only, so that a `Look` is sent once.
    any: AtomicBool,
    counts: Mutex<RefusedCounts>,
}

/// Where readers of child processes wait for room.
#[derive(Debug, Default)]
struct Room {
    waiting: AtomicUsize,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Shared {
    pub(super) fn new(
        clock: Clock,
        inbox_events: usize,
        kept_bytes_max: usize,
    ) -> (Self, Receiver<Msg>) {
        let len_max = inbox_events.max(2);
        let (inbox, messages) = bounded(len_max);
        let shared = Self {
            clock,
            kept: KeptShared::new(kept_bytes_max),
            gate: Gate::default(),
            inbox,
            bell: Bell::default(),
            text_len_max: (len_max * TEXT_QUARTERS / 4).max(1),
            len_max,
            large_bytes: AtomicUsize::new(0),
            refused: Refused::default(),
            room: Room::default(),
        };
        (shared, messages)
    }

    pub(super) fn side(&self) -> Side {
        self.gate.side()
    }

    /// Sends an event or counts it as refused; never waits.
    pub(super) fn emit(&self, side: Side, event: TdEvent, live: bool) -> Emitted {
        let Some(_pass) = self.gate.enter(side) else {
            return Emitted::Closed;
        };
        match self.send(event, live) {
            Ok(emitted) => emitted,
            Err(event) => {
                self.refuse(&event, live);
                Emitted::Refused
            }
        }
    }

    /// Sends an event as soon as there is room on the whole way, at the latest at the deadline.
    pub(super) fn emit_waiting(
        &self,
        side: Side,
        mut event: TdEvent,
        deadline: Instant,
    ) -> Emitted {
        loop {
            if self.has_room() {
                let Some(_pass) = self.gate.enter(side) else {
                    return Emitted::Closed;
                };
                match self.send(event, false) {
                    Ok(emitted) => return emitted,
                    Err(back) => event = back,
                }
            }
            let left = deadline.saturating_duration_since(self.clock.now());
            if left.is_zero() || self.gate.is_closed() {
                return self.emit(side, event, false);
            }
            self.wait_for_room(left);
        }
    }

    /// Sends, or gives the event back when there is no room. Call it inside the gate.
    #[allow(
        clippy::result_large_err,
        reason = "an event that finds no room is given back as it is"
    )]
    fn send(&self, event: TdEvent, live: bool) -> Result<Emitted, TdEvent> {
        let bytes = event.memory_bytes();
        let text = event.is_text();
        if text && self.inbox.len() >= self.text_len_max {
            return Err(event);
        }
        let large = bytes > SMALL_BYTES;
        if large {
            let before = self.large_bytes.fetch_add(bytes, Ordering::Relaxed);
            let max = if text {
                LARGE_BYTES_MAX / 4 * TEXT_QUARTERS
            } else {
                LARGE_BYTES_MAX
            };
            // One that is larger than all the room may pass when it is alone.
            if before > 0 && before + bytes > max {
                self.large_bytes.fetch_sub(bytes, Ordering::Relaxed);
                return Err(event);
            }
        }
        match self.inbox.try_send(Msg::Event {
            ts: self.clock.wall(),
            live,
            event,
        }) {
            Ok(()) => {
                self.bell.ring();
                Ok(Emitted::Accepted)
            }
            // The fan-out ends before the gate is closed only when it panicked.
            Err(TrySendError::Disconnected(_)) => Ok(Emitted::Closed),
            Err(TrySendError::Full(Msg::Event { event, .. })) => {
                if large {
                    self.large_bytes.fetch_sub(bytes, Ordering::Relaxed);
                }
                Err(event)
            }
            // What comes back is what was sent.
            Err(TrySendError::Full(_)) => Ok(Emitted::Refused),
        }
    }

    /// The fan-out has taken an event out.
    pub(super) fn taken(&self, bytes: usize) {
        if bytes > SMALL_BYTES {
            self.large_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    fn refuse(&self, event: &TdEvent, live: bool) {
        let id = match event.execution() {
            Some(id) => id.clone(),
            None => event.execution_id().into(),
        };
        let mut counts = self.refused.counts();
        *counts.entry((id, event.kind(), live)).or_default() += 1;
        let first = !self.refused.any.swap(true, Ordering::SeqCst);
        drop(counts);
        if first {
            self.look();
        }
    }

    /// What was refused since the last call.
    pub(super) fn take_refused(&self) -> Option<RefusedCounts> {
        // Read without the lock: who sets it sends a `Look` after it, which brings us back here.
        if !self.refused.any.load(Ordering::SeqCst) {
            return None;
        }
        let mut counts = self.refused.counts();
        self.refused.any.store(false, Ordering::SeqCst);
        Some(std::mem::take(&mut *counts))
    }

    /// Makes the fan-out look around.
    pub(super) fn look(&self) {
        // A full inbox is as good: the fan-out looks around after each batch that it takes.
        let _ = self.inbox.try_send(Msg::Look);
        self.bell.ring();
    }

    /// Sends what is no event, and waits for room; `false` when the bus is closed.
    pub(super) fn control(&self, side: Side, msg: Msg) -> bool {
        let Some(_pass) = self.gate.enter(side) else {
            return false;
        };
        let sent = self.inbox.send(msg).is_ok();
        self.bell.ring();
        sent
    }

    /// Closes the gate and sends the last message.
    pub(super) fn close(&self) {
        self.gate.close();
        self.room.notify();
        // Nobody else sends any more, and the fan-out makes room; if it is gone, that will do.
        let _ = self.inbox.send(Msg::Close);
        self.bell.ring();
    }

    /// Whether the way to the log is at most half full.
    pub(super) fn has_room(&self) -> bool {
        self.inbox.len() <= self.len_max / 2
            && self.large_bytes.load(Ordering::Relaxed) <= LARGE_BYTES_MAX / 2
            && self.kept.has_room()
    }

    /// Tells those who wait for room that there may be some. Called after each step that makes
    /// room; whoever makes the last step that it takes sees that there is room.
    pub(super) fn made_room(&self) {
        // The step before this and `waiting` are each seen by one of the two sides at least.
        atomic::fence(Ordering::SeqCst);
        if self.room.waiting.load(Ordering::Relaxed) > 0 && self.has_room() {
            self.room.notify();
        }
    }

    fn wait_for_room(&self, wait: Duration) {
        let held = self
            .room
            .lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.room.waiting.fetch_add(1, Ordering::SeqCst);
        atomic::fence(Ordering::SeqCst);
        if !self.has_room() && !self.gate.is_closed() {
            // Why it returned is looked at by the caller.
            drop(self.room.changed.wait_timeout(held, wait));
        }
        self.room.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Room {
    fn notify(&self) {
        // Taking the lock means that nobody stands between looking and waiting.
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

impl Refused {
    fn counts(&self) -> MutexGuard<'_, RefusedCounts> {
        // A count is added in one step: a panic elsewhere leaves nothing half done.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
