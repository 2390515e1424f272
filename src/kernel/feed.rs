//! The way from the thread that reads a kernel's sockets to the caller: bounded by bytes, with an exact
//! count of what a slow caller misses.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::wire::{Channel, Message};
use crate::error::Error;

/// The most bytes that wait for the caller. Beyond that, outputs are dropped and counted: a reader that
/// paused the sockets would make the kernel drop them uncounted.
const WAITING_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The multiple of that with messages that cannot be left out.
const HELD_TIMES_MAX: usize = 4;

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

/// A report of the thread.
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
    /// The kernel cannot be used any more, unless it is restarted.
    Gone(Error),
    /// The kernel was ended, to be started again. What precedes this is of the old one.
    Restarting,
}

/// The reports that wait for the caller.
#[derive(Debug)]
struct Waiting {
    reports: VecDeque<Incoming>,
    /// The size of all messages.
    bytes: usize,
    bytes_max: usize,
    /// Dropped since the last message that was passed on.
    missed: MissedOutputs,
}

impl Waiting {
    fn add_missed(&mut self) {
        if !self.missed.is_empty() {
            let missed = std::mem::take(&mut self.missed);
            self.reports.push_back(Incoming::Missed(missed));
        }
    }
}

/// Creates the two ends.
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

/// The thread's end, which never waits.
#[derive(Debug)]
pub(super) struct FeedSender {
    waiting: Arc<Mutex<Waiting>>,
    bell: Sender<()>,
}

impl FeedSender {
    /// Passes on a message, or counts it.
    ///
    /// # Errors
    /// If messages that cannot be left out fill the memory.
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

    /// Passes on a report.
    pub fn report(&mut self, incoming: Incoming) {
        self.push(lock(&self.waiting), incoming);
    }

    fn push(&self, mut waiting: MutexGuard<'_, Waiting>, incoming: Incoming) {
        waiting.add_missed();
        waiting.reports.push_back(incoming);
        drop(waiting);
        // A bell that rings already is enough.
        let _ = self.bell.try_send(());
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
    waiting: Arc<Mutex<Waiting>>,
    bell: Receiver<()>,
}

impl FeedReceiver {
    /// Returns the next report that waits.
    pub fn take(&self) -> Option<Incoming> {
        let mut waiting = lock(&self.waiting);
        let incoming = waiting.reports.pop_front();
        if let Some(Incoming::Message(message)) = &incoming {
            waiting.bytes -= message.size();
        }
        incoming
    }

    /// Returns true if a report waits after which a question has no answer: the kernel has gone, or the code has
    /// ended meanwhile. A kernel of our own that is silent is waited for.
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

    /// Returns the channel that receives a message when [`FeedReceiver::take`] has more. It is disconnected
    /// when the thread has ended.
    pub fn bell(&self) -> &Receiver<()> {
        &self.bell
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    // The reports are whole whatever happened to the other thread.
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "feed_tests.rs"]
mod tests;
