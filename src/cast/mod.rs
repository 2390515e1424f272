//! Recordings of terminals, asciicast v3: lines of the format, the bytes of a pane on a tape, tapes made one (pure).
//!
//! ```text
//! recording (bytes of one pane, cut anywhere) ┐
//! splice (several tapes)                      ├─> tape (header, times, JSON) ─> lines
//! crate::view::cast (the events of a log)     ┘
//! ```

mod tape;

mod recording;

#[cfg(feature = "cli")]
mod splice;

pub(crate) use recording::{Missing, Recording, Size};
#[cfg(feature = "cli")]
pub(crate) use splice::Splice;
#[cfg(feature = "cli")]
pub(crate) use tape::{Code, Tape};

#[cfg(test)]
pub(crate) mod strict;
#[cfg(test)]
mod tests;
