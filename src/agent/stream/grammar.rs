//! What the records of a format mean: one type a format, between the reader and the scribe (pure).

use serde::Deserialize;

use super::scribe::Scribe;

/// A format's meaning.
pub(super) trait Grammar {
    /// The fields of a record that matter.
    type Record<'a>: Deserialize<'a>;

    /// A record was read.
    fn record(&mut self, record: Self::Record<'_>, scribe: &mut Scribe);

    /// A record stands before what was read, which began in the middle: what it says that still
    /// counts is noted.
    fn recall(&mut self, _record: Self::Record<'_>, _scribe: &mut Scribe) {}

    /// All that is recalled was.
    fn recalled(&mut self, _scribe: &mut Scribe) {}

    /// Something else than the records says that the turn is over: an answer after which more could have
    /// come was the last.
    fn turn_over(&mut self, scribe: &mut Scribe) {
        scribe.turn_over();
    }

    /// No more came for a while: what needs no further record is told.
    fn settled(&mut self, _scribe: &mut Scribe) {}

    /// The API says that no more comes (`[DONE]`).
    fn done(&mut self, _scribe: &mut Scribe) {}

    /// The stream has ended: what is held back is told.
    fn end(&mut self, scribe: &mut Scribe) {
        scribe.end();
    }
}

/// How bytes become records: the frame of a format, with its grammar in it.
pub(super) trait Reading: Send {
    /// Takes bytes as they were read, cut anywhere.
    fn push(&mut self, bytes: &[u8], scribe: &mut Scribe);

    /// No more came for a while: what is whole of an open record is taken.
    fn settle(&mut self, _scribe: &mut Scribe) {}

    /// Takes whole records that stand before what was pushed first.
    fn recall(&mut self, _bytes: &[u8], _scribe: &mut Scribe) {}

    /// Something else than the records says that the turn is over.
    fn turn_over(&mut self, scribe: &mut Scribe) {
        scribe.turn_over();
    }

    /// Whether a record has begun that has not ended.
    fn is_open(&self) -> bool {
        false
    }

    /// The stream has ended.
    fn finish(&mut self, scribe: &mut Scribe);
}
