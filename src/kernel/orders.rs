//! The queue of orders to the thread `td-kernel`, from any thread.

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use rustix::process::Signal;

use super::wire::Channel;
use crate::error::{Error, Result};

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

/// The thread's end: the orders, and the socket that becomes readable when an order arrives.
pub(super) type OrderReceiver = (Receiver<Order>, UnixStream);

/// Creates the two ends of the queue.
pub(super) fn orders() -> Result<(Orders, OrderReceiver)> {
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
