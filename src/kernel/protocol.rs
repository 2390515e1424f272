//! The protocols of a kernel's sockets: ZMTP 3.0, the protocol of ZeroMQ, without encryption, and the messages
//! of Jupyter, versions 5.3 and 5.4. Takes bytes and returns messages (pure).
//!
//! Source: ZMTP 3.0, <https://rfc.zeromq.org/spec/23/>. Each side of a connection sends a greeting of 64
//! bytes and a `READY` command, then messages of one or more frames.
//!
//! Source: <https://jupyter-client.readthedocs.io/en/stable/messaging.html>. A message is a list of
//! frames: identities or a topic, a delimiter, a signature, four JSON objects (header, parent header,
//! metadata, content), and buffers. The signature is the HMAC-SHA256 of the four objects, in hexadecimal
//! digits.

use std::fmt::Write;
use std::ops::Range;

use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::Sha256;

const GREETING_BYTES: usize = 64;

/// The largest accepted message. Kernels send images and tables in one message.
const MESSAGE_BYTES_MAX: usize = 256 * 1024 * 1024;

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

/// The error for bytes that are no messages.
fn no_messages(why: &str) -> String {
    format!("its data are no ZeroMQ messages: {why}")
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
    /// The bytes to write.
    pub output: Vec<u8>,
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
        // Consumed bytes are removed from the input buffer once there are this many.
        if self.consumed >= 64 * 1024 {
            self.input.drain(..self.consumed);
            self.consumed = 0;
        }
        self.input.extend_from_slice(bytes);
    }

    /// Returns the next message of the peer; `None` if more bytes are needed.
    ///
    /// # Errors
    /// If the peer violates the protocol. The caller must close the connection.
    pub fn next(&mut self) -> Result<Option<Multipart>, String> {
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
                return Err(no_messages("a message comes before the handshake"));
            }
            let is_last = flags & MORE == 0;
            // The most frames of a message. Jupyter's messages have about seven frames and one for each buffer.
            if self.incomplete.ends.len() >= 4096 {
                return Err(no_messages("a message has too many frames"));
            }
            let frame = &self.input[body];
            if self.incomplete.len() + frame.len() > MESSAGE_BYTES_MAX {
                return Err(no_messages("a message is longer than 256 MiB"));
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

    /// Consumes the next frame; returns its flags and the range of its body.
    fn next_frame(&mut self) -> Result<Option<(u8, Range<usize>)>, String> {
        let input = &self.input[self.consumed..];
        let Some(&flags) = input.first() else {
            self.input.clear();
            // Return the memory of a large message.
            self.input.shrink_to(INPUT_BYTES_KEPT);
            self.consumed = 0;
            return Ok(None);
        };
        if flags & !(MORE | LONG | COMMAND) != 0 || flags & (COMMAND | MORE) == COMMAND | MORE {
            return Err(no_messages("a frame has unknown flags"));
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
            // The longest accepted command. `READY` has two short properties.
            (64 * 1024, "a command is longer than 64 KiB")
        };
        let size = usize::try_from(size)
            .ok()
            .filter(|size| *size <= size_max)
            .ok_or_else(|| no_messages(too_long))?;
        if input.len() < head + size {
            return Ok(None);
        }
        let start = self.consumed + head;
        self.consumed = start + size;
        Ok(Some((flags, start..start + size)))
    }

    fn command(&mut self, body: Range<usize>) -> Result<(), String> {
        let body = &self.input[body];
        let (name, rest) = split_short(body).ok_or_else(|| no_messages("a command has no name"))?;
        match (name, self.state) {
            (b"READY", State::Handshake) => {
                let peer = properties(rest)?
                    .find(|(name, _)| name.eq_ignore_ascii_case(b"Socket-Type"))
                    .map_or(b"" as &[u8], |(_, value)| value);
                if !self.socket_type.talks_to(peer) {
                    return Err(format!(
                        "it is a {} socket: it belongs to another channel, or to another program",
                        printable(peer)
                    ));
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
                return Err(format!("it refuses the connection: {}", printable(reason)));
            }
            (b"PING", State::Ready) if self.output.len() < PONG_OUTPUT_MAX => {
                // The body is a time to live of two bytes, then the context to send back.
                let context = rest.get(2..).unwrap_or_default().to_vec();
                push_command(&mut self.output, "PONG", &context);
            }
            // Ignore commands of later versions.
            (_, State::Ready) => {}
            _ => return Err(no_messages("the handshake is out of order")),
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
fn check_greeting(input: &[u8]) -> Result<(), String> {
    if input.first().is_some_and(|&byte| byte != 0xff)
        || input.get(9).is_some_and(|&byte| byte != 0x7f)
    {
        return Err("it is no ZeroMQ socket".to_owned());
    }
    if let Some(&version) = input.get(10)
        && version < 3
    {
        return Err(format!(
            "it speaks version {version} of ZeroMQ's protocol, and version 3 is needed"
        ));
    }
    if let Some(mechanism) = input.get(12..32) {
        let end = mechanism.iter().position(|&byte| byte == 0);
        let mechanism = &mechanism[..end.unwrap_or(mechanism.len())];
        if mechanism != b"NULL" {
            return Err(format!(
                "it is encrypted ({}): start the kernel without encryption",
                printable(mechanism)
            ));
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
fn properties(mut bytes: &[u8]) -> Result<impl Iterator<Item = (&[u8], &[u8])>, String> {
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
            property().ok_or_else(|| no_messages("a property of the handshake is cut off"))?;
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

/// Separates the identities from the message.
const DELIMITER: &[u8] = b"<IDS|MSG>";

/// The socket of a kernel that a message came from or goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    /// Requests for execution.
    Shell,
    /// Published output and states, for all clients.
    Iopub,
    /// The kernel's input requests.
    Stdin,
    /// Interrupts and shutdown.
    Control,
    /// An echo of the heartbeat.
    Heartbeat,
}

impl Channel {
    pub const ALL: [Self; 5] = [
        Self::Shell,
        Self::Iopub,
        Self::Stdin,
        Self::Control,
        Self::Heartbeat,
    ];

    /// Returns the name that connection files use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Iopub => "iopub",
            Self::Stdin => "stdin",
            Self::Control => "control",
            Self::Heartbeat => "hb",
        }
    }
}

/// Signs messages and checks signatures.
#[derive(Clone)]
pub(crate) struct Signer(Option<Hmac<Sha256>>);

impl Signer {
    /// Creates a signer. As the protocol specifies, an empty key signs nothing and accepts everything.
    pub fn new(key: &[u8]) -> Self {
        let mac = Hmac::new_from_slice(key).ok();
        Self(mac.filter(|_| !key.is_empty()))
    }

    fn mac(&self, parts: &[&[u8]; 4]) -> Option<Hmac<Sha256>> {
        let mut mac = self.0.clone()?;
        for part in parts {
            mac.update(part);
        }
        Some(mac)
    }

    fn sign(&self, parts: &[&[u8]; 4]) -> String {
        let mut digits = String::new();
        if let Some(mac) = self.mac(parts) {
            for byte in mac.finalize().into_bytes() {
                // Writing to a string does not fail.
                let _ = write!(digits, "{byte:02x}");
            }
        }
        digits
    }

    fn accepts(&self, signature: &[u8], parts: &[&[u8]; 4]) -> bool {
        let Some(mac) = self.mac(parts) else {
            return true;
        };
        bytes_of_hex(signature).is_some_and(|signature| mac.verify_slice(&signature).is_ok())
    }
}

fn bytes_of_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: &u8| char::from(*digit).to_digit(16);
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(value(high)? * 16 + value(low)?).ok(),
        _ => None,
    });
    pairs.collect()
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Header {
    #[serde(default)]
    pub msg_id: String,
    #[serde(default)]
    pub msg_type: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub channel: Channel,
    pub msg_type: String,
    /// The id of the request that the message belongs to; empty if there is none.
    pub parent_id: String,
    /// The type of that request.
    pub parent_type: String,
    content: Box<RawValue>,
}

impl Message {
    /// Reads a message.
    ///
    /// # Errors
    /// If the signature is wrong, or the message is malformed.
    pub fn read(channel: Channel, frames: &Multipart, signer: &Signer) -> Result<Self, String> {
        let mut frames = frames.frames().skip_while(|frame| *frame != DELIMITER);
        let missing = || "a message is malformed: frames are missing".to_owned();
        frames.next().ok_or_else(missing)?;
        let mut next = || frames.next().ok_or_else(missing);
        let signature = next()?;
        let parts = [next()?, next()?, next()?, next()?];
        if !signer.accepts(signature, &parts) {
            return Err(
                "a message is signed with another key: is the connection file that of this kernel?"
                    .to_owned(),
            );
        }
        let [header, parent, metadata, content] = parts;
        let malformed = |part: &str, error: serde_json::Error| {
            format!("a message is malformed: the {part}: {error}")
        };
        let header: Header =
            serde_json::from_slice(header).map_err(|error| malformed("header", error))?;
        let parent: Header =
            serde_json::from_slice(parent).map_err(|error| malformed("parent header", error))?;
        // The metadata are not used, but invalid JSON means that the message is damaged.
        serde_json::from_slice::<&RawValue>(metadata)
            .map_err(|error| malformed("metadata", error))?;
        // Python's kernel passes on printed bytes that are not UTF-8, for example in file names.
        let content = String::from_utf8_lossy(content);
        let content =
            serde_json::from_str(&content).map_err(|error| malformed("content", error))?;
        Ok(Self {
            channel,
            msg_type: header.msg_type,
            parent_id: parent.msg_id,
            parent_type: parent.msg_type,
            content,
        })
    }

    /// Decodes the content; `None` if it has another form. The fields of `T` have defaults.
    pub fn content<'a, T: Deserialize<'a>>(&'a self) -> Option<T> {
        serde_json::from_str(self.content.get()).ok()
    }

    /// Returns the approximate size of the message in bytes.
    pub fn size(&self) -> usize {
        256 + self.content.get().len()
    }
}

/// Returns the frames of a request, which has no parent and no metadata.
pub(crate) fn request_frames(header: &Value, content: &Value, signer: &Signer) -> Vec<Vec<u8>> {
    let (header, content) = (header.to_string(), content.to_string());
    let parts = [header.as_bytes(), b"{}", b"{}", content.as_bytes()];
    let signature = signer.sign(&parts);
    let frames = [DELIMITER, signature.as_bytes()].into_iter().chain(parts);
    frames.map(<[u8]>::to_vec).collect()
}

/// Messages for tests.
#[cfg(test)]
pub(super) mod samples {
    use serde_json::{Value, json};

    use super::{Channel, Message, Multipart, Signer};
    /// Returns a kernel's message about the execution request `id`.
    pub(in crate::kernel) fn message(
        channel: Channel,
        msg_type: &str,
        id: &str,
        content: Value,
    ) -> Message {
        answer(channel, msg_type, (id, "execute_request"), content)
    }

    /// Returns a kernel's message about the request with an id and a type.
    pub(in crate::kernel) fn answer(
        channel: Channel,
        msg_type: &str,
        (id, request): (&str, &str),
        content: Value,
    ) -> Message {
        let header = json!({ "msg_id": "m", "msg_type": msg_type });
        let parent = json!({ "msg_id": id, "msg_type": request });
        let parts = [header, parent, json!({}), content].map(|part| part.to_string());
        let frames = ["topic", "<IDS|MSG>", ""].into_iter();
        let frames = frames.chain(parts.iter().map(String::as_str));
        let frames: Multipart = frames.map(str::as_bytes).collect();
        Message::read(channel, &frames, &Signer::new(b"")).unwrap()
    }

    /// Returns a status message.
    pub(in crate::kernel) fn status(id: &str, state: &str) -> Message {
        let content = json!({ "execution_state": state });
        message(Channel::Iopub, "status", id, content)
    }

    /// Returns a message with printed text.
    pub(in crate::kernel) fn printed(id: &str, text: &str) -> Message {
        let content = json!({ "name": "stdout", "text": text });
        message(Channel::Iopub, "stream", id, content)
    }
}

#[cfg(test)]
mod tests {
    mod zmtp {
        use super::super::*;
        use proptest::collection::vec;
        use proptest::prelude::*;

        impl<'a> FromIterator<&'a [u8]> for Multipart {
            fn from_iter<I: IntoIterator<Item = &'a [u8]>>(frames: I) -> Self {
                let mut all = Self::default();
                frames.into_iter().for_each(|frame| all.push(frame));
                all
            }
        }

        type Frames = Vec<Vec<u8>>;

        /// Messages of a few frames, some of which need a long size field.
        fn messages() -> impl Strategy<Value = Vec<Frames>> {
            let frame = prop_oneof![
                vec(any::<u8>(), 0..20),
                vec(any::<u8>(), 250..260),
                Just(vec![7; 70_000]),
            ];
            vec(vec(frame, 1..5), 0..6)
        }

        /// Returns the bytes that a peer sends: its handshake, then the messages.
        fn sent(messages: &[Frames]) -> Vec<u8> {
            let mut peer = Peer::new(SocketType::Dealer, b"id");
            for message in messages {
                peer.send(message.iter().map(Vec::as_slice));
            }
            peer.output
        }

        fn take_all(peer: &mut Peer) -> Result<Vec<Frames>, String> {
            let mut taken = Vec::new();
            while let Some(message) = peer.next()? {
                taken.push(message.frames().map(<[u8]>::to_vec).collect());
            }
            Ok(taken)
        }

        /// Splits bytes into pieces of these lengths; the last length is repeated.
        fn pieces<'a>(mut bytes: &'a [u8], lengths: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
            let last = lengths.last().copied().unwrap_or(1);
            let mut lengths = lengths.iter().copied();
            std::iter::from_fn(move || {
                let length = lengths.next().unwrap_or(last).min(bytes.len());
                let (piece, rest) = bytes.split_at(length);
                bytes = rest;
                (!piece.is_empty()).then_some(piece)
            })
        }

        /// Returns the greeting and the `READY` of a peer of the given type.
        fn handshake(socket_type: &str) -> Vec<u8> {
            let mut ready = Vec::new();
            push_property(&mut ready, "Socket-Type", socket_type.as_bytes());
            let mut bytes = greeting().to_vec();
            push_command(&mut bytes, "READY", &ready);
            bytes
        }

        fn after(bytes: &[u8]) -> Result<Vec<Frames>, String> {
            let mut peer = Peer::new(SocketType::Dealer, b"");
            peer.receive(bytes);
            take_all(&mut peer)
        }

        proptest! {
            #[test]
            fn messages_come_out_as_they_went_in(
                messages in messages(),
                lengths in vec(1_usize..5_000, 1..20),
            ) {
                let bytes = sent(&messages);
                let mut peer = Peer::new(SocketType::Dealer, b"");
                let mut taken = Vec::new();
                for piece in pieces(&bytes, &lengths) {
                    peer.receive(piece);
                    taken.extend(take_all(&mut peer).unwrap());
                }
                prop_assert!(peer.is_ready());
                prop_assert_eq!(taken, messages);
            }

            #[test]
            fn a_part_is_no_error(messages in vec(vec(vec(any::<u8>(), 0..300), 1..4), 1..3)) {
                let bytes = sent(&messages);
                for end in 0..bytes.len() {
                    let part = after(&bytes[..end]);
                    prop_assert!(part.is_ok_and(|part| messages.starts_with(&part) && part != messages));
                }
                prop_assert_eq!(after(&bytes), Ok(messages));
            }

            /// Memory grows with the received bytes, not with the size that a frame claims.
            #[test]
            fn random_bytes_occupy_what_was_received(
                has_handshake in prop::bool::weighted(0.8),
                frames in vec((0_u8..10, any::<u64>(), 0_u32..64, vec(any::<u8>(), 0..40)), 0..20),
                lengths in vec(1_usize..100, 1..5),
            ) {
                let mut bytes = if has_handshake { handshake("ROUTER") } else { Vec::new() };
                for (flags, size, shift, body) in frames {
                    bytes.push(flags);
                    match flags & LONG {
                        0 => bytes.push((size >> shift) as u8),
                        _ => bytes.extend((size >> shift).to_be_bytes()),
                    }
                    bytes.extend(body);
                }
                let mut peer = Peer::new(SocketType::Dealer, b"");
                let mut received = 0;
                for piece in pieces(&bytes, &lengths) {
                    peer.receive(piece);
                    received += piece.len();
                    let is_over = take_all(&mut peer).is_err();
                    prop_assert!(peer.input.capacity() <= 2 * received + 64);
                    prop_assert!(peer.incomplete.bytes.capacity() <= 2 * received + 64);
                    prop_assert!(peer.incomplete.ends.capacity() <= 2 * received + 64);
                    if is_over {
                        break;
                    }
                }
            }
        }

        #[test]
        fn each_protocol_error_has_its_own_message() {
            let good = handshake("ROUTER");
            let with = |index: usize, bytes: &[u8]| {
                let mut greeting = good.clone();
                greeting[index..index + bytes.len()].copy_from_slice(bytes);
                greeting
            };
            let then = |frame: &[u8]| [&good[..], frame].concat();
            let cut = {
                let mut bytes = greeting().to_vec();
                push_command(&mut bytes, "READY", b"\x0bSocket-Type\0\0\0\x09ROUTER");
                bytes
            };
            for (bytes, words) in [
                (b"HTTP/1.1 400 Bad Request".to_vec(), "no ZeroMQ socket"),
                (with(10, &[1]), "version 1"),
                (with(12, b"CURVE"), "encrypted (CURVE)"),
                (with(12, b"\x1b[2J"), r"\u{1b}[2J"),
                (handshake("PUB"), "a PUB socket"),
                (handshake(""), "a  socket"),
                (cut, "cut off"),
                (then(&[8, 0]), "unknown flags"),
                (then(&[COMMAND | MORE, 0]), "unknown flags"),
                (
                    then(&[LONG, 0x10, 0, 0, 0, 0, 0, 0, 0]),
                    "longer than 256 MiB",
                ),
                (
                    then(&[LONG | COMMAND, 0, 0, 0, 0, 0, 2, 0, 0]),
                    "longer than 64 KiB",
                ),
                (then(&[MORE, 0].repeat(10_000)), "too many frames"),
                (then(&[COMMAND, 0]), "no name"),
                (
                    then(b"\x04\x0a\x05ERROR\x03no\x07"),
                    r"refuses the connection: no\u{7}",
                ),
                ([&greeting()[..], &[0, 0]].concat(), "before the handshake"),
                (
                    [&greeting()[..], b"\x04\x05\x04PING"].concat(),
                    "out of order",
                ),
            ] {
                let error = after(&bytes).unwrap_err().to_string();
                assert!(error.contains(words), "{error:?} has no {words:?}");
                assert!(!error.contains(char::is_control), "{error:?}");
            }
        }

        #[test]
        fn one_message_of_all_its_frames_is_bounded() {
            let mut peer = Peer::new(SocketType::Dealer, b"");
            peer.receive(&handshake("ROUTER"));
            let mut frame = Vec::new();
            push_frame(&mut frame, MORE, &vec![0; 16 * 1024 * 1024]);
            let error = (0..100).find_map(|_| {
                peer.receive(&frame);
                peer.next().err()
            });
            let error = error.expect("an error").to_string();
            assert!(error.contains("longer than 256 MiB"), "{error}");
        }

        /// A subscription follows the handshake, and a limited number of pings is answered.
        #[test]
        fn answers_of_the_protocol() {
            let mut peer = Peer::new(SocketType::Sub, b"");
            let own = peer.output.len();
            peer.receive(&handshake("XPUB"));
            assert_eq!(peer.next(), Ok(None));
            assert_eq!(peer.output[own..], [0, 1, 1]);
            peer.output.drain(..own + 3);
            peer.receive(b"\x04\x09\x04PING\0\x0aab");
            assert_eq!(peer.next(), Ok(None));
            assert_eq!(peer.output, b"\x04\x07\x04PONGab");
            for _ in 0..100_000 {
                peer.receive(b"\x04\x09\x04PING\0\x0aab");
                assert_eq!(peer.next(), Ok(None));
            }
            assert!(peer.output.len() <= PONG_OUTPUT_MAX + 64);
        }

        #[test]
        fn the_memory_of_a_large_message_is_returned() {
            let mut bytes = handshake("ROUTER");
            push_frame(&mut bytes, 0, &vec![7; 20 * 1024 * 1024]);
            let mut peer = Peer::new(SocketType::Dealer, b"");
            for piece in bytes.chunks(64 * 1024) {
                peer.receive(piece);
                while peer.next().unwrap().is_some() {}
            }
            assert!(peer.input.capacity() <= INPUT_BYTES_KEPT);
        }
    }

    mod wire {
        use super::super::*;
        use proptest::prelude::*;
        use serde_json::json;

        fn read(frames: &[Vec<u8>], signer: &Signer) -> Result<Message, String> {
            let frames: Multipart = frames.iter().map(Vec::as_slice).collect();
            Message::read(Channel::Shell, &frames, signer)
        }

        fn request(code: &str, signer: &Signer) -> Vec<Vec<u8>> {
            let header = json!({ "msg_id": "s_1", "msg_type": "execute_request" });
            request_frames(&header, &json!({ "code": code }), signer)
        }

        fn is_refused(read: Result<Message, String>) -> bool {
            read.is_err_and(|error| error.contains("is signed with another key"))
        }

        proptest! {
            #[test]
            fn a_flipped_bit_is_refused(
                key in prop::collection::vec(any::<u8>(), 1..80),
                code in any::<String>(),
                part in 0_usize..5,
                at in any::<prop::sample::Index>(),
                bit in 0..8,
            ) {
                let signer = Signer::new(&key);
                let mut frames = request(&code, &signer);
                let message = read(&frames, &signer).unwrap();
                prop_assert_eq!(&message.msg_type, "execute_request");
                prop_assert_eq!((&*message.parent_id, &*message.parent_type), ("", ""));
                prop_assert_eq!(message.content(), Some(json!({ "code": code })));
                // Upper-case digits are the same signature.
                let bit = if part == 0 && bit == 5 { 4 } else { bit };
                let part = &mut frames[1 + part];
                let at = at.index(part.len());
                part[at] ^= 1 << bit;
                prop_assert!(is_refused(read(&frames, &signer)));
                let other = Signer::new(b"another key");
                prop_assert!(is_refused(read(&request(&code, &signer), &other)));
            }

            #[test]
            fn random_frames_are_no_panic(
                frames in prop::collection::vec(prop_oneof![
                    Just(DELIMITER.to_vec()),
                    Just(b"{}".to_vec()),
                    any::<Vec<u8>>(),
                ], 0..12),
                key in "a?",
            ) {
                let _ = read(&frames, &Signer::new(key.as_bytes()));
            }
        }

        /// The digits come from Python: `hmac.new(b"key", b"{}{}{}{}", "sha256").hexdigest()`.
        #[test]
        fn signatures_are_those_of_other_programs() {
            let signature = "ca767b02c5bc061ed184a9a029e7f93a7f2f7ed4e8fe74120fc1212f0b008fa3";
            let parts: [&[u8]; 4] = [b"{}"; 4];
            let signer = Signer::new(b"key");
            assert_eq!(signer.sign(&parts), signature);
            assert!(signer.accepts(signature.to_uppercase().as_bytes(), &parts));
            assert!(!signer.accepts(&signature.as_bytes()[..62], &parts));
        }

        #[test]
        fn an_empty_key_signs_nothing_and_accepts_everything() {
            let signer = Signer::new(b"");
            let mut frames = request("1", &signer);
            assert_eq!(frames[1], b"");
            frames[1] = b"any".to_vec();
            assert!(read(&frames, &signer).is_ok());
            assert!(is_refused(read(&request("1", &signer), &Signer::new(b"k"))));
        }

        #[test]
        fn each_malformed_part_is_named() {
            let signer = Signer::new(b"");
            for (index, name) in ["header", "parent header", "metadata", "content"]
                .into_iter()
                .enumerate()
            {
                for bad in ["{", "", "\u{1b}[2J", "{}{}"] {
                    let mut frames = request("1", &signer);
                    frames[2 + index] = bad.into();
                    let error = read(&frames, &signer).unwrap_err().to_string();
                    assert!(
                        error.starts_with(&format!("a message is malformed: the {name}: ")),
                        "{error}"
                    );
                    assert!(!error.contains(char::is_control), "{error:?}");
                }
            }
            let frames = request("1", &signer);
            for count in 0..frames.len() {
                let error = read(&frames[..count], &signer).unwrap_err().to_string();
                assert!(error.contains("frames are missing"), "{error}");
            }
        }

        /// Frames before the delimiter (identities, topics) and after the content (buffers) are ignored.
        #[test]
        fn other_frames_are_left_out() {
            let signer = Signer::new(b"k");
            let mut frames = request("1", &signer);
            frames.splice(0..0, [b"id".to_vec(), Vec::new()]);
            frames.push(vec![0; 9]);
            assert!(read(&frames, &signer).is_ok());
        }
    }
}
