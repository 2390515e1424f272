//! A queue of bytes to a thread that writes them. Bytes that arrive while it writes, or shortly after, are
//! written together: a wake-up for each piece would take more time than the bytes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::thread::{Waker, lock, park};

/// The size from which the queue has no room. The next read of a command's pipe may still add 1 MiB.
const FULL_BYTES: usize = 1024 * 1024;

/// The time in which bytes gather after each write. Bytes after a longer pause are written at once.
const GATHER_TIME: Duration = Duration::from_millis(1);

/// The size from which bytes are written without a pause: the capacity of a pipe.
const GATHER_BYTES: usize = 64 * 1024;

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    /// True once the sender is dropped.
    is_closed: bool,
    /// True once the receiver is dropped: nothing is kept.
    is_unread: bool,
    /// The receiver's thread, while it is parked.
    parked: Option<Waker>,
    /// True while the receiver is parked although it may have bytes.
    is_gathering: bool,
}

/// The side that adds bytes. It never blocks.
#[derive(Debug)]
pub(super) struct ByteSender(Arc<Mutex<State>>);

/// The side of the writing thread.
#[derive(Debug)]
pub(super) struct ByteReceiver(Arc<Mutex<State>>);

/// Creates a queue.
pub(super) fn byte_queue() -> (ByteSender, ByteReceiver) {
    let state = Arc::default();
    (ByteSender(Arc::clone(&state)), ByteReceiver(state))
}

impl ByteSender {
    /// Adds bytes.
    pub fn push(&self, bytes: &[u8]) {
        self.change(|state| {
            if !state.is_unread {
                state.bytes.extend_from_slice(bytes);
            }
            !state.is_gathering || state.bytes.len() >= GATHER_BYTES
        });
    }

    /// Ends the receiver's pause, so that it takes the bytes before others do elsewhere.
    pub fn hurry(&self) {
        self.change(|state| !state.bytes.is_empty());
    }

    /// Returns true while the queue has room.
    pub fn has_room(&self) -> bool {
        lock(&self.0).bytes.len() < FULL_BYTES
    }

    /// Changes the state, and wakes the receiver if it is parked and `change` returns true.
    fn change(&self, change: impl FnOnce(&mut State) -> bool) {
        let mut state = lock(&self.0);
        let parked = match change(&mut state) {
            true => state.parked.take(),
            false => None,
        };
        // The lock is released before the receiver wakes.
        drop(state);
        if let Some(parked) = parked {
            parked.wake();
        }
    }
}

impl Drop for ByteSender {
    fn drop(&mut self) {
        self.change(|state| {
            state.is_closed = true;
            true
        });
    }
}

impl ByteReceiver {
    /// Waits for bytes and replaces the content of `to` by them. Returns false when there are none and the sender
    /// is dropped.
    pub fn take(&self, to: &mut Vec<u8>) -> bool {
        to.clear();
        loop {
            let mut state = lock(&self.0);
            if !state.bytes.is_empty() {
                std::mem::swap(&mut state.bytes, to);
                return true;
            }
            if state.is_closed {
                return false;
            }
            state.parked = Some(Waker::current());
            drop(state);
            park(None);
        }
    }

    /// Waits until bytes have gathered, at most for [`GATHER_TIME`].
    pub fn gather(&self) {
        let mut state = lock(&self.0);
        if state.is_closed || state.bytes.len() >= GATHER_BYTES {
            return;
        }
        state.parked = Some(Waker::current());
        state.is_gathering = true;
        drop(state);
        park(Some(GATHER_TIME));
        let mut state = lock(&self.0);
        (state.parked, state.is_gathering) = (None, false);
    }
}

impl Drop for ByteReceiver {
    fn drop(&mut self) {
        let mut state = lock(&self.0);
        state.is_unread = true;
        state.bytes = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn all_bytes_arrive_in_order() {
        let (sender, receiver) = byte_queue();
        let reader = thread::spawn(move || {
            let (mut all, mut buffer) = (Vec::new(), Vec::new());
            while receiver.take(&mut buffer) {
                all.extend_from_slice(&buffer);
                receiver.gather();
            }
            all
        });
        let mut sent = Vec::new();
        for number in 0..200_000_u32 {
            let bytes = number.to_le_bytes();
            sent.extend_from_slice(&bytes);
            sender.push(&bytes);
            if number % 1000 == 0 {
                sender.hurry();
            }
        }
        drop(sender);
        assert_eq!(reader.join().unwrap(), sent);
    }

    #[test]
    fn a_full_queue_has_no_room_until_it_is_read() {
        let (sender, receiver) = byte_queue();
        assert!(sender.has_room());
        sender.push(&vec![b'x'; FULL_BYTES]);
        assert!(!sender.has_room());
        let mut buffer = vec![b'y'];
        assert!(receiver.take(&mut buffer));
        assert_eq!(buffer.len(), FULL_BYTES);
        assert!(sender.has_room());
    }

    #[test]
    fn bytes_for_a_receiver_that_has_gone_take_no_memory() {
        let (sender, receiver) = byte_queue();
        sender.push(b"before");
        drop(receiver);
        sender.push(&vec![b'x'; 2 * FULL_BYTES]);
        assert!(sender.has_room());
        assert_eq!(lock(&sender.0).bytes.capacity(), 0);
    }
}
