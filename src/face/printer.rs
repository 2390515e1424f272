//! The printer: takes deliveries off a subscription and puts them on a page.
//!
//! `td-printer` blocks on its subscription and on standard output; a blocked output makes the
//! subscription lag and holds nobody else up. It ends when the bus is closed and all has been
//! printed, or when the output is gone; whoever waits for it sets a ceiling.

use std::io;
use std::time::Instant;

use super::event_writer::{EventWriter, Renderer, unless_broken_pipe};
use crate::bus::{RecvTimeoutError, Subscription, TryRecvError};
use crate::clock::Clock;
use crate::error::Result;
use crate::thread::{self, Handle, Panicked, Stop, stop_pair};

/// A running printer.
#[derive(Debug)]
#[must_use = "wait for its end, or the last events are not shown"]
pub(crate) struct Printer {
    thread: Handle<io::Result<()>>,
    ended: Stop,
}

impl Printer {
    /// Starts to print.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(events: Subscription, view: Renderer, clock: Clock) -> Result<Self> {
        let (running, ended) = stop_pair();
        let thread = thread::spawn("td-printer", move || {
            let _running = running;
            unless_broken_pipe(print(events, &mut EventWriter::stdout(view, clock)))
        })?;
        Ok(Self { thread, ended })
    }

    /// A channel that is closed when the printer has ended.
    pub fn ended(&self) -> Stop {
        self.ended.clone()
    }

    /// Waits for the end until a deadline. `None`: the output is blocked, and the printer is left
    /// to the end of the process.
    pub fn join_deadline(self, deadline: Instant) -> Option<Result<io::Result<()>, Panicked>> {
        self.thread.join_deadline(deadline).ok()
    }
}

fn print<W: io::Write>(mut events: Subscription, page: &mut EventWriter<W>) -> io::Result<()> {
    loop {
        let delivery = match events.try_recv() {
            Ok(delivery) => Ok(delivery),
            Err(TryRecvError::Empty) => {
                page.flush()?;
                events.recv_until(page.deadline())
            }
            Err(TryRecvError::Closed) => break,
        };
        match delivery {
            Ok(delivery) => page.write_delivery(&delivery)?,
            // Something has rested.
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Closed) => break,
        }
    }
    page.finish()
}
