//! The supervisor of a child: passes on its output as it comes, feeds its input, enforces its deadline
//! and terminates its process group (no helper threads).
//!
//! Everything runs in the calling thread, which sleeps until a pipe, the child's end or a deadline needs
//! attention. After the child's end, pipes that a grandchild still holds are read for a short time and
//! then abandoned.

use std::borrow::Cow;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::Signal;

use super::group::{OutputReader, ProcessGroup, REAP_GRACE, poll_for};
use crate::clock::Clock;
use crate::event::OutputStream;
use crate::thread::{Stop, is_stopped};

/// The poll interval of the channels and of the stopped state of the child: neither can be waited for
/// together with pipes.
const CHANNEL_POLL: Duration = Duration::from_millis(100);

/// The poll interval of the remaining members of a terminating group.
const MEMBER_POLL: Duration = Duration::from_millis(10);

/// The poll interval of a listener without room.
const ROOM_POLL: Duration = Duration::from_millis(2);

/// Grace periods are capped at about one year so that deadline arithmetic cannot overflow.
const GRACE_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

impl OutputStream {
    /// Returns the index of per-stream arrays.
    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// Callbacks of a [`Supervisor`], called in its thread.
pub(crate) trait ChildListener {
    /// Receives output as it was read. The child is blocked on a full pipe meanwhile.
    fn output(&mut self, stream: OutputStream, bytes: &[u8], now: Instant);

    /// Returns false while there is no room for more of this output. The supervisor then does not read it,
    /// and the child blocks when its pipe is full. Asked again within [`ROOM_POLL`].
    fn has_room(&self, _stream: OutputStream) -> bool {
        true
    }

    /// Returns true if this output no longer has a reader. The supervisor then closes the pipe, so that
    /// the child gets `SIGPIPE`. Asked at least every [`CHANNEL_POLL`].
    fn is_closed(&mut self, _stream: OutputStream) -> bool {
        false
    }

    /// Called after each round; returns the latest time of the next call.
    fn tick(&mut self, _now: Instant) -> Option<Instant> {
        None
    }

    /// Called when a signal has stopped the child, for example Ctrl-Z. Returns true to continue it at
    /// once.
    fn stopped(&mut self, _signal: i32) -> bool {
        false
    }

    /// Called with a signal for the child. Returns false if the child gets it in another way.
    fn passes_on(&mut self, _signal: Signal, _now: Instant) -> bool {
        true
    }
}

/// The reasons to end a child, and the time for that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits<'a> {
    /// The time at which the group is terminated.
    pub deadline: Option<Instant>,
    /// The time between the termination of the group and its kill. With zero it is killed at once.
    pub grace: Duration,
    /// The grace period when `stop` is the reason.
    pub stop_grace: Duration,
    /// The time for which silent pipes that another process still holds are read after the child's end.
    pub linger: Duration,
    /// Signals that terminate the group.
    pub signals: &'a Receiver<Signal>,
    /// Signals that the child gets as they are.
    pub passed: &'a Receiver<Signal>,
    /// Closed when the observer stops.
    pub stop: &'a Stop,
}

/// The reason for the end of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitCause {
    /// The child exited by itself.
    Exited,
    /// Its deadline passed.
    TimedOut,
    /// A signal was requested, or the observer stopped.
    Terminated,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ExitReport {
    pub status: ExitStatus,
    pub cause: ExitCause,
    /// Another process still holds an output; its text is not read.
    pub is_output_held: bool,
}

/// Supervises one child until its end.
pub(crate) struct Supervisor<'a> {
    group: ProcessGroup,
    input: ChildInput<'a>,
    outputs: [OutputReader; 2],
    limits: Limits<'a>,
    clock: &'a Clock,
    cause: ExitCause,
    /// The time of the kill, once the group is terminating.
    kill_at: Option<Instant>,
    killed_at: Option<Instant>,
    /// The time at which the child's end was detected.
    ended_at: Option<Instant>,
    last_read_at: Instant,
    channels_polled_at: Option<Instant>,
}

impl<'a> Supervisor<'a> {
    /// Takes over a started child; `outputs` are its standard output and its standard error.
    pub(crate) fn new(
        group: ProcessGroup,
        input: ChildInput<'a>,
        outputs: [OutputReader; 2],
        limits: Limits<'a>,
        clock: &'a Clock,
    ) -> Self {
        Self {
            group,
            input,
            outputs,
            limits,
            clock,
            cause: ExitCause::Exited,
            kill_at: None,
            killed_at: None,
            ended_at: None,
            last_read_at: clock.now(),
            channels_polled_at: None,
        }
    }

    /// Runs until the child has ended and is reaped. After an error the group is killed.
    ///
    /// # Errors
    /// The system's errors for pipes; `TimedOut` when the child cannot be killed.
    pub(crate) fn run(mut self, listener: &mut impl ChildListener) -> io::Result<ExitReport> {
        // The size of one read: the capacity of a pipe on Linux unless it was changed.
        let mut buffer = vec![0; 64 * 1024];
        let (mut may_have_ended, mut input_ready) = (true, false);
        loop {
            self.input.transfer(input_ready)?;
            // The order matters: everything that an ended child wrote is in the pipes, so one read
            // after its end was detected is complete.
            let has_ended =
                self.ended_at.is_some() || (may_have_ended && self.group.has_ended()?);
            let woken_at = self.clock.now();
            let now = match self.read_outputs(&mut buffer, woken_at, listener)? {
                0 => woken_at,
                _ => {
                    // The listener may have blocked.
                    self.last_read_at = self.clock.now();
                    self.last_read_at
                }
            };
            let listener_due = listener.tick(now);
            if has_ended {
                self.ended_at.get_or_insert(now);
            } else {
                self.poll_channels(now, listener)?;
            }
            self.kill_when_due(now)?;
            let linger_until = match self.ended_at {
                Some(ended_at) => match self.linger_until(ended_at, now)? {
                    None if !self.waits_for_room(listener) => return self.report(),
                    until => until,
                },
                None => None,
            };
            let has_room = OutputStream::ALL.map(|stream| listener.has_room(stream));
            let room_due = self.is_blocked(has_room).then(|| now + ROOM_POLL);
            let deadline = match self.kill_at {
                None => self.limits.deadline.filter(|_| self.ended_at.is_none()),
                kill_at => kill_at.filter(|_| self.killed_at.is_none()),
            };
            let due = [listener_due, linger_until, room_due, deadline];
            let due = due.into_iter().flatten().min();
            let wait = due.map_or(CHANNEL_POLL, |at| at.saturating_duration_since(now));
            (may_have_ended, input_ready) = self.sleep(wait.min(CHANNEL_POLL), has_room)?;
        }
    }

    fn read_outputs(
        &mut self,
        buffer: &mut [u8],
        now: Instant,
        listener: &mut impl ChildListener,
    ) -> io::Result<usize> {
        let mut total = 0;
        for (output, stream) in self.outputs.iter_mut().zip(OutputStream::ALL) {
            if !output.has_ended() && listener.is_closed(stream) {
                output.close();
            }
            if !listener.has_room(stream) {
                continue;
            }
            // The largest capacity of a pipe (the default of `fs.pipe-max-size`). Reading this much after the
            // child's end therefore reads everything that the child wrote.
            total += output.read(buffer, 1024 * 1024, |bytes| {
                listener.output(stream, bytes, now);
            })?;
        }
        Ok(total)
    }

    /// Checks the sources that cannot wake the thread, and terminates the group when one of them requests it.
    fn poll_channels(&mut self, now: Instant, listener: &mut impl ChildListener) -> io::Result<()> {
        let is_overdue = self.limits.deadline.is_some_and(|deadline| now >= deadline);
        let polled_at = self.channels_polled_at;
        if polled_at.is_some_and(|at| now < at + CHANNEL_POLL) && !is_overdue {
            return Ok(());
        }
        self.channels_polled_at = Some(now);
        if let Some(signal) = self.group.take_stop_signal()?
            && listener.stopped(signal)
        {
            self.group.signal(Signal::CONT);
        }
        for signal in self.limits.passed.try_iter() {
            if listener.passes_on(signal, now) {
                self.group.signal_child(signal);
            }
        }
        if self.kill_at.is_some() {
            return Ok(());
        }
        let Limits {
            grace, stop_grace, ..
        } = self.limits;
        let (cause, signal, grace) = if let Ok(signal) = self.limits.signals.try_recv() {
            (ExitCause::Terminated, signal, grace)
        } else if is_stopped(self.limits.stop) {
            (ExitCause::Terminated, Signal::TERM, stop_grace)
        } else if is_overdue {
            (ExitCause::TimedOut, Signal::TERM, grace)
        } else {
            return Ok(());
        };
        self.cause = cause;
        self.kill_at = Some(now + grace.min(GRACE_MAX));
        if !grace.is_zero() {
            self.group.signal(signal);
            // A stopped process does not handle the signal.
            self.group.signal(Signal::CONT);
        }
        Ok(())
    }

    /// Kills the group when its grace period is over.
    fn kill_when_due(&mut self, now: Instant) -> io::Result<()> {
        match (self.kill_at, self.killed_at) {
            (Some(kill_at), None) if now >= kill_at => {
                self.killed_at = Some(now);
                self.group.signal(Signal::KILL);
                Ok(())
            }
            (_, Some(killed_at)) if self.ended_at.is_none() && now >= killed_at + REAP_GRACE => {
                Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "it was killed and does not die",
                ))
            }
            _ => Ok(()),
        }
    }

    /// Returns the time until which the ended child's group and pipes are waited for; `None` when
    /// there is nothing to wait for.
    fn linger_until(&mut self, ended_at: Instant, now: Instant) -> io::Result<Option<Instant>> {
        // The other members of a terminating group have the rest of the grace period.
        if self.kill_at.is_some() && self.killed_at.is_none() {
            self.group.try_wait()?;
            if self.group.has_members() {
                return Ok(Some(now + MEMBER_POLL));
            }
        }
        // A stop is not delayed beyond its own grace period.
        let linger = if is_stopped(self.limits.stop) {
            self.limits.linger.min(self.limits.stop_grace)
        } else {
            self.limits.linger
        };
        let silent_at = self.last_read_at.max(ended_at) + linger;
        // The end of a child is delayed by at most this multiple of [`Limits::linger`], however much a
        // grandchild still writes.
        let until = silent_at.min(ended_at + linger * 6);
        Ok((self.is_output_held() && now < until).then_some(until))
    }

    /// Returns true if an output that has not ended cannot be read for lack of room.
    fn is_blocked(&self, has_room: [bool; 2]) -> bool {
        let mut outputs = self.outputs.iter().zip(has_room);
        outputs.any(|(output, has_room)| !has_room && !output.has_ended())
    }

    /// Returns true if the rest of the output of a child that ended by itself waits for a slow listener.
    /// A request to end that arrives after the child's end ends this wait.
    fn waits_for_room(&mut self, listener: &impl ChildListener) -> bool {
        let has_room = OutputStream::ALL.map(|stream| listener.has_room(stream));
        let waits = self.cause == ExitCause::Exited && self.is_blocked(has_room);
        if waits && (is_stopped(self.limits.stop) || self.limits.signals.try_recv().is_ok()) {
            self.cause = ExitCause::Terminated;
            return false;
        }
        if waits {
            // The rest of the pipe is read when there is room, as if the child had just ended.
            self.ended_at = Some(self.clock.now());
        }
        waits
    }

    fn is_output_held(&self) -> bool {
        !self.outputs.iter().all(OutputReader::has_ended)
    }

    fn report(&mut self) -> io::Result<ExitReport> {
        let status = self
            .group
            .wait_deadline(self.clock.now() + REAP_GRACE, self.clock)?;
        Ok(ExitReport {
            status: status.ok_or_else(|| {
                io::Error::new(io::ErrorKind::TimedOut, "it has ended and cannot be reaped")
            })?,
            cause: self.cause,
            is_output_held: self.is_output_held(),
        })
    }

    /// Sleeps until a descriptor is ready. Returns true first when the child may have ended, and true
    /// second when the input is ready.
    fn sleep(&self, wait: Duration, has_room: [bool; 2]) -> io::Result<(bool, bool)> {
        let exit = self.group.exit_fd().filter(|_| self.ended_at.is_none());
        let input = self.input.waits_for();
        let (waits_for_exit, waits_for_input) = (exit.is_some(), input.is_some());
        let outputs = self.outputs.iter().zip(has_room);
        let outputs = outputs.filter(|(_, has_room)| *has_room);
        let outputs = outputs.filter_map(|(output, _)| output.waits_for());
        let mut fds: Vec<PollFd<'_>> = exit.into_iter().chain(input).chain(outputs).collect();
        poll_for(&mut fds, self.group.cap_wait(wait))?;
        let mut is_ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let mut next_if = |is_polled: bool| is_polled && is_ready.next() == Some(true);
        let has_exit_fd = self.group.exit_fd().is_some();
        Ok((
            !has_exit_fd || next_if(waits_for_exit),
            next_if(waits_for_input),
        ))
    }
}

/// Writes a child's input as fast as the child reads it.
#[derive(Debug)]
pub(crate) struct ChildInput<'a> {
    /// The terminal that is typed at; `None` where `pending` is the whole input.
    terminal: Option<BorrowedFd<'a>>,
    /// `None` once the input has ended.
    child: Option<OwnedFd>,
    pending: Cow<'a, [u8]>,
    /// The number of bytes of `pending` that the child has.
    written: usize,
}

impl<'a> ChildInput<'a> {
    /// Returns an input that this program does not write.
    pub(crate) fn none() -> Self {
        Self {
            terminal: None,
            child: None,
            pending: Cow::Borrowed(&[]),
            written: 0,
        }
    }

    /// Writes `bytes` into a pipe and closes it.
    ///
    /// # Errors
    /// The system's error when the pipe cannot be made non-blocking.
    pub(crate) fn bytes(pipe: impl Into<OwnedFd>, bytes: &'a [u8]) -> io::Result<Self> {
        let pipe = pipe.into();
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Self {
            // An empty pipe is closed at once, so that the child reads an end of file.
            child: (!bytes.is_empty()).then_some(pipe),
            pending: Cow::Borrowed(bytes),
            ..Self::none()
        })
    }

    /// Passes bytes typed at `terminal` on to the child's terminal.
    pub(crate) fn typed(terminal: BorrowedFd<'a>, child: OwnedFd) -> Self {
        Self {
            terminal: Some(terminal),
            child: Some(child),
            ..Self::none()
        }
    }

    /// Returns the descriptor that must be ready before [`ChildInput::transfer`] can do anything.
    pub(super) fn waits_for(&self) -> Option<PollFd<'_>> {
        let child = self.child.as_ref()?.as_fd();
        let (fd, flags) = match self.terminal {
            Some(terminal) if self.is_written() => (terminal, PollFlags::IN),
            _ => (child, PollFlags::OUT),
        };
        Some(PollFd::from_borrowed_fd(fd, flags))
    }

    /// Writes as much as the child takes. `is_ready` states that the awaited descriptor is ready:
    /// a terminal that is read before that would block.
    pub(super) fn transfer(&mut self, is_ready: bool) -> io::Result<()> {
        if is_ready && self.is_written() && !self.read_terminal() {
            return Ok(());
        }
        while let Some(child) = &self.child
            && !self.is_written()
        {
            match rustix::io::write(child, &self.pending[self.written..]) {
                Ok(count) => self.written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                // The child does not read (EPIPE), or no process has its terminal open (EIO).
                Err(Errno::PIPE | Errno::IO) => self.child = None,
                Err(error) => return Err(error.into()),
            }
        }
        if self.terminal.is_none() {
            self.child = None;
        }
        Ok(())
    }

    /// Reads typed bytes; returns false when there is nothing to write.
    fn read_terminal(&mut self) -> bool {
        let Some(terminal) = self.terminal else {
            return false;
        };
        // Maximum number of typed bytes that wait for the child: a page of a paste. The terminal holds the rest.
        let mut typed = [0; 4096];
        match rustix::io::read(terminal, &mut typed) {
            Ok(count @ 1..) => {
                (self.pending, self.written) = (Cow::Owned(typed[..count].to_vec()), 0);
                true
            }
            Err(Errno::INTR | Errno::AGAIN) => false,
            // An end or an error: the terminal is gone.
            _ => {
                self.child = None;
                false
            }
        }
    }

    fn is_written(&self) -> bool {
        self.written == self.pending.len()
    }
}
