//! Detects new terminals on this machine. The program of a new pane gets a terminal, so new sessions are
//! found without polling tmux.
//!
//! Each watched tmux server has one thread, `td-terminals`. It blocks until a terminal appears in `/dev/pts`
//! (devpts reports this to inotify) and sends a message without blocking. It ends when its [`TerminalWatch`]
//! is shut down or dropped.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::error::{Error, Result};
use crate::thread::{self, Handle, Panicked};

/// The thread that detects new terminals.
#[derive(Debug)]
pub(crate) struct TerminalWatch {
    /// Gets a message when a terminal was opened.
    pub opened: Receiver<()>,
    /// Keeps the channel open if the thread ends early.
    _sender: Sender<()>,
    thread: Handle<()>,
    wake: UnixStream,
}

impl TerminalWatch {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread or descriptor left, or is not Linux.
    pub fn start() -> Result<Self> {
        let failed = |cause| Error::other("cannot detect new terminals").because(cause);
        let (wake, woken) = UnixStream::pair().map_err(failed)?;
        let terminals = imp::watch().map_err(failed)?;
        // One message represents any number of terminals.
        let (sender, opened) = bounded(1);
        let thread_sender = sender.clone();
        let thread = thread::spawn("td-terminals", move || {
            while imp::wait(&terminals, &woken) {
                // A full channel already has a message, which covers this terminal.
                let _ = thread_sender.try_send(());
            }
        })?;
        Ok(Self {
            opened,
            _sender: sender,
            thread,
            wake,
        })
    }

    /// Ends the thread.
    ///
    /// # Errors
    /// When the thread has panicked.
    pub fn shutdown(self) -> Result<(), Panicked> {
        let Self { thread, wake, .. } = self;
        drop(wake);
        thread.join()
    }
}

#[cfg(target_os = "linux")]
mod imp {
    use std::io;
    use std::mem::MaybeUninit;

    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
    use rustix::io::Errno;

    use super::{OwnedFd, UnixStream};

    pub fn watch() -> io::Result<OwnedFd> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        inotify::add_watch(&inotify, "/dev/pts", WatchFlags::CREATE)?;
        Ok(inotify)
    }

    /// Waits for a terminal; returns false when the thread must end.
    pub fn wait(terminals: &OwnedFd, woken: &UnixStream) -> bool {
        loop {
            let mut fds = [
                PollFd::new(terminals, PollFlags::IN),
                PollFd::new(woken, PollFlags::IN),
            ];
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    log::warn!("new terminals are no longer detected: {error}");
                    return false;
                }
            }
            if !fds[1].revents().is_empty() {
                return false;
            }
            if !fds[0].revents().is_empty() {
                // The size of one read; further events follow with the next one.
                let mut events = [MaybeUninit::uninit(); 4096];
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

    use super::{OwnedFd, UnixStream};

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
    fn an_opened_terminal_is_reported() {
        let watch = TerminalWatch::start().unwrap();
        let pty = pty_process::blocking::open().unwrap();
        watch.opened.recv_timeout(Duration::from_secs(20)).unwrap();
        drop(pty);
        watch.shutdown().unwrap();
    }
}
