//! Terminal recordings in asciicast v3: encoding, raw recordings of panes beside a run's history,
//! and joining several recordings into one.
//!
//! ```text
//! pane_encoder (the bytes of one pane, cut anywhere) ┐
//! join (several recordings)                          ├─> encoder (header, intervals, JSON) ─> lines
//! crate::face::asciicast (the events of a run)       ┘
//!
//! raw: any thread ─> queue ─> td-raw ─> pane_recording (a pane_encoder and its file)
//! ```
//!
//! `encoder`, `pane_encoder`, `join` and `screen` are pure. The module does not know the bus; the
//! caller passes a function that reports what the disk does not accept.

mod encoder;
mod pane_encoder;
mod screen;

#[cfg(feature = "cli")]
mod join;

mod files;
mod queue;

mod pane_recording;
mod writer;

pub(crate) mod raw;

#[cfg(feature = "cli")]
pub(crate) use encoder::{Encoder, EventCode};
pub use files::RecordingFile;
#[cfg(feature = "cli")]
pub(crate) use join::RecordingJoiner;
// The engine's side of the module.
pub(crate) use raw::{RecordingWriter, RunRecorder};
pub(crate) use screen::draw_screen;
pub use writer::{LostRecording, RecordingReport};

#[cfg(test)]
mod encoder_tests;
#[cfg(test)]
mod raw_tests;
#[cfg(test)]
pub(crate) mod strict_reader;
