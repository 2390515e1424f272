//! The observer's side of the drains: one thread per session, `td-drains`, reads all of them.
//!
//! The thread receives [`DrainOrder`]s from the session's poller, which wakes it with a byte on a socket, and
//! sends it [`DrainMessage`]s over a bounded channel. It blocks in `poll`, and on that channel while the
//! poller is behind; meanwhile the drains keep their output. It reads a little from each drain in turn, so
//! that a flood does not delay the others. It ends when its [`Drains`] are dropped.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Once;

use crossbeam_channel::{Receiver, Select, Sender, TrySendError, bounded};
use rustix::event::PollFd;
use rustix::time::Timespec;

use super::super::server::Nonce;
use super::command::DrainProgram;
use super::command::pipe_pane;
use super::frame::{DroppedBytes, Frame, FrameParser, PAYLOAD_BYTES_MAX};
use super::socket::{self, DrainSocket};
use super::socket::{readable, wait};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::PaneId;
use crate::thread::{self, Handle, Panicked, Stop, StopGuard, is_stopped, stop_pair};

/// The number of bytes in one read from which a drain counts as flooding; tmux passes on about 4 KiB at a
/// time.
const FLOOD_BYTES: usize = 4096;

/// The pause between two reads of a flood, about one frame of a display. Measured for a million short lines:
/// 110 ms of CPU time with it, 180 ms with a pause of 1 ms, and 270 ms without a pause.
const FLOOD_PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 16_000_000,
};

/// The bound of the channel to the poller: at most one megabyte, which the poller handles in about 20 ms, so
/// that a line of a quiet pane waits no longer than that.
const MESSAGES_MAX: usize = 16;

/// The bound of the orders to the thread, which takes them at once, even while it waits for the poller.
const ORDERS_MAX: usize = 1024;

/// The maximum number of connections without a token. Only processes of the same user can connect, so more
/// are an error, and are closed.
const UNIDENTIFIED_MAX: usize = 1024;

/// The identity of one opened pipe.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PipeToken(String);

#[cfg(test)]
impl PipeToken {
    pub fn for_tests() -> Self {
        Self("pipe".into())
    }
}

#[derive(Debug)]
pub(crate) struct DrainMessage {
    pub token: PipeToken,
    pub output: DrainOutput,
}

/// The content of a message from a drain.
#[derive(Debug)]
pub(crate) enum DrainOutput {
    Connected,
    /// Bytes of the pane.
    Bytes(Vec<u8>),
    /// A gap in the bytes of the pane.
    Dropped(DroppedBytes),
    /// All bytes up to [`DrainOrder::Mark`] have arrived.
    Mark,
    /// The pane's output has ended or goes to another pipe; all bytes until then have arrived.
    Ended,
    /// The drain has ended, and its backlog is lost.
    Lost,
}

/// An order to the thread that reads the drains.
pub(crate) enum DrainOrder {
    /// A drain will connect to this socket.
    #[expect(private_interfaces, reason = "only `Drains::prepare` sends it")]
    Expect(PipeToken, DrainSocket),
    /// The pipe was not opened, or its bytes are no longer needed.
    Forget(PipeToken),
    /// The drain must send a mark after its present input.
    Mark(PipeToken),
    /// The drain must send its present input and end.
    Finish(PipeToken),
}

/// All drains of a session.
#[derive(Debug)]
pub(crate) struct Drains {
    program: DrainProgram,
    orders: Sender<DrainOrder>,
    waker: UnixStream,
    messages: Receiver<DrainMessage>,
    thread: Handle<()>,
    _running: StopGuard,
}

impl Drains {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system cannot start a thread or open a socket.
    pub fn start(program: DrainProgram, clock: &Clock) -> Result<Self> {
        static CLEAN_UP: Once = Once::new();
        CLEAN_UP.call_once(|| socket::remove_abandoned(clock.wall()));
        let (waker, wakes) = UnixStream::pair()
            .and_then(|(waker, wakes)| {
                waker.set_nonblocking(true)?;
                wakes.set_nonblocking(true)?;
                Ok((waker, wakes))
            })
            .map_err(|cause| Error::other("cannot create a pair of sockets").because(cause))?;
        let (orders, received_orders) = bounded(ORDERS_MAX);
        let (sender, messages) = bounded(MESSAGES_MAX);
        let (running, stop) = stop_pair();
        let reader = DrainReader {
            wakes,
            orders: received_orders,
            messages: sender,
            stop,
            expected: Vec::new(),
            connections: Vec::new(),
        };
        let thread = thread::spawn("td-drains", move || reader.run())?;
        Ok(Self {
            program,
            orders,
            waker,
            messages,
            thread,
            _running: running,
        })
    }

    /// Prepares a pipe: returns its token and the tmux command that opens it. Unless the drain connects, the
    /// caller must send [`DrainOrder::Forget`].
    ///
    /// # Errors
    /// When no socket can be created for the drain.
    pub fn prepare(&self, pane: &PaneId) -> Result<(PipeToken, String)> {
        let token = PipeToken(Nonce::fresh().as_str().to_owned());
        let socket = DrainSocket::new()?;
        let program = self.program.path();
        let command = pipe_pane(pane.as_str(), program, &socket.path(), &token.0);
        self.order(DrainOrder::Expect(token.clone(), socket));
        Ok((token, command))
    }

    /// Returns the channel of the messages.
    pub fn messages(&self) -> &Receiver<DrainMessage> {
        &self.messages
    }

    /// Ends the thread and the drains.
    ///
    /// # Errors
    /// When the thread has panicked.
    pub fn shutdown(self) -> Result<(), Panicked> {
        let Self {
            orders,
            waker,
            messages,
            thread,
            _running: running,
            ..
        } = self;
        drop((running, orders, messages, waker));
        thread.join()
    }

    /// Sends an order to the thread.
    pub fn order(&self, order: DrainOrder) {
        // An error means that the thread has ended, which closes the channel of the messages.
        let _ = self.orders.send(order);
        // If the socket is full, the thread is already awake.
        let _ = (&self.waker).write(&[0]);
    }
}

/// A connected process, usually a drain.
struct Connection {
    socket: UnixStream,
    frames: FrameParser,
    /// The token, once it has arrived.
    token: Option<PipeToken>,
    /// The bytes read in the last round.
    read: usize,
}

impl Connection {
    /// Returns true if the connection is flooding and all its available bytes have been read.
    fn is_flood(&self) -> bool {
        (FLOOD_BYTES..PAYLOAD_BYTES_MAX).contains(&self.read)
    }
}

struct DrainReader {
    wakes: UnixStream,
    orders: Receiver<DrainOrder>,
    messages: Sender<DrainMessage>,
    stop: Stop,
    expected: Vec<(PipeToken, DrainSocket)>,
    connections: Vec<Connection>,
}

/// The poller no longer receives messages.
struct Stopped;

impl DrainReader {
    fn run(mut self) {
        let mut buffer = vec![0; PAYLOAD_BYTES_MAX];
        while !is_stopped(&self.stop) {
            let (ready, has_connections) = match self.pause().and_then(|()| self.wait()) {
                Ok(ready) => ready,
                Err(cause) => return log::error!("cannot wait for drains: {cause}"),
            };
            self.take_orders();
            let connections = self.connections.iter_mut();
            connections.for_each(|connection| connection.read = 0);
            let mut ended = Vec::new();
            for at in ready {
                match self.read(at, &mut buffer) {
                    Ok(Some(bytes)) => self.connections[at].read = bytes,
                    Ok(None) => ended.push(at),
                    Err(Stopped) => return,
                }
            }
            for at in ended.into_iter().rev() {
                self.connections.remove(at);
            }
            if has_connections {
                self.accept();
            }
        }
    }

    /// Pauses during floods, so that thousands of small pieces are not handled separately. An order or the
    /// output of another pane ends the pause.
    fn pause(&self) -> io::Result<()> {
        if !self.connections.iter().any(Connection::is_flood) {
            return Ok(());
        }
        let connections = self.connections.iter();
        let others = connections.filter(|connection| !connection.is_flood());
        let others = others.map(|connection| readable(connection.socket.as_fd()));
        let mut fds: Vec<PollFd<'_>> = others.collect();
        fds.push(readable(self.wakes.as_fd()));
        wait(&mut fds, Some(&FLOOD_PAUSE)).map(drop)
    }

    /// Waits until there is something to do. Returns the indexes of the ready connections, and true if there
    /// are new connections.
    fn wait(&self) -> io::Result<(Vec<usize>, bool)> {
        let connections = self.connections.iter();
        let connections = connections.map(|connection| connection.socket.as_fd());
        let sockets = self.expected.iter();
        let sockets = sockets.map(|(_, socket)| socket.listener.as_fd());
        let all = connections.chain(sockets).chain([self.wakes.as_fd()]);
        let mut fds: Vec<PollFd<'_>> = all.map(readable).collect();
        wait(&mut fds, None)?;
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let (connections, rest) = fds.split_at(self.connections.len());
        let ready = connections.iter().enumerate();
        let ready = ready.filter(|(_, fd)| is_ready(fd)).map(|(at, _)| at);
        let has_connections = rest[..self.expected.len()].iter().any(is_ready);
        Ok((ready.collect(), has_connections))
    }

    fn take_orders(&mut self) {
        // One check serves all pending wakes.
        let mut bytes = [0; 256];
        while matches!((&self.wakes).read(&mut bytes), Ok(read) if read > 0) {}
        while let Ok(order) = self.orders.try_recv() {
            match order {
                DrainOrder::Expect(token, socket) => self.expected.push((token, socket)),
                DrainOrder::Forget(token) => {
                    self.expected.retain(|(expected, _)| *expected != token);
                    self.end(&token, Shutdown::Both);
                }
                DrainOrder::Mark(token) => {
                    if let Some(mut socket) = self.socket(&token) {
                        // A drain that has ended or does not read is reported as lost.
                        let _ = socket.write(&[0]);
                    }
                }
                DrainOrder::Finish(token) => self.end(&token, Shutdown::Write),
            }
        }
    }

    fn end(&self, token: &PipeToken, how: Shutdown) {
        if let Some(socket) = self.socket(token) {
            // An error means that the drain has already ended.
            let _ = socket.shutdown(how);
        }
    }

    fn socket(&self, token: &PipeToken) -> Option<&UnixStream> {
        let mut connections = self.connections.iter();
        let drain = connections.find(|connection| connection.token.as_ref() == Some(token))?;
        Some(&drain.socket)
    }

    fn accept(&mut self) {
        let connections = &mut self.connections;
        let is_unidentified = |connection: &&Connection| connection.token.is_none();
        let mut unidentified = connections.iter().filter(is_unidentified).count();
        self.expected.retain(|(_, expected)| {
            loop {
                match expected.listener.accept() {
                    Ok((socket, _))
                        if unidentified < UNIDENTIFIED_MAX
                            && socket.set_nonblocking(true).is_ok() =>
                    {
                        unidentified += 1;
                        connections.push(Connection {
                            socket,
                            frames: FrameParser::default(),
                            token: None,
                            read: 0,
                        });
                    }
                    Ok(_) => {}
                    Err(cause) if cause.kind() == ErrorKind::WouldBlock => return true,
                    Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                    Err(cause) => {
                        // Most likely no file descriptor is left. The drain finds no observer and ends, and
                        // its pane is polled.
                        log::warn!("cannot accept the connection of a drain: {cause}");
                        return false;
                    }
                }
            }
        });
    }

    /// Reads from a connection once. Returns the number of bytes, or `None` at its end.
    fn read(&mut self, at: usize, buffer: &mut [u8]) -> Result<Option<usize>, Stopped> {
        let read = match (&self.connections[at].socket).read(buffer) {
            Ok(read) => read,
            Err(cause)
                if matches!(cause.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                return Ok(Some(0));
            }
            Err(_) => 0,
        };
        if read == 0 {
            return self.lost(at);
        }
        self.connections[at].frames.push(&buffer[..read]);
        // Joins the bytes of small frames.
        let mut bytes = Vec::new();
        loop {
            let Connection { frames, token, .. } = &mut self.connections[at];
            let frame = frames.next();
            if let (Ok(Some(Frame::Bytes(more))), Some(_)) = (&frame, &token) {
                bytes.extend_from_slice(more);
                continue;
            }
            if !bytes.is_empty() {
                self.send(at, DrainOutput::Bytes(std::mem::take(&mut bytes)))?;
            }
            let frame = match frame {
                Ok(Some(frame)) => frame,
                Ok(None) => return Ok(Some(read)),
                Err(invalid) => {
                    log::warn!("{invalid}");
                    return self.lost(at);
                }
            };
            let output = match (frame, &self.connections[at].token) {
                (Frame::Hello(token), None) => {
                    let token = PipeToken(token);
                    let mut expected = self.expected.iter();
                    let Some(found) = expected.position(|(known, _)| *known == token) else {
                        return Ok(None);
                    };
                    self.expected.remove(found);
                    self.connections[at].token = Some(token);
                    DrainOutput::Connected
                }
                (Frame::Dropped(dropped), Some(_)) => DrainOutput::Dropped(dropped),
                (Frame::Mark, Some(_)) => DrainOutput::Mark,
                (Frame::End, Some(_)) => {
                    self.send(at, DrainOutput::Ended)?;
                    return Ok(None);
                }
                _ => {
                    log::warn!("a drain sent a frame out of order");
                    return self.lost(at);
                }
            };
            self.send(at, output)?;
        }
    }

    fn lost(&mut self, at: usize) -> Result<Option<usize>, Stopped> {
        self.send(at, DrainOutput::Lost)?;
        Ok(None)
    }

    /// Sends a message of an identified drain once the poller has room. Meanwhile, the thread takes orders,
    /// so that neither side waits for the other.
    fn send(&mut self, at: usize, output: DrainOutput) -> Result<(), Stopped> {
        let Some(token) = self.connections[at].token.clone() else {
            return Ok(());
        };
        let mut message = DrainMessage { token, output };
        loop {
            message = match self.messages.try_send(message) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Disconnected(_)) => return Err(Stopped),
                Err(TrySendError::Full(message)) => message,
            };
            let mut ready = Select::new();
            let stop = ready.recv(&self.stop);
            ready.recv(&self.orders);
            ready.send(&self.messages);
            if ready.ready() == stop {
                return Err(Stopped);
            }
            self.take_orders();
        }
    }
}
