//! Standard input as messages, and messages on standard output.
//!
//! `td-mcp-in` reads lines, and `td-mcp-out` writes them. Neither holds up the other: a client that stops reading blocks
//! the writer alone, and its end is noticed all the same.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, SendTimeoutError, Sender, bounded, select_biased};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

use super::message::{INVALID_REQUEST, Incoming, Problem, parse};
use crate::error::{Error, Result};
use crate::thread::{Handle, Stop, StopGuard, is_stopped, spawn, stop_pair};

/// The longest line of a client: the longest text that is typed, and much more.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The number of messages that wait to be handled. Each begins a call, or is answered at once.
const INCOMING: usize = 16;

/// The number of messages that wait to be written: the results of all calls, and some progress.
const OUTGOING: usize = 128;

/// The interval at which a blocked reader checks whether the client is still there.
const CHECK: Duration = Duration::from_millis(100);

/// The messages of the client.
pub(super) struct Input {
    /// Receives each message. Closed at the end of the input.
    pub messages: Receiver<Incoming>,
    /// Closed once the client has closed the input, perhaps before all of it is read.
    pub closed: Stop,
    stop: StopGuard,
    wake: io::PipeWriter,
    thread: Handle<()>,
}

impl Input {
    /// Starts to read standard input.
    pub fn start() -> Result<Self> {
        let (sender, messages) = bounded(INCOMING);
        let (open, closed) = stop_pair();
        let (stop, stopped) = stop_pair();
        let (woken, wake) =
            io::pipe().map_err(|cause| Error::other("cannot open a pipe").because(cause))?;
        let reader = LineReader {
            sender,
            open: Some(open),
            stopped,
            line: Vec::new(),
            is_too_long: false,
        };
        let thread = spawn("td-mcp-in", move || reader.read_all(&woken))?;
        Ok(Self {
            messages,
            closed,
            stop,
            wake,
            thread,
        })
    }

    /// Stops reading.
    pub fn stop(self) {
        drop((self.stop, self.messages, self.wake));
        self.thread.join_logged();
    }
}

/// Splits the input into lines.
struct LineReader {
    sender: Sender<Incoming>,
    open: Option<StopGuard>,
    stopped: Stop,
    line: Vec<u8>,
    /// The rest of a line that is too long is skipped.
    is_too_long: bool,
}

/// Nobody takes messages any more.
struct Stopped;

impl LineReader {
    fn read_all(mut self, woken: &io::PipeReader) {
        let mut bytes = vec![0; 64 * 1024];
        loop {
            let stdin = rustix::stdio::stdin();
            let mut fds = [
                PollFd::new(&stdin, PollFlags::IN),
                PollFd::new(woken, PollFlags::IN),
            ];
            match poll(&mut fds, None) {
                Ok(_) if !fds[1].revents().is_empty() => return,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(cause) => return log::debug!("standard input: {cause}"),
            }
            if fds[0].revents().is_empty() {
                continue;
            }
            // The only reader of standard input needs no buffer that others share.
            match rustix::io::read(stdin, &mut bytes[..]) {
                Ok(0) => break,
                Ok(count) => {
                    if self.push(&bytes[..count]).is_err() {
                        return;
                    }
                }
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(cause) => {
                    log::debug!("standard input: {cause}");
                    break;
                }
            }
        }
        // A last line without its end was cut off.
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), Stopped> {
        let mut parts = bytes.split(|byte| *byte == b'\n');
        // What follows the last line end begins the next line.
        let rest = parts.next_back().unwrap_or_default();
        for part in parts {
            self.extend(part);
            let line = std::mem::take(&mut self.line);
            let incoming = if std::mem::take(&mut self.is_too_long) {
                let why = format!("the line is longer than {LINE_BYTES_MAX} bytes");
                let answer = Problem::new(INVALID_REQUEST, why).response(&Value::Null);
                Some(Incoming::Invalid(answer))
            } else {
                parse(&line)
            };
            if let Some(incoming) = incoming {
                self.send(incoming)?;
            }
        }
        self.extend(rest);
        Ok(())
    }

    fn extend(&mut self, part: &[u8]) {
        if self.line.len() + part.len() > LINE_BYTES_MAX {
            self.is_too_long = true;
            self.line = Vec::new();
        }
        if !self.is_too_long {
            self.line.extend_from_slice(part);
        }
    }

    fn send(&mut self, mut incoming: Incoming) -> Result<(), Stopped> {
        loop {
            if is_stopped(&self.stopped) {
                return Err(Stopped);
            }
            match self.sender.send_timeout(incoming, CHECK) {
                Ok(()) => return Ok(()),
                Err(SendTimeoutError::Disconnected(_)) => return Err(Stopped),
                Err(SendTimeoutError::Timeout(unsent)) => incoming = unsent,
            }
            if is_hung_up() {
                self.open = None;
            }
        }
    }
}

/// Returns true if the client has closed standard input, read to its end or not.
fn is_hung_up() -> bool {
    let stdin = rustix::stdio::stdin();
    let hung_up = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR;
    let mut fds = [PollFd::new(&stdin, PollFlags::RDHUP)];
    let polled = poll(&mut fds, Some(&Timespec::default()));
    polled.is_ok() && fds[0].revents().intersects(hung_up)
}

/// The messages for the client. Cheap to clone.
#[derive(Clone)]
pub(super) struct Output {
    messages: Sender<Value>,
    /// Closed when the client does not read any more.
    broken: Stop,
}

/// Writes the messages.
pub(super) struct OutputThread {
    thread: Handle<()>,
}

impl Output {
    /// Starts to write to standard output.
    pub fn start() -> Result<(Self, OutputThread)> {
        let (messages, outgoing) = bounded::<Value>(OUTGOING);
        let (guard, broken) = stop_pair();
        let thread = spawn("td-mcp-out", move || {
            let _guard = guard;
            for message in outgoing {
                if let Err(cause) = write(&message) {
                    return log::debug!("standard output: {cause}");
                }
            }
        })?;
        Ok((Self { messages, broken }, OutputThread { thread }))
    }

    /// Sends a message, and waits for room. It is dropped after a stop, or when the client does not read any more.
    pub fn send(&self, message: Value, stop: &Stop) {
        select_biased! {
            send(self.messages, message) -> _ => {}
            recv(self.broken) -> _ => {}
            recv(stop) -> _ => {}
        }
    }

    /// Sends a message that the client does not need, if there is room for it.
    pub fn offer(&self, message: Value) {
        // A client that does not read wants no progress.
        let _ = self.messages.try_send(message);
    }

    /// Returns true if the client does not read as fast as messages come.
    pub fn is_blocked(&self) -> bool {
        self.messages.is_full()
    }

    /// Returns the channel that is closed when the client does not read any more.
    pub fn broken(&self) -> &Stop {
        &self.broken
    }
}

impl OutputThread {
    /// Waits until everything is written, or the deadline. A client that does not read leaves the thread blocked; it ends
    /// with the process.
    pub fn finish(self, output: Output, deadline: Instant) {
        drop(output);
        match self.thread.join_deadline(deadline) {
            Ok(Ok(())) => {}
            Ok(Err(panicked)) => log::error!("{panicked}"),
            Err(_) => log::debug!("the client does not read"),
        }
    }
}

fn write(message: &Value) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(&line)?;
    stdout.flush()
}
