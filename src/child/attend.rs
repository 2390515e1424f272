//! Attending a child: what it writes is taken as it comes, its time is kept, its end is seen, and
//! its group is ended when it must be (no helper threads).
//!
//! Everything happens in the calling thread, which sleeps until one of the pipes, the end of the
//! child or a deadline has something to do. A grandchild that holds a pipe after the child's end is
//! waited for a little, and then left.

use std::io;
use std::os::fd::AsFd;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use rustix::event::PollFlags;
use rustix::process::Signal;

use super::group::{Group, REAP_GRACE, Waited, poll_for};
use super::inlet::Inlet;
use super::outlet::Outlet;
use crate::clock::Clock;
use crate::thread::{Stop, is_stopped};

/// How often the stop, orders and a child that was stopped are looked for: a channel cannot be
/// waited for together with pipes.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How often those are looked for who were left in the group.
const REST_CHECK: Duration = Duration::from_millis(10);

/// What is read at once: what a pipe holds on Linux unless somebody asked for more.
const READ_CHUNK_BYTES: usize = 64 * 1024;

/// The most that a pipe can hold (`fs.pipe-max-size`), unless root says more: after reading this
/// much, all that an ended child wrote has been read.
const PIPE_BYTES_MAX: usize = 1024 * 1024;

/// Whoever is given more than a year to end is given a year: what is beyond all time is no point
/// in time.
const GRACE_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// However much a grandchild still writes, the end is not put off for longer than so many times
/// what is waited for while it is silent.
const LINGER_TIMES: u32 = 6;

/// Where a child writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl OutputStream {
    /// The one beside it.
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Stdout => Self::Stderr,
            Self::Stderr => Self::Stdout,
        }
    }

    /// Its name in events: `stdout` or `stderr`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// Who hears of what a child does.
pub(crate) trait ChildListener {
    /// What the child wrote, as it was read. The child waits while this takes its time.
    fn output(&mut self, stream: OutputStream, bytes: &[u8], now: Instant);

    /// After each round; when the next one must be at the latest.
    fn tick(&mut self, now: Instant) -> Option<Instant> {
        let _ = now;
        None
    }

    /// The child was stopped by a signal, as by Ctrl-Z. Whether it is to go on at once.
    fn stopped(&mut self, signal: i32) -> bool {
        let _ = signal;
        false
    }
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// When the child must have ended.
    pub deadline: Option<Instant>,
    /// How long the group has after it was asked to end. With none it is killed at once.
    pub grace: Duration,
    /// The same when it is asked because the observer stops.
    pub stop_grace: Duration,
    /// How long pipes that somebody still holds are read after the child's end, while nothing
    /// comes.
    pub linger: Duration,
}

/// Why a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// By itself.
    Itself,
    /// Its time was up.
    Timeout,
    /// It was ended by an order, or because the observer stops.
    Asked,
}

/// How it went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attended {
    /// How the child ended.
    pub status: ExitStatus,
    /// Why.
    pub end: End,
    /// Somebody still holds one of its pipes: what they write is not seen.
    pub is_held: bool,
}

/// What is attended.
pub(crate) struct Attendance<'a> {
    pub group: &'a mut Group,
    /// What the child reads.
    pub inlet: Inlet<'a>,
    /// Its standard output and its standard error.
    pub outlets: [Outlet; 2],
    pub bounds: Bounds,
    /// Signals to end the group with.
    pub orders: &'a Receiver<Signal>,
    /// Closed when the observer stops.
    pub stop: &'a Stop,
    pub clock: &'a Clock,
}

/// How far the end has come.
struct Course {
    /// Why the group is being ended; `Itself` while it is not.
    end: End,
    /// When it is killed, once it has been asked to end.
    kill_at: Option<Instant>,
    killed_at: Option<Instant>,
    /// When the child was seen to have ended.
    ended_at: Option<Instant>,
    /// When something was last read.
    read_at: Instant,
    looked_at: Option<Instant>,
}

impl Attendance<'_> {
    /// Attends the child to its end; it is reaped then.
    ///
    /// # Errors
    /// What the system says of the pipes; `TimedOut` when the child cannot be killed.
    pub(crate) fn run(mut self, listener: &mut impl ChildListener) -> io::Result<Attended> {
        let mut buffer = vec![0; READ_CHUNK_BYTES];
        let mut course = Course {
            end: End::Itself,
            kill_at: None,
            killed_at: None,
            ended_at: None,
            read_at: self.clock.now(),
            looked_at: None,
        };
        // Whoever types may not have begun: a terminal that is read before would hold us up.
        let (mut may_have_ended, mut inlet_ready) = (true, false);
        loop {
            self.inlet.pass_on(inlet_ready)?;
            // The order matters: what an ended child wrote is all in the pipes, so that one more
            // read after the end was seen takes everything.
            let ended = course.ended_at.is_some() || (may_have_ended && self.group.has_ended()?);
            let woken_at = self.clock.now();
            let taken = self.read(&mut buffer, woken_at, listener)?;
            // Whoever listens may have taken some time.
            let now = if taken > 0 {
                self.clock.now()
            } else {
                woken_at
            };
            if taken > 0 {
                course.read_at = now;
            }
            let mut due = listener.tick(now);
            if ended {
                course.ended_at.get_or_insert(now);
            } else {
                self.look(&mut course, now, listener)?;
            }
            self.end_in_time(&mut course, now)?;
            if let Some(ended_at) = course.ended_at {
                match self.lingers_until(&course, ended_at, now)? {
                    Some(until) => due = Some(due.map_or(until, |due| due.min(until))),
                    None => return self.over(&course),
                }
            }
            let wait = [due, self.next_deadline(&course)];
            let wait = wait.into_iter().flatten().min();
            let wait = wait.map_or(LOOK_AGAIN, |at| at.saturating_duration_since(now));
            let wait = self.group.nap(wait.min(LOOK_AGAIN));
            (may_have_ended, inlet_ready) = self.sleep(wait, course.ended_at.is_some())?;
        }
    }

    fn read(
        &mut self,
        buffer: &mut [u8],
        now: Instant,
        listener: &mut impl ChildListener,
    ) -> io::Result<usize> {
        let mut taken = 0;
        for (outlet, stream) in
            (self.outlets.iter_mut()).zip([OutputStream::Stdout, OutputStream::Stderr])
        {
            taken += outlet.take(buffer, PIPE_BYTES_MAX, |bytes| {
                listener.output(stream, bytes, now);
            })?;
        }
        Ok(taken)
    }

    /// Looks for what nothing wakes us for.
    fn look(
        &mut self,
        course: &mut Course,
        now: Instant,
        listener: &mut impl ChildListener,
    ) -> io::Result<()> {
        let deadline_passed = self.bounds.deadline.is_some_and(|deadline| now >= deadline);
        let looked = course.looked_at.is_some_and(|at| now < at + LOOK_AGAIN);
        if looked && !deadline_passed {
            return Ok(());
        }
        course.looked_at = Some(now);
        if let Some(signal) = self.group.take_stopped()?
            && listener.stopped(signal)
        {
            self.group.signal(Signal::CONT);
        }
        if course.kill_at.is_some() {
            return Ok(());
        }
        let mut grace = self.bounds.grace;
        let (end, signal) = if let Ok(signal) = self.orders.try_recv() {
            (End::Asked, signal)
        } else if is_stopped(self.stop) {
            grace = self.bounds.stop_grace;
            (End::Asked, Signal::TERM)
        } else if deadline_passed {
            (End::Timeout, Signal::TERM)
        } else {
            return Ok(());
        };
        course.end = end;
        course.kill_at = Some(now + grace.min(GRACE_MAX));
        if !grace.is_zero() {
            self.group.signal(signal);
            // Who is stopped cannot end.
            self.group.signal(Signal::CONT);
        }
        Ok(())
    }

    /// Kills who has not ended in time.
    fn end_in_time(&mut self, course: &mut Course, now: Instant) -> io::Result<()> {
        let Some(kill_at) = course.kill_at else {
            return Ok(());
        };
        match course.killed_at {
            None if now >= kill_at => {
                course.killed_at = Some(now);
                if course.ended_at.is_none() {
                    self.group.signal(Signal::KILL);
                } else {
                    self.group.kill_rest();
                }
            }
            Some(killed_at) if course.ended_at.is_none() && now >= killed_at + REAP_GRACE => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "it was killed and does not die",
                ));
            }
            _ => {}
        }
        Ok(())
    }

    /// Until when more is waited for after the child's end; `None` when it is over.
    fn lingers_until(
        &mut self,
        course: &Course,
        ended_at: Instant,
        now: Instant,
    ) -> io::Result<Option<Instant>> {
        // Whoever is left of a group that was asked to end has the rest of the grace for it.
        if course.kill_at.is_some() && course.killed_at.is_none() {
            self.group.try_wait()?;
            if self.group.is_populated() {
                return Ok(Some(now + REST_CHECK));
            }
        }
        // Whoever stops waits for nobody longer than he said.
        let linger = match is_stopped(self.stop) {
            true => self.bounds.linger.min(self.bounds.stop_grace),
            false => self.bounds.linger,
        };
        let quiet = course.read_at.max(ended_at) + linger;
        let until = quiet.min(ended_at + linger * LINGER_TIMES);
        let is_over = self.outlets.iter().all(Outlet::is_ended) || now >= until;
        Ok((!is_over).then_some(until))
    }

    fn over(&mut self, course: &Course) -> io::Result<Attended> {
        let status = self
            .group
            .wait_deadline(self.clock.now() + REAP_GRACE, self.clock)?
            .ok_or_else(|| io::Error::new(io::ErrorKind::TimedOut, "it cannot be reaped"))?;
        Ok(Attended {
            status,
            end: course.end,
            is_held: !self.outlets.iter().all(Outlet::is_ended),
        })
    }

    fn next_deadline(&self, course: &Course) -> Option<Instant> {
        match (course.kill_at, course.killed_at) {
            (None, _) => self.bounds.deadline.filter(|_| course.ended_at.is_none()),
            (Some(kill_at), None) => Some(kill_at),
            (Some(_), Some(_)) => None,
        }
    }

    /// Sleeps until there is something to do. Whether the child may have ended, and whether its
    /// inlet waits no longer.
    fn sleep(&self, wait: Duration, ended: bool) -> io::Result<(bool, bool)> {
        let mut waited = Waited::new();
        for outlet in &self.outlets {
            if let Some(source) = outlet.source() {
                waited.add(source, PollFlags::IN);
            }
        }
        let exit = (self.group.exit.as_ref()).filter(|_| !ended);
        let exit = exit.map(|exit| waited.add(exit.as_fd(), PollFlags::IN));
        let inlet = self.inlet.waits_for();
        let inlet = inlet.map(|(source, flags)| waited.add(source, flags));
        poll_for(waited.fds(), wait)?;
        let is_ready = |at: Option<usize>| at.is_some_and(|at| waited.is_ready(at));
        Ok((self.group.exit.is_none() || is_ready(exit), is_ready(inlet)))
    }
}
