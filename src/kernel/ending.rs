//! The end of a kernel that this program started: it is asked, then sent `TERM`, then killed.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::line::Line;
use super::process::KernelProcess;
use super::socket::Socket;
use super::wire::Channel;
use crate::clock::Clock;

/// The time for a kernel to end by itself, and the same after `TERM`.
const GRACE: Duration = Duration::from_secs(2);

const READ_BYTES: usize = 64 * 1024;

/// Ends a kernel. `shutdown` is the request for it; without one, the kernel is not asked.
pub(super) fn end(
    mut process: KernelProcess,
    lines: &mut [Line; 5],
    shutdown: &[Vec<u8>],
    clock: &Clock,
) {
    let control = &mut lines[Channel::Control as usize];
    let is_asked = control.is_ready() && !shutdown.is_empty();
    if is_asked {
        control.peer.send(shutdown.iter().map(Vec::as_slice));
    }
    let mut has_ended = is_asked && await_end(&mut process, lines, clock);
    if !has_ended {
        process.signal(Signal::TERM);
        has_ended = await_end(&mut process, lines, clock);
    }
    if !has_ended {
        log::info!("the kernel does not end: it is killed");
    }
    process.kill();
}

/// Waits for the end of a kernel; returns false if it does not come.
fn await_end(process: &mut KernelProcess, lines: &mut [Line; 5], clock: &Clock) -> bool {
    let until = clock.now() + GRACE;
    let mut buffer = vec![0; READ_BYTES];
    loop {
        process.read();
        match process.ended() {
            Ok(None) => {}
            Ok(Some(_)) => return true,
            Err(_) => return false,
        }
        let now = clock.now();
        if now >= until {
            return false;
        }
        // What it still sends is read and dropped: it may not end before.
        for line in &mut *lines {
            let is_open = line.write();
            let read = |socket: &mut Socket| socket.read(&mut buffer);
            let is_over = |read: io::Result<Option<usize>>| matches!(read, Ok(Some(0)) | Err(_));
            if !is_open || line.socket.as_mut().map(read).is_some_and(is_over) {
                line.socket = None;
            }
        }
        let sockets = lines.iter().filter_map(|line| line.socket.as_ref());
        let sockets = sockets.map(|it| PollFd::from_borrowed_fd(it.as_fd(), PollFlags::IN));
        let mut polled: Vec<_> = process.waits_for().chain(sockets).collect();
        let wait = Timespec::try_from(until - now).unwrap_or_default();
        if poll(&mut polled, Some(&wait)).is_err_and(|errno| errno != rustix::io::Errno::INTR) {
            return false;
        }
    }
}
