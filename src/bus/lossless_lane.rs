//! The reader's side of a lossless lane: it misses nothing that fits in memory, and numbers what is missing.
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

use crate::bus::error::RecvTimeoutError;
use crate::bus::inbox::Inbox;
use crate::bus::lossless_account::{LaneReader, LaneStart, NumberedBatch};
use crate::event::Envelope;
use crate::thread::park;

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
/// Numbers on it are contiguous: a [`LogGap`](crate::TdEvent::LogGap) stands in place of events
/// that had to be dropped. The log reads one; see
/// [`EventBus::subscribe_lossless`](crate::EventBus::subscribe_lossless).
pub struct LosslessLane {
    start: LaneStart,
    inbox: Arc<Inbox>,
    /// The fan-out's backlog, once it has ended.
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

    fn reader(&self) -> &Arc<LaneReader> {
        &self.start.reader
    }

    /// Returns a handle that interrupts the reader.
    pub(crate) fn interrupt(&self) -> LaneInterrupt {
        LaneInterrupt(Arc::clone(self.reader()))
    }

    /// Waits for the next batch of envelopes, in order; without a deadline, for any time.
    ///
    /// # Errors
    /// [`RecvTimeoutError::Timeout`] when no batch arrived until the deadline, and
    /// [`RecvTimeoutError::Closed`] when the bus is closed and all accepted events have been read.
    pub fn recv_deadline(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<Arc<[Envelope]>, RecvTimeoutError> {
        let mut is_armed = false;
        loop {
            // Checked before the ring: the fan-out adds nothing after its end.
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
            if self.reader().is_interrupted.swap(false, Ordering::SeqCst) {
                return Err(RecvTimeoutError::Timeout);
            }
            if self.inbox.lossless.wants_wake.swap(false, Ordering::SeqCst) {
                self.inbox.wake_fanout();
            }
            if !is_armed {
                self.reader().doorbell.arm();
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

    /// Returns true if this lane's reader has taken all batches sent to lossless lanes.
    pub(crate) fn is_caught_up(&self) -> bool {
        let sent = self.inbox.lossless.sent.load(Ordering::SeqCst);
        self.reader().read.load(Ordering::SeqCst) >= sent
    }

    fn has_ended(&mut self) -> bool {
        if self.remainder.is_none() {
            let remainder = self.inbox.lossless.remainder();
            self.remainder = remainder.as_ref().map(|rest| rest.backlog.clone());
        }
        self.remainder.is_some()
    }

    /// Counts a batch as read; returns `None` for one that was sent before this lane was opened.
    fn account(&mut self, next: NumberedBatch) -> Option<Arc<[Envelope]>> {
        self.inbox.lossless.change(|_| {
            self.reader().read.fetch_add(next.bytes, Ordering::SeqCst);
        });
        self.inbox.made_room();
        (next.number >= self.start.first).then_some(next.batch)
    }
}

impl Drop for LosslessLane {
    fn drop(&mut self) {
        (self.inbox.lossless).change(|readers| {
            readers.retain(|other| !Arc::ptr_eq(other, self.reader()));
        });
        self.inbox.made_room();
        // The fan-out may hold batches back that no reader waits for any more.
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
