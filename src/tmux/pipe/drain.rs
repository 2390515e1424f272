//! The drain itself: what `pipe-pane` hands the bytes of a pane to.
//!
//! It blocks in `poll` alone, on its standard input and the socket. It ends when the observer is
//! gone; when the observer has said that it wants no more, and has been given what was there; or
//! when the pane is gone and the observer has taken everything.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::command::path_of_hex;
use super::frame::Frame;
use super::place;
use super::ring::{PIECE_BYTES, Ring};
use crate::error::{Error, Result};

/// What is still read of a pane that prints without end, after its observer wants no more: more than
/// sockets hold.
const LAST_BYTES_MAX: usize = 1 << 20;

/// So many bytes read at a time are a flood: tmux hands on some 4 KiB at a time.
const FLOOD_BYTES: usize = 2048;

/// How long a flood is let come before more of it is read, so that neither the drain nor tmux, which
/// wakes it, is busy with each piece: as fast as tmux prints, that is less than the pipe holds.
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 2_000_000,
};

/// Runs as the drain of a pane: hands what comes over standard input to the observer, and comes back
/// when one of the two is gone. For programs that are named as a
/// [`DrainProgram`](super::DrainProgram): tmux starts them with the arguments `drain`, `address` and
/// `token`. Nothing may have been printed before, nor be printed afterwards.
///
/// # Errors
/// When this is no command line of a drain, or nobody listens there.
pub fn drain(address: &str, token: &str) -> Result<()> {
    let socket = path_of_hex(address)
        .ok_or_else(|| Error::invalid("a drain is started by td-observe only"))?;
    let observer = UnixStream::connect(&socket).map_err(|cause| {
        // Its observer has been killed.
        place::remove(&socket);
        Error::file("cannot reach the observer at", &socket, cause)
    })?;
    let _output = mute().map_err(|cause| Error::other("cannot keep quiet").because(cause))?;
    // So that it is known in a list of processes; nothing depends on it.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(c"td-drain");
    let input = io::stdin();
    serve(input.as_fd(), &observer, token)
        .map_err(|cause| Error::other("cannot drain the pane").because(cause))
}

/// Keeps standard output open, because tmux takes its end for the drain's, but where nobody writes
/// to it: what stood there would be typed into the pane.
fn mute() -> io::Result<OwnedFd> {
    let output = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?;
    let nowhere = File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    Ok(output)
}

/// Hands what comes in to the observer, until one of the two is gone.
fn serve(input: BorrowedFd<'_>, observer: &UnixStream, token: &str) -> io::Result<()> {
    observer.set_nonblocking(true)?;
    let mut drain = Drain {
        ring: Ring::default(),
        out: Frame::Hello(token.to_owned()).encode(),
        sent: 0,
        input: Input::Open,
        marks: 0,
        has_said_end: false,
    };
    drain.run(input, observer)
}

struct Drain {
    ring: Ring,
    /// The frame that is being sent, and how much of it was.
    out: Vec<u8>,
    sent: usize,
    input: Input,
    /// So often the observer wants to know when all has come that was there then.
    marks: usize,
    has_said_end: bool,
}

/// What is still to come in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Input {
    Open,
    /// What has come by now, and no more: the observer does not want it. So many bytes at most.
    LastOnes(usize),
    Ended,
}

impl Input {
    /// After so many bytes have been read.
    fn without(self, read: usize) -> Self {
        match self {
            Self::LastOnes(left) if left <= read => Self::Ended,
            Self::LastOnes(left) => Self::LastOnes(left - read),
            other => other,
        }
    }
}

/// What there is to do.
struct Ready {
    to_read: bool,
    to_send: bool,
    /// The observer has something to say.
    is_told: bool,
    is_gone: bool,
}

impl Drain {
    fn run(&mut self, input: BorrowedFd<'_>, observer: &UnixStream) -> io::Result<()> {
        let mut buffer = vec![0; PIECE_BYTES];
        let mut floods = false;
        while self.input != Input::Ended || !self.is_done() {
            if floods {
                self.pause(observer)?;
            }
            floods = false;
            let ready = self.wait(input, observer)?;
            if ready.is_gone {
                return Ok(());
            }
            if ready.is_told && self.input == Input::Open {
                match heard(observer)? {
                    Some(marks) => self.marks += marks,
                    None => self.input = Input::LastOnes(LAST_BYTES_MAX),
                }
            }
            if ready.to_read {
                match rustix::io::read(input, &mut buffer) {
                    Ok(0) => self.input = Input::Ended,
                    Ok(read) => {
                        floods = (FLOOD_BYTES..buffer.len()).contains(&read);
                        self.ring.push(&buffer[..read]);
                        self.input = self.input.without(read);
                    }
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    // The server's end of a socket that was reset: there is no more to come.
                    Err(Errno::CONNRESET) => self.input = Input::Ended,
                    Err(cause) => return Err(cause.into()),
                }
            } else if matches!(self.input, Input::LastOnes(_)) {
                self.input = Input::Ended;
            } else if self.marks > 0 && self.is_dry(input)? {
                self.ring.mark();
                self.marks -= 1;
            }
            // What has just come is sent at once: there is nearly always room.
            if (ready.to_send || ready.to_read) && !self.send(observer)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Lets more of a flood come, unless the observer has something to say or there is something to send.
    fn pause(&self, observer: &UnixStream) -> io::Result<()> {
        let mut asked = PollFlags::IN;
        if !self.is_done() {
            asked |= PollFlags::OUT;
        }
        match poll(
            &mut [PollFd::from_borrowed_fd(observer.as_fd(), asked)],
            Some(&PAUSE),
        ) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(cause) => Err(cause.into()),
        }
    }

    /// Waits until there is something to do.
    fn wait(&self, input: BorrowedFd<'_>, observer: &UnixStream) -> io::Result<Ready> {
        let mut asked = PollFlags::empty();
        if !self.is_done() {
            asked |= PollFlags::OUT;
        }
        if self.input == Input::Open {
            asked |= PollFlags::IN;
        }
        let socket = PollFd::from_borrowed_fd(observer.as_fd(), asked);
        let reads = self.input != Input::Ended;
        let input = PollFd::from_borrowed_fd(input, PollFlags::IN);
        let mut fds = [socket, input];
        let fds = if reads { &mut fds[..] } else { &mut fds[..1] };
        let at_once = Timespec::default();
        let hurries = matches!(self.input, Input::LastOnes(_)) || self.marks > 0;
        let timeout = hurries.then_some(&at_once);
        loop {
            match poll(fds, timeout) {
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(cause) => return Err(cause.into()),
            }
        }
        let socket = fds[0].revents();
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        Ok(Ready {
            to_read: fds.get(1).is_some_and(|fd| !fd.revents().is_empty()),
            to_send: socket.contains(PollFlags::OUT),
            is_told: socket.contains(PollFlags::IN),
            is_gone: socket.intersects(gone),
        })
    }

    /// Sends what the socket takes; false when the observer is gone.
    fn send(&mut self, mut to: &UnixStream) -> io::Result<bool> {
        loop {
            if self.sent == self.out.len() {
                self.sent = 0;
                self.out = match self.ring.pop() {
                    Some(piece) => Frame::from(piece).encode(),
                    None if self.input == Input::Ended && !self.has_said_end => {
                        self.has_said_end = true;
                        Frame::End.encode()
                    }
                    None => {
                        self.out.clear();
                        return Ok(true);
                    }
                };
            }
            match to.write(&self.out[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause)
                    if matches!(
                        cause.kind(),
                        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
                    ) =>
                {
                    return Ok(false);
                }
                Err(cause) => return Err(cause),
            }
        }
    }

    /// Whether nothing is there to be read at this moment, after the observer has asked.
    fn is_dry(&self, input: BorrowedFd<'_>) -> io::Result<bool> {
        let mut fd = [PollFd::from_borrowed_fd(input, PollFlags::IN)];
        match poll(&mut fd, Some(&Timespec::default())) {
            Ok(ready) => Ok(ready == 0),
            Err(Errno::INTR) => Ok(false),
            Err(cause) => Err(cause.into()),
        }
    }

    /// Nothing waits to be sent; at the end that has been said, too.
    fn is_done(&self) -> bool {
        self.sent == self.out.len()
            && self.ring.is_empty()
            && (self.input != Input::Ended || self.has_said_end)
    }
}

/// How often the observer asks for a mark; `None` when it wants no more.
fn heard(mut observer: &UnixStream) -> io::Result<Option<usize>> {
    let mut bytes = [0; 16];
    match observer.read(&mut bytes) {
        Ok(0) => Ok(None),
        Ok(marks) => Ok(Some(marks)),
        Err(cause)
            if matches!(
                cause.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ) =>
        {
            Ok(Some(0))
        }
        Err(cause) if cause.kind() == io::ErrorKind::ConnectionReset => Ok(None),
        Err(cause) => Err(cause),
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::Frames;
    use super::super::ring;
    use super::*;

    /// A drain on a thread: its input, and the observer's end.
    struct Bench {
        input: Option<OwnedFd>,
        observer: UnixStream,
        thread: crate::thread::Handle<io::Result<()>>,
    }

    fn bench() -> Bench {
        let (observer, socket) = UnixStream::pair().unwrap();
        let (read, write) = UnixStream::pair().unwrap();
        let thread =
            crate::thread::spawn("drain", move || serve(read.as_fd(), &socket, "abc")).unwrap();
        Bench {
            input: Some(write.into()),
            observer,
            thread,
        }
    }

    impl Bench {
        fn print(&self, bytes: &[u8]) {
            let mut rest = bytes;
            while !rest.is_empty() {
                let written = rustix::io::write(self.input.as_ref().unwrap(), rest).unwrap();
                rest = &rest[written..];
            }
        }

        fn frames(&mut self) -> Vec<Frame> {
            let (mut frames, mut found) = (Frames::default(), Vec::new());
            let mut buffer = vec![0; 1 << 20];
            loop {
                let read = self.observer.read(&mut buffer).unwrap();
                frames.push(&buffer[..read]);
                while let Some(frame) = frames.next().unwrap() {
                    found.push(frame);
                }
                if read == 0 {
                    return found;
                }
            }
        }
    }

    #[test]
    fn all_of_it_comes_and_then_the_end() {
        let mut bench = bench();
        let text = "line\n".repeat(100_000);
        bench.print(b"first ");
        bench.print(&text.as_bytes()[..1000]);
        // From another thread: the socket takes less than that.
        let input = bench.input.take().unwrap();
        let rest = text.as_bytes()[1000..].to_vec();
        let writer = crate::thread::spawn("writer", move || {
            let mut file = std::fs::File::from(input);
            file.write_all(&rest).unwrap();
        })
        .unwrap();
        let frames = bench.frames();
        writer.join().unwrap();
        bench.thread.join().unwrap().unwrap();
        assert_eq!(frames.first(), Some(&Frame::Hello("abc".into())));
        assert_eq!(frames.last(), Some(&Frame::End));
        let bytes: Vec<u8> = frames
            .into_iter()
            .flat_map(|frame| match frame {
                Frame::Bytes(bytes) => bytes,
                _ => Vec::new(),
            })
            .collect();
        assert_eq!(bytes, ["first ", &text].concat().as_bytes());
    }

    #[test]
    fn an_observer_that_reads_nothing_holds_nobody_up_and_the_count_is_exact() {
        let mut bench = bench();
        // More than the ring and the socket hold; that this comes to an end is the first thing.
        let block = "0123456\n".repeat(8 << 10);
        let blocks = 2 * (ring::BYTES_MAX / block.len());
        for _ in 0..blocks {
            bench.print(block.as_bytes());
        }
        bench.input = None;
        let (mut bytes, mut line_ends, mut holes) = (0, 0, 0);
        for frame in bench.frames() {
            match frame {
                Frame::Bytes(part) => {
                    bytes += part.len() as u64;
                    line_ends += part.iter().filter(|byte| **byte == b'\n').count() as u64;
                }
                Frame::Dropped(dropped) => {
                    bytes += dropped.bytes;
                    line_ends += dropped.line_ends;
                    holes += 1;
                }
                Frame::Hello(_) | Frame::Mark | Frame::End => {}
            }
        }
        bench.thread.join().unwrap().unwrap();
        assert_eq!(holes, 1);
        assert_eq!(bytes, (blocks * block.len()) as u64);
        assert_eq!(line_ends, bytes / 8);
    }

    #[test]
    fn an_observer_that_wants_no_more_gets_what_was_there() {
        let mut bench = bench();
        bench.print(b"something");
        bench.observer.shutdown(std::net::Shutdown::Write).unwrap();
        let frames = bench.frames();
        bench.thread.join().unwrap().unwrap();
        let something = Frame::Bytes(b"something".into());
        assert_eq!(frames, [Frame::Hello("abc".into()), something, Frame::End]);
        drop(bench.input);
    }

    #[test]
    fn a_mark_comes_behind_all_that_was_there() {
        let mut bench = bench();
        let text = "0123456\n".repeat(1 << 14);
        bench.print(&text.as_bytes()[..100_000]);
        (&bench.observer).write_all(&[0]).unwrap();
        let (mut frames, mut bytes, mut buffer) = (Frames::default(), 0, vec![0; 1 << 16]);
        'mark: loop {
            let read = bench.observer.read(&mut buffer).unwrap();
            frames.push(&buffer[..read]);
            while let Some(frame) = frames.next().unwrap() {
                match frame {
                    Frame::Bytes(part) => bytes += part.len(),
                    Frame::Mark => break 'mark,
                    Frame::Hello(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(bytes, 100_000);
        bench.input = None;
        bench.frames();
        bench.thread.join().unwrap().unwrap();
    }

    #[test]
    fn it_ends_with_its_observer() {
        let bench = bench();
        bench.print(b"something");
        drop(bench.observer);
        bench.thread.join().unwrap().unwrap();
    }
}
