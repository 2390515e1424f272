//! Waits until a socket of the kernel, its process or an order needs the thread.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::line::Line;
use super::process::KernelProcess;
use super::wire::Channel;

/// The time between two outputs below which more follow.
const FLOW: Duration = Duration::from_millis(2);

/// The pause before the next outputs of a flow: a turn of this thread for each would hold up the kernel.
const FLOW_PAUSE: Duration = Duration::from_millis(1);

/// The parts that have something to report.
#[derive(Debug, Default)]
pub(super) struct Ready {
    pub lines: [bool; 5],
    pub process: bool,
}

/// Outputs that come one after the other.
#[derive(Debug, Default)]
pub(super) struct Flow {
    last: Option<Instant>,
    is_flow: bool,
}

impl Flow {
    /// Notes that an output has come.
    pub fn note(&mut self, now: Instant) {
        self.is_flow = self.last.is_some_and(|last| now < last + FLOW);
        self.last = Some(now);
    }
}

/// Waits, at most for some time. In a flow of outputs, the next ones wait for each other first; an order waits
/// for nothing.
pub(super) fn wait(
    woken: &UnixStream,
    lines: &[Line; 5],
    process: Option<&KernelProcess>,
    time: Option<Duration>,
    flow: &Flow,
) -> io::Result<Ready> {
    if flow.is_flow {
        let pause = Timespec::try_from(FLOW_PAUSE).ok();
        // A failure shows below again.
        let _ = poll(&mut [PollFd::new(woken, PollFlags::IN)], pause.as_ref());
    }
    let mut polled = vec![PollFd::new(woken, PollFlags::IN)];
    for line in lines {
        let Some(socket) = &line.socket else {
            continue;
        };
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, !line.peer.output().is_empty());
        polled.push(PollFd::from_borrowed_fd(socket.as_fd(), flags));
    }
    polled.extend(process.into_iter().flat_map(KernelProcess::waits_for));
    // Waits are a few seconds at most.
    let time = time.map(|time| Timespec::try_from(time).unwrap_or_default());
    let count = match poll(&mut polled, time.as_ref()) {
        Ok(count) => count,
        Err(Errno::INTR) => return Ok(Ready::default()),
        Err(cause) => return Err(cause.into()),
    };
    let mut reports = polled.iter().map(|of| !of.revents().is_empty());
    let is_woken = reports.next() == Some(true);
    let mut ready = Ready::default();
    for (ready, line) in ready.lines.iter_mut().zip(lines) {
        *ready = line.socket.is_some() && reports.next() == Some(true);
    }
    // A process without a descriptor for its end is asked now and then.
    let is_time = count == 0 || ready.lines[Channel::Heartbeat as usize];
    ready.process = reports.any(|has_report| has_report) || is_time;
    if is_woken {
        // These bytes only wake.
        let mut bytes = [0; 64];
        while rustix::io::read(woken, &mut bytes).is_ok_and(|count| count == bytes.len()) {}
    }
    Ok(ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_that_follow_each_other_are_a_flow() {
        let (mut flow, begin) = (Flow::default(), Instant::now());
        let mut at = |millis| {
            flow.note(begin + Duration::from_millis(millis));
            flow.is_flow
        };
        assert!(!at(0) && at(1) && at(2) && !at(4) && !at(60) && at(61));
    }
}
