//! The output that waits for the observer: bounded and in order, with an exact count of dropped bytes (pure).

use std::collections::VecDeque;

use super::frame::{DroppedBytes, Frame, PAYLOAD_BYTES_MAX};

/// The room for bytes that the observer has not taken yet: many times the output of tmux at its fastest in
/// two seconds.
pub(super) const BYTES_MAX: usize = 64 << 20;

/// The room that must be free before bytes are accepted again after a drop, so that one gap with one count
/// results instead of thousands.
const RESUME_BYTES: usize = BYTES_MAX / 4;

/// The maximum number of bytes that are also dropped until a line ends, so that the output after a gap begins
/// with a line. More output without a line feed is not text.
const LINE_BYTES_MAX: usize = PAYLOAD_BYTES_MAX;

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
        Self::new(BYTES_MAX, RESUME_BYTES)
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
        let (before, bytes) = match self.is_dropping {
            true => bytes.split_at(self.rest_of_gap(bytes)),
            false => bytes.split_at(0),
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
        if self.gap_ends_line || self.dropped_to_line_end >= LINE_BYTES_MAX {
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

    use super::*;

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
