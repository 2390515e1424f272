//! The door that emitters go through: once it is closed, nobody is inside any more.
//!
//! Why: an event that was answered `Accepted` must be delivered. A flag alone cannot promise it,
//! since an emitter may stand between looking at the flag and sending. So each emitter is counted
//! in and out, and who closes waits until all are out; an emitter never waits inside.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::thread;

/// Counters, so that emitters on different cores seldom share one: more than the cores of most
/// machines that this runs on would only make closing slower.
const COUNTERS: usize = 16;

/// How long the closing thread sleeps between two looks. Emitters are inside for well under a
/// microsecond, unless the system takes the processor away from one of them.
const LOOK_AGAIN: Duration = Duration::from_micros(50);

#[derive(Debug, Default)]
pub(super) struct Gate {
    closed: AtomicBool,
    inside: [Counter; COUNTERS],
    next: AtomicUsize,
}

/// A counter with a cache line (and its prefetched neighbour) for itself.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counter(AtomicUsize);

/// Which counter an emitter uses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Side(usize);

/// Being inside; dropped, one is out.
pub(super) struct Pass<'a>(&'a Counter);

impl Gate {
    /// A side for a new emitter.
    pub(super) fn side(&self) -> Side {
        Side(self.next.fetch_add(1, Ordering::Relaxed) % COUNTERS)
    }

    /// Goes in, unless the gate is closed.
    pub(super) fn enter(&self, side: Side) -> Option<Pass<'_>> {
        let counter = &self.inside[side.0 % COUNTERS];
        // Counted first, looked second; `close` shuts first and looks at the counters second. In
        // the one order of all SeqCst operations, at least one of the two sees the other.
        counter.0.fetch_add(1, Ordering::SeqCst);
        let pass = Pass(counter);
        (!self.closed.load(Ordering::SeqCst)).then_some(pass)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Closes and waits until nobody is inside.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        while self
            .inside
            .iter()
            .any(|counter| counter.0.load(Ordering::SeqCst) != 0)
        {
            thread::park(Some(LOOK_AGAIN));
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        // What was done inside is seen by whoever sees the counter at 0.
        self.0.0.fetch_sub(1, Ordering::Release);
    }
}
