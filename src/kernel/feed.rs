//! The way from the thread that reads a kernel's sockets to the caller: bounded by bytes, with an exact
//! count of what a slow caller misses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::wire::{Channel, Message};
use crate::error::Error;

/// The most bytes that wait for the caller. Beyond that, outputs are dropped and counted: a reader that
/// paused the sockets would make the kernel drop them uncounted.
const WAITING_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The most bytes, with messages that cannot be left out.
const HELD_BYTES_MAX: usize = 4 * WAITING_BYTES_MAX;

/// Outputs that the caller was too slow for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissedOutputs {
    /// The number of messages.
    pub messages: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

impl MissedOutputs {
    /// Returns true if nothing was missed.
    pub fn is_empty(self) -> bool {
        self.messages == 0
    }

    pub(super) fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.bytes += other.bytes;
    }
}

/// What the thread reports.
#[derive(Debug)]
pub(super) enum Incoming {
    Message(Message),
    /// Outputs were dropped here.
    Missed(MissedOutputs),
    /// All sockets are connected, at the beginning and after a restart.
    Connected,
    /// The kernel has closed its sockets; the thread tries to connect again.
    Disconnected,
    /// The kernel has not answered its heartbeat, or answers again.
    Beating(bool),
    /// The kernel cannot be used any more. Nothing follows.
    Gone(Error),
}

/// Creates the two ends.
pub(super) fn feed() -> (FeedSender, FeedReceiver) {
    let (sender, receiver) = unbounded();
    let waiting = Arc::new(AtomicUsize::new(0));
    let sender = FeedSender {
        sender,
        waiting: Arc::clone(&waiting),
        missed: MissedOutputs::default(),
    };
    (sender, FeedReceiver { receiver, waiting })
}

/// The thread's end.
#[derive(Debug)]
pub(super) struct FeedSender {
    sender: Sender<Incoming>,
    waiting: Arc<AtomicUsize>,
    /// Dropped since the last message that was passed on.
    missed: MissedOutputs,
}

impl FeedSender {
    /// Passes on a message, or counts it.
    ///
    /// # Errors
    /// If messages that cannot be left out fill the memory.
    pub fn message(&mut self, message: Message) -> Result<(), Error> {
        let size = message.size();
        let waiting = self.waiting.load(Ordering::Acquire);
        if waiting > 0 && waiting + size > WAITING_BYTES_MAX {
            if is_output(&message) {
                self.missed.messages += 1;
                self.missed.bytes += size as u64;
                return Ok(());
            }
            if waiting + size > HELD_BYTES_MAX {
                return Err(Error::other(
                    "the kernel sends more messages than are read, and none that can be left out",
                ));
            }
        }
        self.report_missed();
        self.waiting.fetch_add(size, Ordering::AcqRel);
        let _ = self.sender.send(Incoming::Message(message));
        Ok(())
    }

    /// Passes on a report.
    pub fn report(&mut self, incoming: Incoming) {
        self.report_missed();
        // The caller has gone: the thread ends soon.
        let _ = self.sender.send(incoming);
    }

    fn report_missed(&mut self) {
        if !self.missed.is_empty() {
            let missed = std::mem::take(&mut self.missed);
            let _ = self.sender.send(Incoming::Missed(missed));
        }
    }
}

/// Returns true if a cell can be followed to its end without the message.
fn is_output(message: &Message) -> bool {
    message.channel == Channel::Iopub
        && !matches!(
            message.msg_type.as_str(),
            "status" | "execute_input" | "execute_result" | "error" | "shutdown_reply"
        )
}

/// The caller's end.
#[derive(Debug)]
pub(super) struct FeedReceiver {
    receiver: Receiver<Incoming>,
    waiting: Arc<AtomicUsize>,
}

impl FeedReceiver {
    /// Returns the channel, for a selection among several. What is received from it is passed to
    /// [`FeedReceiver::taken`].
    pub fn channel(&self) -> &Receiver<Incoming> {
        &self.receiver
    }

    /// Counts what was received.
    pub fn taken(&self, incoming: &Incoming) {
        if let Incoming::Message(message) = incoming {
            self.waiting.fetch_sub(message.size(), Ordering::AcqRel);
        }
    }
}
