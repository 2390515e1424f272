//! The handle of the thread `td-kernel`, which talks to a kernel: orders in, reports out.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use crossbeam_channel::{Sender, unbounded};
use rustix::process::Signal;

use super::connection::ConnectionInfo;
use super::feed::{FeedReceiver, feed};
use super::process::KernelStart;
use super::sockets::{Sockets, SocketsOptions};
use super::wire::{Channel, Signer};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::thread::{self, Handle};

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

/// The handle of the thread.
#[derive(Debug)]
pub(super) struct Link {
    orders: Orders,
    pub feed: FeedReceiver,
    thread: Option<Handle<()>>,
}

/// Sends orders to the thread.
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

impl Link {
    /// Starts the thread, and the kernel if `start` is there.
    pub fn start(
        info: &ConnectionInfo,
        start: Option<KernelStart>,
        signer: Signer,
        identity: Vec<u8>,
        clock: Clock,
    ) -> Result<Self> {
        let (sender, orders) = unbounded();
        let pair = || -> io::Result<_> {
            let (waker, woken) = UnixStream::pair()?;
            waker.set_nonblocking(true)?;
            woken.set_nonblocking(true)?;
            Ok((waker, woken))
        };
        let (waker, woken) =
            pair().map_err(|cause| Error::other("cannot open a pair of sockets").because(cause))?;
        let (feed_sender, feed) = feed();
        let mut sockets = Sockets::new(SocketsOptions {
            info: info.clone(),
            start,
            signer,
            identity,
            orders,
            woken,
            feed: feed_sender,
            clock,
        });
        let thread = thread::spawn("td-kernel", move || sockets.run())?;
        Ok(Self {
            orders: Orders {
                sender,
                waker: Arc::new(waker),
            },
            feed,
            thread: Some(thread),
        })
    }

    pub fn orders(&self) -> &Orders {
        &self.orders
    }

    /// Ends the thread, and the kernel if this program started it.
    pub fn close(&mut self, shutdown: Vec<Vec<u8>>) {
        self.orders.send(Order::Close { shutdown });
        if let Some(thread) = self.thread.take()
            && let Err(panicked) = thread.join()
        {
            log::error!("{panicked}");
        }
    }
}
