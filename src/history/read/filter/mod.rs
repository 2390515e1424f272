//! Filters of log files: which blocks of a file cannot match a query, without reading them.
//!
//! `events.000001.filter` lies beside `events.000001.jsonl.gz`, `events.filter` beside `events.jsonl`. `td-chores`
//! writes them. A filter is only an aid: a reader that finds none, or one of another state of the file, reads all blocks.
//!
//! ```text
//! grams (pure):   the short sequences of bytes of a block, as a set of bits
//! needles (pure): an expression ─> texts that a matching line has
//! outline (pure): what a reader reports of a block that it skips: its numbers and times
//! choice:         a query ─> the blocks of a group that may match
//! reduce (pure):  a block ─> its set and its outline
//! file:           the file's format, its writer and its reader
//! build:          a log file ─> its filter; the parts of a log file as they are compressed
//! ```

mod grams;
mod needles;

mod choice;
mod outline;

mod file;

mod reduce;

mod build;

pub(in crate::history) use build::{FilterBuilder, has_filter, write_filter};
pub(super) use choice::BlockChoice;
pub(super) use file::{FilterFile, PlannedBlock};
pub(super) use needles::{AnyOf, needles_of};
pub(super) use outline::Outline;

#[cfg(test)]
mod tests;
