//! The thread `td-kernel`: connects a kernel's five sockets, reads and writes them, sends the heartbeat, and
//! owns the kernel's process if this program started it.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use rustix::process::Signal;

use super::connection::{ConnectionInfo, Endpoint};
use super::liveness::Beat;
use super::process::{KernelProcess, KernelStart, remove_connection_file};
use super::protocol::{Channel, Message, Peer, Signer, SocketType};
use super::queues::{FeedSender, Incoming, Order};
use crate::clock::Clock;
use crate::error::{Error, Result};

/// The time for one attempt to connect.
const CONNECT: Duration = Duration::from_secs(2);

/// The pause between two attempts.
const CONNECT_AGAIN: Duration = Duration::from_millis(50);

/// The time in which a running kernel must answer the handshake.
const CONNECTED_WITHIN: Duration = Duration::from_secs(4);

/// The time in which a kernel of another program must listen again after a restart.
const BACK_WITHIN: Duration = Duration::from_secs(10);

/// The time in which a new kernel must listen. Jupyter waits as long.
const STARTED_WITHIN: Duration = Duration::from_secs(60);

const READ_BYTES: usize = 64 * 1024;

pub(super) struct SocketsOptions {
    pub info: ConnectionInfo,
    /// The kernel to start; `None` for a running kernel.
    pub start: Option<KernelStart>,
    pub signer: Signer,
    pub identity: Vec<u8>,
    pub orders: Receiver<Order>,
    /// Becomes readable when an order arrives.
    pub woken: UnixStream,
    pub feed: FeedSender,
    pub clock: Clock,
}

pub(super) struct Sockets {
    options: SocketsOptions,
    channels: [ChannelSocket; 5],
    process: Option<KernelProcess>,
    state: State,
    /// The earliest time of the next attempt to connect.
    connect_at: Option<Instant>,
    beat: Beat,
    flow: Flow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The kernel is gone or was not started.
    Idle,
    /// The thread tries to connect until this time. A kernel that `is_expected` may not listen yet.
    Connecting {
        until: Instant,
        is_expected: bool,
    },
    Connected,
}

/// The reason to stop serving.
enum End {
    Ordered(Order),
    Gone(Error),
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        Self::Gone(error)
    }
}

impl Sockets {
    pub fn new(options: SocketsOptions) -> Self {
        let channel_socket = |channel| ChannelSocket {
            channel,
            endpoint: options.info.endpoint(channel),
            socket: None,
            peer: peer(channel, &options.identity),
        };
        Self {
            channels: Channel::ALL.map(channel_socket),
            options,
            process: None,
            state: State::Idle,
            connect_at: None,
            beat: Beat::default(),
            flow: Flow::default(),
        }
    }

    /// Serves orders until the kernel is closed.
    pub fn run(&mut self) {
        let mut is_gone = false;
        loop {
            let end = if !is_gone {
                let Err(end) = self.serve();
                end
            } else if let Ok(order) = self.options.orders.recv() {
                End::Ordered(order)
            } else {
                return;
            };
            match end {
                End::Gone(error) => {
                    self.end_kernel(&[]);
                    self.options.feed.report(Incoming::Gone(error));
                    is_gone = true;
                }
                End::Ordered(Order::Restart { shutdown }) => {
                    self.end_kernel(&shutdown);
                    self.options.feed.report(Incoming::Restarting);
                    is_gone = false;
                }
                End::Ordered(Order::Close { shutdown }) => {
                    self.end_kernel(&shutdown);
                    if let Some(start) = &self.options.start {
                        remove_connection_file(&start.connection_file);
                    }
                    return;
                }
                // The kernel is gone, so a request can only be answered with an error.
                End::Ordered(Order::Send(..)) => {
                    let error = Error::gone("the connection to the kernel has ended");
                    self.options.feed.report(Incoming::Gone(error));
                }
                End::Ordered(Order::Signal(_)) => {}
            }
        }
    }

    /// Starts the kernel, if requested, and serves its sockets until an order or an error.
    fn serve(&mut self) -> Result<std::convert::Infallible, End> {
        let now = self.options.clock.now();
        let start = self.options.start.as_ref();
        self.process = start.map(KernelProcess::start).transpose()?;
        self.state = State::Connecting {
            until: now + start.map_or(CONNECTED_WITHIN, |_| STARTED_WITHIN),
            is_expected: start.is_some(),
        };
        let mut buffer = vec![0; READ_BYTES];
        loop {
            self.take_orders()?;
            let now = self.options.clock.now();
            self.connect(now)?;
            self.beat(now);
            if !self.channels.iter_mut().all(ChannelSocket::write) {
                self.disconnect(now);
            }
            let ready = self.sleep(now)?;
            for index in (0..self.channels.len()).filter(|index| ready.channels[*index]) {
                // The most bytes that are read from one socket before the next one is served.
                if !self.read(index, &mut buffer, 1024 * 1024)? {
                    self.disconnect(now);
                }
            }
            if ready.process {
                self.check_process(&mut buffer)?;
            }
            self.check_connected();
            self.check_beat();
        }
    }

    fn take_orders(&mut self) -> Result<(), End> {
        while let Ok(order) = self.options.orders.try_recv() {
            match order {
                Order::Send(channel, frames) => {
                    let peer = &mut self.channels[channel as usize].peer;
                    peer.send(frames.iter().map(Vec::as_slice));
                }
                Order::Signal(signal) => {
                    if let Some(process) = &self.process {
                        process.group.signal(signal);
                    }
                }
                order => return Err(End::Ordered(order)),
            }
        }
        Ok(())
    }

    fn connect(&mut self, now: Instant) -> Result<(), End> {
        let State::Connecting { until, is_expected } = self.state else {
            return Ok(());
        };
        if self.connect_at.is_some_and(|at| now < at) {
            return Ok(());
        }
        for channel_socket in &mut self.channels {
            if channel_socket.socket.is_some() {
                continue;
            }
            match connected(&channel_socket.endpoint) {
                Ok(socket) => channel_socket.socket = Some(socket),
                // The other sockets do not exist yet either.
                Err(_) if is_expected && now < until => return Ok(()),
                Err(cause) => {
                    let message = format!(
                        "cannot connect to the kernel's {} socket at {}: it may have ended",
                        channel_socket.channel.as_str(),
                        channel_socket.endpoint
                    );
                    return Err(Error::gone(message).because(cause).into());
                }
            }
        }
        if now < until {
            return Ok(());
        }
        let silent = self.channels.iter().find(|channel| !channel.is_ready());
        let endpoint = silent.map_or_else(String::new, |silent| silent.endpoint.to_string());
        Err(Error::gone(format!("the kernel does not answer at {endpoint}")).into())
    }

    /// Sends a heartbeat when it is due.
    fn beat(&mut self, now: Instant) {
        if self.state == State::Connected && self.beat.is_due(now) {
            let peer = &mut self.channels[Channel::Heartbeat as usize].peer;
            peer.send([b"" as &[u8], b"ping"]);
        }
    }

    fn check_beat(&mut self) {
        if self.state == State::Connected && self.beat.is_late(self.options.clock.now()) {
            self.options.feed.report(Incoming::Beating(false));
        }
    }

    /// Closes all sockets and begins to reconnect, because the kernel may restart.
    fn disconnect(&mut self, now: Instant) {
        for channel_socket in &mut self.channels {
            channel_socket.close(&self.options.identity);
        }
        self.beat = Beat::default();
        // Do not retry without a pause if a peer accepts connections and closes them.
        self.connect_at = Some(now + CONNECT_AGAIN);
        if self.state == State::Connected {
            self.options.feed.report(Incoming::Disconnected);
        }
        self.state = State::Connecting {
            until: match self.state {
                // A peer that closes the connection before the handshake gets no further time.
                State::Connecting { until, .. } => until,
                _ => now + BACK_WITHIN,
            },
            is_expected: true,
        };
    }

    fn check_connected(&mut self) {
        if matches!(self.state, State::Connecting { .. })
            && self.channels.iter().all(ChannelSocket::is_ready)
        {
            self.state = State::Connected;
            if let Some(process) = &mut self.process {
                process.read();
                // Messages of a successful start do not explain a later end.
                process.tail.clear();
            }
            self.options.feed.report(Incoming::Connected);
        }
    }

    /// Sleeps until a socket, the process, an order or a deadline needs attention.
    fn sleep(&mut self, now: Instant) -> Result<Ready, End> {
        let time = match self.state {
            State::Connected => self
                .beat
                .deadline()
                .map(|due| due.saturating_duration_since(now)),
            _ => Some(CONNECT_AGAIN),
        };
        let failed = |cause: Errno| {
            Error::other("cannot wait for the kernel's sockets").because(io::Error::from(cause))
        };
        let woken = &self.options.woken;
        if self.flow.is_flow {
            let pause = Timespec::try_from(FLOW_PAUSE).ok();
            // An order ends the pause. An error is reported by the poll below.
            let _ = poll(&mut [PollFd::new(woken, PollFlags::IN)], pause.as_ref());
        }
        let mut polled = vec![PollFd::new(woken, PollFlags::IN)];
        for channel_socket in &self.channels {
            let Some(socket) = &channel_socket.socket else {
                continue;
            };
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, !channel_socket.peer.output.is_empty());
            polled.push(PollFd::from_borrowed_fd(socket.as_fd(), flags));
        }
        polled.extend(self.process.iter().flat_map(KernelProcess::waits_for));
        // A wait is a few seconds at most, so the conversion succeeds.
        let time = time.map(|time| Timespec::try_from(time).unwrap_or_default());
        let count = match poll(&mut polled, time.as_ref()) {
            Ok(count) => count,
            Err(Errno::INTR) => return Ok(Ready::default()),
            Err(cause) => return Err(failed(cause).into()),
        };
        let mut reports = polled.iter().map(|fd| !fd.revents().is_empty());
        let is_woken = reports.next() == Some(true);
        let mut ready = Ready::default();
        for (ready, channel_socket) in ready.channels.iter_mut().zip(&self.channels) {
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
        if ready.channels[Channel::Iopub as usize] {
            self.flow.note(self.options.clock.now());
        }
        Ok(ready)
    }

    /// Reads about `bytes_max` bytes from a socket. Returns false if the peer has gone.
    fn read(&mut self, index: usize, buffer: &mut [u8], bytes_max: usize) -> Result<bool, End> {
        let mut total = 0;
        while total < bytes_max {
            let channel_socket = &mut self.channels[index];
            let Some(socket) = &channel_socket.socket else {
                break;
            };
            match read(socket, buffer) {
                Ok(Some(0)) => return Ok(false),
                Ok(Some(count)) => {
                    total += count;
                    channel_socket.peer.receive(&buffer[..count]);
                    self.take_messages(index)?;
                    if count < buffer.len() {
                        break;
                    }
                }
                Ok(None) => break,
                Err(cause) => {
                    log::debug!("{}: {cause}", channel_socket.endpoint);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn take_messages(&mut self, index: usize) -> Result<(), End> {
        loop {
            let channel_socket = &mut self.channels[index];
            let unusable = |problem: String| {
                let channel = channel_socket.channel.as_str();
                let endpoint = &channel_socket.endpoint;
                Error::other(format!(
                    "cannot use the kernel's {channel} socket at {endpoint}: {problem}"
                ))
            };
            let frames = match channel_socket.peer.next() {
                Ok(Some(frames)) => frames,
                Ok(None) => return Ok(()),
                Err(error) => return Err(unusable(error.to_string()).into()),
            };
            if channel_socket.channel == Channel::Heartbeat {
                if self.beat.answered() {
                    self.options.feed.report(Incoming::Beating(true));
                }
                continue;
            }
            let message = Message::read(channel_socket.channel, &frames, &self.options.signer)
                .map_err(|error| unusable(error.to_string()))?;
            log::trace!("kernel: {} {}", message.channel.as_str(), message.msg_type);
            self.options.feed.message(message)?;
        }
    }

    /// Checks for the end of the kernel's process. Reads everything that the kernel has sent before reporting
    /// its end.
    fn check_process(&mut self, buffer: &mut [u8]) -> Result<(), End> {
        let Some(process) = &mut self.process else {
            return Ok(());
        };
        process.read();
        let status = process.group.try_wait().map_err(|cause| {
            End::Gone(Error::other("cannot wait for the kernel").because(cause))
        })?;
        let Some(status) = status else {
            return Ok(());
        };
        process.read();
        let text = process.describe_exit(status);
        for index in 0..self.channels.len() {
            self.read(index, buffer, usize::MAX)?;
        }
        Err(Error::gone(text).into())
    }

    /// Ends the kernel, if this program started it, and closes the sockets. `shutdown` is the request to send
    /// first; if it is empty, the kernel gets `TERM` immediately.
    fn end_kernel(&mut self, shutdown: &[Vec<u8>]) {
        let (channels, clock) = (&mut self.channels, &self.options.clock);
        if let Some(mut process) = self.process.take() {
            let control = &mut channels[Channel::Control as usize];
            let is_requested = control.is_ready() && !shutdown.is_empty();
            if is_requested {
                control.peer.send(shutdown.iter().map(Vec::as_slice));
            }
            if !(is_requested && await_end(&mut process, channels, clock)) {
                process.group.signal(Signal::TERM);
                if !await_end(&mut process, channels, clock) {
                    log::info!("the kernel does not end: it is killed");
                }
            }
            process.kill();
        }
        for channel_socket in &mut self.channels {
            channel_socket.close(&self.options.identity);
        }
        self.beat = Beat::default();
        self.state = State::Idle;
    }
}

/// Connects to a kernel's socket. Waits at most [`CONNECT`] for each address of its host.
fn connected(endpoint: &Endpoint) -> io::Result<OwnedFd> {
    match endpoint {
        Endpoint::Path(path) => {
            let socket = UnixStream::connect(path)?;
            socket.set_nonblocking(true)?;
            Ok(socket.into())
        }
        Endpoint::Tcp(host, port) => {
            let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
            for address in (host.as_str(), *port).to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, CONNECT) {
                    Ok(socket) if is_connected_to_itself(&socket) => {
                        failed = io::ErrorKind::ConnectionRefused.into();
                    }
                    Ok(socket) => {
                        socket.set_nodelay(true)?;
                        socket.set_nonblocking(true)?;
                        return Ok(socket.into());
                    }
                    Err(error) => failed = error,
                }
            }
            Err(failed)
        }
    }
}

/// Reads available bytes; returns `None` if none are available now, and 0 at the end.
fn read(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    available(rustix::io::read(socket, buffer))
}

/// Returns true if a connection was made to its own port. The system can choose the target's port as the
/// local port while a kernel that does not listen yet is retried.
fn is_connected_to_itself(socket: &TcpStream) -> bool {
    socket.local_addr().ok() == socket.peer_addr().ok()
}

fn available(result: rustix::io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

#[derive(Debug)]
struct ChannelSocket {
    pub channel: Channel,
    pub endpoint: Endpoint,
    pub socket: Option<OwnedFd>,
    pub peer: Peer,
}

impl ChannelSocket {
    /// Returns true if the peer has answered the handshake.
    pub fn is_ready(&self) -> bool {
        self.socket.is_some() && self.peer.is_ready()
    }

    /// Closes the connection, so that it can be made again.
    pub fn close(&mut self, identity: &[u8]) {
        self.socket = None;
        self.peer = peer(self.channel, identity);
    }

    /// Writes as much pending output as the socket accepts. Returns false if the peer has gone.
    pub fn write(&mut self) -> bool {
        let Some(socket) = &self.socket else {
            return true;
        };
        while !self.peer.output.is_empty() {
            // Writes as many bytes as the socket accepts.
            match available(send(socket, &self.peer.output, SendFlags::NOSIGNAL)) {
                Ok(Some(count)) => drop(self.peer.output.drain(..count)),
                Ok(None) => return true,
                Err(cause) => {
                    log::debug!("{}: {cause}", self.endpoint);
                    return false;
                }
            }
        }
        true
    }
}

fn peer(channel: Channel, identity: &[u8]) -> Peer {
    match channel {
        // The kernel routes its questions by the identity of the request's sender, so these sockets share one
        // identity.
        Channel::Shell | Channel::Stdin | Channel::Control => {
            Peer::new(SocketType::Dealer, identity)
        }
        Channel::Iopub => Peer::new(SocketType::Sub, b""),
        Channel::Heartbeat => Peer::new(SocketType::Req, b""),
    }
}

/// Outputs that arrive within this time of each other are a flow.
const FLOW: Duration = Duration::from_millis(2);

/// The pause before reading the next outputs of a flow. Waking this thread for each output would slow the
/// kernel down.
const FLOW_PAUSE: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
struct Ready {
    pub channels: [bool; 5],
    pub process: bool,
}

/// Detects outputs in quick succession.
#[derive(Debug, Default)]
struct Flow {
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

/// The time that a kernel has to end after the request, and again after `TERM`.
const GRACE: Duration = Duration::from_secs(2);

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
        match process.group.try_wait() {
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
            let mut is_over =
                |socket: &OwnedFd| matches!(read(socket, &mut buffer), Ok(Some(0)) | Err(_));
            if !is_open || channel_socket.socket.as_ref().is_some_and(&mut is_over) {
                channel_socket.socket = None;
            }
        }
        let sockets = channels
            .iter()
            .filter_map(|channel_socket| channel_socket.socket.as_ref())
            .map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN));
        let mut polled: Vec<_> = process.waits_for().chain(sockets).collect();
        let wait = Timespec::try_from(until - now).unwrap_or_default();
        if poll(&mut polled, Some(&wait)).is_err_and(|errno| errno != Errno::INTR) {
            return false;
        }
    }
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
