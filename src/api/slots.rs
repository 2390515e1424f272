//! A limit for long responses, so that streams and waits leave connections for short requests (pure).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most simultaneous long responses: three quarters of all connections.
const SLOTS_MAX: usize = 48;

/// Counts long responses. Clones share the counter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots(Arc<AtomicUsize>);

/// The right to one long response. Dropping it frees the slot.
#[derive(Debug)]
pub(super) struct Slot(Arc<AtomicUsize>);

impl Slots {
    /// Takes a slot; `None` if all are taken.
    pub(super) fn take(&self) -> Option<Slot> {
        let slot = Slot(Arc::clone(&self.0));
        let taken = self.0.fetch_add(1, Ordering::Relaxed);
        (taken < SLOTS_MAX).then_some(slot)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_is_dropped_is_free_again() {
        let slots = Slots::default();
        let mut taken: Vec<Slot> = std::iter::from_fn(|| slots.clone().take()).collect();
        assert_eq!(taken.len(), SLOTS_MAX);
        assert!(slots.take().is_none());
        taken.pop();
        assert!(slots.take().is_some());
    }
}
