//! Keeps the beginning and the end of an output in bounded memory (pure).

use std::collections::VecDeque;

/// Keeps the first and the last bytes. The beginning of an output shows the command's work, and the end shows
/// the reason for a failure.
#[derive(Debug)]
pub(super) struct HeadTailBuffer {
    /// The capacity of the head, and of the tail.
    half_bytes: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    lost_bytes: u64,
}

impl HeadTailBuffer {
    pub fn new(bytes_max: usize) -> Self {
        Self {
            half_bytes: bytes_max / 2,
            head: Vec::new(),
            tail: VecDeque::new(),
            lost_bytes: 0,
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        let room = self.half_bytes - self.head.len();
        let (first, rest) = bytes.split_at(bytes.len().min(room));
        self.head.extend_from_slice(first);
        // Skip bytes that this push itself would displace.
        let skipped = rest.len().saturating_sub(self.half_bytes);
        let rest = &rest[skipped..];
        let displaced = (self.tail.len() + rest.len()).saturating_sub(self.half_bytes);
        self.tail.drain(..displaced);
        self.tail.extend(rest);
        self.lost_bytes += u64::try_from(skipped + displaced).unwrap_or(u64::MAX);
    }

    /// Returns the kept bytes and the number of bytes missing in the middle.
    pub fn into_bytes(self) -> (Vec<u8>, u64) {
        let mut all = self.head;
        all.extend(self.tail);
        (all, self.lost_bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_ends_are_kept_and_missing_bytes_are_counted(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 0..12),
            half in 0_usize..40,
        ) {
            let mut buffer = HeadTailBuffer::new(half * 2);
            pieces.iter().for_each(|piece| buffer.push(piece));
            let all = pieces.concat();
            let (kept, lost) = buffer.into_bytes();
            prop_assert_eq!(kept.len() + usize::try_from(lost).unwrap(), all.len());
            if lost == 0 {
                prop_assert_eq!(kept, all);
            } else {
                prop_assert_eq!(&kept[..half], &all[..half]);
                prop_assert_eq!(&kept[half..], &all[all.len() - half..]);
            }
        }
    }
}
