//! The fan-out's side of the kept lanes: the ring, the backlog, and what to drop when both are full.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::bus::inbox::Shared;
use crate::bus::kept::{End, KeptBatch, KeptLane};
use crate::event::{Envelope, ExecutionId};
use crate::event::{LogGapRange, LogGaps};

/// Batches in the ring. A reader that keeps up needs a few; more only wait in it instead of in
/// the backlog.
const RING_BATCHES: usize = 256;

/// The part of the memory that only life-cycle events may use: tens of thousands of them.
const LIFE_PART: u64 = 16;

#[derive(Debug)]
pub(super) struct KeptOut {
    shared: Arc<Shared>,
    /// There while there are readers: a ring without any would hold on to its batches.
    ring: Option<bus::Bus<KeptBatch>>,
    backlog: VecDeque<KeptBatch>,
    backlog_bytes: u64,
    next_number: u64,
    gaps: LogGaps,
    /// Text is being dropped, until a quarter of the memory is free: a gap at every other event
    /// would take more room than the text.
    dropping: bool,
}

impl KeptOut {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            ring: None,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            next_number: 0,
            gaps: LogGaps::default(),
            dropping: false,
        }
    }

    /// A new lane, from the next batch on.
    pub(super) fn add(&mut self) -> KeptLane {
        self.forget_if_unread();
        let reader = self
            .ring
            .get_or_insert_with(|| bus::Bus::new(RING_BATCHES))
            .add_rx();
        let seat = self.shared.kept.sit_down(self.backlog_bytes);
        KeptLane::new(reader, seat, Arc::clone(&self.shared), self.next_number)
    }

    /// Hands on a batch, or as much of it as there is room for.
    pub(super) fn hand(&mut self, batch: &Arc<[Envelope]>, bytes: u64) {
        let Some(held) = self.held() else { return };
        let text_max = self.text_max();
        self.dropping &= held > text_max / 4 * 3;
        if !self.dropping && self.gaps.is_empty() && held + bytes <= text_max {
            self.put(Arc::clone(batch), bytes);
            return;
        }
        let mut held = held;
        let mut passed = Vec::new();
        for envelope in batch.iter() {
            let bytes = envelope.event.memory_bytes() as u64;
            let fits = if envelope.event.is_text() {
                !self.dropping && held + bytes <= text_max
            } else {
                held + bytes <= self.shared.kept.bytes_max
            };
            if fits {
                passed.extend(self.gaps.take(envelope.event.execution_id()));
                passed.push(envelope.clone());
                held += bytes;
            } else {
                self.dropping |= envelope.event.is_text();
                passed.extend(self.gaps.drop_envelope(envelope));
            }
        }
        self.put_all(passed);
    }

    /// Numbers that were given to events that nobody gets.
    pub(super) fn missed(&mut self, id: &ExecutionId, gap: LogGapRange) {
        if self.ring.is_some() {
            let earlier = self.gaps.drop_gap(id, gap);
            self.put_all(earlier.into_iter().collect());
        }
    }

    /// Moves on what was held back, as far as there is room for it now.
    pub(super) fn settle(&mut self) {
        if self.ring.is_none() || self.held().is_none() {
            return;
        }
        if !self.move_on() {
            // Asked for before the last try: a reader that has emptied the ring in between is
            // either seen here or sees the wish.
            self.shared.kept.want_look(true);
            self.move_on();
        }
    }

    /// Whether nothing is held back any more.
    fn move_on(&mut self) -> bool {
        if !self.gaps.is_empty() && self.shared.kept.has_room() {
            let gaps = self.gaps.drain().collect();
            self.put_all(gaps);
        }
        self.broadcast_backlog();
        self.backlog.is_empty() && self.gaps.is_empty()
    }

    fn put_all(&mut self, envelopes: Vec<Envelope>) {
        if !envelopes.is_empty() {
            let bytes = envelopes
                .iter()
                .map(|one| one.event.memory_bytes() as u64)
                .sum();
            self.put(envelopes.into(), bytes);
        }
    }

    fn put(&mut self, batch: Arc<[Envelope]>, bytes: u64) {
        let number = self.next_number;
        self.next_number += 1;
        self.shared.kept.accept(bytes);
        self.backlog.push_back(KeptBatch {
            batch,
            bytes,
            number,
        });
        self.backlog_bytes += bytes;
        self.broadcast_backlog();
    }

    fn broadcast_backlog(&mut self) {
        let Some(ring) = &mut self.ring else { return };
        let mut moved = false;
        while let Some(kept) = self.backlog.pop_front() {
            let bytes = kept.bytes;
            if let Err(kept) = ring.try_broadcast(kept) {
                self.backlog.push_front(kept);
                break;
            }
            self.backlog_bytes -= bytes;
            moved = true;
        }
        if moved {
            self.shared.kept.ring_bells();
        }
    }

    fn held(&mut self) -> Option<u64> {
        let held = self.shared.kept.held();
        if held.is_none() {
            self.forget();
        }
        held
    }

    fn forget_if_unread(&mut self) {
        self.held();
    }

    /// Nobody reads: nothing is on its way to anybody.
    fn forget(&mut self) {
        if self.ring.take().is_some() {
            self.backlog.clear();
            self.backlog_bytes = 0;
            self.gaps = LogGaps::default();
            self.dropping = false;
        }
    }

    fn text_max(&self) -> u64 {
        self.shared.kept.bytes_max - self.shared.kept.bytes_max / LIFE_PART
    }
}

impl Drop for KeptOut {
    /// Leaves the rest to the readers. A reader that is slow, or gone, holds nobody up.
    fn drop(&mut self) {
        let gaps = self.gaps.drain().collect();
        self.put_all(gaps);
        let backlog = std::mem::take(&mut self.backlog);
        self.shared.kept.end(End {
            backlog,
            _ring: self.ring.take(),
        });
    }
}
