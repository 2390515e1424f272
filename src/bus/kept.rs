//! A kept lane: misses nothing that there is memory for, and says exactly what is missing (reader).
//!
//! The fan-out puts batches into the ring of the crate `bus` and rings the lane's bell; the reader
//! takes them and sleeps until the bell rings. (The ring's own blocking reads look every 100 µs,
//! and would cost 5 % of a core for nothing.) What the ring has no room for waits in the fan-out's
//! backlog; a reader that finds the ring empty asks for it. When the bus closes, the backlog is
//! left behind here, so that the fan-out ends whatever the reader does.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::bus::bell::Bell;
use crate::bus::inbox::Shared;
use crate::event::Envelope;
use crate::thread::park;

/// Memory of all that is on its way to the slowest kept lane: minutes of the output of a busy
/// machine, while a disk catches its breath.
pub(super) const KEPT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A batch on its way, and what the account needs.
#[derive(Clone, Debug)]
pub(super) struct KeptBatch {
    pub(super) batch: Arc<[Envelope]>,
    pub(super) bytes: u64,
    /// Batches are numbered, so that a lane that joins later passes over what is not for it.
    pub(super) number: u64,
}

/// What the fan-out, the readers and the emitters know of all kept lanes.
#[derive(Debug)]
pub(super) struct KeptShared {
    pub(super) bytes_max: u64,
    /// All bytes that were ever put on the way.
    accepted: AtomicU64,
    /// How much of it the slowest reader has taken; [`NOBODY`] without readers. Changed under the
    /// lock of `seats` only, and here for emitters, who ask with every event that may wait.
    slowest: AtomicU64,
    seats: Mutex<Vec<Arc<Seat>>>,
    /// The fan-out holds something back and wants a `Look` when a reader has emptied the ring.
    wants_look: AtomicBool,
    /// Set once, when the fan-out ends.
    end: Mutex<Option<End>>,
}

/// The place of the slowest reader when there is none.
const NOBODY: u64 = u64::MAX;

/// One reader, as the others see it.
#[derive(Debug)]
pub(super) struct Seat {
    /// How much of `accepted` it has taken.
    read: AtomicU64,
    bell: Bell,
    /// The reader is to come back though nothing is there for it.
    nudged: AtomicBool,
}

/// What the fan-out leaves behind.
#[derive(Debug)]
pub(super) struct End {
    pub(super) backlog: VecDeque<KeptBatch>,
    /// Kept, so that what is still in it can be read.
    pub(super) _ring: Option<bus::Bus<KeptBatch>>,
}

impl KeptShared {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max: bytes_max as u64,
            accepted: AtomicU64::new(0),
            slowest: AtomicU64::new(NOBODY),
            seats: Mutex::default(),
            wants_look: AtomicBool::new(false),
            end: Mutex::default(),
        }
    }

    /// How many bytes the slowest reader has before it; `None` without readers.
    pub(super) fn held(&self) -> Option<u64> {
        let slowest = self.slowest.load(Ordering::SeqCst);
        let held = self.accepted.load(Ordering::SeqCst).saturating_sub(slowest);
        (slowest != NOBODY).then_some(held)
    }

    pub(super) fn has_room(&self) -> bool {
        self.held().is_none_or(|held| held <= self.bytes_max / 2)
    }

    pub(super) fn accept(&self, bytes: u64) {
        self.accepted.fetch_add(bytes, Ordering::SeqCst);
    }

    /// A seat for a new reader, who has `waiting` bytes of the backlog before it.
    pub(super) fn sit_down(&self, waiting: u64) -> Arc<Seat> {
        let read = self.accepted.load(Ordering::SeqCst).saturating_sub(waiting);
        let seat = Arc::new(Seat {
            read: AtomicU64::new(read),
            bell: Bell::default(),
            nudged: AtomicBool::new(false),
        });
        let mut seats = self.seats();
        seats.push(Arc::clone(&seat));
        self.find_slowest(&seats);
        seat
    }

    fn stand_up(&self, seat: &Arc<Seat>) {
        let mut seats = self.seats();
        seats.retain(|other| !Arc::ptr_eq(other, seat));
        self.find_slowest(&seats);
    }

    /// A reader has taken so many bytes.
    fn took(&self, seat: &Seat, bytes: u64) {
        let seats = self.seats();
        seat.read.fetch_add(bytes, Ordering::SeqCst);
        self.find_slowest(&seats);
    }

    fn find_slowest(&self, seats: &[Arc<Seat>]) {
        let read = seats.iter().map(|seat| seat.read.load(Ordering::SeqCst));
        self.slowest
            .store(read.min().unwrap_or(NOBODY), Ordering::SeqCst);
    }

    /// Wakes the readers that sleep.
    pub(super) fn ring_bells(&self) {
        for seat in self.seats().iter() {
            seat.bell.ring();
        }
    }

    /// Asks for a `Look` when the ring has been emptied.
    pub(super) fn want_look(&self, wanted: bool) {
        self.wants_look.store(wanted, Ordering::SeqCst);
    }

    /// The fan-out ends.
    pub(super) fn end(&self, end: End) {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
        self.ring_bells();
    }

    fn seats(&self) -> MutexGuard<'_, Vec<Arc<Seat>>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What comes next on a kept lane.
#[derive(Clone, Debug)]
pub enum Kept {
    /// The next envelopes, in order.
    Batch(Arc<[Envelope]>),
    /// Nothing came until the deadline, or somebody wants the reader to look elsewhere.
    Idle,
    /// The bus is closed and all has been read.
    Closed,
}

/// Makes a lane's reader come back with [`Kept::Idle`]: there is something for it elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Nudge(Arc<Seat>);

impl Nudge {
    /// Call it after putting something there.
    pub(crate) fn nudge(&self) {
        self.0.nudged.store(true, Ordering::SeqCst);
        self.0.bell.ring();
    }
}

/// A way out of the bus that drops nothing while there is memory (64 MiB), and whose numbers have
/// no holes: what had to be dropped stands in its place as a
/// [`LogGap`](crate::TdEvent::LogGap). The log reads one; see
/// [`EventBus::keep`](crate::EventBus::keep).
pub struct KeptLane {
    reader: bus::BusReader<KeptBatch>,
    seat: Arc<Seat>,
    shared: Arc<Shared>,
    /// The first batch that is for this lane.
    first: u64,
    /// What the fan-out left behind at its end.
    left_behind: Option<VecDeque<KeptBatch>>,
}

impl KeptLane {
    pub(super) fn new(
        reader: bus::BusReader<KeptBatch>,
        seat: Arc<Seat>,
        shared: Arc<Shared>,
        first: u64,
    ) -> Self {
        Self {
            reader,
            seat,
            shared,
            first,
            left_behind: None,
        }
    }

    /// A handle to call the reader back with.
    pub(crate) fn nudger(&self) -> Nudge {
        Nudge(Arc::clone(&self.seat))
    }

    /// Waits for what comes next, for ever without a deadline. Everything that was accepted is
    /// delivered before [`Kept::Closed`].
    pub fn next(&mut self, deadline: Option<Instant>) -> Kept {
        let mut armed = false;
        loop {
            // Looked at before the ring: after the end nothing more is put into it.
            let ended = self.has_ended();
            if let Ok(kept) = self.reader.try_recv() {
                match self.taken(kept) {
                    Some(batch) => return Kept::Batch(batch),
                    None => continue,
                }
            }
            if ended {
                let next = self.left_behind.as_mut().and_then(VecDeque::pop_front);
                match next {
                    Some(kept) => match self.taken(kept) {
                        Some(batch) => return Kept::Batch(batch),
                        None => continue,
                    },
                    None => return Kept::Closed,
                }
            }
            if self.seat.nudged.swap(false, Ordering::SeqCst) {
                return Kept::Idle;
            }
            if self.shared.kept.wants_look.swap(false, Ordering::SeqCst) {
                self.shared.look();
            }
            if !armed {
                self.seat.bell.arm();
                armed = true;
                continue;
            }
            let left = deadline
                .map(|deadline| deadline.saturating_duration_since(self.shared.clock.now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Kept::Idle;
            }
            park(left);
            armed = false;
        }
    }

    /// Whether all that is on its way to the kept lanes has been taken by this one.
    pub(crate) fn is_caught_up(&self) -> bool {
        let accepted = self.shared.kept.accepted.load(Ordering::SeqCst);
        self.seat.read.load(Ordering::SeqCst) >= accepted
    }

    fn has_ended(&mut self) -> bool {
        if self.left_behind.is_none() {
            let end = self
                .shared
                .kept
                .end
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            self.left_behind = end.as_ref().map(|end| end.backlog.clone());
        }
        self.left_behind.is_some()
    }

    /// Keeps the account; `None` when the batch was sent before this lane was there.
    fn taken(&mut self, kept: KeptBatch) -> Option<Arc<[Envelope]>> {
        self.shared.kept.took(&self.seat, kept.bytes);
        self.shared.made_room();
        (kept.number >= self.first).then_some(kept.batch)
    }
}

impl Drop for KeptLane {
    fn drop(&mut self) {
        self.shared.kept.stand_up(&self.seat);
        self.shared.made_room();
        // The fan-out may hold something back for nobody.
        self.shared.look();
    }
}

impl fmt::Debug for KeptLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptLane")
            .field("first", &self.first)
            .finish_non_exhaustive()
    }
}
