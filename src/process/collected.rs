//! The beginning and the end of what was printed, in bounded memory (pure).

use std::collections::VecDeque;

/// Keeps the first and the last bytes: with what a command begins tells what it does, with what it
/// ends tells why it failed.
#[derive(Debug)]
pub(super) struct Collected {
    /// The most that each of the two may have.
    half_bytes: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    lost: u64,
}

impl Collected {
    pub fn new(bytes_max: usize) -> Self {
        Self {
            half_bytes: bytes_max / 2,
            head: Vec::new(),
            tail: VecDeque::new(),
            lost: 0,
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        let room = self.half_bytes - self.head.len();
        let (first, rest) = bytes.split_at(bytes.len().min(room));
        self.head.extend_from_slice(first);
        // Of more than fits only the end is looked at.
        let skipped = rest.len().saturating_sub(self.half_bytes);
        let rest = &rest[skipped..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.half_bytes);
        self.tail.drain(..over);
        self.tail.extend(rest);
        self.lost += u64::try_from(skipped + over).unwrap_or(u64::MAX);
    }

    /// What was kept, and how many bytes are missing in its middle.
    pub fn take(self) -> (Vec<u8>, u64) {
        let mut all = self.head;
        let (one, two) = self.tail.as_slices();
        all.extend_from_slice(one);
        all.extend_from_slice(two);
        (all, self.lost)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_ends_are_kept_and_what_is_missing_is_counted(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 0..12),
            half in 0_usize..40,
        ) {
            let mut collected = Collected::new(half * 2);
            pieces.iter().for_each(|piece| collected.push(piece));
            let all = pieces.concat();
            let (kept, lost) = collected.take();
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
