//! Queues from and to the thread that draws, which wake it while it polls the terminal.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, SendError, Sender, TrySendError, bounded};

use super::effect::Input;

/// The maximum number of inputs, of batches of live events, or of requests to a thread that wait. The drawing
/// thread handles a full queue of inputs within a frame, and a person selects fewer rows while one page is read.
pub(super) const QUEUE_MAX: usize = 64;

/// Wakes the drawing thread, through a pair of sockets.
#[derive(Clone, Debug)]
pub(super) struct Wake {
    socket: Arc<UnixStream>,
    /// True while a byte is in the socket; another one would not wake the thread earlier.
    is_notified: Arc<AtomicBool>,
}

/// The end that the drawing thread polls.
#[derive(Debug)]
pub(super) struct Woken {
    socket: UnixStream,
    is_notified: Arc<AtomicBool>,
}

pub(super) fn wake_pair() -> io::Result<(Wake, Woken)> {
    let (read, write) = UnixStream::pair()?;
    read.set_nonblocking(true)?;
    write.set_nonblocking(true)?;
    let is_notified = Arc::new(AtomicBool::new(false));
    let wake = Wake {
        socket: Arc::new(write),
        is_notified: is_notified.clone(),
    };
    let woken = Woken {
        socket: read,
        is_notified,
    };
    Ok((wake, woken))
}

impl Wake {
    pub fn notify(&self) {
        if !self.is_notified.swap(true, Ordering::SeqCst) {
            // A full socket wakes the thread as well, and a closed one has no thread to wake.
            let _ = (&*self.socket).write(&[0]);
        }
    }

    /// Returns a socket for a signal handler, which writes a byte to it.
    pub fn for_handler(&self) -> io::Result<UnixStream> {
        self.socket.try_clone()
    }
}

impl Woken {
    /// Reads all bytes. The inputs sent before them can be received now.
    pub fn clear(&self) {
        self.is_notified.store(false, Ordering::SeqCst);
        let mut bytes = [0; 64];
        while matches!((&self.socket).read(&mut bytes), Ok(count) if count > 0) {}
    }
}

impl AsFd for Woken {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sends inputs to the drawing thread, and wakes it.
#[derive(Clone, Debug)]
pub(super) struct InputSender {
    pub inputs: Sender<Input>,
    pub wake: Wake,
}

impl InputSender {
    /// Sends an input; waits for room.
    pub fn send(&self, input: Input) -> Result<(), SendError<Input>> {
        self.inputs.send(input)?;
        self.wake.notify();
        Ok(())
    }
}

/// The sending end of a bounded queue.
#[derive(Debug)]
pub(super) struct RequestSender<T> {
    requests: Sender<T>,
    /// Drops requests that are obsolete.
    waiting: Receiver<T>,
}

pub(super) fn request_queue<T>() -> (RequestSender<T>, Receiver<T>) {
    let (requests, waiting) = bounded(QUEUE_MAX);
    let receiver = waiting.clone();
    (RequestSender { requests, waiting }, receiver)
}

impl<T> RequestSender<T> {
    /// Adds a request. A full queue drops the oldest one.
    pub fn send(&self, mut request: T) {
        while let Err(TrySendError::Full(refused)) = self.requests.try_send(request) {
            let _ = self.waiting.try_recv();
            request = refused;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn is_woken(woken: &Woken) -> bool {
        let mut polled = [PollFd::new(woken, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec::default())).unwrap() > 0
    }

    #[test]
    fn a_notification_is_pending_until_it_is_cleared() {
        let (wake, woken) = wake_pair().unwrap();
        assert!(!is_woken(&woken));
        for _ in 0..3 {
            for _ in 0..100_000 {
                wake.notify();
            }
            assert!(is_woken(&woken));
            woken.clear();
            assert!(!is_woken(&woken));
        }
        // A signal handler's byte does not set the flag.
        wake.for_handler().unwrap().write_all(&[0]).unwrap();
        assert!(is_woken(&woken));
        woken.clear();
        assert!(!is_woken(&woken));
    }

    #[test]
    fn inputs_sent_before_a_clear_can_be_received() {
        let (wake, woken) = wake_pair().unwrap();
        let (send, inputs) = crossbeam_channel::bounded(1_000);
        let sender = InputSender { inputs: send, wake };
        let sending = crate::thread::spawn("sender", move || {
            for _ in 0..1_000 {
                sender.send(Input::Message(String::new())).unwrap();
            }
        })
        .unwrap();
        let mut received = 0;
        while received < 1_000 {
            let mut polled = [PollFd::new(&woken, PollFlags::IN)];
            poll(&mut polled, None).unwrap();
            woken.clear();
            received += inputs.try_iter().count();
        }
        sending.join().unwrap();
    }
}
