//! What a drain says to its observer: a kind, a length, and so many bytes (pure).

use super::ring::{DroppedBytes, PIECE_BYTES, Piece};

/// Kind and length.
const HEAD_BYTES: usize = 5;

/// What a drain says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// Whom it drains: what it was given on its command line, so that no other process is believed.
    Hello(String),
    /// Bytes of the pane.
    Bytes(Vec<u8>),
    /// Bytes that are missing here.
    Dropped(DroppedBytes),
    /// All that was there when the observer asked has come by now.
    Mark,
    /// The pane's output has ended.
    End,
}

impl From<Piece> for Frame {
    fn from(piece: Piece) -> Self {
        match piece {
            Piece::Bytes(bytes) => Self::Bytes(bytes),
            Piece::Dropped(dropped) => Self::Dropped(dropped),
            Piece::Mark => Self::Mark,
        }
    }
}

impl Frame {
    /// As it is sent.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, payload): (u8, &[u8]) = match self {
            Self::Hello(token) => (0, token.as_bytes()),
            Self::Bytes(bytes) => (1, bytes),
            Self::Dropped(dropped) => {
                let mut frame = head(2, 16);
                frame.extend_from_slice(&dropped.bytes.to_le_bytes());
                frame.extend_from_slice(&dropped.line_ends.to_le_bytes());
                return frame;
            }
            Self::End => (3, &[]),
            Self::Mark => (4, &[]),
        };
        let mut frame = head(kind, payload.len());
        frame.extend_from_slice(payload);
        frame
    }
}

fn head(kind: u8, len: usize) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEAD_BYTES + len);
    frame.push(kind);
    // No payload is longer than a piece.
    frame.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
    frame
}

/// Reads frames from bytes that come cut anywhere.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    /// How much of them has been read.
    at: usize,
}

/// Bytes that are no frames: whoever sent them is no drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what came over the socket is not what a drain says")]
pub(crate) struct NoFrame;

impl Frames {
    /// Takes bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next frame that is complete.
    ///
    /// # Errors
    /// When there can be none.
    pub fn next(&mut self) -> Result<Option<Frame>, NoFrame> {
        let rest = &self.bytes[self.at..];
        let Some((head, rest)) = rest.split_first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let [kind, len @ ..] = *head;
        let len = u32::from_le_bytes(len) as usize;
        if len > PIECE_BYTES {
            return Err(NoFrame);
        }
        let Some(payload) = rest.get(..len) else {
            return Ok(None);
        };
        let frame = match kind {
            0 => Frame::Hello(String::from_utf8(payload.to_vec()).map_err(|_| NoFrame)?),
            1 => Frame::Bytes(payload.to_vec()),
            2 => {
                let payload: [u8; 16] = payload.try_into().map_err(|_| NoFrame)?;
                let [bytes, line_ends] = [0, 8].map(|at| {
                    let mut number = [0; 8];
                    number.copy_from_slice(&payload[at..at + 8]);
                    u64::from_le_bytes(number)
                });
                Frame::Dropped(DroppedBytes { bytes, line_ends })
            }
            3 if len == 0 => Frame::End,
            4 if len == 0 => Frame::Mark,
            _ => return Err(NoFrame),
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
        fn frames_come_as_they_were_sent_however_they_are_cut(
            frames in prop::collection::vec(frame(), 0..10),
            cuts in prop::collection::vec(1usize..60, 1..20),
        ) {
            let sent: Vec<u8> = frames.iter().flat_map(Frame::encode).collect();
            let (mut reader, mut found) = (Frames::default(), Vec::new());
            let (mut rest, mut cuts) = (sent.as_slice(), cuts.iter().cycle());
            while !rest.is_empty() {
                let cut = cuts.next().map_or(1, |cut| *cut).min(rest.len());
                reader.push(&rest[..cut]);
                rest = &rest[cut..];
                while let Some(frame) = reader.next().unwrap() {
                    found.push(frame);
                }
            }
            prop_assert_eq!(found, frames);
        }

        #[test]
        fn no_bytes_are_too_much(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut reader = Frames::default();
            reader.push(&bytes);
            while let Ok(Some(_)) = reader.next() {}
        }
    }
}
