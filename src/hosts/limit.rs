//! Limits how many do something at once.

use crossbeam_channel::{Receiver, Sender, bounded, select_biased};

use crate::thread::Stop;

/// A number of slots.
#[derive(Debug)]
pub(super) struct Limit {
    /// A message for each free slot.
    free: Receiver<()>,
    freed: Sender<()>,
}

/// A taken slot. Dropping it frees it.
#[derive(Debug)]
pub(super) struct Slot<'a>(&'a Limit);

impl Limit {
    pub fn of(slots: usize) -> Self {
        let (freed, free) = bounded(slots);
        let limit = Self { free, freed };
        (0..slots).for_each(|_| drop(Slot(&limit)));
        limit
    }

    /// Takes a slot, once there is one; `None` after a stop.
    pub fn take(&self, stop: &Stop) -> Option<Slot<'_>> {
        select_biased! {
            recv(stop) -> _ => None,
            recv(self.free) -> slot => slot.is_ok().then_some(Slot(self)),
        }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        // There is room for all slots, and the limit has both ends.
        let _ = self.0.freed.try_send(());
    }
}
