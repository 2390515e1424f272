//! The drain process, to which `pipe-pane` writes the bytes of a pane, and which sends them to the observer.
//!
//! It blocks only in `poll`, on its standard input and the socket. It ends when the observer has ended, when
//! the observer has finished it and received the rest, or when the pane has ended and the observer has
//! received everything.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::command::path_of_hex;
use super::frame::{DroppedBytes, Frame, PAYLOAD_BYTES_MAX};
use super::socket;
use super::socket::{readable, wait};
use crate::error::{Error, Result};

/// The number of bytes in one read from which the output counts as a flood; tmux passes on about 4 KiB at a
/// time.
const FLOOD_BYTES: usize = 2048;

/// The pause between two reads of a flood, so that neither the drain nor tmux, which wakes it, handles each
/// piece separately. Even at its fastest, tmux prints less in that time than the pipe holds.
const FLOOD_PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 2_000_000,
};

/// Runs as the drain of a pane: sends the standard input to the observer, and returns when either of them has
/// ended. For programs that are used as a [`DrainProgram`](super::DrainProgram): tmux starts them with the
/// arguments `drain`, `address` and `token`. The program must print nothing before or after the call.
///
/// # Errors
/// When the arguments are not those of a drain, or no observer listens at the address.
pub fn drain(address: &str, token: &str) -> Result<()> {
    let path = path_of_hex(address)
        .ok_or_else(|| Error::invalid("only td-observe itself starts drains"))?;
    let observer = UnixStream::connect(&path).map_err(|cause| {
        // The observer was killed.
        socket::remove(&path);
        Error::file("cannot reach the observer at", &path, cause)
    })?;
    let _output = silence_stdout()
        .map_err(|cause| Error::other("cannot redirect standard output").because(cause))?;
    // Names the process for process listings; nothing depends on it.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(c"td-drain");
    let input = io::stdin();
    serve(input.as_fd(), &observer, token)
        .map_err(|cause| Error::other("cannot drain the pane").because(cause))
}

/// Keeps standard output open, because tmux takes its end for the end of the drain, and redirects writes to
/// `/dev/null`, because tmux would type them into the pane.
fn silence_stdout() -> io::Result<OwnedFd> {
    let output = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?;
    let null = File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(output)
}

/// Sends the input to the observer until either of them has ended.
fn serve(input: BorrowedFd<'_>, observer: &UnixStream, token: &str) -> io::Result<()> {
    observer.set_nonblocking(true)?;
    let mut drain = DrainProcess {
        backlog: Backlog::default(),
        out: Frame::Hello(token.to_owned()).encode(),
        sent: 0,
        input: InputState::Open,
        marks: 0,
        has_sent_end: false,
    };
    drain.run(input, observer)
}

struct DrainProcess {
    backlog: Backlog,
    /// The encoded frame that is being sent, and the number of its bytes already sent.
    out: Vec<u8>,
    sent: usize,
    input: InputState,
    /// The number of marks that the observer has requested and not received yet.
    marks: usize,
    has_sent_end: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum InputState {
    Open,
    /// The observer has finished the drain: only the available bytes are read, at most this number.
    Rest(usize),
    Ended,
}

impl InputState {
    fn after_read(self, bytes: usize) -> Self {
        match self {
            Self::Rest(left) if left <= bytes => Self::Ended,
            Self::Rest(left) => Self::Rest(left - bytes),
            other => other,
        }
    }
}

impl DrainProcess {
    fn run(&mut self, input: BorrowedFd<'_>, observer: &UnixStream) -> io::Result<()> {
        let mut buffer = vec![0; PAYLOAD_BYTES_MAX];
        let mut is_flood = false;
        while self.input != InputState::Ended || !self.is_done() {
            if is_flood {
                self.pause(observer)?;
            }
            is_flood = false;
            let (socket, can_read) = self.wait(input, observer)?;
            if socket.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
                return Ok(());
            }
            if socket.contains(PollFlags::IN) && self.input == InputState::Open {
                match read_orders(observer)? {
                    Some(marks) => self.marks += marks,
                    // More than sockets hold, from a pane that prints endlessly.
                    None => self.input = InputState::Rest(1 << 20),
                }
            }
            if can_read {
                match rustix::io::read(input, &mut buffer) {
                    Ok(0) => self.input = InputState::Ended,
                    Ok(read) => {
                        is_flood = (FLOOD_BYTES..buffer.len()).contains(&read);
                        self.backlog.push(&buffer[..read]);
                        self.input = self.input.after_read(read);
                        // A short read has emptied the input, however fast it fills again.
                        if read < buffer.len() {
                            self.place_mark();
                        }
                    }
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    // The server has reset its end of the socket.
                    Err(Errno::CONNRESET) => self.input = InputState::Ended,
                    Err(cause) => return Err(cause.into()),
                }
            } else if matches!(self.input, InputState::Rest(_)) {
                self.input = InputState::Ended;
            } else if self.marks > 0 && is_empty(input)? {
                self.place_mark();
            }
            // New bytes are sent at once, because the socket nearly always has room.
            if (socket.contains(PollFlags::OUT) || can_read) && !self.send(observer)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Marks the end of the input so far, if the observer has requested a mark.
    fn place_mark(&mut self) {
        if self.marks > 0 {
            self.backlog.mark();
            self.marks -= 1;
        }
    }

    /// Returns `POLLOUT` if frames are waiting to be sent.
    fn output_flag(&self) -> PollFlags {
        if self.is_done() {
            PollFlags::empty()
        } else {
            PollFlags::OUT
        }
    }

    /// Pauses during a flood, until the observer sends something or the socket has room.
    fn pause(&self, observer: &UnixStream) -> io::Result<()> {
        let flags = PollFlags::IN | self.output_flag();
        let socket = PollFd::from_borrowed_fd(observer.as_fd(), flags);
        wait(&mut [socket], Some(&FLOOD_PAUSE)).map(drop)
    }

    /// Waits until there is something to do. Returns the events of the socket, and true if there is input.
    fn wait(&self, input: BorrowedFd<'_>, observer: &UnixStream) -> io::Result<(PollFlags, bool)> {
        let mut flags = self.output_flag();
        if self.input == InputState::Open {
            flags |= PollFlags::IN;
        }
        let socket = PollFd::from_borrowed_fd(observer.as_fd(), flags);
        let mut fds = [socket, readable(input)];
        let fds = match self.input {
            InputState::Ended => &mut fds[..1],
            _ => &mut fds[..],
        };
        let at_once = Timespec::default();
        let is_urgent = matches!(self.input, InputState::Rest(_)) || self.marks > 0;
        wait(fds, is_urgent.then_some(&at_once))?;
        let can_read = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
        Ok((fds[0].revents(), can_read))
    }

    /// Sends as much as the socket accepts. Returns false if the observer has ended.
    fn send(&mut self, mut socket: &UnixStream) -> io::Result<bool> {
        loop {
            if self.sent == self.out.len() {
                self.sent = 0;
                self.out = match self.backlog.pop() {
                    Some(frame) => frame.encode(),
                    None if self.input == InputState::Ended && !self.has_sent_end => {
                        self.has_sent_end = true;
                        Frame::End.encode()
                    }
                    None => {
                        self.out.clear();
                        return Ok(true);
                    }
                };
            }
            match socket.write(&self.out[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(cause) => match cause.kind() {
                    ErrorKind::WouldBlock => return Ok(true),
                    ErrorKind::Interrupted => {}
                    ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => return Ok(false),
                    _ => return Err(cause),
                },
            }
        }
    }

    /// Returns true if everything has been sent, including the end frame.
    fn is_done(&self) -> bool {
        self.sent == self.out.len()
            && self.backlog.is_empty()
            && (self.input != InputState::Ended || self.has_sent_end)
    }
}

/// Returns true if no input is available.
fn is_empty(input: BorrowedFd<'_>) -> io::Result<bool> {
    wait(&mut [readable(input)], Some(&Timespec::default())).map(|ready| ready == 0)
}

/// Reads the number of marks that the observer requests; `None` if it has finished the drain.
fn read_orders(mut observer: &UnixStream) -> io::Result<Option<usize>> {
    let mut bytes = [0; 16];
    match observer.read(&mut bytes) {
        Ok(0) => Ok(None),
        Ok(marks) => Ok(Some(marks)),
        Err(cause) => match cause.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(Some(0)),
            ErrorKind::ConnectionReset => Ok(None),
            _ => Err(cause),
        },
    }
}

/// The room for bytes that the observer has not taken yet: many times the output of tmux at its fastest in
/// two seconds.
pub(super) const BYTES_MAX: usize = 64 << 20;

/// The waiting frames, oldest first: bytes, gaps and marks.
#[derive(Debug)]
pub(super) struct Backlog {
    frames: VecDeque<Frame>,
    /// The number of bytes in them.
    len: usize,
    max: usize,
    resume: usize,
    /// True if the last bytes were dropped.
    is_dropping: bool,
    /// True if the last dropped byte ended a line.
    gap_ends_line: bool,
    /// The number of bytes that were dropped despite free room, to reach the end of a line.
    dropped_to_line_end: usize,
}

impl Default for Backlog {
    fn default() -> Self {
        // A quarter must be free before bytes are accepted again after a drop, so that one gap with one count
        // results instead of thousands.
        Self::new(BYTES_MAX, BYTES_MAX / 4)
    }
}

impl Backlog {
    fn new(max: usize, resume: usize) -> Self {
        Self {
            frames: VecDeque::new(),
            len: 0,
            max,
            resume,
            is_dropping: false,
            gap_ends_line: false,
            dropped_to_line_end: 0,
        }
    }

    /// Accepts bytes, and counts those without room.
    pub fn push(&mut self, bytes: &[u8]) {
        let (before, bytes) = if self.is_dropping {
            bytes.split_at(self.rest_of_gap(bytes))
        } else {
            bytes.split_at(0)
        };
        self.drop_bytes(before);
        let (taken, rest) = bytes.split_at(bytes.len().min(self.max - self.len));
        self.take(taken);
        self.drop_bytes(rest);
    }

    /// Returns how many of these bytes belong to the preceding gap.
    fn rest_of_gap(&mut self, bytes: &[u8]) -> usize {
        if self.max - self.len < self.resume {
            return bytes.len();
        }
        // The output after a gap begins with a line. More output without a line feed is not text.
        if self.gap_ends_line || self.dropped_to_line_end >= PAYLOAD_BYTES_MAX {
            return 0;
        }
        let line_end = memchr::memchr(b'\n', bytes);
        let end = line_end.map_or(bytes.len(), |at| at + 1);
        self.dropped_to_line_end += end;
        end
    }

    fn drop_bytes(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if !std::mem::replace(&mut self.is_dropping, true) {
            self.dropped_to_line_end = 0;
        }
        if !matches!(self.frames.back(), Some(Frame::Dropped(_))) {
            self.frames
                .push_back(Frame::Dropped(DroppedBytes::default()));
        }
        if let Some(Frame::Dropped(dropped)) = self.frames.back_mut() {
            dropped.bytes += bytes.len() as u64;
            dropped.line_ends += memchr::memchr_iter(b'\n', bytes).count() as u64;
        }
        self.gap_ends_line = bytes.ends_with(b"\n");
    }

    fn take(&mut self, bytes: &[u8]) {
        self.is_dropping &= bytes.is_empty();
        self.len += bytes.len();
        for bytes in bytes.chunks(PAYLOAD_BYTES_MAX) {
            match self.frames.back_mut() {
                // Small writes are joined, because each frame has a header.
                Some(Frame::Bytes(last)) if last.len() + bytes.len() <= PAYLOAD_BYTES_MAX => {
                    last.extend_from_slice(bytes);
                }
                _ => self.frames.push_back(Frame::Bytes(bytes.to_vec())),
            }
        }
    }

    /// Removes the oldest frame.
    pub fn pop(&mut self) -> Option<Frame> {
        let frame = self.frames.pop_front()?;
        if let Frame::Bytes(bytes) = &frame {
            self.len -= bytes.len();
        }
        if self.frames.is_empty() {
            // The observer has caught up, so the next bytes belong to no gap.
            self.is_dropping = false;
        }
        Some(frame)
    }

    /// Appends a mark.
    pub fn mark(&mut self) {
        self.frames.push_back(Frame::Mark);
    }

    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::tmux::pipe::frame::FrameParser;

    use super::*;

    /// A drain on a thread, with its input and the observer's end of the socket.
    struct RunningDrain {
        input: Option<OwnedFd>,
        observer: UnixStream,
        thread: crate::thread::Handle<io::Result<()>>,
    }

    fn start() -> RunningDrain {
        let (observer, socket) = UnixStream::pair().unwrap();
        let (read, write) = UnixStream::pair().unwrap();
        let thread =
            crate::thread::spawn("drain", move || serve(read.as_fd(), &socket, "abc")).unwrap();
        RunningDrain {
            input: Some(write.into()),
            observer,
            thread,
        }
    }

    impl RunningDrain {
        fn print(&self, bytes: &[u8]) {
            let mut rest = bytes;
            while !rest.is_empty() {
                let written = rustix::io::write(self.input.as_ref().unwrap(), rest).unwrap();
                rest = &rest[written..];
            }
        }

        fn frames(&mut self) -> Vec<Frame> {
            let (mut frames, mut found) = (FrameParser::default(), Vec::new());
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
    fn all_input_arrives_and_then_the_end() {
        let mut drain = start();
        let text = "line\n".repeat(100_000);
        drain.print(b"first ");
        drain.print(&text.as_bytes()[..1000]);
        // On another thread, because the socket holds less.
        let input = drain.input.take().unwrap();
        let rest = text.as_bytes()[1000..].to_vec();
        let writer = crate::thread::spawn("writer", move || {
            let mut file = std::fs::File::from(input);
            file.write_all(&rest).unwrap();
        })
        .unwrap();
        let frames = drain.frames();
        writer.join().unwrap();
        drain.thread.join().unwrap().unwrap();
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
    fn an_observer_that_reads_nothing_blocks_no_one_and_the_count_is_exact() {
        let mut drain = start();
        // More than the backlog and the socket hold; the loop must still end.
        let block = "0123456\n".repeat(8 << 10);
        let blocks = 2 * (BYTES_MAX / block.len());
        for _ in 0..blocks {
            drain.print(block.as_bytes());
        }
        drain.input = None;
        let (mut bytes, mut line_ends, mut gaps) = (0, 0, 0);
        for frame in drain.frames() {
            match frame {
                Frame::Bytes(part) => {
                    bytes += part.len() as u64;
                    line_ends += part.iter().filter(|byte| **byte == b'\n').count() as u64;
                }
                Frame::Dropped(dropped) => {
                    bytes += dropped.bytes;
                    line_ends += dropped.line_ends;
                    gaps += 1;
                }
                Frame::Hello(_) | Frame::Mark | Frame::End => {}
            }
        }
        drain.thread.join().unwrap().unwrap();
        assert_eq!(gaps, 1);
        assert_eq!(bytes, (blocks * block.len()) as u64);
        assert_eq!(line_ends, bytes / 8);
    }

    #[test]
    fn a_finished_drain_sends_the_available_input() {
        let mut drain = start();
        drain.print(b"something");
        drain.observer.shutdown(std::net::Shutdown::Write).unwrap();
        let frames = drain.frames();
        drain.thread.join().unwrap().unwrap();
        let something = Frame::Bytes(b"something".into());
        assert_eq!(frames, [Frame::Hello("abc".into()), something, Frame::End]);
        drop(drain.input);
    }

    #[test]
    fn a_mark_follows_the_available_input() {
        let mut drain = start();
        let text = "0123456\n".repeat(1 << 14);
        drain.print(&text.as_bytes()[..100_000]);
        (&drain.observer).write_all(&[0]).unwrap();
        let (mut frames, mut bytes, mut buffer) = (FrameParser::default(), 0, vec![0; 1 << 16]);
        'mark: loop {
            let read = drain.observer.read(&mut buffer).unwrap();
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
        drain.input = None;
        drain.frames();
        drain.thread.join().unwrap().unwrap();
    }

    #[test]
    fn a_drain_ends_with_its_observer() {
        let drain = start();
        drain.print(b"something");
        drop(drain.observer);
        drain.thread.join().unwrap().unwrap();
    }

    proptest! {
        /// The output equals the input, with a count in place of each gap.
        #[test]
        fn every_byte_comes_out_or_is_counted(
            steps in prop::collection::vec((any::<bool>(), "[a-c\n]{0,40}"), 0..60),
        ) {
            let mut backlog = Backlog::new(64, 16);
            let (mut given, mut taken) = (Vec::new(), Vec::new());
            let mut receive = |frame: Option<Frame>| taken.extend(frame);
            for (takes, text) in steps {
                given.extend_from_slice(text.as_bytes());
                backlog.push(text.as_bytes());
                prop_assert!(backlog.len <= 64);
                if takes {
                    receive(backlog.pop());
                }
            }
            while !backlog.is_empty() {
                receive(backlog.pop());
            }
            let mut rest = given.as_slice();
            for frame in taken {
                match frame {
                    Frame::Bytes(bytes) => {
                        prop_assert!(!bytes.is_empty());
                        prop_assert_eq!(&rest[..bytes.len()], &bytes[..]);
                        rest = &rest[bytes.len()..];
                    }
                    Frame::Dropped(dropped) => {
                        let (gap, more) = rest.split_at(dropped.bytes as usize);
                        let ends = gap.iter().filter(|byte| **byte == b'\n').count();
                        prop_assert_eq!(ends as u64, dropped.line_ends);
                        rest = more;
                    }
                    Frame::Hello(_) | Frame::Mark | Frame::End => {
                        prop_assert!(false);
                    }
                }
            }
            prop_assert!(rest.is_empty());
        }
    }
}
