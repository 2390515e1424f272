//! The interfaces between bytes, records and the event writer (pure).

use serde::Deserialize;

use super::event_writer::EventWriter;

/// Interprets the records of one format.
pub(super) trait RecordHandler {
    /// The fields of a record that matter.
    type Record<'a>: Deserialize<'a>;

    /// Takes a record.
    fn record(&mut self, record: Self::Record<'_>, writer: &mut EventWriter);

    /// Takes a record that precedes the first one, for a parser that began in the middle of a
    /// stream.
    fn earlier_record(&mut self, _record: Self::Record<'_>, _writer: &mut EventWriter) {}

    /// Ends the recalled records.
    fn earlier_records_end(&mut self, _writer: &mut EventWriter) {}

    /// Ends the turn because another source reports its end: the last answer, which could have
    /// continued, was final.
    fn end_turn(&mut self, writer: &mut EventWriter) {
        writer.end_turn();
    }

    /// Reports what needs no further record, because no more bytes came for a while.
    fn idle(&mut self, _writer: &mut EventWriter) {}

    /// Takes the API's announcement of the stream's end (`[DONE]`).
    fn done(&mut self, _writer: &mut EventWriter) {}

    /// Ends the stream, and reports what was held back.
    fn finish(&mut self, writer: &mut EventWriter) {
        writer.finish();
    }
}

/// Cuts a format's bytes into records for its handler.
pub(super) trait FormatReader: Send {
    /// Takes bytes, cut anywhere.
    fn push(&mut self, bytes: &[u8], writer: &mut EventWriter);

    /// Takes what is whole of an open record, because no more bytes came for a while.
    fn flush_idle(&mut self, _writer: &mut EventWriter) {}

    /// Takes whole records that precede the first pushed byte.
    fn read_earlier(&mut self, _bytes: &[u8], _writer: &mut EventWriter) {}

    /// Ends the turn because another source reports its end.
    fn end_turn(&mut self, writer: &mut EventWriter) {
        writer.end_turn();
    }

    /// Returns whether a record has begun that has not ended.
    fn is_open(&self) -> bool {
        false
    }

    /// Ends the stream.
    fn finish(&mut self, writer: &mut EventWriter);
}
