//! Accounts for the batches on their way to lossless lanes: the bytes sent and the bytes that each reader has
//! read.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::bus::doorbell::Doorbell;
use crate::event::Envelope;
use crate::thread::lock;

/// Memory for events that the slowest lossless lane has not read: minutes of output of a busy machine on a
/// slow disk.
pub(super) const LOSSLESS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A batch on its way, with its size and number.
#[derive(Clone, Debug)]
pub(super) struct NumberedBatch {
    pub(super) batch: Arc<[Envelope]>,
    pub(super) bytes: u64,
    /// Counts batches, so that a lane skips those that were sent before it was opened.
    pub(super) number: u64,
}

/// Bytes sent to and read from all lossless lanes, shared by the fan-out, the readers and the
/// emitters.
#[derive(Debug)]
pub(super) struct LosslessAccount {
    pub(super) bytes_max: u64,
    /// Bytes of all batches ever sent.
    pub(super) sent: AtomicU64,
    /// Bytes of `sent` that the slowest reader has taken; [`NO_READER`] without readers. Changed only under
    /// the lock of `readers`; emitters read it for every event that may wait.
    slowest: AtomicU64,
    readers: Mutex<Vec<Arc<LaneReader>>>,
    /// True while the fan-out holds batches back and must be woken when the ring is empty.
    pub(super) wants_wake: AtomicBool,
    /// Set once, when the fan-out ends.
    pub(super) remainder: Mutex<Option<Remainder>>,
}

/// A new lane's connection to the ring.
pub(super) struct LaneStart {
    pub(super) ring: bus::BusReader<NumberedBatch>,
    pub(super) reader: Arc<LaneReader>,
    /// The number of the first batch for the lane.
    pub(super) first: u64,
}

/// The value of `slowest` without readers.
const NO_READER: u64 = u64::MAX;

/// The shared state of one reader.
#[derive(Debug)]
pub(super) struct LaneReader {
    /// Bytes of `sent` that this reader has taken.
    pub(super) read: AtomicU64,
    pub(super) doorbell: Doorbell,
    /// True if the reader must return although its lane is empty.
    pub(super) is_interrupted: AtomicBool,
}

/// The batches that the fan-out had not delivered when it ended.
#[derive(Debug)]
pub(super) struct Remainder {
    pub(super) backlog: VecDeque<NumberedBatch>,
    /// Keeps the ring alive until readers have taken its last batches.
    pub(super) _ring: Option<bus::Bus<NumberedBatch>>,
}

impl LosslessAccount {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max: bytes_max as u64,
            sent: AtomicU64::new(0),
            slowest: AtomicU64::new(NO_READER),
            readers: Mutex::default(),
            wants_wake: AtomicBool::new(false),
            remainder: Mutex::default(),
        }
    }

    /// Returns the bytes that the slowest reader has not taken yet; `None` without readers.
    pub(super) fn pending(&self) -> Option<u64> {
        let slowest = self.slowest.load(Ordering::SeqCst);
        let pending = self.sent.load(Ordering::SeqCst).saturating_sub(slowest);
        (slowest != NO_READER).then_some(pending)
    }

    pub(super) fn has_room(&self) -> bool {
        self.pending()
            .is_none_or(|pending| pending <= self.bytes_max / 2)
    }

    /// Registers a new reader, which skips `backlog_bytes` of earlier batches.
    pub(super) fn add_reader(&self, backlog_bytes: u64) -> Arc<LaneReader> {
        let read = self.sent.load(Ordering::SeqCst);
        let reader = Arc::new(LaneReader {
            read: AtomicU64::new(read.saturating_sub(backlog_bytes)),
            doorbell: Doorbell::default(),
            is_interrupted: AtomicBool::new(false),
        });
        self.change(|readers| readers.push(Arc::clone(&reader)));
        reader
    }

    /// Changes the readers or their positions, and determines the slowest reader again.
    pub(super) fn change(&self, change: impl FnOnce(&mut Vec<Arc<LaneReader>>)) {
        let mut readers = lock(&self.readers);
        change(&mut readers);
        let readers = readers.iter();
        let read = readers.map(|reader| reader.read.load(Ordering::SeqCst));
        self.slowest
            .store(read.min().unwrap_or(NO_READER), Ordering::SeqCst);
    }

    /// Wakes sleeping readers.
    pub(super) fn ring_doorbells(&self) {
        for reader in lock(&self.readers).iter() {
            reader.doorbell.ring();
        }
    }

    /// Hands over the batches that the fan-out had not delivered when it ended.
    pub(super) fn end(&self, remainder: Remainder) {
        *lock(&self.remainder) = Some(remainder);
        self.ring_doorbells();
    }
}
