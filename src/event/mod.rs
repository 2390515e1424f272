//! Events as they are emitted, numbered and stored: the wire contract, schema 1 (pure).
//!
//! One table, `event_table!`, lists every event with its fields. It generates the enum, its serialization,
//! the kinds, the emitter's methods and the JSON Schema. Field names and type tags are promises: they are
//! added, never renamed.

pub(crate) mod ids;
mod json;
mod links;
mod names;
mod styles;
mod values;

mod table;
pub(crate) mod td_event;

pub(crate) mod envelope;

mod log_gap;

mod schema;

#[cfg(feature = "cli")]
pub(crate) use envelope::StreamEvent;
pub use envelope::UnknownFields;
pub(crate) use envelope::{Envelope, LineDecoder};
pub use ids::EndEvidence;
pub(crate) use ids::{ExecutionId, PaneId};
pub(crate) use links::is_address;
pub use links::{Link, Links};
pub(crate) use log_gap::{LogGapRange, LogGaps};
pub use names::{
    AgentState, Completion, CompletionReason, EnumOrUnknown, GapEvidence, GapReason, OutputStream,
    PaneCloseReason, PaneViewer, SessionEndReason, StateEvidence, StateSource, ToolCalls,
    TurnEvidence, UnknownName, Verification,
};
pub(crate) use schema::{FieldSchema, envelope_schema};
#[cfg(feature = "tui")]
pub(crate) use styles::Colour;
pub(crate) use styles::{Ink, STYLES_MAX, SgrOperation, sgr_operations};
pub use styles::{Style, Styles};
pub(crate) use table::event_table;
pub use td_event::UnknownEvent;
pub(crate) use td_event::{
    EventKind, TdEvent, event_arg, for_each_json_text, line_ends_in, lines_in,
};

pub use values::{
    Background, Cursor, Dialogue, DialogueChoice, IterationOutcome, ReportedChild, ScreenRow,
};

pub use crate::timestamp::ParseTimestampError;

/// The version of the wire format, which the header line of each log file states.
pub const SCHEMA: u32 = 1;
