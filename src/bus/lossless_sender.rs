//! The fan-out's side of the lossless lanes: the ring, the backlog, and the choice of events to drop when both are full.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::bus::inbox::Inbox;
use crate::bus::lossless_account::{LaneStart, NumberedBatch, Remainder};
use crate::event::{Envelope, ExecutionId, LogGapRange, LogGaps};

/// Batches in the ring. A reader that keeps up needs a few; a larger ring would only hold batches
/// that now wait in the backlog.
const RING_BATCHES: usize = 256;

/// Fraction (1/n) of the memory that is reserved for life-cycle events: tens of thousands of them.
const LIFECYCLE_PART: u64 = 16;

#[derive(Debug)]
pub(super) struct LosslessSender {
    inbox: Arc<Inbox>,
    /// Present while there are readers: a ring without readers would keep its batches in memory.
    ring: Option<bus::Bus<NumberedBatch>>,
    backlog: VecDeque<NumberedBatch>,
    backlog_bytes: u64,
    next_number: u64,
    gaps: LogGaps,
    /// True while text is dropped, until a quarter of the memory is free: a gap at every other
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

    /// Sends a batch, or the part of it that there is room for.
    pub(super) fn send(&mut self, batch: &Arc<[Envelope]>, bytes: u64) {
        let Some(pending) = self.pending() else {
            return;
        };
        let text_max = self.text_max();
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
                pending + bytes <= self.inbox.lossless.bytes_max
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

    /// Notes numbers of refused events, which no lane receives.
    pub(super) fn missed(&mut self, id: &ExecutionId, gap: LogGapRange) {
        if self.ring.is_some() {
            let earlier = self.gaps.drop_gap(id, gap);
            self.push_all(earlier.into_iter().collect());
        }
    }

    /// Sends batches that were held back, as far as there is room for them now.
    pub(super) fn send_held(&mut self) {
        if self.ring.is_none() || self.pending().is_none() {
            return;
        }
        if !self.try_send_held() {
            // Requested before the second try: a reader that empties the ring in between is
            // either noticed here, or it sees the request.
            self.inbox.lossless.request_wake();
            self.try_send_held();
        }
    }

    /// Returns true when nothing is held back any more.
    fn try_send_held(&mut self) -> bool {
        if !self.gaps.is_empty() && self.inbox.lossless.has_room() {
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
            self.push(envelopes.into(), bytes);
        }
    }

    fn push(&mut self, batch: Arc<[Envelope]>, bytes: u64) {
        let number = self.next_number;
        self.next_number += 1;
        self.inbox.lossless.add_sent(bytes);
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

    /// Returns the bytes that the slowest reader has not taken yet. Without readers, drops
    /// everything that is on the way.
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

    fn text_max(&self) -> u64 {
        self.inbox.lossless.bytes_max - self.inbox.lossless.bytes_max / LIFECYCLE_PART
    }
}

impl Drop for LosslessSender {
    /// Hands the rest over to the readers, so that a slow reader does not delay the end.
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
