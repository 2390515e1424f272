//! Recordings of terminals, asciicast v3: lines of the format, the bytes of a pane on a tape, tapes made one (pure).
//!
//! ```text
//! pane_encoder (bytes of one pane, cut anywhere) ┐
//! join (several recordings)                     ├─> encoder (header, times, JSON) ─> lines
//! crate::face::asciicast (the events of a log)     ┘
//! ```

mod encoder;

mod pane_encoder;

#[cfg(feature = "cli")]
mod join;

#[cfg(feature = "cli")]
pub(crate) use encoder::{Code, Tape};
#[cfg(feature = "cli")]
pub(crate) use join::Splice;
pub(crate) use pane_encoder::{Missing, Recording, Size};

#[cfg(test)]
pub(crate) mod strict;
#[cfg(test)]
mod tests;
