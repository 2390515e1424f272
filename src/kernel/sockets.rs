//! The thread `td-kernel`: connects a kernel's five sockets, reads and writes them, sends the heartbeat, and
//! owns the kernel's process if this program started it.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use super::beat::Beat;
use super::connection::ConnectionInfo;
use super::ending::end;
use super::feed::{FeedSender, Incoming};
use super::orders::Order;
use super::process::{KernelProcess, KernelStart, remove_connection_file};
use super::socket::{ChannelSocket, Socket};
use super::waiting::{self, Flow, Ready};
use super::wire::{Channel, Message, Signer};
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

/// The most bytes that are read from one socket before the next one is served.
const TURN_BYTES: usize = 1024 * 1024;

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
        let channel_socket = |channel| {
            ChannelSocket::new(channel, options.info.endpoint(channel), &options.identity)
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
            let end = match is_gone {
                false => {
                    let Err(end) = self.serve();
                    end
                }
                true => match self.options.orders.recv() {
                    Ok(order) => End::Ordered(order),
                    Err(_) => return,
                },
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
                if !self.read(index, &mut buffer, TURN_BYTES)? {
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
                        process.signal(signal);
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
            match Socket::connect(&channel_socket.endpoint, CONNECT) {
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
                process.forget_output();
            }
            self.options.feed.report(Incoming::Connected);
        }
    }

    /// Sleeps until a socket, the process, an order or a deadline needs attention.
    fn sleep(&mut self, now: Instant) -> Result<Ready, End> {
        let wait = match self.state {
            State::Connected => self
                .beat
                .deadline()
                .map(|due| due.saturating_duration_since(now)),
            _ => Some(CONNECT_AGAIN),
        };
        let (woken, process) = (&self.options.woken, self.process.as_ref());
        let ready = waiting::wait(woken, &self.channels, process, wait, &self.flow)
            .map_err(|cause| Error::other("cannot wait for the kernel's sockets").because(cause))?;
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
            let Some(socket) = &mut channel_socket.socket else {
                break;
            };
            match socket.read(buffer) {
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
        let status = process.ended().map_err(|cause| {
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

    /// Ends the kernel, if this program started it, and closes the sockets.
    fn end_kernel(&mut self, shutdown: &[Vec<u8>]) {
        if let Some(process) = self.process.take() {
            end(process, &mut self.channels, shutdown, &self.options.clock);
        }
        for channel_socket in &mut self.channels {
            channel_socket.close(&self.options.identity);
        }
        self.beat = Beat::default();
        self.state = State::Idle;
    }
}
