//! The interfaces between bytes, records and the event writer (pure).

use serde::Deserialize;

use super::event_writer::EventWriter;

/// Interprets the records of one format.
pub(super) trait RecordHandler {
    /// The relevant fields of a record.
    type Record<'a>: Deserialize<'a>;

    fn record(&mut self, record: Self::Record<'_>, writer: &mut EventWriter);

    /// Interprets a record that precedes the first one, for a parser that starts in the middle of a stream.
    fn earlier_record(&mut self, _record: Self::Record<'_>, _writer: &mut EventWriter) {}

    /// Ends the records that precede the first one.
    fn earlier_records_end(&mut self, _writer: &mut EventWriter) {}

    /// Ends the turn because another source reports its end: the last answer, which might have
    /// continued, is final.
    fn end_turn(&mut self, writer: &mut EventWriter) {
        writer.end_turn();
    }

    /// Reports events that need no further record, after no bytes have arrived for a while.
    fn idle(&mut self, _writer: &mut EventWriter) {}

    /// Handles the API's announcement of the end of the stream (`[DONE]`).
    fn done(&mut self, _writer: &mut EventWriter) {}

    /// Ends the stream, and reports pending events.
    fn finish(&mut self, writer: &mut EventWriter) {
        writer.finish();
    }
}

/// Splits bytes of a format into records for its handler.
pub(super) trait FormatReader: Send {
    /// Processes bytes, cut anywhere.
    fn push(&mut self, bytes: &[u8], writer: &mut EventWriter);

    /// Processes an open record that is already complete, after no bytes have arrived for a while.
    fn flush_idle(&mut self, _writer: &mut EventWriter) {}

    /// Processes complete records that precede the first pushed byte.
    fn read_earlier(&mut self, _bytes: &[u8], _writer: &mut EventWriter) {}

    /// Ends the turn because another source reports its end.
    fn end_turn(&mut self, writer: &mut EventWriter) {
        writer.end_turn();
    }

    /// Returns true if a record has begun but not ended.
    fn is_open(&self) -> bool {
        false
    }

    /// Ends the stream.
    fn finish(&mut self, writer: &mut EventWriter);
}
