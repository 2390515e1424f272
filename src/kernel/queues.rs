//! The queues of the thread `td-kernel`: orders to it, and the bounded feed of its reports, with an exact count
//! of dropped outputs.

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard};

use crossbeam_channel::{Receiver, Sender, bounded};
use rustix::process::Signal;

use super::protocol::{Channel, Message};
use crate::error::{Error, Result};
use crate::thread::lock;

/// The capacity of the queue. The thread takes orders between two reads of its sockets and never waits for a
/// sender.
const WAITING_MAX: usize = 64;

#[derive(Debug)]
pub(super) enum Order {
    Send(Channel, Vec<Vec<u8>>),
    /// Sends a signal to the kernel's process group.
    Signal(Signal),
    /// Restarts the kernel that this program started. The request `shutdown` is sent first.
    Restart {
        shutdown: Vec<Vec<u8>>,
    },
    /// Ends the kernel that this program started, and closes the sockets.
    Close {
        shutdown: Vec<Vec<u8>>,
    },
}

/// The sending end of the queue.
#[derive(Clone, Debug)]
pub(super) struct Orders {
    sender: Sender<Order>,
    waker: Arc<UnixStream>,
}

impl Orders {
    pub fn send(&self, order: Order) {
        // A failure means that the thread has ended; its last report is in the feed.
        if self.sender.send(order).is_ok() {
            // A full socket already wakes the thread.
            let _ = rustix::io::write(&*self.waker, &[0]);
        }
    }
}

/// Creates the two ends of the queue. That of the thread has a socket that becomes readable when an order arrives.
pub(super) fn orders() -> Result<(Orders, (Receiver<Order>, UnixStream))> {
    let (sender, orders) = bounded(WAITING_MAX);
    let pair = || {
        let (waker, woken) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        Ok((Arc::new(waker), woken))
    };
    let (waker, woken) = pair().map_err(|cause: std::io::Error| {
        Error::other("cannot open a pair of sockets").because(cause)
    })?;
    Ok((Orders { sender, waker }, (orders, woken)))
}

/// The most bytes in the queue. Further outputs are dropped and counted. Not reading the sockets instead
/// would make the kernel drop outputs without a count.
pub(super) const WAITING_BYTES_MAX: usize = 64 * 1024 * 1024;

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
pub(super) fn feed(bytes_max: usize) -> (FeedSender, FeedReceiver) {
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
            // The factor by which messages that must not be dropped may exceed this limit.
            if waiting.bytes + size > waiting.bytes_max.saturating_mul(4) {
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
    /// Gets a signal when [`FeedReceiver::take`] has more reports; disconnected when the thread has ended.
    pub bell: Receiver<()>,
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::protocol::samples::{message, printed, status};
    use proptest::prelude::*;
    use serde_json::json;

    #[derive(Clone, Debug)]
    enum Step {
        /// Text of this size.
        Print(usize),
        Status,
        Report,
        Take,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0_usize..3_000).prop_map(Step::Print),
            1 => Just(Step::Status),
            1 => Just(Step::Report),
            2 => Just(Step::Take),
        ];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        /// Every message is passed on or counted as missed, in order, and memory is bounded.
        #[test]
        fn passed_on_plus_missed_is_sent(steps in steps(), bytes_max in 1_usize..20_000) {
            let (mut sender, receiver) = feed(bytes_max);
            let (mut sent, mut sent_bytes, mut reports) = (0_u64, 0_u64, 0);
            let (mut passed, mut passed_bytes, mut taken_reports) = (0_u64, 0_u64, 0);
            let mut missed = MissedOutputs::default();
            // The number of the next message. A report of missed messages precedes the message that follows them.
            let mut next = 0;
            let mut take = |incoming| match incoming {
                Incoming::Message(message) => {
                    if message.msg_type == "stream" {
                        let text: serde_json::Value = message.content().unwrap();
                        let text = text["text"].as_str().unwrap();
                        let number: u64 = text.split(' ').next().unwrap().parse().unwrap();
                        assert_eq!(number, next, "in order, with each gap before what follows");
                        next += 1;
                        passed += 1;
                        passed_bytes += message.size() as u64;
                    }
                }
                Incoming::Missed(more) => {
                    assert!(!more.is_empty());
                    next += more.messages;
                    missed.add(more);
                }
                _ => taken_reports += 1,
            };
            for step in steps {
                match step {
                    Step::Print(size) => {
                        let message = printed("1", &format!("{sent} {}", "x".repeat(size)));
                        sent += 1;
                        sent_bytes += message.size() as u64;
                        sender.message(message).unwrap();
                    }
                    Step::Status => {
                        if sender.message(status("1", "busy")).is_err() {
                            // This message has about 300 bytes.
                            prop_assert!(lock(&sender.waiting).bytes + 400 > 4 * bytes_max);
                        }
                    }
                    Step::Report => {
                        reports += 1;
                        sender.report(Incoming::Beating(true));
                    }
                    Step::Take => {
                        if let Some(incoming) = receiver.take() {
                            take(incoming);
                        }
                    }
                }
                prop_assert!(lock(&sender.waiting).bytes <= (4 * bytes_max).max(4_000));
            }
            sender.report(Incoming::Connected);
            while let Some(incoming) = receiver.take() {
                take(incoming);
            }
            prop_assert_eq!(passed + missed.messages, sent);
            prop_assert_eq!(passed_bytes + missed.bytes, sent_bytes);
            prop_assert_eq!(taken_reports, reports + 1);
            prop_assert_eq!(lock(&sender.waiting).bytes, 0);
        }
    }

    #[test]
    fn the_messages_that_end_a_cell_are_never_dropped() {
        let (mut sender, receiver) = feed(1_000);
        sender.message(printed("1", &"x".repeat(2_000))).unwrap();
        let shell = message(Channel::Shell, "execute_reply", "1", json!({}));
        for (message, is_kept) in [
            (status("1", "idle"), true),
            (message(Channel::Iopub, "error", "1", json!({})), true),
            (
                message(Channel::Iopub, "execute_result", "1", json!({})),
                true,
            ),
            (
                message(Channel::Iopub, "display_data", "1", json!({})),
                false,
            ),
            (shell, true),
        ] {
            let name = message.msg_type.clone();
            sender.message(message).unwrap();
            let last = lock(&receiver.waiting).missed.messages;
            assert_eq!(last, u64::from(!is_kept), "{name}");
        }
        // An unlimited number of them is an error.
        let error = (0..100).find_map(|_| sender.message(status("1", "busy")).err());
        assert!(
            error
                .unwrap()
                .to_string()
                .contains("more messages than are read")
        );
    }

    #[test]
    fn the_bell_rings_for_reports_and_for_the_end() {
        let (mut sender, receiver) = feed(WAITING_BYTES_MAX);
        assert!(receiver.bell.try_recv().is_err());
        for _ in 0..3 {
            sender.report(Incoming::Connected);
        }
        assert_eq!(receiver.bell.try_recv(), Ok(()));
        drop(sender);
        assert_eq!(std::iter::from_fn(|| receiver.take()).count(), 3);
        assert!(receiver.bell.recv().is_err());
    }
}
