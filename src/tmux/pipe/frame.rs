//! The frames that a drain sends to its observer: a kind, a length and a payload (pure).

/// The number of bytes of a kind and a length.
const HEAD_BYTES: usize = 5;

/// The maximum size of a payload, which equals the size of a drain's reads and writes.
pub(super) const PAYLOAD_BYTES_MAX: usize = 64 << 10;

/// A message of a drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// The token from the drain's command line, which proves that the sender is this drain.
    Hello(String),
    /// Bytes of the pane.
    Bytes(Vec<u8>),
    /// A gap in the bytes of the pane.
    Dropped(DroppedBytes),
    /// All bytes before the observer's last request for a mark have been sent.
    Mark,
    /// The pane's output has ended.
    End,
}

/// Bytes for which the drain had no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DroppedBytes {
    /// The number of bytes.
    pub bytes: u64,
    /// The number of line feeds among them.
    pub line_ends: u64,
}

impl Frame {
    /// Encodes the frame for the socket.
    pub fn encode(&self) -> Vec<u8> {
        let numbers;
        let (kind, payload): (u8, &[u8]) = match self {
            Self::Hello(token) => (0, token.as_bytes()),
            Self::Bytes(bytes) => (1, bytes),
            Self::Dropped(dropped) => {
                numbers = [dropped.bytes.to_le_bytes(), dropped.line_ends.to_le_bytes()].concat();
                (2, &numbers)
            }
            Self::End => (3, &[]),
            Self::Mark => (4, &[]),
        };
        let mut frame = Vec::with_capacity(HEAD_BYTES + payload.len());
        frame.push(kind);
        // No payload is longer than `PAYLOAD_BYTES_MAX`.
        let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        frame.extend_from_slice(&len.to_le_bytes());
        frame.extend_from_slice(payload);
        frame
    }
}

/// Parses frames from bytes that arrive in any pieces.
#[derive(Debug, Default)]
pub(crate) struct FrameParser {
    bytes: Vec<u8>,
    /// The number of bytes already parsed.
    at: usize,
}

/// The bytes are not frames, so the sender is not a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a process that is not a drain sent bytes to the socket for drains")]
pub(crate) struct InvalidFrame;

impl FrameParser {
    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete frame.
    ///
    /// # Errors
    /// When the bytes are not a frame.
    pub fn next(&mut self) -> Result<Option<Frame>, InvalidFrame> {
        let rest = &self.bytes[self.at..];
        let Some((head, rest)) = rest.split_first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let [kind, len @ ..] = *head;
        let len = u32::from_le_bytes(len) as usize;
        if len > PAYLOAD_BYTES_MAX {
            return Err(InvalidFrame);
        }
        let Some(payload) = rest.get(..len) else {
            return Ok(None);
        };
        let frame = match kind {
            0 => Frame::Hello(String::from_utf8(payload.to_vec()).map_err(|_| InvalidFrame)?),
            1 => Frame::Bytes(payload.to_vec()),
            2 => match payload.as_chunks::<8>() {
                ([bytes, line_ends], []) => Frame::Dropped(DroppedBytes {
                    bytes: u64::from_le_bytes(*bytes),
                    line_ends: u64::from_le_bytes(*line_ends),
                }),
                _ => return Err(InvalidFrame),
            },
            3 if len == 0 => Frame::End,
            4 if len == 0 => Frame::Mark,
            _ => return Err(InvalidFrame),
        };
        self.at += HEAD_BYTES + len;
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame() -> impl Strategy<Value = Frame> {
        prop_oneof![
            "[ -~]{0,40}".prop_map(Frame::Hello),
            prop::collection::vec(any::<u8>(), 0..200).prop_map(Frame::Bytes),
            any::<(u64, u64)>().prop_map(|(bytes, line_ends)| {
                Frame::Dropped(DroppedBytes { bytes, line_ends })
            }),
            Just(Frame::End),
            Just(Frame::Mark),
        ]
    }

    proptest! {
        #[test]
        fn frames_arrive_as_sent_in_any_pieces(
            frames in prop::collection::vec(frame(), 0..10),
            cuts in prop::collection::vec(1usize..60, 1..20),
        ) {
            let sent: Vec<u8> = frames.iter().flat_map(Frame::encode).collect();
            let (mut parser, mut found) = (FrameParser::default(), Vec::new());
            let (mut rest, mut cuts) = (sent.as_slice(), cuts.iter().cycle());
            while !rest.is_empty() {
                let cut = cuts.next().map_or(1, |cut| *cut).min(rest.len());
                parser.push(&rest[..cut]);
                rest = &rest[cut..];
                while let Some(frame) = parser.next().unwrap() {
                    found.push(frame);
                }
            }
            prop_assert_eq!(found, frames);
        }

        #[test]
        fn any_bytes_are_handled(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut parser = FrameParser::default();
            parser.push(&bytes);
            while let Ok(Some(_)) = parser.next() {}
        }
    }
}
