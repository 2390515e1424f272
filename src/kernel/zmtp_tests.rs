//! Tests of the protocol of ZeroMQ.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

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
    peer.output().to_vec()
}

fn take_all(peer: &mut Peer) -> Result<Vec<Frames>, ZmtpError> {
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

fn after(bytes: &[u8]) -> Result<Vec<Frames>, ZmtpError> {
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
    let own = peer.output().len();
    peer.receive(&handshake("XPUB"));
    assert_eq!(peer.next(), Ok(None));
    assert_eq!(peer.output()[own..], [0, 1, 1]);
    peer.written(own + 3);
    peer.receive(b"\x04\x09\x04PING\0\x0aab");
    assert_eq!(peer.next(), Ok(None));
    assert_eq!(peer.output(), b"\x04\x07\x04PONGab");
    for _ in 0..100_000 {
        peer.receive(b"\x04\x09\x04PING\0\x0aab");
        assert_eq!(peer.next(), Ok(None));
    }
    assert!(peer.output().len() <= PONG_OUTPUT_MAX + 64);
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
