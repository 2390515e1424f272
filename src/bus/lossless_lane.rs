//! A lossless lane, both ends: it loses no event that fits in memory, and numbers the events that it had to
//! drop.
//!
//! The fan-out puts batches into the ring of the crate `bus` and rings the lane's doorbell; the
//! reader takes them and sleeps until the doorbell rings. (The ring's own blocking reads poll every
//! 100 µs, which costs 5 % of a core when idle.) Batches that do not fit in the ring wait in the
//! fan-out's backlog; a reader that finds the ring empty requests them. When the bus closes, the
//! fan-out hands the backlog over to this side, so that it ends whatever the reader does.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::Batch;
use super::inbox::{Inbox, LaneReader, LaneStart, NumberedBatch, Remainder};
use super::lossy_lane::RecvTimeoutError;
use crate::event::{Envelope, ExecutionId, LogGapRange, LogGaps};
use crate::thread::{lock, park};

/// Number of batches in the ring. A reader that keeps up needs few; a larger ring would only hold batches
/// that otherwise wait in the backlog.
const RING_BATCHES: usize = 256;

/// The fan-out's end: the ring, the backlog, and the choice of events to drop when both are full.
#[derive(Debug)]
pub(super) struct LosslessSender {
    inbox: Arc<Inbox>,
    /// Present while there are readers: a ring without readers would keep its batches in memory.
    ring: Option<bus::Bus<NumberedBatch>>,
    backlog: VecDeque<NumberedBatch>,
    backlog_bytes: u64,
    next_number: u64,
    gaps: LogGaps,
    /// True while text is dropped, which lasts until a quarter of the memory is free. A gap after every other
    /// event would take more room than the text.
    is_dropping: bool,
}

impl LosslessSender {
    pub(super) fn new(inbox: Arc<Inbox>) -> Self {
        Self {
            inbox,
            ring: None,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            next_number: 0,
            gaps: LogGaps::default(),
            is_dropping: false,
        }
    }

    /// Opens a lane that receives the next batch first.
    pub(super) fn open_lane(&mut self) -> LaneStart {
        // Drops a ring that has lost its last reader.
        self.pending();
        let ring = self
            .ring
            .get_or_insert_with(|| bus::Bus::new(RING_BATCHES))
            .add_rx();
        LaneStart {
            ring,
            reader: self.inbox.lossless.add_reader(self.backlog_bytes),
            first: self.next_number,
        }
    }

    /// Sends a batch, or the part of it for which there is room.
    pub(super) fn send(&mut self, batch: &Batch, bytes: u64) {
        let Some(pending) = self.pending() else {
            return;
        };
        let bytes_max = self.inbox.lossless.bytes_max;
        let text_max = self.inbox.lossless.text_max();
        self.is_dropping &= pending > text_max / 4 * 3;
        if !self.is_dropping && self.gaps.is_empty() && pending + bytes <= text_max {
            self.push(Arc::clone(batch), bytes);
            return;
        }
        let mut pending = pending;
        let mut passed = Vec::new();
        for envelope in batch.iter() {
            let bytes = envelope.event.memory_bytes() as u64;
            let fits = if envelope.event.is_text() {
                !self.is_dropping && pending + bytes <= text_max
            } else {
                pending + bytes <= bytes_max
            };
            if fits {
                passed.extend(self.gaps.take(envelope.event.execution_id()));
                passed.push(envelope.clone());
                pending += bytes;
            } else {
                self.is_dropping |= envelope.event.is_text();
                passed.extend(self.gaps.drop_envelope(envelope));
            }
        }
        self.push_all(passed);
    }

    /// Records the numbers of refused events, which no lane receives.
    pub(super) fn missed(&mut self, id: &ExecutionId, gap: LogGapRange) {
        if self.ring.is_some() {
            let earlier = self.gaps.drop_gap(id, gap);
            self.push_all(earlier.into_iter().collect());
        }
    }

    /// Sends held-back batches as far as there is room now.
    pub(super) fn send_held(&mut self) {
        let Some(pending) = self.pending() else {
            return;
        };
        if !self.try_send_held(pending) {
            // Requested before the second attempt: if a reader empties the ring in between, either this
            // thread notices it or the reader sees the request.
            let wants_wake = &self.inbox.lossless.wants_wake;
            wants_wake.store(true, Ordering::SeqCst);
            self.try_send_held(pending);
        }
    }

    /// Returns true if no batch is held back any more.
    fn try_send_held(&mut self, pending: u64) -> bool {
        if !self.gaps.is_empty() && pending <= self.inbox.lossless.bytes_max / 2 {
            let gaps = self.gaps.drain().collect();
            self.push_all(gaps);
        }
        self.broadcast_backlog();
        self.backlog.is_empty() && self.gaps.is_empty()
    }

    fn push_all(&mut self, envelopes: Vec<Envelope>) {
        if !envelopes.is_empty() {
            let bytes = envelopes
                .iter()
                .map(|envelope| envelope.event.memory_bytes() as u64)
                .sum();
            self.push(Arc::new(envelopes), bytes);
        }
    }

    fn push(&mut self, batch: Batch, bytes: u64) {
        let number = self.next_number;
        self.next_number += 1;
        let sent = &self.inbox.lossless.sent;
        sent.fetch_add(bytes, Ordering::SeqCst);
        self.backlog.push_back(NumberedBatch {
            batch,
            bytes,
            number,
        });
        self.backlog_bytes += bytes;
        self.broadcast_backlog();
    }

    fn broadcast_backlog(&mut self) {
        let Some(ring) = &mut self.ring else { return };
        let mut has_sent = false;
        while let Some(next) = self.backlog.pop_front() {
            let bytes = next.bytes;
            if let Err(next) = ring.try_broadcast(next) {
                self.backlog.push_front(next);
                break;
            }
            self.backlog_bytes -= bytes;
            has_sent = true;
        }
        if has_sent {
            self.inbox.lossless.ring_doorbells();
        }
    }

    /// Returns the bytes that the slowest reader has not taken yet. Without readers, drops all batches in the
    /// ring and the backlog.
    fn pending(&mut self) -> Option<u64> {
        let pending = self.inbox.lossless.pending();
        if pending.is_none() && self.ring.take().is_some() {
            self.backlog.clear();
            self.backlog_bytes = 0;
            self.gaps = LogGaps::default();
            self.is_dropping = false;
        }
        pending
    }
}

impl Drop for LosslessSender {
    /// Hands the remaining batches over to the readers, so that a slow reader does not delay the end.
    fn drop(&mut self) {
        let gaps = self.gaps.drain().collect();
        self.push_all(gaps);
        let backlog = std::mem::take(&mut self.backlog);
        self.inbox.lossless.end(Remainder {
            backlog,
            _ring: self.ring.take(),
        });
    }
}

/// Interrupts the reader of a lossless lane: its receive call returns [`RecvTimeoutError::Timeout`].
#[derive(Clone, Debug)]
pub(crate) struct LaneInterrupt(Arc<LaneReader>);

impl LaneInterrupt {
    /// Interrupts the receive call in progress, or the next one.
    pub(crate) fn interrupt(&self) {
        self.0.is_interrupted.store(true, Ordering::SeqCst);
        self.0.doorbell.ring();
    }
}

/// A lane that drops nothing while its events fit in memory (64 MiB).
///
/// Numbers on it are contiguous: a [`LogGap`](crate::TdEvent::LogGap) replaces events that had to be dropped.
/// The log reads such a lane.
pub struct LosslessLane {
    start: LaneStart,
    inbox: Arc<Inbox>,
    /// The fan-out's backlog; set once the fan-out has ended.
    remainder: Option<VecDeque<NumberedBatch>>,
}

impl LosslessLane {
    pub(super) fn new(start: LaneStart, inbox: Arc<Inbox>) -> Self {
        Self {
            start,
            inbox,
            remainder: None,
        }
    }

    /// Returns a handle that interrupts the reader.
    pub(crate) fn interrupt(&self) -> LaneInterrupt {
        LaneInterrupt(Arc::clone(&self.start.reader))
    }

    /// Waits for the next batch of envelopes, in order. Without a deadline, waits indefinitely.
    ///
    /// # Errors
    /// [`RecvTimeoutError::Timeout`] when no batch arrived until the deadline, and
    /// [`RecvTimeoutError::Closed`] when the bus is closed and all accepted events have been read.
    pub fn recv_deadline(&mut self, deadline: Option<Instant>) -> Result<Batch, RecvTimeoutError> {
        let mut is_armed = false;
        loop {
            // Checked before the ring, because the fan-out adds nothing after its end.
            let has_ended = self.has_ended();
            let next = match self.start.ring.try_recv() {
                Err(_) if has_ended => Some(
                    (self.remainder.as_mut())
                        .and_then(VecDeque::pop_front)
                        .ok_or(RecvTimeoutError::Closed)?,
                ),
                next => next.ok(),
            };
            if let Some(next) = next {
                match self.account(next) {
                    Some(batch) => return Ok(batch),
                    None => continue,
                }
            }
            if self
                .start
                .reader
                .is_interrupted
                .swap(false, Ordering::SeqCst)
            {
                return Err(RecvTimeoutError::Timeout);
            }
            if self.inbox.lossless.wants_wake.swap(false, Ordering::SeqCst) {
                self.inbox.wake_fanout();
            }
            if !is_armed {
                self.start.reader.doorbell.arm();
                is_armed = true;
                continue;
            }
            let remaining =
                deadline.map(|deadline| deadline.saturating_duration_since(self.inbox.clock.now()));
            if remaining.is_some_and(|remaining| remaining.is_zero()) {
                return Err(RecvTimeoutError::Timeout);
            }
            park(remaining);
            is_armed = false;
        }
    }

    /// Returns true if this lane's reader has taken all batches that were sent to lossless lanes.
    pub(crate) fn is_caught_up(&self) -> bool {
        let sent = self.inbox.lossless.sent.load(Ordering::SeqCst);
        self.start.reader.read.load(Ordering::SeqCst) >= sent
    }

    fn has_ended(&mut self) -> bool {
        if self.remainder.is_none() {
            let remainder = lock(&self.inbox.lossless.remainder);
            self.remainder = remainder.as_ref().map(|rest| rest.backlog.clone());
        }
        self.remainder.is_some()
    }

    /// Counts a batch as read; returns `None` for one that was sent before this lane was opened.
    fn account(&mut self, next: NumberedBatch) -> Option<Batch> {
        self.inbox.lossless.change(|_| {
            self.start
                .reader
                .read
                .fetch_add(next.bytes, Ordering::SeqCst);
        });
        self.inbox.made_room();
        (next.number >= self.start.first).then_some(next.batch)
    }
}

impl Drop for LosslessLane {
    fn drop(&mut self) {
        (self.inbox.lossless).change(|readers| {
            readers.retain(|other| !Arc::ptr_eq(other, &self.start.reader));
        });
        self.inbox.made_room();
        // The fan-out may hold back batches that no reader needs any more.
        self.inbox.wake_fanout();
    }
}

impl fmt::Debug for LosslessLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LosslessLane")
            .field("first", &self.start.first)
            .finish_non_exhaustive()
    }
}
