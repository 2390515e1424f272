//! The enum of all events, their kinds and their serialization, generated from the table.

use serde::de::{self, IgnoredAny, MapAccess};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::ids::{EndEvidence, ExecutionId, PaneId};
use super::json::{BorrowedText, Scan};
use super::links::Links;
use super::names::{
    AgentState, Completion, CompletionReason, EnumOrUnknown, GapEvidence, GapReason, OutputStream,
    PaneCloseReason, PaneViewer, SessionEndReason, StateEvidence, StateSource, ToolCalls,
    TurnEvidence, Verification,
};
use super::styles::Styles;
use super::table::event_table;
use super::values::{
    Cursor, Dialogue, EventField, IterationOutcome, ReportedChild, ScreenRow, TextSearch,
    TextVisitor,
};
use crate::error::{Error, Result};
use crate::timestamp::Timestamp;

macro_rules! define_events {
    ($(
        $(#[$doc:meta])*
        $variant:ident $method:ident $class:ident {
            $(
                $(#[$field_doc:meta])*
                $field:ident $(| $alias:literal)? : $type:ident $(<$name:ident $(<$inner:ident>)?>)? $(,)? $(;)?
            )*
        }
    )*) => {
        /// Something that happened during an execution; every event belongs to exactly one.
        ///
        /// An event is serialized as an object with the variant's name as its `type`; fields that are `None`
        /// are omitted. Events of other types are kept as [`TdEvent::Unknown`].
        ///
        /// A later version may add events and fields: match variants with `..`, and create an event with the
        /// function that is named after it, which takes the required fields. Set others in a pattern:
        ///
        /// ```
        /// use td_observe::TdEvent;
        /// let mut event = TdEvent::token_received("abc123", 1, "Hello");
        /// if let TdEvent::TokenReceived { pane, .. } = &mut event {
        ///     *pane = Some("%3".into());
        /// }
        /// ```
        // The tests of this repository build variants with all fields, so that none is left out.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum TdEvent {
            $( $(#[$doc])* #[cfg_attr(not(feature = "internals"), non_exhaustive)] $variant {
                /// The execution that the event belongs to.
                execution_id: ExecutionId,
                $( $(#[$field_doc])* $field: $type $(<$name $(<$inner>)?>)?, )*
            }, )*
            /// An event of a type that this version does not know, or of an embedder's own type.
            Unknown(UnknownEvent),
        }

        /// The type of an event as a value, for filters, counts and tables.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum EventKind {
            $( $(#[$doc])* $variant, )*
            /// A type that this version does not know, or an embedder's own type.
            Unknown,
        }

        impl EventKind {
            /// Every kind that this version knows, in the order of the wire contract.
            pub const ALL: &[EventKind] = &[$(EventKind::$variant),*];

            /// Returns the type tag as it is serialized.
            pub fn as_str(self) -> &'static str {
                match self {
                    $( Self::$variant => stringify!($variant), )*
                    Self::Unknown => "Unknown",
                }
            }

            /// Returns the kind with this type tag, if this version knows it.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $( stringify!($variant) => Some(Self::$variant), )*
                    _ => None,
                }
            }
        }

        impl TdEvent {
            /// Returns the execution that the event belongs to.
            pub fn execution_id(&self) -> &str {
                match self {
                    $( Self::$variant { execution_id, .. } => execution_id, )*
                    // An event may name none.
                    Self::Unknown(event) => event
                        .fields
                        .get("execution_id")
                        .and_then(Value::as_str)
                        .unwrap_or_default(),
                }
            }

            /// Returns the execution's id, shared; `None` for an unknown event.
            pub(crate) fn execution(&self) -> Option<&ExecutionId> {
                match self {
                    $( Self::$variant { execution_id, .. } => Some(execution_id), )*
                    Self::Unknown(_) => None,
                }
            }

            /// Returns the execution's id, shared if possible.
            pub(crate) fn cloned_execution(&self) -> ExecutionId {
                let id = self.execution().cloned();
                id.unwrap_or_else(|| self.execution_id().into())
            }

            /// Assigns the event to another execution.
            pub(crate) fn set_execution_id(&mut self, id: &ExecutionId) {
                match self {
                    $( Self::$variant { execution_id, .. } => *execution_id = id.clone(), )*
                    Self::Unknown(event) => {
                        event.set_execution_id(id);
                    }
                }
            }

            /// Returns the type of the event.
            pub fn kind(&self) -> EventKind {
                match self {
                    $( Self::$variant { .. } => EventKind::$variant, )*
                    Self::Unknown(_) => EventKind::Unknown,
                }
            }

            /// Returns the type tag as it is serialized.
            pub fn type_name(&self) -> &str {
                match self {
                    Self::Unknown(event) => event.type_name(),
                    known => known.kind().as_str(),
                }
            }

            /// Returns true for output text, which may be merged for viewers, and dropped (and counted) when
            /// the log has no room. All other events are life-cycle events: they are never merged, and
            /// refused last. The end of a pane's output counts as a life-cycle event, even if it contains
            /// text.
            pub fn is_text(&self) -> bool {
                match self {
                    Self::OutputUpdate { is_complete: true, .. } => false,
                    $( Self::$variant { .. } => class!($class), )*
                    Self::Unknown(_) => false,
                }
            }

            /// Returns the event's approximate size in memory in bytes, to bound a queue.
            pub fn memory_bytes(&self) -> usize {
                size_of::<Self>() + match self {
                    $( Self::$variant { $($field,)* .. } => 0 $(+ $field.heap_bytes())*, )*
                    Self::Unknown(event) => event.heap_bytes(),
                }
            }

            /// Reads the fields after the type tag; unknown fields go to `extra`.
            pub(super) fn read_fields<'de, A: MapAccess<'de>>(
                type_name: &str,
                mut map: A,
                extra: &mut Map<String, Value>,
            ) -> Result<Self, A::Error> {
                match type_name {
                    $( stringify!($variant) => {
                        let mut execution_id: Option<ExecutionId> = None;
                        $( let mut $field: Option<$type $(<$name $(<$inner>)?>)?> = None; )*
                        while let Some(BorrowedText(key)) = map.next_key()? {
                            match &*key {
                                "execution_id" => execution_id = Some(map.next_value()?),
                                $( stringify!($field) $(| $alias)? => {
                                    $field = Some(map.next_value()?);
                                } )*
                                "type" => { map.next_value::<IgnoredAny>()?; }
                                _ => { extra.insert(key.into_owned(), map.next_value()?); }
                            }
                        }
                        Ok(Self::$variant {
                            execution_id: execution_id
                                .ok_or_else(|| de::Error::missing_field("execution_id"))?,
                            $( $field: $field
                                .or_else(<$type $(<$name $(<$inner>)?>)? as EventField>::absent)
                                .ok_or_else(|| de::Error::missing_field(stringify!($field)))?, )*
                        })
                    } )*
                    unknown => {
                        let mut fields = Map::new();
                        while let Some((key, value)) = map.next_entry::<String, Value>()? {
                            fields.insert(key, value);
                        }
                        Ok(Self::Unknown(UnknownEvent::new(unknown, fields)))
                    }
                }
            }

            /// Reads the fields of an event of this type, up to its closing brace, if they are in the order
            /// of the table, in which this crate writes them.
            pub(super) fn scan(type_name: &str, scan: &mut Scan<'_>) -> Option<Self> {
                match type_name {
                    $( stringify!($variant) => {
                        scan.skip(r#","execution_id":"#)?;
                        let execution_id = scan.execution()?;
                        $( let $field =
                            match scan.skip(concat!(r#",""#, stringify!($field), r#"":"#)) {
                                Some(()) => EventField::scan(scan)?,
                                None => <$type $(<$name $(<$inner>)?>)? as EventField>::absent()?,
                            };
                        )*
                        Some(Self::$variant { execution_id, $($field,)* })
                    } )*
                    _ => None,
                }
            }

            /// Appends the event as JSON, byte for byte as serde writes it. The log writes every event this
            /// way: the names of fields are constant text here and need no escapes.
            ///
            /// # Errors
            /// Those of the serializer; `out` may then contain a part of the event.
            pub(crate) fn write_json(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
                match self {
                    $( Self::$variant { execution_id, $($field,)* } => {
                        out.extend_from_slice(
                            concat!(r#"{"type":""#, stringify!($variant), r#"","execution_id":"#)
                                .as_bytes(),
                        );
                        execution_id.push_json(out)?;
                        $( if !$field.is_absent() {
                            out.extend_from_slice(
                                concat!(r#",""#, stringify!($field), r#"":"#).as_bytes(),
                            );
                            $field.push_json(out)?;
                        } )*
                        out.push(b'}');
                        Ok(())
                    } )*
                    Self::Unknown(_) => serde_json::to_writer(out, self),
                }
            }

            /// Serializes the event, with `extra` fields after its own.
            pub(super) fn write<S: Serializer>(
                &self,
                serializer: S,
                extra: &Map<String, Value>,
            ) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("type", self.type_name())?;
                match self {
                    $( Self::$variant { execution_id, $($field,)* } => {
                        map.serialize_entry("execution_id", execution_id)?;
                        $( if !$field.is_absent() {
                            map.serialize_entry(stringify!($field), $field)?;
                        } )*
                    } )*
                    Self::Unknown(event) => {
                        for (key, value) in event.fields() {
                            map.serialize_entry(key, value)?;
                        }
                    }
                }
                for (key, value) in extra {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    };
}

macro_rules! class {
    (text) => {
        true
    };
    (lifecycle) => {
        false
    };
}

event_table!(define_events);

/// The type of the argument for a field.
macro_rules! event_arg {
    (success bool) => {
        Completion
    };
    (has_tool_calls bool) => {
        ToolCalls
    };
    (is_stderr bool) => {
        OutputStream
    };
    (token_count Option<u64>) => {
        impl Into<Option<u64>>
    };
    ($field:ident String) => {
        &str
    };
    ($field:ident PaneId) => {
        &PaneId
    };
    ($field:ident EndEvidence) => {
        impl Into<EndEvidence>
    };
    ($field:ident EnumOrUnknown<$name:ident>) => {
        impl Into<EnumOrUnknown<$name>>
    };
    ($field:ident $($by_value:tt)*) => {
        $($by_value)*
    };
}

/// The field's value, made from the argument.
macro_rules! event_field {
    (success $arg:ident bool) => {
        $arg == Completion::Succeeded
    };
    (has_tool_calls $arg:ident bool) => {
        $arg == ToolCalls::Requested
    };
    (is_stderr $arg:ident bool) => {
        $arg == OutputStream::Stderr
    };
    (token_count $arg:ident Option<u64>) => {
        $arg.into()
    };
    ($field:ident $arg:ident String) => {
        $arg.to_owned()
    };
    ($field:ident $arg:ident PaneId) => {
        $arg.clone()
    };
    ($field:ident $arg:ident EndEvidence) => {
        $arg.into()
    };
    ($field:ident $arg:ident EnumOrUnknown<$name:ident>) => {
        $arg.into()
    };
    ($field:ident $arg:ident $($by_value:tt)*) => {
        $arg
    };
}
pub(crate) use event_arg;

/// One constructor for each event, which takes the event's required fields.
macro_rules! constructors {
    () => {};
    (
        $(#[$doc:meta])*
        $variant:ident $method:ident $class:ident {
            $($(#[$field_doc:meta])* $field:ident $(| $alias:literal)? : $type:ident $(<$name:ident $(<$inner:ident>)?>)?),*
            $(; $($(#[$more_doc:meta])* $more:ident : $more_type:ident $(<$more_name:ident $(<$more_inner:ident>)?>)?),+)? $(,)?
        }
        $($rest:tt)*
    ) => {
        #[doc = concat!("Creates [`TdEvent::", stringify!($variant), "`], whose other fields are empty.")]
        pub fn $method(
            execution_id: impl Into<ExecutionId>,
            $($field: event_arg!($field $type $(<$name $(<$inner>)?>)?)),*
        ) -> Self {
            Self::$variant {
                execution_id: execution_id.into(),
                $($field: event_field!($field $field $type $(<$name $(<$inner>)?>)?),)*
                $($($more: Default::default()),+)?
            }
        }
        constructors! { $($rest)* }
    };
}

/// One constructor for each event of the wire contract, with its required fields as arguments.
impl TdEvent {
    event_table!(constructors);
}

impl TdEvent {
    /// Creates an event with the caller's own type tag.
    ///
    /// Readers keep it as [`TdEvent::Unknown`] and write it back unchanged. `fields` is any value that
    /// serializes to an object. Field names of this crate, such as `pane`, keep their meaning.
    ///
    /// ```
    /// use td_observe::TdEvent;
    /// use serde_json::json;
    /// let event = TdEvent::custom("abc123", "BuildQueued", json!({"position": 3}))?;
    /// assert_eq!(event.type_name(), "BuildQueued");
    /// # Ok::<(), td_observe::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the type tag is empty or one of this crate's, and when the fields do not serialize to an object,
    /// contain a field `type`, or are nested too deeply to be read back.
    pub fn custom(
        execution_id: impl Into<ExecutionId>,
        type_name: &str,
        fields: impl Serialize,
    ) -> Result<Self> {
        let invalid = |why| Error::invalid(format!("the event type {type_name:?} {why}"));
        let is_reserved = EventKind::from_name(type_name).is_some()
            // Events that appear only in streams.
            || matches!(type_name, "StreamOpened" | "Lagged");
        if type_name.is_empty() || is_reserved {
            return Err(invalid("is empty or reserved"));
        }
        let fields = serde_json::to_value(fields)
            .map_err(|cause| invalid("has fields that do not serialize").because(cause))?;
        let Value::Object(fields) = fields else {
            return Err(invalid("has fields that are not an object"));
        };
        if fields.contains_key("type") {
            return Err(invalid("has a field `type` of its own"));
        }
        let mut event = UnknownEvent::new(type_name, fields);
        // Readers accept the line with the envelope and the event around the field.
        let is_too_deep = |value| heap_bytes(value, DEPTH_MAX - 8).is_none();
        if event.fields.values().any(is_too_deep) {
            return Err(invalid("has fields that are nested too deeply"));
        }
        event.set_execution_id(&execution_id.into());
        Ok(Self::Unknown(event))
    }

    /// Returns the pane that the event refers to, if any.
    pub fn pane(&self) -> Option<&PaneId> {
        match self {
            Self::PaneOpened { pane, .. }
            | Self::PaneResized { pane, .. }
            | Self::PaneClosed { pane, .. }
            | Self::PaneSeen { pane, .. }
            | Self::OutputUpdate { pane, .. }
            | Self::OutputRevised { pane, .. }
            | Self::ScreenUpdate { pane, .. }
            | Self::ScreenSnapshot { pane, .. }
            | Self::AgentActivity { pane, .. }
            | Self::ProgressReported { pane, .. }
            | Self::OutputGap { pane, .. } => Some(pane),
            Self::PromptSent { pane, .. }
            | Self::TokenReceived { pane, .. }
            | Self::ResponseCompleted { pane, .. }
            | Self::ToolCallStarted { pane, .. }
            | Self::ToolCallCompleted { pane, .. }
            | Self::AgentRegistered { pane, .. }
            | Self::AgentCompleted { pane, .. }
            | Self::AgentFailed { pane, .. }
            | Self::AgentState { pane, .. }
            | Self::BackgroundWork { pane, .. }
            | Self::ConversationFound { pane, .. }
            | Self::RowRenamed { pane, .. }
            | Self::RowDismissed { pane, .. }
            | Self::TurnCompleted { pane, .. }
            | Self::ExecutionStarted { pane, .. }
            | Self::ExecutionCompleted { pane, .. } => pane.as_ref(),
            _ => None,
        }
    }
}

// Events of types that this version does not know: kept, delivered, and written back unchanged.

/// Levels of nesting that are examined in a field; `serde_json` reads no deeper.
pub(super) const DEPTH_MAX: usize = 128;

/// An event of a type that this version does not know, or of an embedder's own type.
#[derive(Clone, Debug, PartialEq)]
pub struct UnknownEvent {
    type_name: String,
    fields: Map<String, Value>,
}

impl UnknownEvent {
    pub(super) fn new(type_name: &str, fields: Map<String, Value>) -> Self {
        Self {
            type_name: type_name.to_owned(),
            fields,
        }
    }

    /// Returns the event's type tag.
    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    /// Returns all fields except the type.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    pub(super) fn set_execution_id(&mut self, id: &ExecutionId) {
        self.fields
            .insert("execution_id".to_owned(), id.as_str().into());
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let fields = self.fields.iter();
        let bytes = fields.map(|(name, value)| {
            FIELD_BYTES + name.len() + heap_bytes(value, DEPTH_MAX).unwrap_or_default()
        });
        self.type_name.len() + bytes.sum::<usize>()
    }
}

fn is_id(name: &str) -> bool {
    name == "execution_id" || name == "pane"
}

/// Memory of an object's field in addition to its texts: its share of a node of the map.
const FIELD_BYTES: usize = 96;

/// Returns the memory that a value holds; `None` if it is nested more deeply than `depth` levels.
fn heap_bytes(value: &Value, depth: usize) -> Option<usize> {
    match value {
        Value::String(text) => Some(text.len()),
        Value::Array(values) => {
            let depth = depth.checked_sub(1)?;
            let mut values = values.iter();
            values.try_fold(0, |sum, value| {
                Some(sum + size_of::<Value>() + heap_bytes(value, depth)?)
            })
        }
        Value::Object(fields) => {
            let depth = depth.checked_sub(1)?;
            let mut fields = fields.iter();
            fields.try_fold(0, |sum, (name, value)| {
                Some(sum + FIELD_BYTES + name.len() + heap_bytes(value, depth)?)
            })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Some(0),
    }
}

// Visits every text in an event, to search or to change it.
//
// Generated from the table of events, so that no new event or field is omitted.

impl UnknownEvent {
    fn for_each_text(&mut self, visit: &mut TextVisitor<'_>) {
        for (name, value) in &mut self.fields {
            if !is_id(name) {
                for_each_json_text(value, visit);
            }
        }
    }

    fn any_text(&self, search: &mut TextSearch<'_>) -> bool {
        let mut fields = self.fields.iter();
        fields.any(|(name, value)| !is_id(name) && any_json_text(value, search, DEPTH_MAX))
    }
}

/// Visits every text in a JSON value.
pub(crate) fn for_each_json_text(value: &mut Value, visit: &mut TextVisitor<'_>) {
    for_each_text_to(value, visit, DEPTH_MAX);
}

fn for_each_text_to(value: &mut Value, visit: &mut TextVisitor<'_>, depth: usize) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(values) if depth > 0 => {
            for value in values {
                for_each_text_to(value, visit, depth - 1);
            }
        }
        Value::Object(fields) if depth > 0 => {
            for (_, value) in fields {
                for_each_text_to(value, visit, depth - 1);
            }
        }
        // Nested more deeply than any reader accepts; dropped, because it cannot be redacted.
        Value::Array(_) | Value::Object(_) => *value = Value::Null,
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn any_json_text(value: &Value, search: &mut TextSearch<'_>, depth: usize) -> bool {
    match value {
        Value::String(text) => search(text),
        Value::Array(values) if depth > 0 => {
            let mut values = values.iter();
            values.any(|value| any_json_text(value, search, depth - 1))
        }
        Value::Object(fields) if depth > 0 => {
            let mut values = fields.values();
            values.any(|value| any_json_text(value, search, depth - 1))
        }
        _ => false,
    }
}

macro_rules! visit_texts {
    ($(
        $(#[$doc:meta])*
        $variant:ident $method:ident $class:ident {
            $(
                $(#[$field_doc:meta])*
                $field:ident $(| $alias:literal)? : $type:ident $(<$name:ident $(<$inner:ident>)?>)? $(,)? $(;)?
            )*
        }
    )*) => {
        impl TdEvent {
            /// Visits every text of the event except ids; the visitor may change it.
            pub(crate) fn for_each_text(&mut self, visit: &mut TextVisitor<'_>) {
                match self {
                    $( Self::$variant { $($field,)* .. } => {
                        $( $field.for_each_text(visit); )*
                    } )*
                    Self::Unknown(event) => event.for_each_text(visit),
                }
            }

            /// Returns true if the search matches a text of the event; ids are excluded.
            pub(crate) fn any_text(&self, search: &mut TextSearch<'_>) -> bool {
                match self {
                    $( Self::$variant { $($field,)* .. } => {
                        false $(|| $field.any_text(search))*
                    } )*
                    Self::Unknown(event) => event.any_text(search),
                }
            }
        }
    };
}

event_table!(visit_texts);

// Splits the text of a chunk into lines.

/// Returns the number of newlines in a text.
pub(crate) fn line_ends_in(chunk: &str) -> i64 {
    memchr::memchr_iter(b'\n', chunk.as_bytes()).count() as i64
}

/// Returns the lines of a text without their newlines. Equals `split_terminator('\n')`, and is
/// several times as fast where lines are short.
pub(crate) fn lines_in(chunk: &str) -> impl Iterator<Item = &str> {
    let mut rest = chunk;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(end) = memchr::memchr(b'\n', rest.as_bytes()) else {
            return Some(std::mem::take(&mut rest));
        };
        let line = &rest[..end];
        rest = &rest[end + 1..];
        Some(line)
    })
}

#[cfg(test)]
mod tests {
    mod td_event {

        use super::super::*;

        #[test]
        fn an_event_takes_at_most_128_bytes() {
            assert!(size_of::<TdEvent>() <= 128, "{}", size_of::<TdEvent>());
        }
    }

    mod lines {

        use super::super::*;
        use proptest::prelude::*;

        proptest! {
            #[test]
            fn lines_are_split_as_by_split_terminator(chunk in "[a\u{6f22}\n]{0,12}") {
                let expected: Vec<&str> = chunk.split_terminator('\n').collect();
                prop_assert_eq!(lines_in(&chunk).collect::<Vec<_>>(), expected);
            }
        }
    }
}
