//! The handle of the thread `td-kernel`, which talks to a kernel: orders in, reports out.

use super::connection::ConnectionInfo;
use super::feed::{FeedReceiver, feed};
use super::orders::{Order, Orders, orders};
use super::process::KernelStart;
use super::sockets::{Sockets, SocketsOptions};
use super::wire::Signer;
use crate::clock::Clock;
use crate::error::Result;
use crate::thread::{self, Handle};

#[derive(Debug)]
pub(super) struct Link {
    pub orders: Orders,
    pub feed: FeedReceiver,
    thread: Option<Handle<()>>,
}

impl Link {
    /// Starts the thread, which first starts the kernel if `start` is given.
    pub fn start(
        info: &ConnectionInfo,
        start: Option<KernelStart>,
        signer: Signer,
        identity: Vec<u8>,
        clock: Clock,
    ) -> Result<Self> {
        let (orders, (taken, woken)) = orders()?;
        let (sender, feed) = feed();
        let mut sockets = Sockets::new(SocketsOptions {
            info: info.clone(),
            start,
            signer,
            identity,
            orders: taken,
            woken,
            feed: sender,
            clock,
        });
        let thread = thread::spawn("td-kernel", move || sockets.run())?;
        Ok(Self {
            orders,
            feed,
            thread: Some(thread),
        })
    }

    /// Ends the thread, and the kernel if this program started it.
    pub fn close(&mut self, shutdown: Vec<Vec<u8>>) {
        self.orders.send(Order::Close { shutdown });
        if let Some(thread) = self.thread.take() {
            thread.join_logged();
        }
    }
}
