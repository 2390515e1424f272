//! Requests to the thread `td-kernel`, from any thread.

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use rustix::process::Signal;

use super::wire::Channel;
use crate::error::{Error, Result};

/// The most requests that wait. The thread takes them between two reads of its sockets, and never waits for
/// the sender of one.
const WAITING_MAX: usize = 64;

/// A request to the thread.
#[derive(Debug)]
pub(super) enum Order {
    Send(Channel, Vec<Vec<u8>>),
    /// Sends the signal of an interrupt to the kernel's processes.
    Signal(Signal),
    /// Ends the kernel that this program started and starts it again. `shutdown` is sent to it first.
    Restart {
        shutdown: Vec<Vec<u8>>,
    },
    /// Ends the kernel that this program started, and closes the sockets.
    Close {
        shutdown: Vec<Vec<u8>>,
    },
}

/// The sending end.
#[derive(Clone, Debug)]
pub(super) struct Orders {
    sender: Sender<Order>,
    waker: Arc<UnixStream>,
}

impl Orders {
    pub fn send(&self, order: Order) {
        // After the thread's end, its last report is in the feed.
        if self.sender.send(order).is_ok() {
            // A full pipe wakes, too.
            let _ = rustix::io::write(&*self.waker, &[0]);
        }
    }
}

/// The thread's end: the orders, and the socket that becomes readable when one comes.
pub(super) type OrdersTaken = (Receiver<Order>, UnixStream);

/// Creates the two ends.
pub(super) fn orders() -> Result<(Orders, OrdersTaken)> {
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
