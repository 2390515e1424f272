//! Events as they are emitted, numbered and stored: the wire contract, schema 1 (pure).
//!
//! One table, [`event_table!`], lists every event with its fields. It generates the enum, its serialization,
//! the kinds, the emitter's methods and the JSON Schema. Field names and type tags are promises: they are
//! added, never renamed.

mod ids;
mod json;
mod names;
mod styles;
mod values;

mod table;
mod td_event;

mod envelope;

mod log_gap;

mod schema;

pub(crate) use envelope::LineDecoder;
#[cfg(feature = "cli")]
pub(crate) use envelope::StreamEvent;
pub use envelope::{Envelope, UnknownFields};
pub use ids::{EndEvidence, ExecutionId, PaneId};
pub(crate) use log_gap::{LogGapRange, LogGaps};
pub use names::{
    AgentState, CompletionReason, EnumOrUnknown, GapEvidence, GapReason, OutputStream,
    PaneCloseReason, PaneViewer, SessionEndReason, StateEvidence, StateSource, TurnEvidence,
    UnknownName,
};
pub(crate) use schema::{FieldSchema, envelope_schema};
pub(crate) use styles::STYLES_MAX;
pub use styles::{Style, Styles};
pub(crate) use table::event_table;
pub use td_event::{EventKind, TdEvent, UnknownEvent};
pub(crate) use td_event::{for_each_json_text, line_ends_in, lines_in};
pub use values::{Cursor, IterationOutcome, ScreenRow};

/// The version of the wire format, which the header line of each log file states.
pub const SCHEMA: u32 = 1;
