//! Ends a kernel that this program started: a shutdown request, then `TERM`, then `KILL`.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::process::KernelProcess;
use super::socket::{ChannelSocket, Socket};
use super::wire::Channel;
use crate::clock::Clock;

/// The time that a kernel has to end after the request, and again after `TERM`.
const GRACE: Duration = Duration::from_secs(2);

const READ_BYTES: usize = 64 * 1024;

/// Ends a kernel. `shutdown` is the request to send first; if it is empty, the kernel gets `TERM`
/// immediately.
pub(super) fn end(
    mut process: KernelProcess,
    channels: &mut [ChannelSocket; 5],
    shutdown: &[Vec<u8>],
    clock: &Clock,
) {
    let control = &mut channels[Channel::Control as usize];
    let is_requested = control.is_ready() && !shutdown.is_empty();
    if is_requested {
        control.peer.send(shutdown.iter().map(Vec::as_slice));
    }
    let mut has_ended = is_requested && await_end(&mut process, channels, clock);
    if !has_ended {
        process.signal(Signal::TERM);
        has_ended = await_end(&mut process, channels, clock);
    }
    if !has_ended {
        log::info!("the kernel does not end: it is killed");
    }
    process.kill();
}

/// Waits for the end of a kernel; returns false if the grace period passes first.
fn await_end(
    process: &mut KernelProcess,
    channels: &mut [ChannelSocket; 5],
    clock: &Clock,
) -> bool {
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
        // Read and drop everything that the kernel still sends, because full sockets could prevent its end.
        for channel_socket in &mut *channels {
            let is_open = channel_socket.write();
            let read = |socket: &mut Socket| socket.read(&mut buffer);
            let is_over = |read: io::Result<Option<usize>>| matches!(read, Ok(Some(0)) | Err(_));
            if !is_open
                || channel_socket
                    .socket
                    .as_mut()
                    .map(read)
                    .is_some_and(is_over)
            {
                channel_socket.socket = None;
            }
        }
        let sockets = channels
            .iter()
            .filter_map(|channel_socket| channel_socket.socket.as_ref());
        let sockets = sockets.map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN));
        let mut polled: Vec<_> = process.waits_for().chain(sockets).collect();
        let wait = Timespec::try_from(until - now).unwrap_or_default();
        if poll(&mut polled, Some(&wait)).is_err_and(|errno| errno != rustix::io::Errno::INTR) {
            return false;
        }
    }
}
