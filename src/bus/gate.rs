//! The gate that every emit passes; once it is closed, no emit is in progress.
//!
//! An event whose emit returned `Accepted` must be delivered. A flag alone cannot guarantee this, because an
//! emitter may be between reading the flag and sending. The gate therefore counts emits in progress, and
//! closing waits until the count is 0. An emit never blocks inside the gate.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::thread;

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
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GateSlot(usize);

/// RAII guard for an emit in progress.
pub(super) struct GateGuard<'a>(&'a GateCounter);

impl Gate {
    /// Assigns a slot to a new emitter.
    pub(super) fn assign_slot(&self) -> GateSlot {
        GateSlot(self.next_slot.fetch_add(1, Ordering::Relaxed) % COUNTERS)
    }

    /// Enters the gate; `None` when it is closed.
    pub(super) fn enter(&self, slot: GateSlot) -> Option<GateGuard<'_>> {
        let counter = &self.inside[slot.0 % COUNTERS];
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
