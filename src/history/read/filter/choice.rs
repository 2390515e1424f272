//! Chooses the blocks of a group that may match a query (pure).

use std::collections::BTreeSet;

use super::grams::{TEXT_BYTES_MIN, each_bit};
use super::needles::AnyOf;
use crate::timestamp::Timestamp;

/// The number of blocks of a group, whose sets are read together.
pub(super) const GROUP_BLOCKS: usize = 256;

/// A set of blocks of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Blocks(pub(super) [u64; GROUP_BLOCKS / 64]);

impl Blocks {
    const ALL: Self = Self([u64::MAX; GROUP_BLOCKS / 64]);

    pub(super) fn has(self, block: usize) -> bool {
        self.0
            .get(block / 64)
            .is_some_and(|word| word >> (block % 64) & 1 == 1)
    }

    fn is_empty(self) -> bool {
        self == Self::default()
    }

    fn with(mut self, other: Self, join: fn(u64, u64) -> u64) -> Self {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word = join(*word, other);
        }
        self
    }

    fn and(self, other: Self) -> Self {
        self.with(other, |one, other| one & other)
    }

    fn or(self, other: Self) -> Self {
        self.with(other, |one, other| one | other)
    }
}

/// What a block must have to match a query.
#[derive(Clone, Debug, Default)]
pub(in crate::history::read) struct BlockChoice {
    /// A wanted line has a text of each of these sets.
    pub(in crate::history::read) required: Vec<AnyOf>,
    /// A line that is wanted as context has one of these texts.
    pub(in crate::history::read) context: AnyOf,
    pub(in crate::history::read) since: Option<Timestamp>,
    pub(in crate::history::read) until: Option<Timestamp>,
}

impl BlockChoice {
    /// Returns `true` if it may exclude blocks.
    pub(in crate::history::read) fn excludes(&self) -> bool {
        let is_timed = self.since.is_some() || self.until.is_some();
        let is_found = |text: &Vec<u8>| text.len() >= TEXT_BYTES_MIN;
        (is_timed || !self.required.is_empty()) && self.context.iter().all(is_found)
    }

    /// Returns the blocks with the texts of a wanted line, and those with a text of a line that is context. `blocks_of`
    /// returns the blocks that have a bit in their set.
    pub(super) fn of_texts<E>(
        &self,
        mut blocks_of: impl FnMut(u32) -> Result<Blocks, E>,
    ) -> Result<(Blocks, Blocks), E> {
        let mut wanted = Blocks::ALL;
        for any in &self.required {
            if wanted.is_empty() {
                break;
            }
            wanted = with_any(any, wanted, &mut blocks_of)?;
        }
        Ok((
            wanted,
            with_any(&self.context, Blocks::ALL, &mut blocks_of)?,
        ))
    }

    /// Returns `true` if a line between these times may be at a wanted time.
    pub(super) fn admits(&self, (first, last): (Timestamp, Timestamp)) -> bool {
        self.since.is_none_or(|since| last >= since) && self.until.is_none_or(|until| first < until)
    }
}

/// Returns those of some blocks that have one of the texts.
fn with_any<E>(
    texts: &BTreeSet<Vec<u8>>,
    among: Blocks,
    blocks_of: &mut impl FnMut(u32) -> Result<Blocks, E>,
) -> Result<Blocks, E> {
    let mut any = Blocks::default();
    for text in texts {
        let mut bits = BTreeSet::new();
        each_bit(text, |bit| {
            bits.insert(bit);
        });
        let mut left = among;
        for bit in bits {
            if left.is_empty() {
                break;
            }
            left = left.and(blocks_of(bit)?);
        }
        any = any.or(left);
    }
    Ok(any)
}
