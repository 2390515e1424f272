//! Rings when a terminal is opened on this machine: the program of a new pane has one of its own, so that
//! a session that has just begun is found without asking for it all the time.
//!
//! One thread a watched server, `td-terminals`. It blocks until a terminal appears in `/dev/pts` (devpts
//! reports that to inotify) and rings, which never waits. At rest it does not run. It ends when its
//! [`TerminalWatch`] is shut down or dropped.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::error::{Error, Result};
use crate::thread::{self, Handle, Panicked};

/// The thread that watches.
#[derive(Debug)]
pub(crate) struct TerminalWatch {
    opened: Receiver<()>,
    /// Kept, so that the receivers stay open where the thread has ended early.
    _bell: Sender<()>,
    thread: Handle<()>,
    wake: UnixStream,
}

impl TerminalWatch {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread or descriptor to give, or is no Linux.
    pub fn start() -> Result<Self> {
        let failed = |cause| Error::other("cannot watch for new terminals").because(cause);
        let (wake, woken) = UnixStream::pair().map_err(failed)?;
        let terminals = imp::watch().map_err(failed)?;
        // One ring is as good as many.
        let (bell, opened) = bounded(1);
        let rung = bell.clone();
        let thread = thread::spawn("td-terminals", move || run(&terminals, &woken, &rung))?;
        Ok(Self {
            opened,
            _bell: bell,
            thread,
            wake,
        })
    }

    /// Gets a message when a terminal was opened.
    pub fn opened(&self) -> &Receiver<()> {
        &self.opened
    }

    /// Ends the thread.
    ///
    /// # Errors
    /// When it had panicked.
    pub fn shutdown(self) -> Result<(), Panicked> {
        let Self { thread, wake, .. } = self;
        drop(wake);
        thread.join()
    }
}

fn run(terminals: &OwnedFd, woken: &UnixStream, bell: &Sender<()>) {
    while imp::wait(terminals, woken) {
        // A bell that has not been heard yet rings for this terminal, too.
        let _ = bell.try_send(());
    }
}

#[cfg(target_os = "linux")]
mod imp {
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
    use rustix::io::Errno;

    /// Room for some events: what is left comes with the next read.
    const EVENTS_BYTES: usize = 4096;

    pub fn watch() -> io::Result<OwnedFd> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        inotify::add_watch(&inotify, "/dev/pts", WatchFlags::CREATE)?;
        Ok(inotify)
    }

    /// Waits for a terminal; false when the thread is to end.
    pub fn wait(terminals: &OwnedFd, woken: &UnixStream) -> bool {
        loop {
            let mut fds = [
                PollFd::new(terminals, PollFlags::IN),
                PollFd::new(woken, PollFlags::IN),
            ];
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    log::warn!("new terminals are not watched for any more: {error}");
                    return false;
                }
            }
            if !fds[1].revents().is_empty() {
                return false;
            }
            if !fds[0].revents().is_empty() {
                let mut events = [MaybeUninit::uninit(); EVENTS_BYTES];
                let mut reader = inotify::Reader::new(terminals, &mut events);
                while reader.next().is_ok() {}
                return true;
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    pub fn watch() -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn wait(_terminals: &OwnedFd, _woken: &UnixStream) -> bool {
        false
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_terminal_that_is_opened_rings() {
        let watch = TerminalWatch::start().unwrap();
        let pty = pty_process::blocking::open().unwrap();
        watch
            .opened()
            .recv_timeout(Duration::from_secs(20))
            .unwrap();
        drop(pty);
        watch.shutdown().unwrap();
    }
}
