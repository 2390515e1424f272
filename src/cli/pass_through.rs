//! Passes the bytes of a command's two outputs through to standard output and standard error, unchanged.
//!
//! The supervisor of the command puts bytes into a bounded queue for each output, and never blocks: while a
//! queue is full, it does not read that output, so the command blocks as it would on the reader itself. When
//! the reader of an output is gone, the supervisor also closes the command's output: the next write of the
//! command gets `SIGPIPE` or `EPIPE`. `td-stdout` and `td-stderr` block on their queues and on the outputs,
//! and end when the command has ended and their queues are empty.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::select_biased;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::failure::Failure;
use super::live::{PRINT_REST, everything};
use super::signals::Signals;
use crate::bus::{Delivery, Filter, SubscribeOptions, Subscription};
use crate::clock::Clock;
use crate::engine::Engine;
use crate::event::{EventKind, OutputStream, TdEvent};
use crate::face::LocalTime;
use crate::process::{BATCH_BYTES, ByteSink, LineLimit};
use crate::thread::{self, Handle, Stop, Waker, is_stopped, lock, park, stop_pair};

/// The options for the output.
#[derive(Debug)]
pub(super) struct PassOptions {
    /// Each line begins with the local time.
    pub has_timestamps: bool,
    /// Maximum number of lines of both outputs.
    pub lines_max: Option<u64>,
    /// The command has its own terminal, whose outputs are one.
    pub is_terminal: bool,
}

/// The sink for the command's outputs.
pub(super) struct PassThrough {
    queues: [ByteSender; 2],
    /// Standard output and standard error, to detect that a reader is gone before the next write.
    outputs: [OwnedFd; 2],
    /// The outputs that got bytes since the last check: their writes detect that a reader is gone.
    has_bytes: [bool; 2],
    ended: [Stop; 2],
    is_at_line_start: [bool; 2],
    limit: LineLimit,
    local_time: Option<LocalTime>,
    clock: Clock,
}

/// The threads that write to the outputs.
pub(super) struct Passing {
    threads: [Handle<io::Result<()>>; 2],
    ended: [Stop; 2],
    /// The warnings and errors of the observation, which no tree shows.
    notes: Subscription,
}

/// Starts to pass outputs through. Call it before the command is started.
pub(super) fn start(
    engine: &Engine,
    options: &PassOptions,
    clock: &Clock,
) -> Result<(PassThrough, Passing), Failure> {
    let outputs = [cloned(io::stdout().as_fd())?, cloned(io::stderr().as_fd())?];
    let (stdout, out_queue, out_ended) = output("td-stdout", cloned(outputs[0].as_fd())?)?;
    let (stderr, err_queue, err_ended) = output("td-stderr", cloned(outputs[1].as_fd())?)?;
    let ended = [out_ended, err_ended];
    let sink = PassThrough {
        queues: [out_queue, err_queue],
        outputs,
        has_bytes: [false; 2],
        ended: ended.clone(),
        is_at_line_start: [true; 2],
        limit: LineLimit::new(options.lines_max, options.is_terminal),
        local_time: options.has_timestamps.then(LocalTime::of_system),
        clock: clock.clone(),
    };
    let passing = Passing {
        threads: [stdout, stderr],
        ended,
        notes: engine.subscribe_with(SubscribeOptions {
            filter: Filter::all().kinds([EventKind::Warning, EventKind::Error]),
            ..everything()
        }),
    };
    Ok((sink, passing))
}

type OutputThread = (Handle<io::Result<()>>, ByteSender, Stop);

/// Clones an output, to bypass the buffer of the standard library and its lock, which this program's own
/// messages need.
fn cloned(output: BorrowedFd<'_>) -> Result<OwnedFd, Failure> {
    output
        .try_clone_to_owned()
        .map_err(|error| failure!("cannot use the output of td-observe: {error}"))
}

fn output(name: &str, to: OwnedFd) -> Result<OutputThread, Failure> {
    let (sender, receiver) = byte_queue();
    let (running, ended) = stop_pair();
    let thread = thread::spawn(name, move || {
        // If the reader is gone, the supervisor closes the command's output when this is dropped.
        let _running = running;
        write(&receiver, &mut File::from(to))
    })?;
    Ok((thread, sender, ended))
}

fn write(from: &ByteReceiver, to: &mut File) -> io::Result<()> {
    let mut bytes = Vec::new();
    while from.take(&mut bytes) {
        to.write_all(&bytes)?;
        from.gather();
    }
    Ok(())
}

impl ByteSink for PassThrough {
    fn take(&mut self, stream: OutputStream, bytes: &[u8]) {
        let bytes = &bytes[..self.limit.end(stream, bytes)];
        self.write(stream, bytes);
    }

    fn has_room(&self, stream: OutputStream) -> bool {
        self.queues[stream.index()].has_room()
    }

    fn is_closed(&mut self, stream: OutputStream) -> bool {
        let index = stream.index();
        let has_bytes = std::mem::take(&mut self.has_bytes[index]);
        is_stopped(&self.ended[index]) || !has_bytes && has_no_reader(&self.outputs[index])
    }

    fn explain_failure(&mut self) {
        let (stream, bytes) = self.limit.take_explanation();
        self.write(stream, &bytes);
    }
}

/// Returns true for a pipe whose reading end is closed. For other outputs, a write fails.
fn has_no_reader(output: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(output, PollFlags::empty())];
    poll(&mut fds, Some(&Timespec::default())).is_ok() && fds[0].revents().contains(PollFlags::ERR)
}

impl PassThrough {
    fn write(&mut self, stream: OutputStream, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        // Where both outputs are one file, their order is kept as far as two threads can.
        self.queues[1 - stream.index()].hurry();
        let bytes = self.stamped(stream, bytes);
        self.queues[stream.index()].push(&bytes);
        self.has_bytes[stream.index()] = true;
    }

    /// Returns the bytes, with the time before each line if configured.
    fn stamped<'b>(&mut self, stream: OutputStream, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let Some(local_time) = &mut self.local_time else {
            return bytes.into();
        };
        let mut time = String::new();
        local_time.push(&mut time, self.clock.wall());
        let is_at_line_start = &mut self.is_at_line_start[stream.index()];
        let mut out = Vec::with_capacity(bytes.len() + time.len());
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            if *is_at_line_start {
                out.extend_from_slice(time.as_bytes());
            }
            out.extend_from_slice(line);
            *is_at_line_start = line.ends_with(b"\n");
        }
        out.into()
    }
}

impl Passing {
    /// Waits until everything is written, and then prints the notes. The wait ends [`PRINT_REST`] after a signal;
    /// if the user has requested the end (`is_over`), it ends after this time. Call it after the engine's end.
    /// Returns true after an error other than a closed output.
    pub fn finish(mut self, is_over: bool, signals: &Signals, clock: &Clock) -> bool {
        if !is_over {
            for ended in &self.ended {
                select_biased! {
                    recv(ended) -> _ => {}
                    recv(signals.first) -> _ => break,
                }
            }
        }
        let deadline = clock.now() + PRINT_REST;
        let names = ["standard output", "standard error"];
        let mut has_failed = false;
        for (thread, name) in self.threads.into_iter().zip(names) {
            let problem = match thread.join_deadline(deadline) {
                Ok(Ok(Ok(()))) => continue,
                Ok(Ok(Err(error))) if error.kind() == io::ErrorKind::BrokenPipe => continue,
                Ok(Ok(Err(error))) => format!("cannot write to {name}: {error}"),
                Ok(Err(panicked)) => panicked.to_string(),
                Err(_blocked) => {
                    message!("{name} is blocked: the last output is not written");
                    continue;
                }
            };
            super::output::print_message(&problem);
            has_failed = true;
        }
        for envelope in self.notes.iter().filter_map(Delivery::into_envelope) {
            // What concerns the log is among the diagnostics, too.
            if let TdEvent::Warning {
                context, message, ..
            }
            | TdEvent::Error {
                context, message, ..
            } = &envelope.event
                && context != "log"
            {
                message!("{context}: {message}");
            }
        }
        has_failed
    }
}

/// The size from which the queue has no room. The next read of a command's pipe may still add 1 MiB.
const FULL_BYTES: usize = 1024 * 1024;

/// The time in which bytes gather after each write. Bytes after a longer pause are written at once.
const GATHER_TIME: Duration = Duration::from_millis(1);

/// A queue of bytes to a thread that writes them. Bytes that arrive while it writes, or shortly after, are written
/// together: a wake-up for each piece would take more time than the bytes.
#[derive(Debug, Default)]
struct QueueState {
    bytes: Vec<u8>,
    /// True once the sender is dropped.
    is_closed: bool,
    /// True once the receiver is dropped: nothing is kept.
    is_unread: bool,
    /// The receiver's thread, while it is parked.
    parked: Option<Waker>,
    /// True while the receiver is parked although it may have bytes.
    is_gathering: bool,
}

/// The side that adds bytes. It never blocks.
#[derive(Debug)]
struct ByteSender(Arc<Mutex<QueueState>>);

/// The side of the writing thread.
#[derive(Debug)]
struct ByteReceiver(Arc<Mutex<QueueState>>);

/// Creates a queue.
fn byte_queue() -> (ByteSender, ByteReceiver) {
    let state = Arc::default();
    (ByteSender(Arc::clone(&state)), ByteReceiver(state))
}

impl ByteSender {
    /// Adds bytes.
    pub fn push(&self, bytes: &[u8]) {
        self.change(|state| {
            if !state.is_unread {
                state.bytes.extend_from_slice(bytes);
            }
            !state.is_gathering || state.bytes.len() >= BATCH_BYTES
        });
    }

    /// Ends the receiver's pause, so that it takes the bytes before others do elsewhere.
    pub fn hurry(&self) {
        self.change(|state| !state.bytes.is_empty());
    }

    /// Returns true while the queue has room.
    pub fn has_room(&self) -> bool {
        lock(&self.0).bytes.len() < FULL_BYTES
    }

    /// Changes the state, and wakes the receiver if it is parked and `change` returns true.
    fn change(&self, change: impl FnOnce(&mut QueueState) -> bool) {
        let mut state = lock(&self.0);
        let parked = if change(&mut state) {
            state.parked.take()
        } else {
            None
        };
        // The lock is released before the receiver wakes.
        drop(state);
        if let Some(parked) = parked {
            parked.wake();
        }
    }
}

impl Drop for ByteSender {
    fn drop(&mut self) {
        self.change(|state| {
            state.is_closed = true;
            true
        });
    }
}

impl ByteReceiver {
    /// Waits for bytes and replaces the content of `to` by them. Returns false when there are none and the sender
    /// is dropped.
    pub fn take(&self, to: &mut Vec<u8>) -> bool {
        to.clear();
        loop {
            let mut state = lock(&self.0);
            if !state.bytes.is_empty() {
                std::mem::swap(&mut state.bytes, to);
                return true;
            }
            if state.is_closed {
                return false;
            }
            state.parked = Some(Waker::current());
            drop(state);
            park(None);
        }
    }

    /// Waits until bytes have gathered, at most for [`GATHER_TIME`].
    pub fn gather(&self) {
        let mut state = lock(&self.0);
        if state.is_closed || state.bytes.len() >= BATCH_BYTES {
            return;
        }
        state.parked = Some(Waker::current());
        state.is_gathering = true;
        drop(state);
        park(Some(GATHER_TIME));
        let mut state = lock(&self.0);
        (state.parked, state.is_gathering) = (None, false);
    }
}

impl Drop for ByteReceiver {
    fn drop(&mut self) {
        let mut state = lock(&self.0);
        state.is_unread = true;
        state.bytes = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn all_bytes_arrive_in_order() {
        let (sender, receiver) = byte_queue();
        let reader = thread::spawn(move || {
            let (mut all, mut buffer) = (Vec::new(), Vec::new());
            while receiver.take(&mut buffer) {
                all.extend_from_slice(&buffer);
                receiver.gather();
            }
            all
        });
        let mut sent = Vec::new();
        for number in 0..200_000_u32 {
            let bytes = number.to_le_bytes();
            sent.extend_from_slice(&bytes);
            sender.push(&bytes);
            if number % 1000 == 0 {
                sender.hurry();
            }
        }
        drop(sender);
        assert_eq!(reader.join().unwrap(), sent);
    }

    #[test]
    fn a_full_queue_has_no_room_until_it_is_read() {
        let (sender, receiver) = byte_queue();
        assert!(sender.has_room());
        sender.push(&vec![b'x'; FULL_BYTES]);
        assert!(!sender.has_room());
        let mut buffer = vec![b'y'];
        assert!(receiver.take(&mut buffer));
        assert_eq!(buffer.len(), FULL_BYTES);
        assert!(sender.has_room());
    }

    #[test]
    fn bytes_for_a_receiver_that_has_gone_take_no_memory() {
        let (sender, receiver) = byte_queue();
        sender.push(b"before");
        drop(receiver);
        sender.push(&vec![b'x'; 2 * FULL_BYTES]);
        assert!(sender.has_room());
        assert_eq!(lock(&sender.0).bytes.capacity(), 0);
    }
}
