//! The sequences of three and of four bytes in a block of lines, as a set of bits (pure).
//!
//! A text can only occur in a block that has all sequences of the text. Letters of ASCII count as small, so that one
//! set serves searches with and without regard to case. Sequences of three alone would be too common: in blocks of
//! 256 KiB of agents' transcripts and of source code, a rare text of ten bytes passes 38 and 55 % of the blocks by
//! its sequences of three, 27 % by both lengths, of which 3 % have the text. Longer sequences help only long texts.

/// The number of bits of a block's set: 2.7 % of a block of 256 KiB. Halved four times, it is still a multiple of 64.
pub(super) const BITS_MAX: u32 = 57_344;
/// The number of bits of the smallest set, which suffices for a block of a thousand different sequences.
pub(super) const BITS_MIN: u32 = BITS_MAX >> 4;

/// The length of the shortest text that a set can exclude.
pub(super) const TEXT_BYTES_MIN: usize = 3;

/// The set of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grams(Box<[u64]>);

impl Default for Grams {
    fn default() -> Self {
        Self(vec![0; BITS_MAX as usize / 64].into())
    }
}

impl Grams {
    /// Adds all sequences of a text.
    pub(super) fn add(&mut self, text: &[u8]) {
        each_bit(text, |bit| {
            if let Some(word) = self.0.get_mut(bit as usize / 64) {
                *word |= 1 << (bit % 64);
            }
        });
    }

    /// Calls `take` with each bit of the set, reduced to a set of this many bits: a half, a quarter and so on of
    /// [`BITS_MAX`].
    pub(super) fn each_of(&self, bits: u32, mut take: impl FnMut(u32)) {
        for (at, word) in self.folded(bits).into_iter().enumerate() {
            let mut rest = word;
            while rest != 0 {
                take(at as u32 * 64 + rest.trailing_zeros());
                rest &= rest - 1;
            }
        }
    }

    /// Returns the number of bits of the set, reduced to this many bits.
    pub(super) fn count(&self, bits: u32) -> u32 {
        self.folded(bits).into_iter().map(u64::count_ones).sum()
    }

    fn folded(&self, bits: u32) -> Vec<u64> {
        let words = bits as usize / 64;
        let mut folded = vec![0; words];
        for part in self.0.chunks(words.max(1)) {
            for (into, word) in folded.iter_mut().zip(part) {
                *into |= word;
            }
        }
        folded
    }
}

/// Calls `take` with the bit of each sequence of a text in a set of [`BITS_MAX`] bits.
#[inline]
pub(super) fn each_bit(text: &[u8], mut take: impl FnMut(u32)) {
    // The last four bytes, the newest on top.
    let mut last = 0_u32;
    for (at, byte) in text.iter().enumerate() {
        last = last >> 8 | u32::from(byte.to_ascii_lowercase()) << 24;
        if at >= 2 {
            take(bit_of(last >> 8, 0x9E37_79B1));
        }
        if at >= 3 {
            take(bit_of(last, 0x85EB_CA77));
        }
    }
}

/// Scatters a sequence over the bits: a product's upper half depends on all bits of its factors.
#[inline]
fn bit_of(sequence: u32, factor: u32) -> u32 {
    let hash = sequence.wrapping_add(1).wrapping_mul(factor);
    ((u64::from(hash) * u64::from(BITS_MAX)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn has(grams: &Grams, bits: u32, text: &[u8]) -> bool {
        let mut there = std::collections::BTreeSet::new();
        grams.each_of(bits, |bit| {
            there.insert(bit);
        });
        assert_eq!(there.len() as u32, grams.count(bits));
        let mut is_there = true;
        each_bit(text, |bit| is_there &= there.contains(&(bit % bits)));
        is_there
    }

    proptest! {
        #[test]
        fn each_part_of_a_text_is_in_its_set(text in any::<Vec<u8>>(), from in 0..100_usize, len in 0..20_usize, halved in 0..5) {
            let mut grams = Grams::default();
            grams.add(&text);
            let from = from.min(text.len());
            let part = &text[from..text.len().min(from + len)];
            prop_assert!(has(&grams, BITS_MAX >> halved, part));
            prop_assert!(has(&grams, BITS_MAX >> halved, &part.to_ascii_uppercase()));
        }
    }

    #[test]
    fn other_texts_are_not_in_the_set() {
        let mut grams = Grams::default();
        grams.add(b"Compiling src/main.rs");
        for halved in 0..5 {
            assert!(!has(&grams, BITS_MAX >> halved, b"needle"));
        }
    }
}
