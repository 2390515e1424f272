//! The bytes of lines, which records may share (pure).

use super::block::{BLOCK_BYTES, Block};

/// The largest memory that is reused: a block and its last line, for which the memory has doubled.
const MEMORY_BYTES_MAX: usize = 4 * BLOCK_BYTES;

/// The bytes of lines, as text if they are known to be UTF-8.
#[derive(Debug)]
pub(super) enum LineBytes {
    Unchecked(Vec<u8>),
    Text(String),
}

impl LineBytes {
    /// Checks the lines of a block.
    pub(super) fn checked(mut block: Block) -> Self {
        // The end of an earlier line may begin within a character.
        block
            .bytes
            .iter_mut()
            .take(block.skip)
            .for_each(|byte| *byte = b' ');
        match String::from_utf8(block.bytes) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Unchecked(error.into_bytes()),
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Unchecked(bytes) => bytes,
            Self::Text(text) => text.as_bytes(),
        }
    }

    /// Returns the memory for the next block. Large memory, which was needed for a long line, is freed.
    pub(super) fn into_memory(self) -> Vec<u8> {
        let memory = match self {
            Self::Unchecked(bytes) => bytes,
            Self::Text(text) => text.into_bytes(),
        };
        match memory.capacity() <= MEMORY_BYTES_MAX {
            true => memory,
            false => Vec::new(),
        }
    }
}
