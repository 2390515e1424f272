//! The interface of a recording's terminals (pure).

use std::fmt::Debug;

use crate::event::{Envelope, TdEvent};
use crate::recording::Encoder;

/// A terminal that draws the events of a run.
pub(super) trait ExportTerminal: Debug {
    /// Returns true if the terminal shows the event. Defaults to true.
    fn includes(&self, _event: &TdEvent) -> bool {
        true
    }

    /// Writes the changes of an included event. The first event with a size or with text writes the header.
    fn push(&mut self, envelope: &Envelope, encoder: &mut Encoder, out: &mut String);

    /// Writes the lines that are still open.
    fn finish(&mut self, _encoder: &mut Encoder, _out: &mut String) {}

    /// The columns and rows.
    fn size(&self) -> (usize, usize);

    fn exit_status(&self) -> Option<i32>;

    /// Returns the number of changes to lines that had scrolled off.
    fn unreached(&self) -> u64 {
        0
    }
}
