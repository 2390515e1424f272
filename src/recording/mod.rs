//! Terminal recordings in asciicast v3 (v2 for export): encoding, raw recordings of panes beside a run's history,
//! and joining several recordings into one.
//!
//! ```text
//! pane_encoder (the bytes of one pane, cut anywhere) ┐
//! join (several recordings)                          ├─> encoder (header, intervals, JSON) ─> lines
//! crate::face::asciicast (the events of a run)       ┘
//!
//! raw: any thread ─> queue of writer ─> td-raw ─> a pane_encoder and its file
//! ```
//!
//! `encoder`, `pane_encoder` and `join` are pure. The module does not know the bus; the
//! caller passes a function that reports what the disk does not accept.

mod encoder;
mod pane_encoder;

#[cfg(feature = "cli")]
mod join;

mod files;
mod writer;

pub(crate) mod raw;

#[cfg(feature = "cli")]
pub(crate) use encoder::{CastVersion, Encoder, EventCode, push_escaped};
pub use files::RecordingFile;
#[cfg(feature = "cli")]
pub(crate) use join::RecordingJoiner;
// The engine's side of the module.
pub(crate) use pane_encoder::draw_screen;
pub(crate) use raw::{RecordingWriter, RunRecorder};
pub use writer::{LostRecording, RecordingReport};

#[cfg(test)]
pub(crate) mod strict_reader;
