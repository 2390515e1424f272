//! A wait for a tmux channel on the thread `td-channel`, which blocks on tmux and ends with its wait.

use crossbeam_channel::{Receiver, bounded};

use crate::clock::Clock;
use crate::error::Result;
use crate::thread::{self, Handle, StopGuard, stop_pair};
use crate::tmux::Server;

/// A running wait for a channel. Dropping it ends the wait.
#[derive(Debug)]
pub(super) struct ChannelWait {
    /// Receives a message when the channel was signalled or the server is gone.
    pub done: Receiver<Result<()>>,
    running: Option<StopGuard>,
    thread: Option<Handle<()>>,
}

impl ChannelWait {
    /// Starts the thread.
    pub fn start(server: &Server, name: &str, clock: &Clock) -> Result<Self> {
        let (running, stop) = stop_pair();
        let (sender, done) = bounded(1);
        let (server, name, clock) = (server.clone(), name.to_owned(), clock.clone());
        let thread = thread::spawn("td-channel", move || {
            // The wait may have ended for another reason.
            let _ = sender.send(server.wait_for(&name, stop, &clock));
        })?;
        Ok(Self {
            done,
            running: Some(running),
            thread: Some(thread),
        })
    }
}

impl Drop for ChannelWait {
    fn drop(&mut self) {
        self.running = None;
        if let Some(thread) = self.thread.take() {
            thread.join_logged();
        }
    }
}
