//! The bounded queue from the thread that reads a kernel's sockets to the caller, with an exact count of
//! dropped outputs.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::wire::{Channel, Message};
use crate::error::Error;
use crate::thread::lock;

/// The most bytes in the queue. Further outputs are dropped and counted. Not reading the sockets instead
/// would make the kernel drop outputs without a count.
const WAITING_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The factor by which messages that must not be dropped may exceed this limit.
const HELD_TIMES_MAX: usize = 4;

/// Outputs that were dropped because the caller was too slow.
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

/// A report of the thread.
#[derive(Debug)]
pub(super) enum Incoming {
    Message(Message),
    /// Outputs were dropped at this place.
    Missed(MissedOutputs),
    /// All sockets are connected, for the first time or again.
    Connected,
    /// The kernel has closed its sockets. The thread tries to reconnect.
    Disconnected,
    /// False when the kernel stops answering its heartbeat, true when it answers again.
    Beating(bool),
    /// The kernel cannot be used until it is restarted.
    Gone(Error),
    /// The kernel was ended for a restart. Earlier reports belong to the old process.
    Restarting,
}

/// The queued reports.
#[derive(Debug)]
struct Waiting {
    reports: VecDeque<Incoming>,
    /// The total size of the queued messages.
    bytes: usize,
    bytes_max: usize,
    /// Outputs dropped since the last queued report.
    missed: MissedOutputs,
}

/// Creates the two ends of the queue.
pub(super) fn feed() -> (FeedSender, FeedReceiver) {
    feed_of(WAITING_BYTES_MAX)
}

fn feed_of(bytes_max: usize) -> (FeedSender, FeedReceiver) {
    let waiting = Arc::new(Mutex::new(Waiting {
        reports: VecDeque::new(),
        bytes: 0,
        bytes_max,
        missed: MissedOutputs::default(),
    }));
    let (ring, bell) = bounded(1);
    let sender = FeedSender {
        waiting: Arc::clone(&waiting),
        bell: ring,
    };
    (sender, FeedReceiver { waiting, bell })
}

/// The thread's end of the queue. It never blocks.
#[derive(Debug)]
pub(super) struct FeedSender {
    waiting: Arc<Mutex<Waiting>>,
    bell: Sender<()>,
}

impl FeedSender {
    /// Queues a message, or drops and counts it.
    ///
    /// # Errors
    /// If messages that must not be dropped exceed the limit.
    pub fn message(&mut self, message: Message) -> Result<(), Error> {
        let size = message.size();
        let mut waiting = lock(&self.waiting);
        if waiting.bytes > 0 && waiting.bytes + size > waiting.bytes_max {
            if is_output(&message) {
                waiting.missed.messages += 1;
                waiting.missed.bytes += size as u64;
                return Ok(());
            }
            if waiting.bytes + size > waiting.bytes_max.saturating_mul(HELD_TIMES_MAX) {
                return Err(Error::other(
                    "the kernel sends more messages than are read, and none that can be left out",
                ));
            }
        }
        waiting.bytes += size;
        self.push(waiting, Incoming::Message(message));
        Ok(())
    }

    pub fn report(&mut self, incoming: Incoming) {
        self.push(lock(&self.waiting), incoming);
    }

    fn push(&self, mut waiting: MutexGuard<'_, Waiting>, incoming: Incoming) {
        if !waiting.missed.is_empty() {
            let missed = std::mem::take(&mut waiting.missed);
            waiting.reports.push_back(Incoming::Missed(missed));
        }
        waiting.reports.push_back(incoming);
        drop(waiting);
        // A full channel already has a signal.
        let _ = self.bell.try_send(());
    }
}

/// Returns true if the message may be dropped: a cell can be followed to its end without it.
fn is_output(message: &Message) -> bool {
    message.channel == Channel::Iopub
        && !matches!(
            message.msg_type.as_str(),
            "status" | "execute_input" | "execute_result" | "error" | "shutdown_reply"
        )
}

/// The caller's end of the queue.
#[derive(Debug)]
pub(super) struct FeedReceiver {
    waiting: Arc<Mutex<Waiting>>,
    bell: Receiver<()>,
}

impl FeedReceiver {
    /// Removes and returns the next report.
    pub fn take(&self) -> Option<Incoming> {
        let mut waiting = lock(&self.waiting);
        let incoming = waiting.reports.pop_front();
        if let Some(Incoming::Message(message)) = &incoming {
            waiting.bytes -= message.size();
        }
        incoming
    }

    /// Returns true if a queued report makes an answer to a question pointless: the kernel is gone, or the
    /// code has ended. A silent kernel of our own is not treated as gone.
    pub fn ends_question(&self, is_own: bool) -> bool {
        lock(&self.waiting)
            .reports
            .iter()
            .any(|incoming| match incoming {
                Incoming::Gone(_) | Incoming::Disconnected | Incoming::Restarting => true,
                Incoming::Beating(is_beating) => !is_beating && !is_own,
                Incoming::Message(message) => message.msg_type == "execute_reply",
                Incoming::Missed(_) | Incoming::Connected => false,
            })
    }

    /// Returns the channel that gets a signal when [`FeedReceiver::take`] has more reports. The channel is
    /// disconnected when the thread has ended.
    pub fn bell(&self) -> &Receiver<()> {
        &self.bell
    }
}

#[cfg(test)]
#[path = "feed_tests.rs"]
mod tests;
