//! Events as they are emitted, numbered and stored: the wire contract, schema 1 (pure).
//!
//! One table, [`event_table!`], lists every event with its fields. It generates the enum, its serialization,
//! the kinds, the emitter's methods and the JSON Schema. Field names and type tags are promises: they are
//! added, never renamed.

mod borrowed_text;
mod end_evidence;
mod ids;
mod json;
mod lines;
mod names;
mod open_enum;
mod scan;
mod styles;
mod values;

mod unknown;

mod stream_event;
mod table;
mod td_event;

mod envelope;
mod line_decoder;
mod text;

mod log_gap;

mod field_schema;
mod schema;

pub use end_evidence::EndEvidence;
pub use envelope::{Envelope, UnknownFields};
pub(crate) use field_schema::FieldSchema;
pub use ids::{ExecutionId, PaneId};
pub(crate) use line_decoder::LineDecoder;
pub(crate) use lines::{line_ends_in, lines_in};
pub(crate) use log_gap::{LogGapRange, LogGaps};
pub use names::{
    AgentState, CompletionReason, GapEvidence, GapReason, OutputStream, PaneCloseReason,
    PaneViewer, SessionEndReason, StateEvidence, StateSource, TurnEvidence,
};
pub use open_enum::{EnumOrUnknown, UnknownName};
pub(crate) use schema::envelope_schema;
#[cfg(feature = "cli")]
pub(crate) use stream_event::StreamEvent;
pub(crate) use styles::STYLES_MAX;
pub use styles::{Style, Styles};
pub(crate) use table::event_table;
pub use td_event::{EventKind, TdEvent};
pub(crate) use text::for_each_json_text;
pub use unknown::UnknownEvent;
pub use values::{Cursor, IterationOutcome, ScreenRow};

/// The version of the wire format, which the header line of each log file states.
pub const SCHEMA: u32 = 1;
