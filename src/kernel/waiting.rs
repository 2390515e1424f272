//! Waits until a socket of the kernel, its process or an order needs attention.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::process::KernelProcess;
use super::socket::ChannelSocket;
use super::wire::Channel;

/// Outputs that arrive within this time of each other are a flow.
const FLOW: Duration = Duration::from_millis(2);

/// The pause before reading the next outputs of a flow. Waking this thread for each output would slow the
/// kernel down.
const FLOW_PAUSE: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
pub(super) struct Ready {
    pub channels: [bool; 5],
    pub process: bool,
}

/// Detects outputs in quick succession.
#[derive(Debug, Default)]
pub(super) struct Flow {
    last: Option<Instant>,
    is_flow: bool,
}

impl Flow {
    /// Records the arrival of an output.
    pub fn note(&mut self, now: Instant) {
        self.is_flow = self.last.is_some_and(|last| now < last + FLOW);
        self.last = Some(now);
    }
}

/// Waits at most for `time`. During a flow, first pauses to let several outputs accumulate; an order ends the
/// pause.
pub(super) fn wait(
    woken: &UnixStream,
    channels: &[ChannelSocket; 5],
    process: Option<&KernelProcess>,
    time: Option<Duration>,
    flow: &Flow,
) -> io::Result<Ready> {
    if flow.is_flow {
        let pause = Timespec::try_from(FLOW_PAUSE).ok();
        // An error is reported by the poll below.
        let _ = poll(&mut [PollFd::new(woken, PollFlags::IN)], pause.as_ref());
    }
    let mut polled = vec![PollFd::new(woken, PollFlags::IN)];
    for channel_socket in channels {
        let Some(socket) = &channel_socket.socket else {
            continue;
        };
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, !channel_socket.peer.output().is_empty());
        polled.push(PollFd::from_borrowed_fd(socket.as_fd(), flags));
    }
    polled.extend(process.into_iter().flat_map(KernelProcess::waits_for));
    // A wait is a few seconds at most, so the conversion succeeds.
    let time = time.map(|time| Timespec::try_from(time).unwrap_or_default());
    let count = match poll(&mut polled, time.as_ref()) {
        Ok(count) => count,
        Err(Errno::INTR) => return Ok(Ready::default()),
        Err(cause) => return Err(cause.into()),
    };
    let mut reports = polled.iter().map(|fd| !fd.revents().is_empty());
    let is_woken = reports.next() == Some(true);
    let mut ready = Ready::default();
    for (ready, channel_socket) in ready.channels.iter_mut().zip(channels) {
        *ready = channel_socket.socket.is_some() && reports.next() == Some(true);
    }
    // A process without an exit descriptor is polled at each timeout and heartbeat.
    let is_poll_due = count == 0 || ready.channels[Channel::Heartbeat as usize];
    ready.process = reports.any(|has_report| has_report) || is_poll_due;
    if is_woken {
        // The bytes have no meaning; they only wake the thread.
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
