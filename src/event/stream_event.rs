//! Events that appear only in streams: printed live, never logged (pure).

#[cfg(feature = "cli")]
use serde::Serialize;

#[cfg(feature = "cli")]
use super::SCHEMA;
use super::table::stream_event_table;
#[cfg(feature = "cli")]
use crate::timestamp::Timestamp;

macro_rules! define_stream_events {
    ($(
        $(#[$doc:meta])*
        $variant:ident { $( $(#[$field_doc:meta])* $field:ident: $type:ty, )* }
    )*) => {
        /// An event of a stream that belongs to no execution.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
        #[serde(tag = "type")]
        #[cfg(feature = "cli")]
        pub(crate) enum StreamEvent {
            $( $(#[$doc])* $variant { $( $(#[$field_doc])* $field: $type, )* }, )*
        }

        /// The type tags of all events that appear only in streams.
        pub(super) const STREAM_EVENTS: &[&str] = &[$( stringify!($variant) ),*];
    };
}

stream_event_table!(define_stream_events);

#[cfg(feature = "cli")]
impl StreamEvent {
    /// Returns the first event of a stream from this program.
    pub(crate) fn opened() -> Self {
        Self::StreamOpened {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Returns the event with its time.
    pub(crate) fn at(&self, ts: Timestamp) -> StreamEnvelope<'_> {
        StreamEnvelope {
            seq: None,
            ts,
            event: self,
        }
    }
}

/// An event of a stream with its time; it has no number.
#[cfg(feature = "cli")]
#[derive(Debug, Serialize)]
pub(crate) struct StreamEnvelope<'a> {
    seq: Option<u64>,
    ts: Timestamp,
    event: &'a StreamEvent,
}
