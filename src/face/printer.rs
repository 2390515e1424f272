//! The printer thread: writes a subscription's deliveries to standard output.
//!
//! `td-printer` blocks on its subscription and on standard output. While the output is blocked, the
//! subscription lags and delays no other thread. The thread ends when the bus is closed and all events are
//! printed, or when the output is closed. Callers must join it with a deadline.

use std::io;
use std::time::Instant;

use super::event_writer::{EventWriter, Renderer, unless_broken_pipe};
use crate::bus::{Delivery, RecvTimeoutError, Subscription, TryRecvError};
use crate::clock::Clock;
use crate::thread::{self, Handle, Panicked, Stop, stop_pair};

/// The input of a printer: a subscription, or the events of an observer.
pub(crate) trait Deliveries: Send + 'static {
    /// Returns the next delivery, if one is ready.
    fn try_recv(&mut self) -> Result<Delivery, TryRecvError>;

    /// Waits for the next delivery, until the deadline if there is one.
    fn recv_until(&mut self, deadline: Option<Instant>) -> Result<Delivery, RecvTimeoutError>;
}

impl Deliveries for Subscription {
    fn try_recv(&mut self) -> Result<Delivery, TryRecvError> {
        Subscription::try_recv(self)
    }

    fn recv_until(&mut self, deadline: Option<Instant>) -> Result<Delivery, RecvTimeoutError> {
        Subscription::recv_until(self, deadline)
    }
}

/// A running printer.
#[derive(Debug)]
#[must_use = "join it, or the last events are not printed"]
pub(crate) struct Printer {
    thread: Handle<io::Result<()>>,
    ended: Stop,
}

impl Printer {
    /// Starts the thread.
    pub fn start(events: impl Deliveries, renderer: Renderer, clock: Clock) -> crate::Result<Self> {
        let (running, ended) = stop_pair();
        let thread = thread::spawn("td-printer", move || {
            let _running = running;
            unless_broken_pipe(print(events, &mut EventWriter::stdout(renderer, clock)))
        })?;
        Ok(Self { thread, ended })
    }

    /// Returns a channel that closes when the printer has ended.
    pub fn ended(&self) -> Stop {
        self.ended.clone()
    }

    /// Joins the thread. Returns `None` if the output is still blocked at the deadline; the thread then ends
    /// with the process.
    pub fn join_deadline(self, deadline: Instant) -> Option<Result<io::Result<()>, Panicked>> {
        self.thread.join_deadline(deadline).ok()
    }
}

fn print<W: io::Write>(mut events: impl Deliveries, writer: &mut EventWriter<W>) -> io::Result<()> {
    writer.open_stream()?;
    loop {
        let delivery = match events.try_recv() {
            Ok(delivery) => Ok(delivery),
            Err(TryRecvError::Empty) => {
                writer.flush()?;
                events.recv_until(writer.deadline())
            }
            Err(TryRecvError::Closed) => break,
        };
        match delivery {
            Ok(delivery) => writer.write_delivery(&delivery)?,
            // The deadline has passed: the next flush writes the lines held until then.
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Closed) => break,
        }
    }
    writer.finish()
}
