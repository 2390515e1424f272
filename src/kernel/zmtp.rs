//! ZMTP 3.0, the protocol of ZeroMQ's sockets, without encryption. Takes bytes and returns messages (pure).
//!
//! Source: ZMTP 3.0, <https://rfc.zeromq.org/spec/23/>. Each side of a connection sends a greeting of 64
//! bytes and a `READY` command, then messages of one or more frames.

use std::ops::Range;

const GREETING_BYTES: usize = 64;

/// The largest accepted message. Kernels send images and tables in one message.
const MESSAGE_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The most frames of a message. Jupyter's messages have about seven frames and one for each buffer.
const FRAMES_MAX: usize = 4096;

/// The longest accepted command. `READY` has two short properties.
const COMMAND_BYTES_MAX: usize = 64 * 1024;

/// Consumed bytes are removed from the input buffer once there are this many.
const CONSUMED_BYTES: usize = 64 * 1024;

/// The most memory that an empty input buffer keeps.
const INPUT_BYTES_KEPT: usize = 1024 * 1024;

/// A `PING` is answered only while fewer bytes than this wait to be written, because a peer that does not
/// read its input needs no answer.
const PONG_OUTPUT_MAX: usize = 64 * 1024;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// The ZeroMQ socket types that a client of a kernel uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketType {
    /// Requests and replies in any order.
    Dealer,
    /// Receives published messages.
    Sub,
    /// Alternates between requests and replies.
    Req,
}

impl SocketType {
    fn name(self) -> &'static str {
        match self {
            Self::Dealer => "DEALER",
            Self::Sub => "SUB",
            Self::Req => "REQ",
        }
    }

    /// Returns true if a socket of this type can talk to a peer of type `peer`.
    fn talks_to(self, peer: &[u8]) -> bool {
        match self {
            Self::Dealer => matches!(peer, b"ROUTER" | b"DEALER" | b"REP"),
            Self::Sub => matches!(peer, b"PUB" | b"XPUB"),
            Self::Req => matches!(peer, b"ROUTER" | b"REP"),
        }
    }
}

/// A violation of the protocol by the peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ZmtpError {
    /// The greeting is not ZeroMQ's.
    #[error("it is no ZeroMQ socket")]
    NoZeroMq,
    /// The peer's protocol version is older than 3.0.
    #[error("it speaks version {0} of ZeroMQ's protocol, and version 3 is needed")]
    Version(u8),
    /// The peer requires a security mechanism.
    #[error("it is encrypted ({0}): start the kernel without encryption")]
    Mechanism(String),
    /// The peer is a socket of another type.
    #[error("it is a {0} socket: it belongs to another channel, or to another program")]
    SocketType(String),
    /// The peer refuses the connection.
    #[error("it refuses the connection: {0}")]
    Refused(String),
    /// A frame is invalid.
    #[error("its data are no ZeroMQ messages: {0}")]
    Frame(&'static str),
}

/// A message of one or more frames, stored in one buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Multipart {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Multipart {
    pub fn frames(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.ends.len()).map(|index| &self.bytes[self.range(index)])
    }

    /// Returns the number of bytes of all frames.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    fn range(&self, index: usize) -> Range<usize> {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[index]
    }

    fn push(&mut self, frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
        self.ends.push(self.bytes.len());
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Greeting,
    Handshake,
    Ready,
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Peer {
    socket_type: SocketType,
    state: State,
    input: Vec<u8>,
    /// The number of bytes of `input` that were parsed.
    consumed: usize,
    output: Vec<u8>,
    /// The frames so far of a message whose last frame has not arrived.
    incomplete: Multipart,
}

impl Peer {
    /// Creates the state of a new connection. Peers route replies by `identity`, which may be empty.
    pub fn new(socket_type: SocketType, identity: &[u8]) -> Self {
        let mut output = greeting().to_vec();
        let mut ready = Vec::new();
        push_property(&mut ready, "Socket-Type", socket_type.name().as_bytes());
        if socket_type != SocketType::Sub {
            push_property(&mut ready, "Identity", identity);
        }
        push_command(&mut output, "READY", &ready);
        Self {
            socket_type,
            state: State::Greeting,
            input: Vec::new(),
            consumed: 0,
            output,
            incomplete: Multipart::default(),
        }
    }

    /// Returns true if the peer has answered the handshake.
    pub fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// Adds bytes from the peer. [`Peer::next`] returns the messages in them.
    pub fn receive(&mut self, bytes: &[u8]) {
        if self.consumed >= CONSUMED_BYTES {
            self.input.drain(..self.consumed);
            self.consumed = 0;
        }
        self.input.extend_from_slice(bytes);
    }

    /// Returns the next message of the peer; `None` if more bytes are needed.
    ///
    /// # Errors
    /// If the peer violates the protocol. The caller must close the connection.
    pub fn next(&mut self) -> Result<Option<Multipart>, ZmtpError> {
        if self.state == State::Greeting {
            let input = &self.input[self.consumed..];
            check_greeting(input)?;
            if input.len() < GREETING_BYTES {
                return Ok(None);
            }
            self.consumed += GREETING_BYTES;
            self.state = State::Handshake;
        }
        while let Some((flags, body)) = self.next_frame()? {
            if flags & COMMAND != 0 {
                self.command(body)?;
                continue;
            }
            if self.state != State::Ready {
                return Err(ZmtpError::Frame("a message comes before the handshake"));
            }
            let is_last = flags & MORE == 0;
            if self.incomplete.ends.len() >= FRAMES_MAX {
                return Err(ZmtpError::Frame("a message has too many frames"));
            }
            let frame = &self.input[body];
            if self.incomplete.len() + frame.len() > MESSAGE_BYTES_MAX {
                return Err(ZmtpError::Frame("a message is longer than 256 MiB"));
            }
            self.incomplete.push(frame);
            if is_last {
                return Ok(Some(std::mem::take(&mut self.incomplete)));
            }
        }
        Ok(None)
    }

    pub fn send<'a>(&mut self, frames: impl IntoIterator<Item = &'a [u8]>) {
        let mut frames = frames.into_iter().peekable();
        while let Some(frame) = frames.next() {
            let flags = if frames.peek().is_some() { MORE } else { 0 };
            push_frame(&mut self.output, flags, frame);
        }
    }

    /// Returns the bytes to write.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Removes `count` written bytes.
    pub fn written(&mut self, count: usize) {
        self.output.drain(..count.min(self.output.len()));
    }

    /// Consumes the next frame; returns its flags and the range of its body.
    fn next_frame(&mut self) -> Result<Option<(u8, Range<usize>)>, ZmtpError> {
        let input = &self.input[self.consumed..];
        let Some(&flags) = input.first() else {
            self.input.clear();
            // Return the memory of a large message.
            self.input.shrink_to(INPUT_BYTES_KEPT);
            self.consumed = 0;
            return Ok(None);
        };
        if flags & !(MORE | LONG | COMMAND) != 0 || flags & (COMMAND | MORE) == COMMAND | MORE {
            return Err(ZmtpError::Frame("a frame has unknown flags"));
        }
        let (head, size) = if flags & LONG == 0 {
            (2, input.get(1).map(|&size| u64::from(size)))
        } else {
            let size = input.get(1..9).and_then(|size| size.try_into().ok());
            (9, size.map(u64::from_be_bytes))
        };
        let Some(size) = size else {
            return Ok(None);
        };
        let (size_max, too_long) = if flags & COMMAND == 0 {
            (MESSAGE_BYTES_MAX, "a frame is longer than 256 MiB")
        } else {
            (COMMAND_BYTES_MAX, "a command is longer than 64 KiB")
        };
        let size = usize::try_from(size).ok().filter(|size| *size <= size_max);
        let size = size.ok_or(ZmtpError::Frame(too_long))?;
        if input.len() < head + size {
            return Ok(None);
        }
        let start = self.consumed + head;
        self.consumed = start + size;
        Ok(Some((flags, start..start + size)))
    }

    fn command(&mut self, body: Range<usize>) -> Result<(), ZmtpError> {
        let body = &self.input[body];
        let (name, rest) = split_short(body).ok_or(ZmtpError::Frame("a command has no name"))?;
        match (name, self.state) {
            (b"READY", State::Handshake) => {
                let peer = properties(rest)?
                    .find(|(name, _)| name.eq_ignore_ascii_case(b"Socket-Type"))
                    .map_or(b"" as &[u8], |(_, value)| value);
                if !self.socket_type.talks_to(peer) {
                    return Err(ZmtpError::SocketType(printable(peer)));
                }
                self.state = State::Ready;
                if self.socket_type == SocketType::Sub {
                    // Subscribe to everything, with a message as in version 3.0. libzmq 4.3 closes the
                    // connection if it arrives together with the handshake.
                    push_frame(&mut self.output, 0, &[1]);
                }
            }
            (b"ERROR", _) => {
                let reason = split_short(rest).map_or(rest, |(reason, _)| reason);
                return Err(ZmtpError::Refused(printable(reason)));
            }
            (b"PING", State::Ready) if self.output.len() < PONG_OUTPUT_MAX => {
                // The body is a time to live of two bytes, then the context to send back.
                let context = rest.get(2..).unwrap_or_default().to_vec();
                push_command(&mut self.output, "PONG", &context);
            }
            // Ignore commands of later versions.
            (_, State::Ready) => {}
            _ => return Err(ZmtpError::Frame("the handshake is out of order")),
        }
        Ok(())
    }
}

fn greeting() -> [u8; GREETING_BYTES] {
    let mut greeting = [0; GREETING_BYTES];
    greeting[0] = 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[12..16].copy_from_slice(b"NULL");
    greeting
}

/// Checks the received part of a greeting.
fn check_greeting(input: &[u8]) -> Result<(), ZmtpError> {
    if input.first().is_some_and(|&byte| byte != 0xff)
        || input.get(9).is_some_and(|&byte| byte != 0x7f)
    {
        return Err(ZmtpError::NoZeroMq);
    }
    if let Some(&version) = input.get(10)
        && version < 3
    {
        return Err(ZmtpError::Version(version));
    }
    if let Some(mechanism) = input.get(12..32) {
        let end = mechanism.iter().position(|&byte| byte == 0);
        let mechanism = &mechanism[..end.unwrap_or(mechanism.len())];
        if mechanism != b"NULL" {
            return Err(ZmtpError::Mechanism(printable(mechanism)));
        }
    }
    Ok(())
}

/// Splits off a string with a length prefix of one byte.
fn split_short(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(length))
}

/// Returns the properties of a `READY` command.
fn properties(mut bytes: &[u8]) -> Result<impl Iterator<Item = (&[u8], &[u8])>, ZmtpError> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let property = || {
            let (name, rest) = split_short(bytes)?;
            let (length, rest) = rest.split_first_chunk::<4>()?;
            let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
            let (value, rest) = rest.split_at_checked(length)?;
            Some((name, value, rest))
        };
        let (name, value, rest) =
            property().ok_or(ZmtpError::Frame("a property of the handshake is cut off"))?;
        found.push((name, value));
        bytes = rest;
    }
    Ok(found.into_iter())
}

fn push_property(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    // Names and values are short: names of sockets, and identities.
    out.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&u32::try_from(value.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(value);
}

fn push_command(out: &mut Vec<u8>, name: &str, data: &[u8]) {
    let mut body = vec![u8::try_from(name.len()).unwrap_or(u8::MAX)];
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(data);
    push_frame(out, COMMAND, &body);
}

fn push_frame(out: &mut Vec<u8>, flags: u8, body: &[u8]) {
    match u8::try_from(body.len()) {
        Ok(size) => out.extend_from_slice(&[flags, size]),
        Err(_) => {
            out.push(flags | LONG);
            out.extend_from_slice(&(body.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(body);
}

/// Returns at most 40 characters of received bytes, escaped for an error message.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars()
        .take(40)
        .flat_map(char::escape_default)
        .collect()
}

#[cfg(test)]
#[path = "zmtp_tests.rs"]
mod tests;
