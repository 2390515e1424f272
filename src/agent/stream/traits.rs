//! What the records of a format mean: one type a format, between the reader and the writer (pure).

use serde::Deserialize;

use super::event_writer::EventWriter;

/// A format's meaning.
pub(super) trait RecordHandler {
    /// The fields of a record that matter.
    type Record<'a>: Deserialize<'a>;

    /// A record was read.
    fn record(&mut self, record: Self::Record<'_>, writer: &mut EventWriter);

    /// A record stands before what was read, which began in the middle: what it says that still
    /// counts is noted.
    fn recall(&mut self, _record: Self::Record<'_>, _scribe: &mut EventWriter) {}

    /// All that is recalled was.
    fn recall_done(&mut self, _scribe: &mut EventWriter) {}

    /// Something else than the records says that the turn is over: an answer after which more could have
    /// come was the last.
    fn end_turn(&mut self, writer: &mut EventWriter) {
        writer.end_turn();
    }

    /// No more came for a while: what needs no further record is told.
    fn idle(&mut self, _scribe: &mut EventWriter) {}

    /// The API says that no more comes (`[DONE]`).
    fn done(&mut self, _scribe: &mut EventWriter) {}

    /// The stream has ended: what is held back is told.
    fn finish(&mut self, writer: &mut EventWriter) {
        writer.finish();
    }
}

/// How bytes become records: the frame of a format, with its handler in it.
pub(super) trait FormatReader: Send {
    /// Takes bytes as they were read, cut anywhere.
    fn push(&mut self, bytes: &[u8], writer: &mut EventWriter);

    /// No more came for a while: what is whole of an open record is taken.
    fn flush_idle(&mut self, _scribe: &mut EventWriter) {}

    /// Takes whole records that stand before what was pushed first.
    fn recall(&mut self, _bytes: &[u8], _scribe: &mut EventWriter) {}

    /// Something else than the records says that the turn is over.
    fn end_turn(&mut self, writer: &mut EventWriter) {
        writer.end_turn();
    }

    /// Whether a record has begun that has not ended.
    fn is_open(&self) -> bool {
        false
    }

    /// The stream has ended.
    fn finish(&mut self, writer: &mut EventWriter);
}
