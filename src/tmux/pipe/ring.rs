//! What waits for the observer: bounded, in order, and with an exact count of what had no room (pure).

use std::collections::VecDeque;

/// Room for bytes that the observer has not taken yet: two seconds of what tmux prints at its
/// fastest, many times over (`streaming.md`).
pub(super) const BYTES_MAX: usize = 64 << 20;

/// When bytes had to be dropped, so much room must be there before others are taken again: one hole
/// with one count, not thousands.
const RESUME: usize = BYTES_MAX / 4;

/// So many bytes more are dropped at most until a line ends, so that what follows a hole begins at a
/// line's beginning. What has no line end for so long is no text.
const LINE_BYTES_MAX: usize = PIECE_BYTES;

/// Bytes of a piece: what is read and written at a time.
pub(super) const PIECE_BYTES: usize = 64 << 10;

/// Something that waits.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Bytes of the pane.
    Bytes(Vec<u8>),
    /// Bytes that had no room, here.
    Dropped(DroppedBytes),
    /// The observer wanted to know when all has come that was there by then: here.
    Mark,
}

/// What had no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DroppedBytes {
    /// How many bytes.
    pub bytes: u64,
    /// How many of them ended a line (`\n`).
    pub line_ends: u64,
}

/// The pieces, oldest first.
#[derive(Debug)]
pub(super) struct Ring {
    pieces: VecDeque<Piece>,
    /// Bytes in them.
    len: usize,
    max: usize,
    resume: usize,
    /// What came last was dropped.
    is_dropping: bool,
    /// The last byte that was dropped ended a line.
    hole_ends_line: bool,
    /// Bytes that were dropped although there was room, to come to a line's end.
    waited_for_end: usize,
}

impl Default for Ring {
    fn default() -> Self {
        Self::new(BYTES_MAX, RESUME)
    }
}

impl Ring {
    fn new(max: usize, resume: usize) -> Self {
        Self {
            pieces: VecDeque::new(),
            len: 0,
            max,
            resume,
            is_dropping: false,
            hole_ends_line: false,
            waited_for_end: 0,
        }
    }

    /// Takes bytes; what has no room is counted.
    pub fn push(&mut self, bytes: &[u8]) {
        let (before, bytes) = match self.is_dropping {
            true => bytes.split_at(self.still_dropped(bytes)),
            false => bytes.split_at(0),
        };
        self.drop_bytes(before);
        let (taken, rest) = bytes.split_at(bytes.len().min(self.max - self.len));
        self.take(taken);
        self.drop_bytes(rest);
    }

    /// How many of these bytes belong to the hole that came before them.
    fn still_dropped(&mut self, bytes: &[u8]) -> usize {
        if self.max - self.len < self.resume {
            return bytes.len();
        }
        if self.hole_ends_line || self.waited_for_end >= LINE_BYTES_MAX {
            return 0;
        }
        let line_end = memchr::memchr(b'\n', bytes);
        let end = line_end.map_or(bytes.len(), |at| at + 1);
        self.waited_for_end += end;
        end
    }

    fn drop_bytes(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if !std::mem::replace(&mut self.is_dropping, true) {
            self.waited_for_end = 0;
        }
        let line_ends = memchr::memchr_iter(b'\n', bytes).count() as u64;
        let more = DroppedBytes {
            bytes: bytes.len() as u64,
            line_ends,
        };
        match self.pieces.back_mut() {
            Some(Piece::Dropped(dropped)) => {
                dropped.bytes += more.bytes;
                dropped.line_ends += more.line_ends;
            }
            _ => self.pieces.push_back(Piece::Dropped(more)),
        }
        self.hole_ends_line = bytes.ends_with(b"\n");
    }

    fn take(&mut self, bytes: &[u8]) {
        self.is_dropping &= bytes.is_empty();
        self.len += bytes.len();
        for bytes in bytes.chunks(PIECE_BYTES) {
            match self.pieces.back_mut() {
                // Small writes are joined: a piece has a header.
                Some(Piece::Bytes(last)) if last.len() + bytes.len() <= PIECE_BYTES => {
                    last.extend_from_slice(bytes);
                }
                _ => self.pieces.push_back(Piece::Bytes(bytes.to_vec())),
            }
        }
    }

    /// The oldest piece.
    pub fn pop(&mut self) -> Option<Piece> {
        let piece = self.pieces.pop_front()?;
        if let Piece::Bytes(bytes) = &piece {
            self.len -= bytes.len();
        }
        if self.pieces.is_empty() {
            // All is taken and nothing has come since: what comes now is after a pause, and belongs to
            // no hole.
            self.is_dropping = false;
        }
        Some(piece)
    }

    /// Marks this place.
    pub fn mark(&mut self) {
        self.pieces.push_back(Piece::Mark);
    }

    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever is put in and taken out: what comes out is what went in, with a count in the
        /// place of each hole.
        #[test]
        fn every_byte_comes_out_or_is_counted(
            steps in prop::collection::vec((any::<bool>(), "[a-c\n]{0,40}"), 0..60),
        ) {
            let mut ring = Ring::new(64, 16);
            let (mut given, mut taken) = (Vec::new(), Vec::new());
            let mut hear = |piece: Option<Piece>| taken.extend(piece);
            for (takes, text) in steps {
                given.extend_from_slice(text.as_bytes());
                ring.push(text.as_bytes());
                prop_assert!(ring.len <= 64);
                if takes {
                    hear(ring.pop());
                }
            }
            while !ring.is_empty() {
                hear(ring.pop());
            }
            let mut rest = given.as_slice();
            for piece in taken {
                match piece {
                    Piece::Bytes(bytes) => {
                        prop_assert!(!bytes.is_empty());
                        prop_assert_eq!(&rest[..bytes.len()], &bytes[..]);
                        rest = &rest[bytes.len()..];
                    }
                    Piece::Dropped(dropped) => {
                        let (hole, more) = rest.split_at(dropped.bytes as usize);
                        let ends = hole.iter().filter(|byte| **byte == b'\n').count();
                        prop_assert_eq!(ends as u64, dropped.line_ends);
                        rest = more;
                    }
                    Piece::Mark => {
                        prop_assert!(false);
                    }
                }
            }
            prop_assert!(rest.is_empty());
        }
    }
}
